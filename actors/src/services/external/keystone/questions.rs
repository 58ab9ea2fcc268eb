//! Requests with the same token ask Keystone once, and share a failure. Requests with different tokens wait for each
//! other only if too many questions are open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use super::cache::Fingerprint;
use crate::ports::identity::TokenError;

/// The most questions about tokens at the same time.
const AT_ONCE: usize = 64;

/// When Keystone last gave no answer about a token, and why.
pub(super) type UnansweredQuestion = Option<(Instant, TokenError)>;
type Lane = Arc<tokio::sync::Mutex<UnansweredQuestion>>;

#[derive(Debug)]
pub(super) struct TokenQuestions {
    /// The tokens that requests ask about, or wait for, at present.
    lanes: Arc<Mutex<HashMap<Fingerprint, Lane>>>,
    places: Arc<Semaphore>,
}

/// The right to ask about one token. Forgets the token if nobody else waits for it.
#[derive(Debug)]
pub(super) struct TokenTurn {
    /// The last failure, for those that wait.
    pub(super) last: OwnedMutexGuard<UnansweredQuestion>,
    _waiting: WaitingForToken,
}

#[derive(Debug)]
struct WaitingForToken {
    lanes: Arc<Mutex<HashMap<Fingerprint, Lane>>>,
    token: Fingerprint,
    lane: Lane,
}

impl TokenQuestions {
    pub(super) fn new() -> Self {
        Self { lanes: Arc::default(), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Waits until no other request asks about this token.
    pub(super) async fn turn(&self, token: Fingerprint) -> TokenTurn {
        let lane = Arc::clone(self.lanes.lock().unwrap_or_else(PoisonError::into_inner).entry(token).or_default());
        let waiting = WaitingForToken { lanes: Arc::clone(&self.lanes), token, lane: Arc::clone(&lane) };
        TokenTurn { last: lane.lock_owned().await, _waiting: waiting }
    }

    /// Waits until fewer than [`AT_ONCE`] questions are open. `None` never happens, because nothing closes the semaphore.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }
}

impl Drop for WaitingForToken {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // If nobody else waits, only the map and this value still refer to the lock. The turn's guard was dropped
        // before.
        if Arc::strong_count(&self.lane) <= 2 {
            lanes.remove(&self.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_ready(future: impl Future<Output = TokenTurn>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn only_questions_about_the_same_token_wait() {
        let questions = TokenQuestions::new();
        let first = questions.turn([1; 32]).await;
        assert!(is_ready(questions.turn([2; 32])), "another token");
        assert!(!is_ready(questions.turn([1; 32])), "the same token");
        drop(first);
        assert!(is_ready(questions.turn([1; 32])));
    }

    #[tokio::test]
    async fn a_token_is_forgotten_with_its_last_request() {
        let questions = TokenQuestions::new();
        let count = || questions.lanes.lock().unwrap().len();
        let mut first = questions.turn([1; 32]).await;
        *first.last = Some((Instant::now(), TokenError::Unavailable("silent".to_owned())));
        {
            let mut second = pin!(questions.turn([1; 32]));
            assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop(first);
            assert_eq!(count(), 1, "the second request still waits");
            assert!(second.await.last.is_some(), "it shares the failure");
        }
        assert_eq!(count(), 0);
        let held = questions.turn([1; 32]).await;
        assert!(!is_ready(questions.turn([1; 32])), "a request that its client gave up");
        drop(held);
        assert_eq!(count(), 0);
    }
}
