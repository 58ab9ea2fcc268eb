//! Moves of a running server's guest: begun, watched, aborted, forced to complete, over.

use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    Alive, FlavorSnapshot, InstanceEvent, Live, LiveAbortRequested, LiveCompletionForced, LiveMoveAborted,
    LiveMoveAdvanced, LiveMoveProgressed, LiveMoveRequested, LiveMoved, LiveProgress, LiveStage, Moving,
};

use super::actions::{Action, admit};
use super::{Asker, InstanceReject};

#[derive(Debug, Clone)]
pub enum LiveCommand {
    Begin {
        process: ProcessId,
        host: Option<String>,
        forced: bool,
        block: Option<bool>,
        asker: Asker,
    },
    Abort {
        migration: ProcessId,
        /// Whether one that has not set out can be aborted, too (2.65).
        waiting_too: bool,
        asker: Asker,
    },
    Force {
        migration: ProcessId,
        asker: Asker,
    },

    Advance {
        process: ProcessId,
        stage: LiveStage,
    },
    Progress {
        process: ProcessId,
        progress: LiveProgress,
    },
    /// Its time is over.
    AbortLate {
        process: ProcessId,
    },
    /// The guest is at its destination, whoever has the server now.
    Arrive {
        process: ProcessId,
    },
    /// The server is where it was, as somebody wanted.
    Stay {
        process: ProcessId,
        reason: String,
    },
}

type Decision = Result<Vec<InstanceEvent>, InstanceReject>;

fn one(event: impl Into<InstanceEvent>) -> Decision {
    Ok(vec![event.into()])
}

pub(super) fn decide(server: &Alive, command: LiveCommand) -> Decision {
    match command {
        LiveCommand::Begin { process, host, forced, block, asker } => {
            admit(server, Action::LiveMigrate, asker)?;
            // What was moved before and declared active since is confirmed first.
            if server.moving.is_some() {
                return Err(InstanceReject::Superseded);
            }
            let source = server.placement.clone().ok_or(InstanceReject::NotReady)?;
            let flavor = FlavorSnapshot::clone(&server.request.flavor);
            one(LiveMoveRequested { process, source, flavor, host, forced, block })
        }
        LiveCommand::Abort { migration, waiting_too, asker } => {
            admit(server, Action::AbortLiveMigration, asker)?;
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
            admit(server, Action::ForceCompleteLiveMigration, asker)?;
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

fn this(server: &Alive, migration: ProcessId) -> Option<(&Moving, &Live)> {
    let moving = server.moving.as_deref().filter(|moving| moving.migration == migration)?;
    moving.live.as_ref().map(|live| (moving, live))
}

fn in_state(live: &Live, action: &'static str) -> InstanceReject {
    InstanceReject::MigrationInState { state: live.stage.word(), action }
}

fn record_of(server: &Alive, command: LiveCommand) -> Decision {
    let process = match &command {
        LiveCommand::Advance { process, .. }
        | LiveCommand::Progress { process, .. }
        | LiveCommand::AbortLate { process }
        | LiveCommand::Arrive { process }
        | LiveCommand::Stay { process, .. } => *process,
        LiveCommand::Begin { .. } | LiveCommand::Abort { .. } | LiveCommand::Force { .. } => return Ok(vec![]),
    };
    // Over already: the record stands for nothing any more.
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
