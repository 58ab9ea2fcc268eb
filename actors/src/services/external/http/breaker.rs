//! Stops calls to a service that does not answer, so that no request waits for the timeout.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of calls in a row without an answer after which the calls stop.
const ENOUGH: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Counts the calls without an answer.
#[derive(Debug, Default)]
pub struct CircuitBreaker {
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    failures: u32,
    pause: Duration,
    /// No call is made before this time. The first call after it sets a later time, so that only one call tries the
    /// service.
    closed_until: Option<Instant>,
    reason: String,
}

impl CircuitBreaker {
    fn state(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call may be made now. The error is the reason why the last call had no answer.
    pub fn admit(&self, now: Instant) -> Result<(), String> {
        let mut state = self.state();
        match state.closed_until {
            Some(until) if now < until => Err(state.reason.clone()),
            Some(_) => {
                // One call tries the service. Others are refused until that call has an answer, or the pause has
                // passed.
                state.closed_until = Some(now + state.pause);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Notes that the service answered, even with an error.
    pub fn answered(&self) {
        *self.state() = BreakerState::default();
    }

    /// Notes that the service did not answer.
    pub fn failed(&self, now: Instant, reason: &str) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        reason.clone_into(&mut state.reason);
        if state.failures >= ENOUGH {
            state.pause = (state.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            state.closed_until = Some(now + state.pause);
        }
    }

    /// The reason why the last call had no answer; `None` if it had one.
    pub fn trouble(&self) -> Option<String> {
        let state = self.state();
        (state.failures > 0).then(|| state.reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_service_is_left_alone_and_tried_again() {
        let (breaker, start) = (CircuitBreaker::default(), Instant::now());
        for _ in 0..ENOUGH {
            assert_eq!(breaker.admit(start), Ok(()));
            breaker.failed(start, "refused");
        }
        assert_eq!(breaker.admit(start), Err("refused".to_owned()));
        let later = start + FIRST_PAUSE;
        assert_eq!(breaker.admit(later), Ok(()), "a call is admitted after the pause");
        assert!(breaker.admit(later).is_err(), "no second call is admitted");
        breaker.failed(later, "timeout");
        assert!(breaker.admit(later + FIRST_PAUSE).is_err(), "the pause grows");
        assert_eq!(breaker.trouble().as_deref(), Some("timeout"));
        assert_eq!(breaker.admit(later + LONGEST_PAUSE), Ok(()));
        breaker.answered();
        assert_eq!((breaker.admit(later), breaker.trouble()), (Ok(()), None));
    }

    #[test]
    fn a_few_failures_stop_nothing() {
        let (breaker, now) = (CircuitBreaker::default(), Instant::now());
        breaker.failed(now, "reset");
        breaker.answered();
        breaker.failed(now, "reset");
        breaker.failed(now, "reset");
        assert_eq!(breaker.admit(now), Ok(()));
    }
}
