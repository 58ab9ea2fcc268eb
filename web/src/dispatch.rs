//! The way from a permitted request to the command gateway.
//!
//! Only this file may name the gateway. Its functions take a `&Permit`, which only the policy module makes, so a command
//! of a caller whose rights nobody checked does not compile. The one thing that a guest may do takes a `&Guest`, which only
//! the metadata service makes.

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::aggregate::Aggregate as _;
use chronova_actors::aggregate::{CommandError, Committed};
use chronova_actors::gateway::Reachable;
use chronova_actors::house::House;
use chronova_actors::instance::{InstanceAggregate, InstanceCommand, InstanceReject};
use chronova_actors::process::ProcessAggregate;
use chronova_events::envelope::{Cause, Meta, Position, Revision};
use chronova_events::ids::{ProcessId, RequestId};
use chronova_events::instance::FaultInfo;
use chronova_events::process::{Outcome, ProcessEvent};
use chronova_events::registry::Event;
use chronova_events::store::StoreError;
use uuid::Uuid;

use crate::metadata::Guest;
use crate::policy::Permit;

/// How long an answer waits for the read models to show what the command did. They lag by microseconds; if they ever lag
/// more than this, the client gets its answer all the same.
const READ_YOUR_WRITES: Duration = Duration::from_secs(5);

/// Longest pause between two looks at a process that somebody waits for.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// More than the record of any process is long.
const MOST_EVENTS: usize = 10_000;

/// Has `command` decided, in the name of the permitted caller. When this returns, what happened is durable and the read
/// models show it: whoever asks next sees it.
pub async fn send<A: Reachable>(
    house: &House,
    permit: &Permit,
    id: &A::Id,
    command: A::Command,
) -> Result<Committed, CommandError<A::Reject>> {
    let committed = house.gateway.send::<A>(id, command, meta(permit)).await?;
    shown(house, committed.position).await;
    Ok(committed)
}

/// Keeps what a guest tells its owner. A guest has no rights that a policy could check; it may do this one thing, and a
/// [`Guest`] is the proof of who it is.
pub(crate) async fn post_password(
    house: &House,
    guest: &Guest,
    request_id: &RequestId,
    password: String,
) -> Result<(), CommandError<InstanceReject>> {
    let meta = Meta {
        request_id: Some(request_id.clone()),
        correlation: correlation(request_id),
        causation: None,
        cause: Cause::System { part: "guest".to_owned() },
    };
    let command = InstanceCommand::PostGuestPassword { password };
    let committed = house.gateway.send::<InstanceAggregate>(&guest.id(), command, Arc::new(meta)).await?;
    shown(house, committed.position).await;
    Ok(())
}

/// Waits until the read models show what was accepted at `position` by a service that sends commands of its own.
pub async fn shown(house: &House, position: Position) {
    if !house.views.wait_for(position, READ_YOUR_WRITES).await {
        tracing::warn!(%position, "the read models lag behind");
    }
}

/// How a process ended.
#[derive(Debug)]
pub enum Ended {
    Succeeded,
    Failed(FaultInfo),
    /// It goes on, and nobody waits for it any more.
    NotYet,
}

/// Waits until a process has ended that a command of before asked for.
pub async fn ended(house: &House, process: ProcessId, patience: Duration) -> Result<Ended, StoreError> {
    let waiting = async {
        let mut pause = Duration::from_millis(1);
        while house.views.processes.read(|processes| processes.is_pending(process)) {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    if tokio::time::timeout(patience, waiting).await.is_err() {
        return Ok(Ended::NotYet);
    }
    let mut fault = None;
    for recorded in house.log.read_stream(&ProcessAggregate::stream(&process), Revision::NONE, MOST_EVENTS).await? {
        match recorded.event().map(AsRef::as_ref) {
            Ok(Event::ProcessEvent(ProcessEvent::StepFailed(failed))) => fault = Some(failed.fault.clone()),
            Ok(Event::ProcessEvent(ProcessEvent::Finished(finished))) if finished.outcome == Outcome::Succeeded => {
                return Ok(Ended::Succeeded);
            }
            _ => {}
        }
    }
    let unknown = || FaultInfo { code: 500, message: "The operation was called off.".into(), details: String::new() };
    Ok(Ended::Failed(fault.unwrap_or_else(unknown)))
}

/// What the events will say about who asked and why.
///
/// The correlation is the request's own UUID: everything that follows from one request, in whatever stream, is found by
/// the id that the client was given.
pub fn meta(permit: &Permit) -> Arc<Meta> {
    let requester = permit.requester();
    let caller = &requester.caller;
    Arc::new(Meta {
        request_id: Some(requester.request_id.clone()),
        correlation: correlation(&requester.request_id),
        causation: None,
        cause: Cause::User { user: caller.user.clone(), project: caller.project.clone(), roles: caller.roles.clone() },
    })
}

fn correlation(request: &RequestId) -> Uuid {
    let uuid = request.as_str().strip_prefix("req-").and_then(|id| Uuid::parse_str(id).ok());
    uuid.unwrap_or_else(chronova_events::entropy::uuid)
}
