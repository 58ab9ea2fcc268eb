//! Evacuation: if a server's host is down, the server is rebuilt on another host with its identity, ports and volumes.
//!
//! The id of the process is the migration's id, as for every move. When the old host answers again, its host agent
//! removes the server's leftovers before the host is reported as up.

use serde::{Deserialize, Serialize};

use super::moving::{MoveKind, MoveStage, Moving};
use super::ongoing::OngoingTask;
use super::payloads::{FlavorSnapshot, Placed, Power};
use super::state::{Alive, Phase};
use crate::envelope::Timestamp;
use crate::ids::ProcessId;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvacuationRequested {
    /// The process that evacuates the server. Its id is also the migration's id.
    pub process: ProcessId,
    pub source: Placed,
    pub flavor: FlavorSnapshot,
    /// The requested host.
    pub host: Option<String>,
    /// Whether the scheduler skips the filters (2.29 to 2.67).
    pub forced: bool,
    /// Whether the request says that the disks are on shared storage (up to 2.13). `None`: the process detects it.
    pub on_shared_storage: Option<bool>,
    /// Whether the server is stopped at its destination even if it was active before (2.95 and later).
    pub stop: bool,
}

/// The server is at its destination host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evacuated {
    pub process: ProcessId,
    pub placed: Placed,
    /// Whether the server's disks were recreated from the image of the last build or rebuild.
    pub renewed: bool,
}

/// The older version, which lacks `renewed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvacuatedV1 {
    pub process: ProcessId,
    pub placed: Placed,
}

impl From<EvacuatedV1> for Evacuated {
    fn from(old: EvacuatedV1) -> Self {
        Self { process: old.process, placed: old.placed, renewed: false }
    }
}

/// The state that an evacuation adds to a move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evacuation {
    pub forced: bool,
    pub on_shared_storage: Option<bool>,
}

/// Applies an event of an evacuation to its server.
pub(super) fn evolve(server: &mut Alive, event: &super::InstanceEvent, at: Timestamp) {
    use super::InstanceEvent as E;
    match event {
        E::EvacuationRequested(asked) => {
            let stopped = asked.stop || matches!(server.phase, Phase::Stopped { .. });
            // The evacuation may overtake a rebuild or a shelve. The overtaken process undoes its work.
            server.abandon_rebuild();
            if matches!(server.ongoing, Some(OngoingTask::Shelve { .. })) {
                server.shelved = None;
            }
            server.moving = Some(Box::new(Moving {
                migration: asked.process,
                kind: MoveKind::Evacuate,
                stage: MoveStage::Preparing,
                was_active: !stopped,
                source: asked.source.clone(),
                target: None,
                old_flavor: asked.flavor.clone(),
                new_flavor: asked.flavor.clone(),
                host: asked.host.clone(),
                live: None,
                evacuation: Some(Evacuation { forced: asked.forced, on_shared_storage: asked.on_shared_storage }),
            }));
            server.ongoing = Some(OngoingTask::Move { process: asked.process });
        }
        E::Evacuated(evacuated) => {
            server.finish(evacuated.process);
            server.placement = Some(evacuated.placed.clone());
            server.launched_at = Some(at);
            if evacuated.renewed {
                server.root = None;
            }
            if let Some(moving) = server.moving.take() {
                server.phase = match moving.was_active {
                    true => Phase::Active { power: Power::Running },
                    false => Phase::Stopped { power: Power::Shutdown },
                };
            }
        }
        _ => {}
    }
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let uuid = uuid::Uuid::from_u128;
    let process = ProcessId(uuid(2));
    let asked = super::moving::samples().into_iter().find_map(|event| match event {
        super::InstanceEvent::MoveRequested(asked) => Some(asked),
        _ => None,
    });
    let Some(asked) = asked else { return Vec::new() };
    let requested = EvacuationRequested {
        process,
        source: asked.source.clone(),
        flavor: asked.old_flavor,
        host: Some("h2".into()),
        forced: true,
        on_shared_storage: Some(false),
        stop: false,
    };
    vec![
        requested.clone().into(),
        EvacuationRequested { host: None, forced: false, on_shared_storage: None, stop: true, ..requested }.into(),
        Evacuated { process, placed: asked.source, renewed: true }.into(),
    ]
}
