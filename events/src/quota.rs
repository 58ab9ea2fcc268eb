//! Quota of a project: its usage and its limits, one stream per project.
//!
//! A reservation has the ids of its servers. A crash may come after the reservation and before a server is requested. A
//! reconciler then finds the reservation by the server's id, and releases it. A claim for new servers also requests the
//! process that creates them. A claim for a change of one server also requests the process that sends the change to the
//! server. That process withdraws the claim if the server refuses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{InstanceId, ProcessId, ProjectId, ServerGroupId};

noun! {
    /// Events of a project's quota.
    QuotaEvent = "quota" {
        /// Quota was reserved for servers about to be built.
        QuotaReserved = "reserved" @ 1,
        /// A server's quota was released.
        QuotaReleased = "released" @ 1,
        /// An administrator set limits for the project.
        LimitsSet = "limits_set" @ 1,
        /// An administrator reset the project's limits to the defaults.
        LimitsReset = "limits_reset" @ 1,
        /// The quota that a server uses was changed to this amount.
        QuotaAdjusted = "adjusted" @ 1,
        /// Quota was reserved for the servers of one request, and a process was asked to create them.
        ServersClaimed = "claimed" @ 1,
        /// Quota was reserved for the size that a server will get; a process sends the request to the server.
        QuotaClaimed = "claimed_for_server" @ 1,
        /// The reservation for a server was cancelled, because the server refused the request.
        QuotaClaimWithdrawn = "claim_withdrawn" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuotaReserved {
    pub project: ProjectId,
    pub instances: Vec<InstanceId>,
    /// Cores of each server.
    pub cores: u32,
    /// Memory of each server, in MiB.
    pub memory_mib: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuotaReleased {
    pub project: ProjectId,
    pub instance: InstanceId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsSet {
    pub project: ProjectId,
    /// Limits by resource (-1: no limit), sorted by resource.
    pub limits: Vec<(String, i64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsReset {
    pub project: ProjectId,
}

/// The new amounts of a server with reserved quota.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuotaAdjusted {
    pub project: ProjectId,
    pub instance: InstanceId,
    pub cores: u32,
    pub memory_mib: u64,
}

/// The claim of one request that creates servers. It requests the process `create_servers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServersClaimed {
    pub project: ProjectId,
    pub process: ProcessId,
    /// The servers in the order of their launch indexes. Their ids derive from the process's id.
    pub instances: Vec<InstanceId>,
    /// Cores of each server.
    pub cores: u32,
    /// Memory of each server, in MiB.
    pub memory_mib: u64,
    /// The server group that the servers join, with the project that owns the group.
    pub group: Option<(ProjectId, ServerGroupId)>,
}

/// A claim for a resize, a restore or an unshelve of one server. While the claim is open, the server holds at least
/// these amounts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuotaClaimed {
    pub project: ProjectId,
    /// The process that sends the request to the server.
    pub process: ProcessId,
    pub instance: InstanceId,
    /// The process that the server is asked to start.
    pub asks_for: ProcessId,
    pub cores: u32,
    pub memory_mib: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuotaClaimWithdrawn {
    pub project: ProjectId,
    pub process: ProcessId,
    pub instance: InstanceId,
}

/// The claims for one server that may still be withdrawn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenClaims {
    /// The amounts that the server held before the first of these claims.
    pub before: Option<(u32, u64)>,
    pub by_process: BTreeMap<ProcessId, (u32, u64)>,
}

impl OpenClaims {
    /// The amounts that the server holds. For each resource this is the largest amount in `before` and in the open
    /// claims.
    fn held(&self) -> Option<(u32, u64)> {
        let all = self.before.iter().chain(self.by_process.values()).copied();
        all.reduce(|one, other| (one.0.max(other.0), one.1.max(other.1)))
    }
}

/// The usage and limits of one project.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// The cores and MiB that each server holds.
    pub held: BTreeMap<InstanceId, (u32, u64)>,
    pub cores: u64,
    pub memory_mib: u64,
    /// The limits that an administrator set. Other resources have the default limits.
    pub limits: BTreeMap<String, i64>,
    /// The open claims by server. They end when the server's quota is adjusted or released.
    pub open: BTreeMap<InstanceId, OpenClaims>,
}

impl Fold for Quota {
    type Event = QuotaEvent;
    const STATE_VERSION: u32 = 2;

    fn evolve(&mut self, event: &QuotaEvent, _at: Timestamp) {
        match event {
            QuotaEvent::QuotaReserved(reserved) => {
                self.hold(&reserved.instances, reserved.cores, reserved.memory_mib);
            }
            QuotaEvent::ServersClaimed(claimed) => self.hold(&claimed.instances, claimed.cores, claimed.memory_mib),
            QuotaEvent::QuotaReleased(released) => {
                self.open.remove(&released.instance);
                self.put(released.instance, None);
            }
            QuotaEvent::QuotaAdjusted(adjusted) if self.held.contains_key(&adjusted.instance) => {
                self.open.remove(&adjusted.instance);
                self.put(adjusted.instance, Some((adjusted.cores, adjusted.memory_mib)));
            }
            QuotaEvent::QuotaAdjusted(_) => {}
            QuotaEvent::QuotaClaimed(claimed) => {
                let before = self.held.get(&claimed.instance).copied();
                let open = self.open.entry(claimed.instance);
                let open = open.or_insert_with(|| OpenClaims { before, ..OpenClaims::default() });
                open.by_process.insert(claimed.process, (claimed.cores, claimed.memory_mib));
                let held = open.held();
                self.put(claimed.instance, held);
            }
            QuotaEvent::QuotaClaimWithdrawn(withdrawn) => {
                let Some(open) = self.open.get_mut(&withdrawn.instance) else { return };
                open.by_process.remove(&withdrawn.process);
                let (held, over) = (open.held(), open.by_process.is_empty());
                if over {
                    self.open.remove(&withdrawn.instance);
                }
                self.put(withdrawn.instance, held);
            }
            QuotaEvent::LimitsSet(set) => self.limits.extend(set.limits.iter().cloned()),
            QuotaEvent::LimitsReset(_) => self.limits.clear(),
        }
    }
}

impl Quota {
    /// Gives each of `instances` these amounts.
    fn hold(&mut self, instances: &[InstanceId], cores: u32, memory_mib: u64) {
        for instance in instances {
            self.open.remove(instance);
            self.put(*instance, Some((cores, memory_mib)));
        }
    }

    /// Sets the amounts that the server holds; `None`: nothing.
    fn put(&mut self, instance: InstanceId, now: Option<(u32, u64)>) {
        let before = match now {
            Some(now) => self.held.insert(instance, now),
            None => self.held.remove(&instance),
        };
        let (old, new) = (before.unwrap_or_default(), now.unwrap_or_default());
        self.cores = self.cores - u64::from(old.0) + u64::from(new.0);
        self.memory_mib = self.memory_mib - old.1 + new.1;
    }
}

/// One example of each event.
pub fn samples() -> Vec<QuotaEvent> {
    let project = ProjectId::new("p");
    let instance = InstanceId(uuid::Uuid::from_u128(1));
    let process = ProcessId(uuid::Uuid::from_u128(2));
    vec![
        QuotaReserved { project: project.clone(), instances: vec![instance], cores: 2, memory_mib: 512 }.into(),
        QuotaReleased { project: project.clone(), instance }.into(),
        LimitsSet { project: project.clone(), limits: vec![("instances".into(), -1)] }.into(),
        LimitsReset { project: project.clone() }.into(),
        QuotaAdjusted { project: project.clone(), instance, cores: 4, memory_mib: 1024 }.into(),
        ServersClaimed {
            project: project.clone(),
            process,
            instances: vec![instance],
            cores: 2,
            memory_mib: 512,
            group: Some((project.clone(), ServerGroupId(uuid::Uuid::from_u128(3)))),
        }
        .into(),
        QuotaClaimed {
            project: project.clone(),
            process,
            instance,
            asks_for: ProcessId(uuid::Uuid::from_u128(4)),
            cores: 4,
            memory_mib: 1024,
        }
        .into(),
        QuotaClaimWithdrawn { project, process, instance }.into(),
    ]
}
