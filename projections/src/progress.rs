//! The progress of long work on the log: its name, percent, events per second, and the time left.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The progress of one piece of work. The worker and its observers share it.
#[derive(Debug)]
pub struct WorkProgress {
    /// The name of the work, for example `replay` or `rebuild servers`.
    pub what: String,
    begun: Instant,
    done: AtomicU64,
    total: AtomicU64,
}

impl WorkProgress {
    /// `total` is the number of events as far as is known now.
    pub fn new(what: impl Into<String>, total: u64) -> Arc<Self> {
        Arc::new(Self {
            what: what.into(),
            begun: Instant::now(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(total),
        })
    }

    pub fn add(&self, events: u64) {
        self.done.fetch_add(events, Ordering::Relaxed);
    }

    /// Sets a new total: the log grows while it is read.
    pub fn expect(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    pub fn now(&self) -> ProgressReading {
        ProgressReading::of(self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed), self.begun.elapsed())
    }
}

/// The progress at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProgressReading {
    pub done: u64,
    pub total: u64,
    pub percent: f64,
    pub events_per_second: f64,
    /// The time left; unknown before the first event.
    pub eta: Option<Duration>,
}

impl ProgressReading {
    #[allow(clippy::cast_precision_loss, reason = "shares and rates for people")]
    fn of(done: u64, total: u64, elapsed: Duration) -> Self {
        let total = total.max(done);
        let percent = if total == 0 { 100.0 } else { done as f64 * 100.0 / total as f64 };
        let seconds = elapsed.as_secs_f64();
        let events_per_second = if seconds > 0.0 { done as f64 / seconds } else { 0.0 };
        let left = (total - done) as f64 / events_per_second;
        let eta = Duration::try_from_secs_f64(left).ok();
        Self { done, total, percent, events_per_second, eta }
    }
}

impl fmt::Display for ProgressReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} % of {} events, {:.0} events/s", self.percent, self.total, self.events_per_second)?;
        match self.eta {
            Some(eta) => write!(f, ", done in {} s", eta.as_secs()),
            None => Ok(()),
        }
    }
}

/// The work that is under way.
#[derive(Debug, Default)]
pub struct WorkRegistry {
    under_way: Mutex<Vec<Arc<WorkProgress>>>,
}

impl WorkRegistry {
    /// Registers a piece of work. It is under way until the returned guard is dropped.
    pub fn begin(self: &Arc<Self>, progress: &Arc<WorkProgress>) -> OngoingWork {
        self.lock().push(Arc::clone(progress));
        OngoingWork { works: Arc::clone(self), progress: Arc::clone(progress) }
    }

    pub fn under_way(&self) -> Vec<Arc<WorkProgress>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<WorkProgress>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The guard of a piece of work that is under way.
#[derive(Debug)]
pub struct OngoingWork {
    works: Arc<WorkRegistry>,
    progress: Arc<WorkProgress>,
}

impl Drop for OngoingWork {
    fn drop(&mut self) {
        self.works.lock().retain(|other| !Arc::ptr_eq(other, &self.progress));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_rate_and_time_left_are_computed() {
        let half = ProgressReading::of(500, 1_000, Duration::from_secs(5));
        assert!((half.percent - 50.0).abs() < 1e-9 && (half.events_per_second - 100.0).abs() < 1e-9);
        assert_eq!(half.eta, Some(Duration::from_secs(5)));
        assert_eq!(half.to_string(), "50.0 % of 1000 events, 100 events/s, done in 5 s");
        let begun = ProgressReading::of(0, 10, Duration::from_secs(1));
        assert_eq!((begun.eta, begun.to_string().as_str()), (None, "0.0 % of 10 events, 0 events/s"));
        assert!((ProgressReading::of(0, 0, Duration::ZERO).percent - 100.0).abs() < 1e-9);
        assert_eq!(ProgressReading::of(11, 10, Duration::from_secs(1)).total, 11);
    }

    #[test]
    fn work_is_under_way_until_it_is_dropped() {
        let works = Arc::new(WorkRegistry::default());
        let progress = WorkProgress::new("replay", 1);
        let ongoing = works.begin(&progress);
        assert_eq!(works.under_way().len(), 1);
        drop(ongoing);
        assert!(works.under_way().is_empty());
    }
}
