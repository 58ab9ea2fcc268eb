//! The decisions on live migrations: their start, progress, abort, forced completion and end.

use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    Alive, FlavorSnapshot, LiveAbortRequested, LiveCompletionForced, LiveMigrationState, LiveMoveAborted,
    LiveMoveAdvanced, LiveMoveProgressed, LiveMoveRequested, LiveMoved, LiveStage, Moving,
};

use super::actions::{ServerAction, admit};
use super::decision::{InstanceDecision, InstanceReject, one};
use super::records::LiveRecord;
use super::requests::LiveRequest;

pub(super) fn decide(server: &Alive, request: LiveRequest) -> InstanceDecision {
    match request {
        LiveRequest::Begin { process, host, forced, block, asker } => {
            admit(server, ServerAction::LiveMigrate, asker)?;
            // After a reset of the state, an earlier move may be unconfirmed. It must be confirmed first.
            if server.moving.is_some() {
                return Err(InstanceReject::Superseded);
            }
            let source = server.placement.clone().ok_or(InstanceReject::NotReady)?;
            let flavor = FlavorSnapshot::clone(&server.request.flavor);
            one(LiveMoveRequested { process, source, flavor, host, forced, block })
        }
        LiveRequest::Abort { migration, waiting_too, asker } => {
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
        LiveRequest::Force { migration, asker } => {
            admit(server, ServerAction::ForceCompleteLiveMigration, asker)?;
            let (_, live) = this(server, migration).ok_or(InstanceReject::NoSuchMigration)?;
            match (live.stage, live.force_complete) {
                (LiveStage::Running, true) => Ok(vec![]),
                (LiveStage::Running, false) => one(LiveCompletionForced { migration }),
                _ => Err(in_state(live, "force complete")),
            }
        }
    }
}

fn this(server: &Alive, migration: ProcessId) -> Option<(&Moving, &LiveMigrationState)> {
    let moving = server.moving.as_deref().filter(|moving| moving.migration == migration)?;
    moving.live.as_ref().map(|live| (moving, live))
}

fn in_state(live: &LiveMigrationState, action: &'static str) -> InstanceReject {
    InstanceReject::MigrationInState { state: live.stage.word(), action }
}

pub(super) fn record(server: &Alive, record: LiveRecord) -> InstanceDecision {
    let process = match &record {
        LiveRecord::Advanced { process, .. }
        | LiveRecord::Progressed { process, .. }
        | LiveRecord::TimedOut { process }
        | LiveRecord::Arrived { process }
        | LiveRecord::Stayed { process, .. } => *process,
    };
    // The migration has already ended, so the record has no effect.
    let Some((moving, live)) = this(server, process) else { return Ok(vec![]) };
    let has_turn = server.ongoing.map(|ongoing| ongoing.process()) == Some(process);
    match record {
        LiveRecord::Advanced { .. } if !has_turn => Err(InstanceReject::Superseded),
        LiveRecord::Advanced { stage, .. } if live.stage == stage => Ok(vec![]),
        LiveRecord::Advanced { stage, .. } => one(LiveMoveAdvanced { process, stage }),
        LiveRecord::Progressed { progress, .. } => one(LiveMoveProgressed { process, progress }),
        LiveRecord::TimedOut { .. } if live.abort => Ok(vec![]),
        LiveRecord::TimedOut { .. } => one(LiveAbortRequested { migration: process }),
        LiveRecord::Arrived { .. } => match &moving.target {
            Some(placed) => one(LiveMoved { process, placed: placed.clone() }),
            None => Ok(vec![]),
        },
        LiveRecord::Stayed { reason, .. } => one(LiveMoveAborted { process, reason }),
    }
}
