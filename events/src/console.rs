//! Consoles that users opened: one stream per server. Only the user gets the token itself. The event stores its hash,
//! so that Chronova can answer a console proxy until the token expires.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::InstanceId;

noun! {
    /// Events of a server's consoles.
    ConsoleEvent = "console" {
        /// A user got a token for a console, valid for a limited time.
        ConsoleAuthorized = "authorized" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsoleAuthorized {
    pub instance: InstanceId,
    /// SHA-256 of the token, lower-case hex.
    pub token_hash: String,
    /// `novnc`, `spice-html5`, `serial`, ...
    pub kind: String,
    /// The host that the proxy connects to.
    pub host: String,
    pub port: u16,
    pub tls_port: Option<u16>,
    pub internal_access_path: Option<String>,
    pub expires_at: Timestamp,
}

/// The largest number of valid tokens of one server. If there are more, the token that expires first becomes invalid.
/// So a user who requests consoles without end fills neither this state nor the read model.
pub const MAX_TOKENS: usize = 64;

/// A server's tokens by their hashes, at most [`MAX_TOKENS`]. Expired tokens are removed when a new token is issued.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct IssuedConsoleTokens {
    pub by_hash: BTreeMap<String, ConsoleAuthorized>,
}

impl Fold for IssuedConsoleTokens {
    type Event = ConsoleEvent;
    const STATE_VERSION: u32 = 2;

    fn evolve(&mut self, event: &ConsoleEvent, at: Timestamp) {
        let ConsoleEvent::ConsoleAuthorized(authorized) = event;
        self.by_hash.retain(|_, known| known.expires_at > at);
        while self.by_hash.len() >= MAX_TOKENS && !self.by_hash.contains_key(&authorized.token_hash) {
            let first = self.by_hash.iter().min_by_key(|(hash, known)| (known.expires_at, *hash));
            let Some(first) = first.map(|(hash, _)| hash.clone()) else { break };
            self.by_hash.remove(&first);
        }
        self.by_hash.insert(authorized.token_hash.clone(), authorized.clone());
    }
}

/// One example of each event.
pub fn samples() -> Vec<ConsoleEvent> {
    vec![
        ConsoleAuthorized {
            instance: InstanceId(uuid::Uuid::from_u128(1)),
            token_hash: "ab".repeat(32),
            kind: "novnc".into(),
            host: "127.0.0.1".into(),
            port: 5900,
            tls_port: None,
            internal_access_path: None,
            expires_at: Timestamp(600_000_000),
        }
        .into(),
    ]
}
