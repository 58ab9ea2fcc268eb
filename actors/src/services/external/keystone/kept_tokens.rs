//! The tokens of users whose requests began long work.
//!
//! The work's events name the request, and never hold a token. A restart loses all tokens; Chronova's own account then
//! completes the work. Number, size and age are bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chronova_events::envelope::Meta;
use chronova_events::ids::{ProjectId, RequestId};

use crate::ports::UserToken;

const MOST: usize = 10_000;
/// The limit on a token's length in bytes; a longer token is not kept. Keystone's tokens have some hundred bytes.
const LONGEST: usize = 4 * 1024;
/// How long a token is kept. A token is useless once Keystone's `allow_expired_window` (two days by default) has passed
/// since its expiry.
const LONGEST_WORK: Duration = Duration::from_hours(60);

/// A user's token, and the project of its scope.
#[derive(Debug, Clone)]
pub struct KeptUserToken {
    pub token: UserToken,
    /// `None`: the token's scope is not a project.
    pub project: Option<ProjectId>,
}

/// The tokens, by the id of their request.
pub struct KeptUserTokens {
    most: usize,
    kept: Mutex<KeptByRequest>,
}

#[derive(Default)]
struct KeptByRequest {
    tokens: HashMap<RequestId, KeptUserToken>,
    order: VecDeque<(RequestId, Instant)>,
}

impl Default for KeptUserTokens {
    fn default() -> Self {
        Self { most: MOST, kept: Mutex::default() }
    }
}

impl std::fmt::Debug for KeptUserTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeptUserTokens")
    }
}

impl KeptUserTokens {
    /// Keeps the token of a request. The server gives each request an id of its own, so no id comes twice.
    pub fn keep(&self, request: &RequestId, user: KeptUserToken, now: Instant) {
        if user.token.expose().len() > LONGEST {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.tokens.insert(request.clone(), user);
        kept.order.push_back((request.clone(), now));
        while let Some((_, since)) = kept.order.front() {
            let stays = now.saturating_duration_since(*since) < LONGEST_WORK && kept.order.len() <= self.most;
            if stays {
                break;
            }
            let gone = kept.order.pop_front();
            gone.and_then(|(oldest, _)| kept.tokens.remove(&oldest));
        }
    }

    /// The token of the user whose request began this work.
    pub fn of(&self, work: &Meta) -> Option<UserToken> {
        self.with_project(work).map(|kept| kept.token)
    }

    /// The token of the user whose request began this work, with the token's project.
    pub fn with_project(&self, work: &Meta) -> Option<KeptUserToken> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.tokens.get(work.request_id.as_ref()?).cloned()
    }
}

/// The tokens. The API keeps them, and the clients of services use them.
pub type SharedUserTokens = Arc<KeptUserTokens>;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn token(text: &str) -> KeptUserToken {
        KeptUserToken { token: UserToken::new(text), project: None }
    }

    fn asked_by(request: &str) -> Meta {
        Meta { request_id: Some(RequestId::new(request)), ..(*Meta::system("test")).clone() }
    }

    #[test]
    fn a_token_is_found_by_its_request_alone() {
        let (kept, now) = (KeptUserTokens::default(), Instant::now());
        kept.keep(&RequestId::new("req-1"), token("s3cret"), now);
        assert!(!format!("{kept:?}").contains("s3cret"), "no secret is printed");
        assert_eq!(kept.of(&asked_by("req-1")).unwrap().expose(), "s3cret");
        assert!(kept.of(&asked_by("req-2")).is_none());
        assert!(kept.of(&Meta::system("test")).is_none());
    }

    #[test]
    fn the_oldest_and_the_longest_go() {
        let (kept, now) = (KeptUserTokens { most: 2, ..KeptUserTokens::default() }, Instant::now());
        kept.keep(&RequestId::new("req-0"), token(&"t".repeat(LONGEST + 1)), now);
        assert!(kept.of(&asked_by("req-0")).is_none());
        for request in ["req-1", "req-2", "req-3"] {
            kept.keep(&RequestId::new(request), token("t"), now);
        }
        assert!(kept.of(&asked_by("req-1")).is_none() && kept.of(&asked_by("req-3")).is_some());
        kept.keep(&RequestId::new("req-4"), token("t"), now + LONGEST_WORK);
        assert!(kept.of(&asked_by("req-3")).is_none() && kept.of(&asked_by("req-4")).is_some());
    }
}
