//! Changes that a service may still make after the call for them got no answer in time.
//!
//! When a service that hung continues, it reads the calls that have waited. So it may create a port or an image for a
//! call that was given up, after the undo of a failed process has found nothing to delete. The undo therefore looks
//! again after a while ([`CalledService::again_if_late`](super::CalledService::again_if_late)).
//!
//! The requests of such calls are in memory only. After a restart, an undo looks once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chronova_events::ids::RequestId;

/// The most requests that are kept. One more replaces the oldest.
const MOST: usize = 10_000;

/// When the newest such call of each request was given up.
#[derive(Debug, Default)]
pub(super) struct LateChanges(Mutex<HashMap<RequestId, Instant>>);

impl LateChanges {
    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, request: &RequestId, given_up: Instant) {
        let mut requests = self.requests();
        if requests.len() >= MOST && !requests.contains_key(request) {
            let oldest = requests.iter().min_by_key(|(_, at)| **at).map(|(oldest, _)| oldest.clone());
            oldest.and_then(|oldest| requests.remove(&oldest));
        }
        requests.insert(request.clone(), given_up);
    }

    /// When the newest call of the request was given up; `None` if there is none.
    pub(super) fn of(&self, request: &RequestId) -> Option<Instant> {
        self.requests().get(request).copied()
    }

    /// Forgets the calls of the request up to this one. A call that was given up since then stays.
    pub(super) fn forget(&self, request: &RequestId, given_up: Instant) {
        let mut requests = self.requests();
        if requests.get(request).is_some_and(|newest| *newest <= given_up) {
            requests.remove(request);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_is_forgotten_with_its_newest_call() {
        let (late, request, first) = (LateChanges::default(), RequestId::new("req-1"), Instant::now());
        let second = first + Duration::from_secs(1);
        late.note(&request, first);
        assert_eq!((late.of(&request), late.of(&RequestId::new("req-2"))), (Some(first), None));
        late.note(&request, second);
        late.forget(&request, first);
        assert_eq!(late.of(&request), Some(second), "a later call was given up");
        late.forget(&request, second);
        assert_eq!(late.of(&request), None);
    }

    #[test]
    fn the_number_of_requests_is_bounded() {
        let (late, now) = (LateChanges::default(), Instant::now());
        let request = |number: usize| RequestId::new(format!("req-{number}"));
        for number in 0..=MOST {
            late.note(&request(number), now + Duration::from_millis(u64::try_from(number).unwrap()));
        }
        assert_eq!(late.requests().len(), MOST);
        assert!(late.of(&request(0)).is_none() && late.of(&request(MOST)).is_some());
    }
}
