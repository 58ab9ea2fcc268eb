//! Consoles that were opened: one stream per server. Only the user gets the token itself. The event keeps its hash, so
//! that Chronova can answer a console proxy until the token expires.

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
    /// Where the proxy finds the console.
    pub host: String,
    pub port: u16,
    pub tls_port: Option<u16>,
    pub internal_access_path: Option<String>,
    pub expires_at: Timestamp,
}

/// How many tokens of one server are valid at a time. A further one ends the one that expires first, so that a user who
/// asks for consoles without end fills neither this state nor the read model.
pub const MAX_TOKENS: usize = 64;

/// A server's tokens that were not expired when the last one was given out, by their hashes. At most [`MAX_TOKENS`].
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

/// One example of each.
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
