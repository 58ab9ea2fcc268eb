//! Erasures of personal data, each with its requester, its subject, its time and its reason.
//!
//! There is one stream, `erasure-main`. A requested erasure is always completed, even after crashes. First each
//! affected stream records it (`instance.personal_erased`, `keypair.erased`, `identity.user_erased`). Then the keys are
//! destroyed ([`crate::sealed`]). After that, the erasure is complete.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ErasureId, InstanceId, ProjectId, UserId};

noun! {
    /// Events of an erasure.
    ErasureEvent = "erasure" {
        /// An erasure of personal data was requested.
        ErasureRequested = "requested" @ 1,
        /// The keys are destroyed: the data can no longer be read, in any copy of the log.
        ErasureCompleted = "completed" @ 1,
    }
}

/// The data to erase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErasureTarget {
    /// A user's name, attributes, key pairs, application credentials and access rules, and the data of all servers of
    /// the user.
    User(UserId),
    /// The data of one server.
    Server(InstanceId),
    /// The data of all servers of a project.
    Project(ProjectId),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErasureRequested {
    pub erasure: ErasureId,
    pub whose: ErasureTarget,
    /// The reason as the requester wrote it.
    pub reason: String,
    /// The user, if the user's own data is erased.
    pub user: Option<UserId>,
    /// The servers whose data is erased, sorted.
    pub servers: Vec<InstanceId>,
    /// The erasure destroys the keys in the key file's records below this number. Later events have new keys.
    pub keys_before: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErasureCompleted {
    pub erasure: ErasureId,
    /// The number of destroyed keys.
    pub keys: u64,
}

/// One erasure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Erasure {
    pub request: ErasureRequested,
    pub requested_at: Timestamp,
    /// The time of completion, and the number of destroyed keys.
    pub completed: Option<(Timestamp, u64)>,
}

/// All erasures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Erasures {
    pub by_id: BTreeMap<ErasureId, Erasure>,
}

impl Erasures {
    /// The erasures that are not complete, oldest first. A crash may have interrupted them.
    pub fn unfinished(&self) -> Vec<&Erasure> {
        let mut open: Vec<&Erasure> = self.by_id.values().filter(|erasure| erasure.completed.is_none()).collect();
        open.sort_by_key(|erasure| erasure.requested_at);
        open
    }
}

impl Fold for Erasures {
    type Event = ErasureEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &ErasureEvent, at: Timestamp) {
        match event {
            ErasureEvent::ErasureRequested(request) => {
                let erasure = Erasure { request: request.clone(), requested_at: at, completed: None };
                self.by_id.insert(request.erasure, erasure);
            }
            ErasureEvent::ErasureCompleted(completed) => {
                if let Some(erasure) = self.by_id.get_mut(&completed.erasure) {
                    erasure.completed = Some((at, completed.keys));
                }
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<ErasureEvent> {
    let uuid = uuid::Uuid::from_u128;
    let erasure = ErasureId(uuid(9));
    let request = |whose| ErasureRequested {
        erasure,
        whose,
        reason: "asked for by the person".into(),
        user: Some(UserId::new("u")),
        servers: vec![InstanceId(uuid(1))],
        keys_before: 12,
    };
    vec![
        request(ErasureTarget::User(UserId::new("u"))).into(),
        request(ErasureTarget::Server(InstanceId(uuid(1)))).into(),
        request(ErasureTarget::Project(ProjectId::new("p"))).into(),
        ErasureCompleted { erasure, keys: 3 }.into(),
    ]
}
