//! The upper limit of the age of a follower's read models. If no leader confirms that the read models are current, a
//! follower may still answer reads, and states this age.
//!
//! The age counts from the last question whose answer the read models have reached. The leader's answer covers
//! everything that was acknowledged before the question, so the read models show all of it. The clock also runs while
//! the machine is suspended. Otherwise the age would be too small after a suspension.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whether this member may answer a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPermit {
    /// The read models show everything that was acknowledged before the read began.
    Current,
    /// No leader confirms that the read models are current. They are at most this old.
    Older(Duration),
    /// No leader confirms that the read models are current. They are older than the limit, or their age is unknown.
    Refused,
}

/// The latest time at which the read models were certainly current.
#[derive(Debug, Default)]
pub(super) struct CurrentAt(Mutex<Option<Duration>>);

impl CurrentAt {
    /// Notes that the read models show everything that was acknowledged before `asked`.
    pub(super) fn note(&self, asked: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = (*known).max(Some(asked));
    }

    /// The permit of a read for which no leader confirms a position. `limit` is the largest age that the operator
    /// allows; zero allows none.
    pub(super) fn permit(&self, now: Duration, limit: Duration) -> ReadPermit {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.map(|asked| now.saturating_sub(asked)) {
            Some(age) if age <= limit && !limit.is_zero() => ReadPermit::Older(age),
            _ => ReadPermit::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_older_read_has_its_age_and_a_limit() {
        let current = CurrentAt::default();
        assert_eq!(current.permit(at(100), at(60)), ReadPermit::Refused, "nothing is known yet");
        current.note(at(90));
        current.note(at(80));
        assert_eq!(current.permit(at(100), at(60)), ReadPermit::Older(at(10)));
        assert_eq!(current.permit(at(150), at(60)), ReadPermit::Older(at(60)));
        assert_eq!(current.permit(at(151), at(60)), ReadPermit::Refused);
        assert_eq!(current.permit(at(90), at(0)), ReadPermit::Refused, "the operator allows no older reads");
    }
}
