//! Quota of a project: its usage and its limits, one stream per project.
//!
//! A reservation names its servers. After a crash between the two appends a reserved server may never exist; its
//! reservation is found by its name and released. A claim also requests the process that creates its servers.

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
        /// The project is back to the default limits.
        LimitsReset = "limits_reset" @ 1,
        /// A server uses another amount of quota.
        QuotaAdjusted = "adjusted" @ 1,
        /// Quota was reserved for the servers of one request, and a process was asked to create them.
        ServersClaimed = "claimed" @ 1,
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

/// The usage and limits of one project.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// The cores and MiB that each server holds.
    pub held: BTreeMap<InstanceId, (u32, u64)>,
    pub cores: u64,
    pub memory_mib: u64,
    /// Limits that differ from the defaults.
    pub limits: BTreeMap<String, i64>,
}

impl Fold for Quota {
    type Event = QuotaEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &QuotaEvent, _at: Timestamp) {
        match event {
            QuotaEvent::QuotaReserved(reserved) => {
                self.hold(&reserved.instances, reserved.cores, reserved.memory_mib);
            }
            QuotaEvent::ServersClaimed(claimed) => self.hold(&claimed.instances, claimed.cores, claimed.memory_mib),
            QuotaEvent::QuotaReleased(released) => {
                if let Some((cores, memory_mib)) = self.held.remove(&released.instance) {
                    self.cores -= u64::from(cores);
                    self.memory_mib -= memory_mib;
                }
            }
            QuotaEvent::QuotaAdjusted(adjusted) => {
                if let Some(held) = self.held.get_mut(&adjusted.instance) {
                    self.cores = self.cores - u64::from(held.0) + u64::from(adjusted.cores);
                    self.memory_mib = self.memory_mib - held.1 + adjusted.memory_mib;
                    *held = (adjusted.cores, adjusted.memory_mib);
                }
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
            if self.held.insert(*instance, (cores, memory_mib)).is_none() {
                self.cores += u64::from(cores);
                self.memory_mib += memory_mib;
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<QuotaEvent> {
    let project = ProjectId::new("p");
    let instance = InstanceId(uuid::Uuid::from_u128(1));
    vec![
        QuotaReserved { project: project.clone(), instances: vec![instance], cores: 2, memory_mib: 512 }.into(),
        QuotaReleased { project: project.clone(), instance }.into(),
        LimitsSet { project: project.clone(), limits: vec![("instances".into(), -1)] }.into(),
        LimitsReset { project: project.clone() }.into(),
        QuotaAdjusted { project: project.clone(), instance, cores: 4, memory_mib: 1024 }.into(),
        ServersClaimed {
            project: project.clone(),
            process: ProcessId(uuid::Uuid::from_u128(2)),
            instances: vec![instance],
            cores: 2,
            memory_mib: 512,
            group: Some((project, ServerGroupId(uuid::Uuid::from_u128(3)))),
        }
        .into(),
    ]
}
