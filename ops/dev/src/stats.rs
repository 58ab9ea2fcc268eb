//! Percentiles and medians.

use std::time::Duration;

/// The times of a run's operations, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The percentile by nearest rank: a measured sample, never an interpolated value.
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let rank = (self.0.len() * percent.min(100)).div_ceil(100).max(1);
        self.0.get(rank - 1).copied()
    }

    pub fn max(&self) -> Option<Duration> {
        self.0.last().copied()
    }
}

/// The middle value; for an even number of values, the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values.get(middle).copied(),
        _ => Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, *values.get(middle)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let of = |samples: &[u64]| Latencies::of(samples.iter().map(|ms| Duration::from_millis(*ms)).collect());
        let ms = |latencies: &Latencies, percent| latencies.percentile(percent).map(|found| found.as_millis());
        let hundred = of(&(1..=100).rev().collect::<Vec<u64>>());
        assert_eq!(ms(&hundred, 50), Some(50));
        assert_eq!(ms(&hundred, 99), Some(99));
        assert_eq!(ms(&hundred, 100), Some(100));
        assert_eq!(hundred.max(), Some(Duration::from_millis(100)));
        let three = of(&[7, 1, 3]);
        assert_eq!((ms(&three, 0), ms(&three, 50), ms(&three, 95)), (Some(1), Some(3), Some(7)));
        assert_eq!(ms(&of(&[]), 50), None);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }
}
