//! Moves of a running server's guest: begun, watched, aborted, forced to complete, over.

use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    Alive, FlavorSnapshot, LiveAbortRequested, LiveCompletionForced, LiveMigrationState, LiveMoveAborted,
    LiveMoveAdvanced, LiveMoveProgressed, LiveMoveRequested, LiveMoved, LiveProgress, LiveStage, Moving,
};

use super::actions::{ServerAction, admit};
use super::decision::{CallerRights, InstanceDecision, InstanceReject, one};

#[derive(Debug, Clone)]
pub enum LiveCommand {
    Begin {
        process: ProcessId,
        host: Option<String>,
        forced: bool,
        block: Option<bool>,
        asker: CallerRights,
    },
    Abort {
        migration: ProcessId,
        /// Whether a migration that has not started can be aborted, too (2.65).
        waiting_too: bool,
        asker: CallerRights,
    },
    Force {
        migration: ProcessId,
        asker: CallerRights,
    },

    Advance {
        process: ProcessId,
        stage: LiveStage,
    },
    Progress {
        process: ProcessId,
        progress: LiveProgress,
    },
    /// The completion timeout is over.
    AbortLate {
        process: ProcessId,
    },
    /// The guest is at its destination, even if another process owns the server now.
    Arrive {
        process: ProcessId,
    },
    /// The server is still at its source, after an abort.
    Stay {
        process: ProcessId,
        reason: String,
    },
}

pub(super) fn decide(server: &Alive, command: LiveCommand) -> InstanceDecision {
    match command {
        LiveCommand::Begin { process, host, forced, block, asker } => {
            admit(server, ServerAction::LiveMigrate, asker)?;
            // An earlier move whose server was reset to active since is confirmed first.
            if server.moving.is_some() {
                return Err(InstanceReject::Superseded);
            }
            let source = server.placement.clone().ok_or(InstanceReject::NotReady)?;
            let flavor = FlavorSnapshot::clone(&server.request.flavor);
            one(LiveMoveRequested { process, source, flavor, host, forced, block })
        }
        LiveCommand::Abort { migration, waiting_too, asker } => {
            admit(server, ServerAction::AbortLiveMigration, asker)?;
            let (_, live) = this(server, migration).ok_or(InstanceReject::NoSuchMigration)?;
            let allowed = match live.stage {
                LiveStage::Running => true,
                LiveStage::Queued | LiveStage::Preparing => waiting_too,
                LiveStage::Accepted | LiveStage::Finishing => false,
            };
            match (allowed, live.abort) {
                (false, _) => Err(in_state(live, "abort live migration")),
                (true, true) => Ok(vec![]),
                (true, false) => one(LiveAbortRequested { migration }),
            }
        }
        LiveCommand::Force { migration, asker } => {
            admit(server, ServerAction::ForceCompleteLiveMigration, asker)?;
            let (_, live) = this(server, migration).ok_or(InstanceReject::NoSuchMigration)?;
            match (live.stage, live.force_complete) {
                (LiveStage::Running, true) => Ok(vec![]),
                (LiveStage::Running, false) => one(LiveCompletionForced { migration }),
                _ => Err(in_state(live, "force complete")),
            }
        }
        record => record_of(server, record),
    }
}

fn this(server: &Alive, migration: ProcessId) -> Option<(&Moving, &LiveMigrationState)> {
    let moving = server.moving.as_deref().filter(|moving| moving.migration == migration)?;
    moving.live.as_ref().map(|live| (moving, live))
}

fn in_state(live: &LiveMigrationState, action: &'static str) -> InstanceReject {
    InstanceReject::MigrationInState { state: live.stage.word(), action }
}

fn record_of(server: &Alive, command: LiveCommand) -> InstanceDecision {
    let process = match &command {
        LiveCommand::Advance { process, .. }
        | LiveCommand::Progress { process, .. }
        | LiveCommand::AbortLate { process }
        | LiveCommand::Arrive { process }
        | LiveCommand::Stay { process, .. } => *process,
        LiveCommand::Begin { .. } | LiveCommand::Abort { .. } | LiveCommand::Force { .. } => return Ok(vec![]),
    };
    // Ended already: the record has no effect.
    let Some((moving, live)) = this(server, process) else { return Ok(vec![]) };
    let has_turn = server.ongoing.map(|ongoing| ongoing.process()) == Some(process);
    match command {
        LiveCommand::Advance { .. } if !has_turn => Err(InstanceReject::Superseded),
        LiveCommand::Advance { stage, .. } if live.stage == stage => Ok(vec![]),
        LiveCommand::Advance { stage, .. } => one(LiveMoveAdvanced { process, stage }),
        LiveCommand::Progress { progress, .. } => one(LiveMoveProgressed { process, progress }),
        LiveCommand::AbortLate { .. } if live.abort => Ok(vec![]),
        LiveCommand::AbortLate { .. } => one(LiveAbortRequested { migration: process }),
        LiveCommand::Arrive { .. } => match &moving.target {
            Some(placed) => one(LiveMoved { process, placed: placed.clone() }),
            None => Ok(vec![]),
        },
        LiveCommand::Stay { reason, .. } => one(LiveMoveAborted { process, reason }),
        LiveCommand::Begin { .. } | LiveCommand::Abort { .. } | LiveCommand::Force { .. } => Ok(vec![]),
    }
}
