//! The console tokens that may not have expired, by their hashes, for console proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::console::{ConsoleAuthorized, ConsoleEvent};
use chronova_events::envelope::{Recorded, Timestamp};
use chronova_events::registry::Event;
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct ConsoleTokens {
    by_hash: BTreeMap<String, Arc<ConsoleAuthorized>>,
    by_expiry: BTreeSet<(Timestamp, String)>,
}

impl ConsoleTokens {
    /// The console of a token that is valid at `now`.
    pub fn valid(&self, hash: &str, now: Timestamp) -> Option<&Arc<ConsoleAuthorized>> {
        self.by_hash.get(hash).filter(|known| known.expires_at > now)
    }
}

impl Projection for ConsoleTokens {
    const NAME: &'static str = "console_tokens";
    const VERSION: u32 = 1;
    const NOUNS: &'static [&'static str] = &["console"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Event::ConsoleEvent(ConsoleEvent::ConsoleAuthorized(authorized)) = event else { return };
        while let Some((expiry, hash)) = self.by_expiry.first().cloned() {
            if expiry > recorded.recorded_at {
                break;
            }
            self.by_expiry.pop_first();
            self.by_hash.remove(&hash);
        }
        self.by_expiry.insert((authorized.expires_at, authorized.token_hash.clone()));
        self.by_hash.insert(authorized.token_hash.clone(), Arc::new(authorized.clone()));
    }

    fn weight(&self) -> u64 {
        self.by_hash.len() as u64 * 512
    }
}
