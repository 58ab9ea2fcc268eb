//! Live migration: a server moves to another host while its guest runs.
//!
//! The id of the process is the migration's id, as for every move. A live migration needs no confirmation: it is
//! complete when the guest runs at its destination.

use serde::{Deserialize, Serialize};

use super::moving::{MoveKind, MoveStage, Moving};
use super::ongoing::OngoingTask;
use super::payloads::{FlavorSnapshot, Placed, Power};
use super::state::{Alive, Phase};
use crate::envelope::Timestamp;
use crate::ids::ProcessId;

/// The stage of a live migration; the API shows it as the status of the migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LiveStage {
    /// The scheduler is selecting a destination.
    Accepted,
    /// Other migrations from the same host run first.
    Queued,
    /// The destination is being prepared.
    Preparing,
    /// The guest's memory is being transferred.
    Running,
    /// The guest runs at its destination; the source is being cleaned up.
    Finishing,
}

impl LiveStage {
    /// Nova's status of a migration in this stage.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Queued => "queued",
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Finishing => "post-migrating",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveMoveRequested {
    /// The process that migrates the server. Its id is also the migration's id.
    pub process: ProcessId,
    pub source: Placed,
    pub flavor: FlavorSnapshot,
    /// The requested host.
    pub host: Option<String>,
    /// Whether the scheduler skips the filters (up to 2.67).
    pub forced: bool,
    /// Whether local disks are copied; `None`: the process detects it.
    pub block: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveMoveAdvanced {
    pub process: ProcessId,
    pub stage: LiveStage,
}

/// The progress of the transfer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveProgress {
    pub memory_total: u64,
    pub memory_processed: u64,
    pub memory_remaining: u64,
    pub disk_total: u64,
    pub disk_processed: u64,
    pub disk_remaining: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveMoveProgressed {
    pub process: ProcessId,
    pub progress: LiveProgress,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveAbortRequested {
    pub migration: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveCompletionForced {
    pub migration: ProcessId,
}

/// The guest runs at its destination, and the source host has no leftovers of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveMoved {
    pub process: ProcessId,
    pub placed: Placed,
}

/// The server stays on its source host: a user aborted the migration, or the migration timed out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveMoveAborted {
    pub process: ProcessId,
    pub reason: String,
}

/// The state that a live migration adds to a move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveMigrationState {
    pub stage: LiveStage,
    pub forced: bool,
    pub block: Option<bool>,
    /// When the transfer of the guest's memory began.
    pub running_since: Option<Timestamp>,
    pub abort: bool,
    pub force_complete: bool,
    /// Why the previous destination was abandoned.
    pub refused: Option<String>,
}

impl LiveMigrationState {
    fn begin(requested: &LiveMoveRequested, was_active: bool) -> Moving {
        Moving {
            migration: requested.process,
            kind: MoveKind::Live,
            stage: MoveStage::Preparing,
            was_active,
            source: requested.source.clone(),
            target: None,
            old_flavor: requested.flavor.clone(),
            new_flavor: requested.flavor.clone(),
            host: requested.host.clone(),
            live: Some(Self {
                stage: LiveStage::Accepted,
                forced: requested.forced,
                block: requested.block,
                running_since: None,
                abort: false,
                force_complete: false,
                refused: None,
            }),
            evacuation: None,
        }
    }

    fn advance(&mut self, stage: LiveStage, at: Timestamp) {
        self.stage = stage;
        if stage == LiveStage::Running {
            self.running_since = Some(at);
        }
    }
}

/// Applies an event of a live migration to its server.
pub(super) fn evolve(server: &mut Alive, event: &super::InstanceEvent, at: Timestamp) {
    use super::InstanceEvent as E;
    match event {
        E::LiveMoveRequested(requested) => {
            let was_active = matches!(server.phase, Phase::Active { .. });
            server.moving = Some(Box::new(LiveMigrationState::begin(requested, was_active)));
            server.ongoing = Some(OngoingTask::Move { process: requested.process });
        }
        E::LiveMoveAdvanced(advanced) => with(server, |live| live.advance(advanced.stage, at)),
        E::LiveAbortRequested(_) => with(server, |live| live.abort = true),
        E::LiveCompletionForced(_) => with(server, |live| live.force_complete = true),
        E::MoveUntargeted(given_up) => with(server, |live| live.refused = Some(given_up.reason.clone())),
        E::LiveMoved(moved) => {
            server.finish(moved.process);
            server.placement = Some(moved.placed.clone());
            server.moving = None;
            // Power states seen during the migration are dropped. The control plane asks the driver for the present
            // power state.
            if let Phase::Active { power } = &mut server.phase {
                *power = Power::Running;
            }
        }
        E::LiveMoveAborted(aborted) => {
            server.finish(aborted.process);
            server.moving = None;
        }
        _ => {}
    }
}

fn with(server: &mut Alive, change: impl FnOnce(&mut LiveMigrationState)) {
    if let Some(live) = server.moving.as_mut().and_then(|moving| moving.live.as_mut()) {
        change(live);
    }
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let uuid = uuid::Uuid::from_u128;
    let (process, migration) = (ProcessId(uuid(2)), ProcessId(uuid(8)));
    let placed = |n: u128, hostname: &str| Placed {
        process,
        host: crate::ids::HostId(uuid(n)),
        hostname: hostname.into(),
        attempt: 1,
        availability_zone: "nova".into(),
    };
    let flavor = FlavorSnapshot {
        id: crate::ids::FlavorId::new("1"),
        name: "m1.1".into(),
        vcpus: 1,
        memory_mib: 512,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: vec![],
    };
    let requested = LiveMoveRequested {
        process,
        source: placed(5, "h1"),
        flavor,
        host: Some("h2".into()),
        forced: true,
        block: Some(true),
    };
    let progress = LiveProgress {
        memory_total: 536_870_912,
        memory_processed: 1_048_576,
        memory_remaining: 535_822_336,
        disk_total: 1_073_741_824,
        disk_processed: 2,
        disk_remaining: 1_073_741_822,
    };
    vec![
        requested.clone().into(),
        LiveMoveRequested { host: None, forced: false, block: None, ..requested }.into(),
        LiveMoveAdvanced { process, stage: LiveStage::Running }.into(),
        LiveMoveProgressed { process, progress }.into(),
        LiveAbortRequested { migration }.into(),
        LiveCompletionForced { migration }.into(),
        LiveMoved { process, placed: placed(6, "h2") }.into(),
        LiveMoveAborted { process, reason: "asked for".into() }.into(),
    ]
}
