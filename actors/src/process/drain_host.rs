//! Drains a host: moves its servers away, a limited number at the same time.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `close_host` | waits until the scheduler and Placement see that the host is disabled | (it stays disabled) |
//! | `move_servers` | moves servers, until each has left or has a reason to stay | (moved servers stay moved) |
//!
//! Events of the host record each server's move and its result, so that they survive a crash and operators see them.
//! The moves are ordinary processes, with their own records and undos. The drain records the id of each move before it
//! requests the move. A cancelled drain begins no further move, and waits for those under way.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Revision;
use chronova_events::host::{Departure, Drain, KnownHost, LeavingServer};
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProcessId, ProviderId};
use chronova_events::instance::{Alive, Instance, LiveStage};
use chronova_events::process::{Process, ProcessEvent, ProcessOutcome, StepOutput};
use chronova_events::registry::Event;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::ProcessRoot;
use super::definition::{Definition, StepError, StepRun, steps};
use super::departing::{ASKER, DrainAction, DrainedHost, MoveProgress, first, next, why_not};
use crate::aggregate::{AggregateRoot as _, CommandError};
use crate::host::{DrainRecord, HostCommand, HostReject, HostRoot};
use crate::instance::{InstanceReject, InstanceRequest, InstanceRoot, LiveRequest, MoveRequest};

pub const DEFINITION: Definition = Definition {
    name: "drain_host",
    steps: steps! {
        "close_host" => close_host;
        "move_servers" => move_servers;
    },
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

/// The shortest and the longest pause between two passes.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// More events than any move's stream has.
const MOST_EVENTS: usize = 10_000;

fn conclude(work: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        record(work, DrainRecord::Ended { process: work.running.process }).await?;
        tracing::info!(host = %host_id(work), "the drain of a host ended");
        Ok(())
    }
    .boxed()
}

/// The host of the process. Only tasks of hosts run these steps, so the nil id is never used.
fn host_id(work: &StepRun) -> HostId {
    work.running.task.host().unwrap_or(HostId(uuid::Uuid::nil()))
}

/// The host and its drain; `None` if the host was removed or the drain has ended.
async fn subject(work: &StepRun) -> Result<Option<(KnownHost, Arc<Drain>)>, StepError> {
    let host = work.context.gateway.look::<HostRoot>(&host_id(work)).await?;
    let Some(host) = host.0 else { return Ok(None) };
    let drain = host.drain.clone().filter(|drain| drain.process == work.running.process && drain.ended_at.is_none());
    Ok(drain.map(|drain| (*host, drain)))
}

/// Sends a record about the drain. If the host was removed meanwhile, there is nothing to record.
async fn record(work: &StepRun, record: DrainRecord) -> Result<(), StepError> {
    let record = HostCommand::DrainRecord(record);
    match work.context.gateway.send::<HostRoot>(&host_id(work), record, work.meta.clone()).await {
        Ok(_) | Err(CommandError::Rejected(HostReject::NotFound)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn close_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let context = &work.context;
    let seen = |host: &KnownHost| host.drain.as_ref().is_some_and(|drain| drain.process == work.running.process);
    while let Some((host, _)) = subject(work).await? {
        if context.views.hosts.read(|hosts| hosts.get(host.id).is_some_and(seen)) {
            context.placement.mirror().await;
            break;
        }
        tokio::time::sleep(LOOK.0).await;
    }
    Ok(StepOutput::Nothing)
}

async fn move_servers(work: &StepRun) -> Result<StepOutput, StepError> {
    let mut pause = LOOK.0;
    while let Some((host, drain)) = subject(work).await? {
        match pass(work, &host, &drain).await? {
            DrainPass::Over => break,
            DrainPass::Acted => pause = LOOK.0,
            DrainPass::Idle => pause = (pause * 2).min(LOOK.1),
        }
        tokio::time::sleep(pause).await;
    }
    Ok(StepOutput::Nothing)
}

/// The result of one pass over all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainPass {
    Over,
    Acted,
    Idle,
}

async fn pass(work: &StepRun, host: &KnownHost, drain: &Drain) -> Result<DrainPass, StepError> {
    let site =
        DrainedHost { id: host.id, hostname: &host.hostname, answers: host.answers(), cancelled: drain.cancelled };
    let mut acted = false;
    for (server, leaving) in &drain.leaving {
        acted |= continue_departure(work, site, *server, leaving).await?;
    }
    let DrainObservation { mut begin, stay, waiting } = look(work, site, drain);
    begin.truncate((drain.parallel as usize).saturating_sub(drain.leaving.len()));
    acted |= !begin.is_empty() || !stay.is_empty();
    for (server, how) in begin {
        begin_departure(work, server, how).await?;
    }
    for (server, reason) in stay {
        stays(work, server, reason).await?;
    }
    if acted || !drain.leaving.is_empty() || waiting {
        return Ok(if acted { DrainPass::Acted } else { DrainPass::Idle });
    }
    if drain.cancelled {
        return Ok(DrainPass::Over);
    }
    check_host_is_empty(work, site, drain).await
}

// ------------------------------------------------------------------------------------------------ servers on the host

#[derive(Debug, Default)]
struct DrainObservation {
    begin: Vec<(InstanceId, Departure)>,
    stay: Vec<(InstanceId, String)>,
    waiting: bool,
}

/// The servers on the host that have neither a recorded move nor a reason to stay. Empty for a cancelled drain.
fn look(work: &StepRun, site: DrainedHost<'_>, drain: &Drain) -> DrainObservation {
    let mut looked = DrainObservation::default();
    if drain.cancelled {
        return looked;
    }
    let known = |id: &InstanceId| drain.leaving.contains_key(id) || drain.stays.contains_key(id);
    work.context.views.servers.read(|servers| {
        for row in servers.on_host(site.id).filter(|row| !known(&row.id)) {
            let Some(server) = row.instance.alive() else { continue };
            match first(site, server) {
                DrainAction::Begin(how) => looked.begin.push((row.id, how)),
                DrainAction::Stay { reason } => looked.stay.push((row.id, reason)),
                _ => looked.waiting = true,
            }
        }
    });
    looked.waiting |= !looked.begin.is_empty();
    looked
}

/// Looks for claims on the host that are not those of its servers. A claim of another server means that this server is
/// about to come, so the drain waits for it. A claim of a migration means that a server left its disks here until its
/// move is confirmed or reverted. Such a server is recorded as one that stays.
async fn check_host_is_empty(work: &StepRun, site: DrainedHost<'_>, drain: &Drain) -> Result<DrainPass, StepError> {
    let views = &work.context.views;
    let here = ProviderId(site.id.0);
    let holders: Vec<ConsumerId> = views.placement.read(|view| {
        let consumers = view.ledger.consumers.iter();
        let held = consumers.filter(|(_, consumer)| consumer.claim.allocations.iter().any(|one| one.provider == here));
        held.map(|(id, _)| id.clone()).collect()
    });
    let mut pass = DrainPass::Over;
    for holder in holders {
        let Ok(id) = holder.as_str().parse::<InstanceId>() else { continue };
        let known = views.servers.read(|servers| servers.get(id).map(|row| row.instance.alive().is_some()));
        if known == Some(true) {
            let placed = |server: &Alive| server.placement.as_ref().map(|placed| placed.host);
            let on =
                views.servers.read(|servers| servers.get(id).and_then(|row| row.instance.alive().and_then(placed)));
            if on != Some(site.id) {
                pass = DrainPass::Idle;
            }
            continue;
        }
        let moved = views.migrations.read(|view| view.of_process(ProcessId(id.0)).map(|row| row.instance));
        let Some(server) = moved.filter(|server| !drain.stays.contains_key(server)) else { continue };
        let reason = "its move waits to be confirmed or reverted: until then this host keeps its disks";
        stays(work, server, reason.to_owned()).await?;
        pass = DrainPass::Acted;
    }
    Ok(pass)
}

async fn begin_departure(work: &StepRun, server: InstanceId, how: Departure) -> Result<(), StepError> {
    let (process, migration) = (work.running.process, ProcessId::random());
    record(work, DrainRecord::Departure { process, server, how, migration }).await
}

async fn stays(work: &StepRun, server: InstanceId, reason: String) -> Result<(), StepError> {
    tracing::warn!(%server, reason, "a server stays on a draining host");
    record(work, DrainRecord::Stayed { process: work.running.process, server, reason }).await
}

// ---------------------------------------------------------------------------------------- servers with a recorded move

/// Continues a server's recorded move. Returns whether there was something to do.
async fn continue_departure(
    work: &StepRun,
    site: DrainedHost<'_>,
    id: InstanceId,
    leaving: &LeavingServer,
) -> Result<bool, StepError> {
    let travel = travel(work, leaving.migration).await?;
    let instance = work.context.gateway.look::<InstanceRoot>(&id).await?;
    let server = match &instance {
        Instance::Alive(server) => Some(&**server),
        Instance::Absent | Instance::Deleted(_) => None,
    };
    match next(site, server, leaving, &travel) {
        DrainAction::Wait => {
            if site.cancelled {
                cancel_unstarted(work, id, server, leaving).await?;
            }
            return Ok(false);
        }
        DrainAction::Begin(how) => begin_departure(work, id, how).await?,
        DrainAction::Ask => return request_move(work, id, leaving).await,
        DrainAction::Confirm => {
            let process = ProcessId::derive(leaving.migration.0, "confirm");
            // A refusal means that the move is already being confirmed or reverted. The next pass sees the result.
            let _refused = send(work, id, MoveRequest::Confirm { process, asker: ASKER }).await?;
        }
        DrainAction::Left { to } => {
            record(work, DrainRecord::Left { process: work.running.process, server: id, to }).await?;
        }
        DrainAction::Stay { reason } => stays(work, id, reason).await?,
    }
    Ok(true)
}

async fn travel(work: &StepRun, migration: ProcessId) -> Result<MoveProgress, StepError> {
    Ok(match work.context.gateway.look::<ProcessRoot>(&migration).await? {
        Process::Absent => MoveProgress::NotAsked,
        Process::Running(_) => MoveProgress::UnderWay,
        Process::Finished { outcome: ProcessOutcome::Succeeded, .. } => MoveProgress::Succeeded,
        Process::Finished { .. } => MoveProgress::Failed { reason: reason_of(work, migration).await? },
    })
}

/// The last failure in a move's stream.
async fn reason_of(work: &StepRun, migration: ProcessId) -> Result<String, StepError> {
    let stream = ProcessRoot::stream(&migration);
    let records = work.context.log.read_stream(&stream, Revision::NONE, MOST_EVENTS).await?;
    let mut reasons = records.iter().filter_map(|recorded| match recorded.event().map(AsRef::as_ref) {
        Ok(Event::ProcessEvent(ProcessEvent::StepFailed(failed))) => Some(failed.fault.message.clone()),
        _ => None,
    });
    Ok(reasons.next_back().unwrap_or_else(|| "the move was cancelled".to_owned()))
}

async fn send(
    work: &StepRun,
    id: InstanceId,
    request: impl Into<InstanceRequest>,
) -> Result<Option<InstanceReject>, StepError> {
    match work.context.gateway.send::<InstanceRoot>(&id, request.into(), work.meta.clone()).await {
        Ok(_) => Ok(None),
        Err(CommandError::Rejected(reject)) => Ok(Some(reject)),
        Err(CommandError::Unavailable(error)) => Err(error.into()),
    }
}

async fn request_move(work: &StepRun, id: InstanceId, leaving: &LeavingServer) -> Result<bool, StepError> {
    let process = leaving.migration;
    let command = match leaving.how {
        Departure::Live => {
            MoveRequest::Live(LiveRequest::Begin { process, host: None, forced: false, block: None, asker: ASKER })
        }
        Departure::Cold => MoveRequest::Migrate { process, host: None, asker: ASKER },
    };
    match send(work, id, command).await? {
        None => Ok(true),
        // Another request was faster, or the server was deleted. The next pass sees that.
        Some(InstanceReject::NotInState { .. } | InstanceReject::Superseded | InstanceReject::NotFound) => Ok(false),
        Some(reject) => {
            stays(work, id, why_not(&reject)).await?;
            Ok(true)
        }
    }
}

/// Cancels a live migration that has not started yet, after the drain was cancelled.
async fn cancel_unstarted(
    work: &StepRun,
    id: InstanceId,
    server: Option<&Alive>,
    leaving: &LeavingServer,
) -> Result<(), StepError> {
    let moving = server.and_then(|server| server.moving.as_deref());
    let live = moving.filter(|moving| moving.migration == leaving.migration).and_then(|moving| moving.live.as_ref());
    let waits = live.is_some_and(|live| !live.abort && matches!(live.stage, LiveStage::Queued | LiveStage::Preparing));
    if waits {
        let abort = LiveRequest::Abort { migration: leaving.migration, waiting_too: true, asker: ASKER };
        send(work, id, abort).await?;
    }
    Ok(())
}
