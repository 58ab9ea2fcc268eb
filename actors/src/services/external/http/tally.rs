//! How the calls of one service ended, for the metrics. A repetition counts as a call of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// 1xx to 3xx.
    Done,
    /// 4xx.
    Refused,
    /// 5xx, except 502 to 504.
    Failed,
    /// No answer in time, no answer at all, or a proxy's 502 to 504.
    Unanswered,
    /// Not made, because the service did not answer earlier calls.
    NotMade,
}

impl CallOutcome {
    pub const ALL: [Self; 5] = [Self::Done, Self::Refused, Self::Failed, Self::Unanswered, Self::NotMade];

    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
            Self::NotMade => "not_made",
        }
    }

    pub(super) fn of_status(status: u16) -> Self {
        match status {
            400..500 => Self::Refused,
            500.. => Self::Failed,
            _ => Self::Done,
        }
    }
}

/// Counts since start-up.
#[derive(Debug, Default)]
pub struct CallTally {
    calls: [AtomicU64; CallOutcome::ALL.len()],
    micros: AtomicU64,
}

impl CallTally {
    pub(super) fn count(&self, outcome: CallOutcome, took: Duration) {
        self.calls[outcome as usize].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn calls(&self, outcome: CallOutcome) -> u64 {
        self.calls[outcome as usize].load(Ordering::Relaxed)
    }

    /// The time of all calls together.
    pub fn time(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}
