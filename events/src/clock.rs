//! The only module that reads the time of day.

use crate::envelope::Timestamp;

/// The source of times: the machine's clock or a test's clock.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // This is the one place that may read the time of day.
    fn now(&self) -> Timestamp {
        Timestamp(chrono::Utc::now().timestamp_micros())
    }
}
