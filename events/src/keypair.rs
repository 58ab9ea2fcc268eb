//! Key pairs: one stream per user, because names are unique per user. Private keys are never stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ErasureId, UserId};

noun! {
    /// Events of a user's key pairs.
    KeypairEvent = "keypair" {
        /// A public key was imported, or a pair generated (only the user gets the private key).
        KeypairCreated = "created" @ 1,
        /// A key was deleted; its servers keep their copy.
        KeypairDeleted = "deleted" @ 1,
        /// The user's keys were deleted, and erased with the user's personal data.
        KeypairsErased = "erased" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeypairCreated {
    pub user: UserId,
    pub name: String,
    /// `ssh` or `x509`.
    pub kind: String,
    pub public_key: String,
    /// Colon-separated hex as Nova shows it: MD5 for `ssh`, SHA-1 for `x509`.
    pub fingerprint: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeypairDeleted {
    pub user: UserId,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeypairsErased {
    pub user: UserId,
    pub erasure: ErasureId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Keypair {
    pub definition: KeypairCreated,
    pub created_at: Timestamp,
    pub number: u64,
}

/// A user's key pairs by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Keypairs {
    pub by_name: BTreeMap<String, Keypair>,
    pub made: u64,
}

impl Fold for Keypairs {
    type Event = KeypairEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &KeypairEvent, at: Timestamp) {
        match event {
            KeypairEvent::KeypairCreated(created) => {
                self.made += 1;
                let keypair = Keypair { definition: created.clone(), created_at: at, number: self.made };
                self.by_name.insert(created.name.clone(), keypair);
            }
            KeypairEvent::KeypairDeleted(deleted) => {
                self.by_name.remove(&deleted.name);
            }
            // A key pair without its name and public key has no use, so an erasure removes all key pairs.
            KeypairEvent::KeypairsErased(_) => self.by_name.clear(),
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<KeypairEvent> {
    let user = UserId::new("u");
    vec![
        KeypairCreated {
            user: user.clone(),
            name: "k".into(),
            kind: "ssh".into(),
            public_key: "ssh-ed25519 AAAA".into(),
            fingerprint: "00:11".into(),
        }
        .into(),
        KeypairDeleted { user: user.clone(), name: "k".into() }.into(),
        KeypairsErased { user, erasure: ErasureId(uuid::Uuid::from_u128(9)) }.into(),
    ]
}
