//! A server of another control plane, as `chronova adopt` or `chronova host adopt` found it.
//!
//! Earlier events of the stream record the request ([`BuildRequested`]), the disks, the host and the ports. [`Adopted`]
//! records the server's state and the actions on it. [`MigrationAdopted`] records one earlier migration of the server.
//!
//! [`BuildRequested`]: super::BuildRequested

use serde::{Deserialize, Serialize};

use super::live::LiveProgress;
use super::moving::{MoveKind, MoveStage, Moving};
use super::payloads::{FaultInfo, FlavorSnapshot, ImageSnapshot, Placed, Power};
use super::state::{Alive, Phase};
use crate::envelope::Timestamp;
use crate::ids::{FlavorId, HostId, ImageId, ProcessId, ProjectId, RequestId, UserId};

/// The state of an adopted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdoptedState {
    Active,
    Stopped,
    Error,
    Paused,
    Suspended,
    SoftDeleted { since: Timestamp },
    Rescued,
    Shelved { since: Timestamp },
    Offloaded,
    Resized { since: Timestamp },
}

/// A finished move that is neither confirmed nor reverted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdoptedMove {
    /// The id of the migration.
    pub migration: ProcessId,
    pub kind: MoveKind,
    pub was_active: bool,
    pub source: Placed,
    pub target: Placed,
    pub old_flavor: FlavorSnapshot,
    pub new_flavor: FlavorSnapshot,
}

/// An action as `os-instance-actions` lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdoptedAction {
    /// For example `create` or `reboot`.
    pub name: String,
    pub request_id: Option<RequestId>,
    pub user: Option<UserId>,
    pub project: Option<ProjectId>,
    pub started_at: Timestamp,
    pub updated_at: Timestamp,
    /// `Error` if the action failed.
    pub message: Option<String>,
    /// The events of the action, oldest first.
    pub events: Vec<AdoptedActionEvent>,
}

/// One event of an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdoptedActionEvent {
    /// For example `compute_reboot_instance`.
    pub name: String,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub succeeded: Option<bool>,
    /// Details for administrators.
    pub details: Option<String>,
    pub host: Option<HostId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adopted {
    /// The build that created the server. It ended before the adoption.
    pub build: ProcessId,
    pub state: AdoptedState,
    pub power: Power,
    pub launched_at: Option<Timestamp>,
    pub fault: Option<(FaultInfo, Timestamp)>,
    /// The image that holds a shelved server's disk.
    pub shelved: Option<ImageId>,
    /// The image of the rescue disk.
    pub rescue: Option<ImageSnapshot>,
    pub moving: Option<AdoptedMove>,
    /// The actions on the server, oldest first.
    pub actions: Vec<AdoptedAction>,
}

/// The outcome of a migration, in Nova's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdoptedOutcome {
    /// The server waits for a confirmation or a revert.
    Finished,
    Confirmed,
    Reverted,
    Completed,
    /// An evacuation; its source host is not back yet.
    Done,
    Error,
    Failed,
    Cancelled,
}

/// The source or destination of a migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedEnd {
    pub host: HostId,
    pub hostname: String,
}

/// A finished migration of the server by another control plane. It does not change the server's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MigrationAdopted {
    pub migration: ProcessId,
    /// The number of the migration in the API.
    pub number: u64,
    pub kind: MoveKind,
    pub outcome: AdoptedOutcome,
    pub source: AdoptedEnd,
    pub target: Option<AdoptedEnd>,
    pub old_flavor: FlavorId,
    pub new_flavor: FlavorId,
    pub user: Option<UserId>,
    pub project: Option<ProjectId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub progress: LiveProgress,
}

/// Applies the event to a server with known request, disks, host and ports.
pub(super) fn evolve(server: &mut Alive, adopted: &Adopted) {
    let power = adopted.power;
    server.phase = match adopted.state {
        AdoptedState::Active => Phase::Active { power },
        AdoptedState::Stopped => Phase::Stopped { power },
        AdoptedState::Error => Phase::Error { power },
        AdoptedState::Paused => Phase::Paused { power },
        AdoptedState::Suspended => Phase::Suspended { power },
        AdoptedState::SoftDeleted { since } => Phase::SoftDeleted { power, since },
        AdoptedState::Rescued => Phase::Rescued { power },
        AdoptedState::Shelved { since } => Phase::Shelved { power, since },
        AdoptedState::Offloaded => Phase::Offloaded { power },
        AdoptedState::Resized { since } => Phase::Resized { power, since },
    };
    server.build = None;
    server.ongoing = None;
    server.launched_at = adopted.launched_at;
    server.fault = adopted.fault.clone().map(Box::new);
    server.shelved = adopted.shelved;
    server.rescue = adopted.rescue.clone().map(Box::new);
    server.moving = adopted.moving.as_ref().map(|moved| Box::new(finished_move(moved)));
}

fn finished_move(moved: &AdoptedMove) -> Moving {
    Moving {
        migration: moved.migration,
        kind: moved.kind,
        stage: MoveStage::Finishing,
        was_active: moved.was_active,
        source: moved.source.clone(),
        target: Some(moved.target.clone()),
        old_flavor: moved.old_flavor.clone(),
        new_flavor: moved.new_flavor.clone(),
        host: None,
        live: None,
        evacuation: None,
    }
}

/// An example of [`Adopted`] for each state, and one of [`MigrationAdopted`] for each outcome.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let uuid = uuid::Uuid::from_u128;
    let at = Timestamp(1_760_000_000_000_000);
    let process = ProcessId(uuid(2));
    let placed = |n: u128, hostname: &str| Placed {
        process,
        host: HostId(uuid(n)),
        hostname: hostname.into(),
        attempt: 1,
        availability_zone: "nova".into(),
    };
    let flavor = |id: &str, memory_mib| FlavorSnapshot {
        id: FlavorId::new(id),
        name: format!("m1.{id}"),
        vcpus: 1,
        memory_mib,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: vec![],
    };
    let image = ImageSnapshot {
        id: ImageId(uuid(3)),
        name: "rescue".into(),
        checksum: "2510b02b".into(),
        format: "raw".into(),
        size: 1,
        virtual_size: 1,
        min_memory_mib: 0,
        min_disk_gib: 0,
        properties: vec![],
    };
    let moving = AdoptedMove {
        migration: ProcessId(uuid(8)),
        kind: MoveKind::Resize,
        was_active: true,
        source: placed(5, "h1"),
        target: placed(6, "h2"),
        old_flavor: flavor("1", 512),
        new_flavor: flavor("2", 1024),
    };
    let event = AdoptedActionEvent {
        name: "compute__do_build_and_run_instance".into(),
        started_at: at,
        finished_at: Some(at),
        succeeded: Some(true),
        details: Some("HypervisorError".into()),
        host: Some(HostId(uuid(5))),
    };
    let action = AdoptedAction {
        name: "create".into(),
        request_id: Some(RequestId::new("req-00000000-0000-0000-0000-000000000001")),
        user: Some(UserId::new("u")),
        project: Some(ProjectId::new("p")),
        started_at: at,
        updated_at: at,
        message: Some("Error".into()),
        events: vec![event],
    };
    let fault = FaultInfo { code: 500, message: "No valid host was found.".into(), details: "0 of 3 hosts".into() };
    let whole = Adopted {
        build: process,
        state: AdoptedState::Resized { since: at },
        power: Power::Running,
        launched_at: Some(at),
        fault: Some((fault, at)),
        shelved: Some(ImageId(uuid(4))),
        rescue: Some(image),
        moving: Some(moving),
        actions: vec![action],
    };
    let plain = |state| Adopted {
        build: process,
        state,
        power: Power::Shutdown,
        launched_at: None,
        fault: None,
        shelved: None,
        rescue: None,
        moving: None,
        actions: vec![],
    };
    let states = [
        AdoptedState::Active,
        AdoptedState::Stopped,
        AdoptedState::Error,
        AdoptedState::Paused,
        AdoptedState::Suspended,
        AdoptedState::SoftDeleted { since: at },
        AdoptedState::Rescued,
        AdoptedState::Shelved { since: at },
        AdoptedState::Offloaded,
    ];
    let mut all: Vec<super::InstanceEvent> = vec![whole.into()];
    all.extend(states.map(|state| plain(state).into()));
    let outcomes = [
        AdoptedOutcome::Finished,
        AdoptedOutcome::Confirmed,
        AdoptedOutcome::Reverted,
        AdoptedOutcome::Completed,
        AdoptedOutcome::Done,
        AdoptedOutcome::Error,
        AdoptedOutcome::Failed,
        AdoptedOutcome::Cancelled,
    ];
    let end = |n: u128, hostname: &str| AdoptedEnd { host: HostId(uuid(n)), hostname: hostname.into() };
    let migration = |outcome| MigrationAdopted {
        migration: ProcessId(uuid(8)),
        number: 12,
        kind: MoveKind::Live,
        outcome,
        source: end(5, "h1"),
        target: Some(end(6, "h2")),
        old_flavor: FlavorId::new("1"),
        new_flavor: FlavorId::new("1"),
        user: Some(UserId::new("u")),
        project: Some(ProjectId::new("p")),
        created_at: at,
        updated_at: at,
        progress: LiveProgress { memory_total: 4096, ..LiveProgress::default() },
    };
    all.extend(outcomes.map(|outcome| migration(outcome).into()));
    all
}
