//! A drain moves the servers of a host away. Each server is leaving, has left, or stays. Maintenance begins with a
//! drain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::HostEvent;
use crate::envelope::Timestamp;
use crate::ids::{InstanceId, ProcessId};

/// How a drain moves a server away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Departure {
    /// A live migration: the guest runs meanwhile.
    Live,
    /// A cold migration: the guest is off. The drain confirms the migration.
    Cold,
}

impl Departure {
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Cold => "cold",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrainRequested {
    /// The process that drains the host.
    pub process: ProcessId,
    /// The number of servers that leave at the same time.
    pub parallel: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DepartureBegun {
    pub process: ProcessId,
    pub server: InstanceId,
    pub how: Departure,
    /// The process that will move the server.
    pub migration: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerLeft {
    pub process: ProcessId,
    pub server: InstanceId,
    /// The host that has the server now; `None`: the server was deleted or shelved.
    pub to: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerStayed {
    pub process: ProcessId,
    pub server: InstanceId,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrainCancelled {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrainEnded {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaintenanceBegun {
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaintenanceEnded {}

/// Why the host is out of service, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    pub reason: Option<String>,
    pub since: Timestamp,
}

/// A server that is being moved away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeavingServer {
    pub how: Departure,
    pub migration: ProcessId,
    /// The number of attempts to move the server, this one included.
    pub attempt: u32,
}

/// One drain of a host. A server is in at most one of its three lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    pub process: ProcessId,
    pub parallel: u32,
    pub requested_at: Timestamp,
    pub cancelled: bool,
    pub ended_at: Option<Timestamp>,
    pub leaving: BTreeMap<InstanceId, LeavingServer>,
    /// The servers that have left, with their new hosts. `None`: the server was deleted or shelved.
    pub left: BTreeMap<InstanceId, Option<String>>,
    /// The servers that stay, with the reasons.
    pub stays: BTreeMap<InstanceId, String>,
}

impl Drain {
    pub(super) fn begin(requested: &DrainRequested, at: Timestamp) -> Self {
        Self {
            process: requested.process,
            parallel: requested.parallel,
            requested_at: at,
            cancelled: false,
            ended_at: None,
            leaving: BTreeMap::new(),
            left: BTreeMap::new(),
            stays: BTreeMap::new(),
        }
    }

    pub(super) fn evolve(&mut self, event: &HostEvent, at: Timestamp) {
        match event {
            HostEvent::DepartureBegun(begun) => {
                let attempt = self.leaving.get(&begun.server).map_or(1, |before| before.attempt + 1);
                self.forget(begun.server);
                let leaving = LeavingServer { how: begun.how, migration: begun.migration, attempt };
                self.leaving.insert(begun.server, leaving);
            }
            HostEvent::ServerLeft(left) => {
                self.forget(left.server);
                self.left.insert(left.server, left.to.clone());
            }
            HostEvent::ServerStayed(stayed) => {
                self.forget(stayed.server);
                self.stays.insert(stayed.server, stayed.reason.clone());
            }
            HostEvent::DrainCancelled(_) => self.cancelled = true,
            HostEvent::DrainEnded(_) => self.ended_at = Some(at),
            _ => {}
        }
    }

    fn forget(&mut self, server: InstanceId) {
        self.leaving.remove(&server);
        self.left.remove(&server);
        self.stays.remove(&server);
    }
}

/// One example of each event.
pub(super) fn samples() -> Vec<HostEvent> {
    let uuid = uuid::Uuid::from_u128;
    let (process, server) = (ProcessId(uuid(1)), InstanceId(uuid(2)));
    vec![
        DrainRequested { process, parallel: 2 }.into(),
        DepartureBegun { process, server, how: Departure::Cold, migration: ProcessId(uuid(3)) }.into(),
        ServerLeft { process, server, to: Some("h2".into()) }.into(),
        ServerStayed { process, server, reason: "it is suspended".into() }.into(),
        DrainCancelled { process }.into(),
        DrainEnded { process }.into(),
        MaintenanceBegun { reason: Some("new memory".into()) }.into(),
        MaintenanceEnded {}.into(),
    ]
}
