//! The way from a permitted request to the command gateway.
//!
//! Only this file may name the gateway. Its functions take a `&Permit`, which only the policy module makes, so a command
//! of a caller whose rights nobody checked does not compile.

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::aggregate::{CommandError, Committed};
use chronova_actors::gateway::Reachable;
use chronova_actors::house::House;
use chronova_events::envelope::{Cause, Meta, Position};
use uuid::Uuid;

use crate::policy::Permit;

/// How long an answer waits for the read models to show what the command did. They lag by microseconds; if they ever lag
/// more than this, the client gets its answer all the same.
const READ_YOUR_WRITES: Duration = Duration::from_secs(5);

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

/// Waits until the read models show what was accepted at `position` by a service that sends commands of its own.
pub async fn shown(house: &House, position: Position) {
    if !house.views.wait_for(position, READ_YOUR_WRITES).await {
        tracing::warn!(%position, "the read models lag behind");
    }
}

/// What the events will say about who asked and why.
///
/// The correlation is the request's own UUID: everything that follows from one request, in whatever stream, is found by
/// the id that the client was given.
pub fn meta(permit: &Permit) -> Arc<Meta> {
    let requester = permit.requester();
    let caller = &requester.caller;
    let correlation = requester
        .request_id
        .as_str()
        .strip_prefix("req-")
        .and_then(|id| Uuid::parse_str(id).ok())
        .unwrap_or_else(Uuid::new_v4);
    Arc::new(Meta {
        request_id: Some(requester.request_id.clone()),
        correlation,
        causation: None,
        cause: Cause::User { user: caller.user.clone(), project: caller.project.clone(), roles: caller.roles.clone() },
    })
}
