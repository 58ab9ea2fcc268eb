//! Random numbers that derive from the seed.

use std::time::Duration;

use chronova_events::entropy::SplitMix;

#[derive(Debug, Clone)]
pub(super) struct Dice(SplitMix);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// A number from 0 to `sides` - 1; 0 if `sides` is 0.
    pub(super) fn below(&mut self, sides: u64) -> u64 {
        self.0.draw().checked_rem(sides).unwrap_or(0)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True with a probability of `in_a_thousand` / 1000.
    pub(super) fn happens(&mut self, in_a_thousand: u64) -> bool {
        self.below(1_000) < in_a_thousand
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let index = self.index(all.len());
        all.get(index).copied()
    }

    /// One of `all`, each with a probability in proportion to its weight.
    pub(super) fn weighed<T: Copy>(&mut self, all: &[(u64, T)]) -> Option<T> {
        let mut left = self.below(all.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in all {
            if left < *weight {
                return Some(*one);
            }
            left -= weight;
        }
        None
    }

    pub(super) fn milliseconds(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.below(below))
    }
}
