//! Empties a host: its servers are moved away, so many at the same time.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `close_host` | waits until schedulers and Placement see that the host takes no new servers | (it stays closed) |
//! | `move_servers` | asks for moves and waits for them, until every server has left or has a reason to stay | (nobody wants them back) |
//!
//! Which server goes how, and what became of it, are events of the host: they are what a crash leaves, and what an operator
//! is shown. The moves are the processes that everybody asks for, with their own records and their own undos; each is written
//! down before it is asked for, under the id that it will have. Called off, a drain begins nothing more and waits for what is
//! on its way.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Revision;
use chronova_events::host::{Departure, Drain, KnownHost, Leaving};
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProcessId, ProviderId};
use chronova_events::instance::{Alive, Instance, LiveStage};
use chronova_events::process::{Outcome, Output, Process, ProcessEvent};
use chronova_events::registry::Event;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::ProcessAggregate;
use super::definition::{Definition, Step, StepError, Work};
use super::departing::{ASKER, Act, Site, Travel, first, next, why_not};
use crate::aggregate::{Aggregate as _, CommandError};
use crate::host::{DrainCommand, HostAggregate, HostCommand, HostReject};
use crate::instance::live::LiveCommand;
use crate::instance::moving::MoveCommand;
use crate::instance::{InstanceAggregate, InstanceCommand, InstanceReject};

pub const DEFINITION: Definition = Definition {
    name: "drain_host",
    steps: &[
        Step { name: "close_host", run: |work| close_host(work).boxed(), undo: None },
        Step { name: "move_servers", run: |work| move_servers(work).boxed(), undo: None },
    ],
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

/// Pause between two looks, at first and at last.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// More than the record of any move is long.
const MOST_EVENTS: usize = 10_000;

fn conclude(work: &Work, _: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        record(work, DrainCommand::RecordEnded { process: work.running.process }).await?;
        tracing::info!(host = %host_id(work), "a host was drained");
        Ok(())
    }
    .boxed()
}

/// By the table of processes no step of this one is ever run for anything but a host.
fn host_id(work: &Work) -> HostId {
    work.running.task.host().unwrap_or(HostId(uuid::Uuid::nil()))
}

/// The host and its drain; `None` where the host was removed, or the drain is over.
async fn subject(work: &Work) -> Result<Option<(KnownHost, Arc<Drain>)>, StepError> {
    let host = work.context.gateway.look::<HostAggregate>(&host_id(work)).await?;
    let Some(host) = host.0 else { return Ok(None) };
    let drain = host.drain.clone().filter(|drain| drain.process == work.running.process && drain.ended_at.is_none());
    Ok(drain.map(|drain| (*host, drain)))
}

/// A host that was removed meanwhile has nothing to be told.
async fn record(work: &Work, command: DrainCommand) -> Result<(), StepError> {
    let command = HostCommand::Drain(command);
    match work.context.gateway.send::<HostAggregate>(&host_id(work), command, work.meta.clone()).await {
        Ok(_) | Err(CommandError::Rejected(HostReject::NotFound)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn close_host(work: &Work) -> Result<Output, StepError> {
    let context = &work.context;
    let seen = |host: &KnownHost| host.drain.as_ref().is_some_and(|drain| drain.process == work.running.process);
    while let Some((host, _)) = subject(work).await? {
        if context.views.hosts.read(|hosts| hosts.get(host.id).is_some_and(seen)) {
            context.placement.mirror().await;
            break;
        }
        tokio::time::sleep(LOOK.0).await;
    }
    Ok(Output::Nothing)
}

async fn move_servers(work: &Work) -> Result<Output, StepError> {
    let mut pause = LOOK.0;
    while let Some((host, drain)) = subject(work).await? {
        match pass(work, &host, &drain).await? {
            Pass::Over => break,
            Pass::Acted => pause = LOOK.0,
            Pass::Idle => pause = (pause * 2).min(LOOK.1),
        }
        tokio::time::sleep(pause).await;
    }
    Ok(Output::Nothing)
}

/// What became of one look at everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Over,
    Acted,
    Idle,
}

async fn pass(work: &Work, host: &KnownHost, drain: &Drain) -> Result<Pass, StepError> {
    let site = Site { id: host.id, hostname: &host.hostname, answers: host.answers(), cancelled: drain.cancelled };
    let mut acted = false;
    for (server, leaving) in &drain.leaving {
        acted |= go_on(work, site, *server, leaving).await?;
    }
    let Looked { mut begin, stay, waiting } = look(work, site, drain);
    begin.truncate((drain.parallel as usize).saturating_sub(drain.leaving.len()));
    acted |= !begin.is_empty() || !stay.is_empty();
    for (server, how) in begin {
        depart(work, server, how).await?;
    }
    for (server, reason) in stay {
        stays(work, server, reason).await?;
    }
    if acted || !drain.leaving.is_empty() || waiting {
        return Ok(if acted { Pass::Acted } else { Pass::Idle });
    }
    if drain.cancelled {
        return Ok(Pass::Over);
    }
    last_look(work, site, drain).await
}

// -------------------------------------------------------------------------------------------------- those still there

#[derive(Debug, Default)]
struct Looked {
    begin: Vec<(InstanceId, Departure)>,
    stay: Vec<(InstanceId, String)>,
    waiting: bool,
}

/// The servers on the host of which nothing was said yet. None of them counts for a drain that was called off.
fn look(work: &Work, site: Site<'_>, drain: &Drain) -> Looked {
    let mut looked = Looked::default();
    if drain.cancelled {
        return looked;
    }
    let known = |id: &InstanceId| drain.leaving.contains_key(id) || drain.stays.contains_key(id);
    work.context.views.servers.read(|servers| {
        for row in servers.on_host(site.id).filter(|row| !known(&row.id)) {
            let Some(server) = row.instance.alive() else { continue };
            match first(site, server) {
                Act::Begin(how) => looked.begin.push((row.id, how)),
                Act::Stay { reason } => looked.stay.push((row.id, reason)),
                _ => looked.waiting = true,
            }
        }
    });
    looked.waiting |= !looked.begin.is_empty();
    looked
}

/// Nothing is left to be moved, as far as the servers say. What is claimed of the host tells of those that are about to come,
/// and of those that left something here.
async fn last_look(work: &Work, site: Site<'_>, drain: &Drain) -> Result<Pass, StepError> {
    let views = &work.context.views;
    let here = ProviderId(site.id.0);
    let holders: Vec<ConsumerId> = views.placement.read(|view| {
        let consumers = view.ledger.consumers.iter();
        let held = consumers.filter(|(_, consumer)| consumer.claim.allocations.iter().any(|one| one.provider == here));
        held.map(|(id, _)| id.clone()).collect()
    });
    let mut pass = Pass::Over;
    for holder in holders {
        let Ok(id) = holder.as_str().parse::<InstanceId>() else { continue };
        let known = views.servers.read(|servers| servers.get(id).map(|row| row.instance.alive().is_some()));
        if known == Some(true) {
            let placed = |server: &Alive| server.placement.as_ref().map(|placed| placed.host);
            let on =
                views.servers.read(|servers| servers.get(id).and_then(|row| row.instance.alive().and_then(placed)));
            if on != Some(site.id) {
                pass = Pass::Idle;
            }
            continue;
        }
        let moved = views.migrations.read(|view| view.of_process(ProcessId(id.0)).map(|row| row.instance));
        let Some(server) = moved.filter(|server| !drain.stays.contains_key(server)) else { continue };
        let reason = "it was moved away and waits to be confirmed or reverted: what it had here is kept";
        stays(work, server, reason.to_owned()).await?;
        pass = Pass::Acted;
    }
    Ok(pass)
}

async fn depart(work: &Work, server: InstanceId, how: Departure) -> Result<(), StepError> {
    let (process, migration) = (work.running.process, ProcessId::random());
    record(work, DrainCommand::RecordDeparture { process, server, how, migration }).await
}

async fn stays(work: &Work, server: InstanceId, reason: String) -> Result<(), StepError> {
    tracing::warn!(%server, reason, "a server stays on a host that is drained");
    record(work, DrainCommand::RecordStayed { process: work.running.process, server, reason }).await
}

// -------------------------------------------------------------------------------------------------- those on their way

/// Says whether there was something to do.
async fn go_on(work: &Work, site: Site<'_>, id: InstanceId, leaving: &Leaving) -> Result<bool, StepError> {
    let travel = travel(work, leaving.migration).await?;
    let instance = work.context.gateway.look::<InstanceAggregate>(&id).await?;
    let server = match &instance {
        Instance::Alive(server) => Some(&**server),
        Instance::Absent | Instance::Deleted(_) => None,
    };
    match next(site, server, leaving, &travel) {
        Act::Wait => {
            if site.cancelled {
                call_back(work, id, server, leaving).await?;
            }
            return Ok(false);
        }
        Act::Begin(how) => depart(work, id, how).await?,
        Act::Ask => return ask(work, id, leaving).await,
        Act::Confirm => {
            let process = ProcessId::derive(leaving.migration.0, "confirm");
            // Refused, it is being done already, or taken back: the next look says so.
            let _refused = send(work, id, MoveCommand::Confirm { process, asker: ASKER }).await?;
        }
        Act::Left { to } => {
            record(work, DrainCommand::RecordLeft { process: work.running.process, server: id, to }).await?;
        }
        Act::Stay { reason } => stays(work, id, reason).await?,
    }
    Ok(true)
}

async fn travel(work: &Work, migration: ProcessId) -> Result<Travel, StepError> {
    Ok(match work.context.gateway.look::<ProcessAggregate>(&migration).await? {
        Process::Absent => Travel::NotAsked,
        Process::Running(_) => Travel::UnderWay,
        Process::Finished { outcome: Outcome::Succeeded, .. } => Travel::Succeeded,
        Process::Finished { .. } => Travel::Failed { reason: reason_of(work, migration).await? },
    })
}

/// Why a move failed, as its record has it: the last reason counts.
async fn reason_of(work: &Work, migration: ProcessId) -> Result<String, StepError> {
    let stream = ProcessAggregate::stream(&migration);
    let records = work.context.log.read_stream(&stream, Revision::NONE, MOST_EVENTS).await?;
    let mut reasons = records.iter().filter_map(|recorded| match recorded.event().map(AsRef::as_ref) {
        Ok(Event::ProcessEvent(ProcessEvent::StepFailed(failed))) => Some(failed.fault.message.clone()),
        _ => None,
    });
    Ok(reasons.next_back().unwrap_or_else(|| "the move was called off".to_owned()))
}

async fn send(work: &Work, id: InstanceId, command: MoveCommand) -> Result<Option<InstanceReject>, StepError> {
    let command = InstanceCommand::Move(Box::new(command));
    match work.context.gateway.send::<InstanceAggregate>(&id, command, work.meta.clone()).await {
        Ok(_) => Ok(None),
        Err(CommandError::Rejected(reject)) => Ok(Some(reject)),
        Err(CommandError::Unavailable(error)) => Err(error.into()),
    }
}

async fn ask(work: &Work, id: InstanceId, leaving: &Leaving) -> Result<bool, StepError> {
    let process = leaving.migration;
    let command = match leaving.how {
        Departure::Live => {
            MoveCommand::Live(LiveCommand::Begin { process, host: None, forced: false, block: None, asker: ASKER })
        }
        Departure::Cold => MoveCommand::Migrate { process, host: None, asker: ASKER },
    };
    match send(work, id, command).await? {
        None => Ok(true),
        // Somebody was faster; or the server is gone. The next look says so.
        Some(InstanceReject::NotInState { .. } | InstanceReject::Superseded | InstanceReject::NotFound) => Ok(false),
        Some(reject) => {
            stays(work, id, why_not(&reject)).await?;
            Ok(true)
        }
    }
}

/// One that has not set out does not have to, once the drain is called off.
async fn call_back(work: &Work, id: InstanceId, server: Option<&Alive>, leaving: &Leaving) -> Result<(), StepError> {
    let moving = server.and_then(|server| server.moving.as_deref());
    let live = moving.filter(|moving| moving.migration == leaving.migration).and_then(|moving| moving.live.as_ref());
    let waits = live.is_some_and(|live| !live.abort && matches!(live.stage, LiveStage::Queued | LiveStage::Preparing));
    if waits {
        let abort = LiveCommand::Abort { migration: leaving.migration, waiting_too: true, asker: ASKER };
        send(work, id, MoveCommand::Live(abort)).await?;
    }
    Ok(())
}
