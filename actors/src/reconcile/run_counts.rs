//! Counts the runs of a reconciler and their failures, for the metrics.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use chronova_events::envelope::Timestamp;

/// Numbers of one reconciler since start-up.
#[derive(Debug)]
pub struct ReconcilerTally {
    pub name: &'static str,
    runs: AtomicU64,
    failures: AtomicU64,
    last_run: AtomicI64,
    last_micros: AtomicU64,
}

/// The numbers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TallyReading {
    pub runs: u64,
    /// How often the repair of a finding failed.
    pub failures: u64,
    /// The end of the last run; `None` before the first.
    pub last_run: Option<Timestamp>,
    /// The duration of the last run, in microseconds.
    pub last_micros: u64,
}

impl ReconcilerTally {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            runs: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_run: AtomicI64::new(0),
            last_micros: AtomicU64::new(0),
        }
    }

    /// Counts a run that began at `begun`, ended `now` and failed to repair `failures` findings.
    pub fn record(&self, begun: Instant, now: Timestamp, failures: usize) {
        self.failures.fetch_add(failures as u64, Ordering::Relaxed);
        self.last_run.store(now.0, Ordering::Relaxed);
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last_micros.store(micros, Ordering::Relaxed);
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> TallyReading {
        let runs = self.runs.load(Ordering::Relaxed);
        TallyReading {
            runs,
            failures: self.failures.load(Ordering::Relaxed),
            last_run: (runs > 0).then(|| Timestamp(self.last_run.load(Ordering::Relaxed))),
            last_micros: self.last_micros.load(Ordering::Relaxed),
        }
    }
}
