//! Moves: a server gets another host, another flavor, or both.
//!
//! A finished resize or cold migration waits for a confirmation or a revert. Until then the source keeps its disks and
//! claim, so that a revert can restore the server. A live migration and an evacuation end without a confirmation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::evacuation::Evacuation;
use super::live::LiveMigrationState;
use super::ongoing::OngoingTask;
use super::payloads::{DiskConfig, FaultInfo, FlavorSnapshot, Placed, Power};
use super::state::{Alive, Phase};
use crate::envelope::Timestamp;
use crate::ids::{HostId, ProcessId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoveKind {
    /// To another flavor, and possibly to another host.
    Resize,
    /// To another host; the guest is off meanwhile.
    Migrate,
    /// To another host while the guest runs.
    Live,
    /// To another host, because the server's host is down. The server is rebuilt there.
    Evacuate,
}

/// The stage of a move. The API derives `task_state` and the migration's status from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MoveStage {
    Preparing,
    Migrating,
    Migrated,
    Finishing,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveRequested {
    /// The process that moves the server. Its id is also the migration's id.
    pub process: ProcessId,
    pub kind: MoveKind,
    pub source: Placed,
    pub old_flavor: FlavorSnapshot,
    pub new_flavor: FlavorSnapshot,
    /// The requested host. The server moves there only if the filters accept the host (2.56).
    pub host: Option<String>,
    pub disk_config: Option<DiskConfig>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveTargeted {
    pub process: ProcessId,
    pub target: Placed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveUntargeted {
    pub process: ProcessId,
    pub host: HostId,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveAdvanced {
    pub process: ProcessId,
    pub stage: MoveStage,
}

/// The server is at its destination and waits for a confirmation or a revert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resized {
    pub process: ProcessId,
    pub placed: Placed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfirmRequested {
    pub process: ProcessId,
    pub migration: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResizeConfirmed {
    pub process: ProcessId,
    pub migration: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RevertRequested {
    pub process: ProcessId,
    pub migration: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResizeReverted {
    pub process: ProcessId,
    pub migration: ProcessId,
    pub placed: Placed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RevertFailed {
    pub process: ProcessId,
    pub migration: ProcessId,
    pub fault: FaultInfo,
}

/// A move that is under way, or finished but neither confirmed nor reverted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moving {
    pub migration: ProcessId,
    pub kind: MoveKind,
    pub stage: MoveStage,
    /// Whether the server is started at its destination, and again after a revert.
    pub was_active: bool,
    pub source: Placed,
    pub target: Option<Placed>,
    pub old_flavor: FlavorSnapshot,
    pub new_flavor: FlavorSnapshot,
    pub host: Option<String>,
    /// Set for a live migration.
    pub live: Option<LiveMigrationState>,
    /// Set for an evacuation.
    pub evacuation: Option<Evacuation>,
}

impl Moving {
    pub(super) fn begin(requested: &MoveRequested, was_active: bool) -> Self {
        Self {
            migration: requested.process,
            kind: requested.kind,
            stage: MoveStage::Preparing,
            was_active,
            source: requested.source.clone(),
            target: None,
            old_flavor: requested.old_flavor.clone(),
            new_flavor: requested.new_flavor.clone(),
            host: requested.host.clone(),
            live: None,
            evacuation: None,
        }
    }

    /// Whether source and destination are the same host.
    pub fn stays(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.host == self.source.host)
    }

    /// Whether the move concerns the host as its source or destination.
    pub fn concerns(&self, host: HostId) -> bool {
        self.source.host == host || self.target.as_ref().is_some_and(|target| target.host == host)
    }
}

/// Applies an event of a move to its server.
pub(super) fn evolve(server: &mut Alive, event: &super::InstanceEvent, at: Timestamp) {
    use super::InstanceEvent as E;
    match event {
        E::MoveRequested(requested) => {
            let was_active = matches!(server.phase, Phase::Active { .. });
            server.moving = Some(Box::new(Moving::begin(requested, was_active)));
            server.ongoing = Some(OngoingTask::Move { process: requested.process });
            if let Some(disk_config) = requested.disk_config {
                server.request.disk_config = disk_config;
            }
        }
        E::MoveTargeted(targeted) => set_target(server, Some(targeted.target.clone())),
        E::MoveUntargeted(_) => set_target(server, None),
        E::MoveAdvanced(advanced) => {
            if let Some(moving) = &mut server.moving {
                moving.stage = advanced.stage;
            }
        }
        E::Resized(resized) => finish_move(server, resized, at),
        E::MoveFailed(failed) => {
            let turn = server.ongoing.is_some_and(|ongoing| ongoing.process() == failed.process);
            server.finish(failed.process);
            server.fault = Some(Box::new((failed.fault.clone(), at)));
            let moving = server.moving.take();
            // When an evacuation fails, the old host may still be down, and the state of the guest there is unknown. So
            // the server goes to error.
            if turn && moving.as_ref().is_some_and(|moving| moving.kind == MoveKind::Evacuate) {
                server.phase = Phase::Error { power: server.power() };
            } else if turn && matches!(server.phase, Phase::Active { .. } | Phase::Stopped { .. }) {
                rest(server, moving.is_some_and(|moving| moving.was_active));
            }
        }
        E::ConfirmRequested(requested) => server.ongoing = Some(OngoingTask::Confirm { process: requested.process }),
        E::ResizeConfirmed(confirmed) => {
            server.finish(confirmed.process);
            server.moving = None;
            if let Phase::Resized { power, .. } = server.phase {
                server.phase = match power {
                    Power::Shutdown | Power::Crashed => Phase::Stopped { power },
                    _ => Phase::Active { power },
                };
            }
        }
        E::RevertRequested(requested) => server.ongoing = Some(OngoingTask::Revert { process: requested.process }),
        E::ResizeReverted(reverted) => {
            server.finish(reverted.process);
            server.placement = Some(reverted.placed.clone());
            if let Some(moving) = server.moving.take() {
                server.request.flavor = Arc::new(moving.old_flavor);
                rest(server, moving.was_active);
            }
        }
        E::RevertFailed(failed) => {
            server.finish(failed.process);
            server.fault = Some(Box::new((failed.fault.clone(), at)));
        }
        _ => {}
    }
}

fn set_target(server: &mut Alive, at: Option<Placed>) {
    if let Some(moving) = &mut server.moving {
        moving.target = at;
    }
}

fn finish_move(server: &mut Alive, resized: &Resized, at: Timestamp) {
    server.finish(resized.process);
    server.placement = Some(resized.placed.clone());
    server.launched_at = Some(at);
    if let Some(moving) = &server.moving {
        server.request.flavor = Arc::new(moving.new_flavor.clone());
        let power = if moving.was_active { Power::Running } else { Power::Shutdown };
        server.phase = Phase::Resized { power, since: at };
    }
}

/// Restores the state that the server had before the move.
fn rest(server: &mut Alive, active: bool) {
    server.phase = match active {
        true => Phase::Active { power: Power::Running },
        false => Phase::Stopped { power: Power::Shutdown },
    };
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let uuid = uuid::Uuid::from_u128;
    let (process, migration) = (ProcessId(uuid(2)), ProcessId(uuid(8)));
    let fault = FaultInfo { code: 500, message: "No valid host was found.".into(), details: "0 of 3 hosts".into() };
    let placed = |n: u128, hostname: &str| Placed {
        process: ProcessId(uuid(2)),
        host: HostId(uuid(n)),
        hostname: hostname.into(),
        attempt: 1,
        availability_zone: "nova".into(),
    };
    let flavor = |id: &str, memory_mib| FlavorSnapshot {
        id: crate::ids::FlavorId::new(id),
        name: format!("m1.{id}"),
        vcpus: 1,
        memory_mib,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: vec![],
    };
    let requested = MoveRequested {
        process,
        kind: MoveKind::Resize,
        source: placed(5, "h1"),
        old_flavor: flavor("1", 512),
        new_flavor: flavor("2", 1024),
        host: Some("h2".into()),
        disk_config: Some(DiskConfig::Manual),
    };
    vec![
        requested.clone().into(),
        MoveRequested { kind: MoveKind::Migrate, host: None, disk_config: None, ..requested }.into(),
        MoveTargeted { process, target: placed(6, "h2") }.into(),
        MoveUntargeted { process, host: HostId(uuid(6)), reason: "disk full".into() }.into(),
        MoveAdvanced { process, stage: MoveStage::Migrating }.into(),
        Resized { process, placed: placed(6, "h2") }.into(),
        MoveFailed { process, fault: fault.clone() }.into(),
        ConfirmRequested { process, migration }.into(),
        ResizeConfirmed { process, migration }.into(),
        RevertRequested { process, migration }.into(),
        ResizeReverted { process, migration, placed: placed(5, "h1") }.into(),
        RevertFailed { process, migration, fault }.into(),
    ]
}
