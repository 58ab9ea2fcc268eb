//! The console tokens that may still be valid, by their hashes, for console proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::console::{ConsoleAuthorized, ConsoleEvent, MAX_TOKENS};
use chronova_events::envelope::{Recorded, Revision, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::registry::Event;
use serde::{Deserialize, Serialize};

use crate::Projection;

/// A token that may still be valid.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConsoleToken {
    pub authorized: ConsoleAuthorized,
    /// The revision of its event in the stream of the server's console.
    pub revision: Revision,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct ConsoleTokens {
    by_hash: BTreeMap<String, Arc<ConsoleToken>>,
    by_expiry: BTreeSet<(Timestamp, String)>,
    of_servers: BTreeMap<InstanceId, BTreeSet<(Timestamp, String)>>,
}

impl ConsoleTokens {
    /// A token that is valid at `now`.
    pub fn valid(&self, hash: &str, now: Timestamp) -> Option<&Arc<ConsoleToken>> {
        self.by_hash.get(hash).filter(|known| known.authorized.expires_at > now)
    }

    fn remove(&mut self, hash: &str) {
        let Some(known) = self.by_hash.remove(hash) else { return };
        let place = (known.authorized.expires_at, hash.to_owned());
        self.by_expiry.remove(&place);
        if let Some(of_server) = self.of_servers.get_mut(&known.authorized.instance) {
            of_server.remove(&place);
            if of_server.is_empty() {
                self.of_servers.remove(&known.authorized.instance);
            }
        }
    }

    /// Removes tokens of a server until the limit allows one more token. Removes those that expire first, as the fold
    /// of the server's console does.
    fn make_room(&mut self, server: InstanceId) {
        while let Some(of_server) = self.of_servers.get(&server).filter(|tokens| tokens.len() >= MAX_TOKENS) {
            let Some((_, hash)) = of_server.first().cloned() else { break };
            self.remove(&hash);
        }
    }
}

impl Projection for ConsoleTokens {
    const NAME: &'static str = "console_tokens";
    const VERSION: u32 = 3;
    const NOUNS: &'static [&'static str] = &["console"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Event::ConsoleEvent(ConsoleEvent::ConsoleAuthorized(authorized)) = event else { return };
        while let Some((expiry, hash)) = self.by_expiry.first().cloned() {
            if expiry > recorded.recorded_at {
                break;
            }
            self.remove(&hash);
        }
        self.remove(&authorized.token_hash);
        self.make_room(authorized.instance);
        let place = (authorized.expires_at, authorized.token_hash.clone());
        self.by_expiry.insert(place.clone());
        self.of_servers.entry(authorized.instance).or_default().insert(place);
        let token = ConsoleToken { authorized: authorized.clone(), revision: recorded.revision };
        self.by_hash.insert(authorized.token_hash.clone(), Arc::new(token));
    }

    fn weight(&self) -> u64 {
        self.by_hash.len() as u64 * 512
    }
}
