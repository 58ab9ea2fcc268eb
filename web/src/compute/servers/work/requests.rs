//! Requests work on a server: checks the lock and the state first, then sends the command.

use chronova_actors::instance::WorkRequest;
use chronova_actors::instance::actions::{self, ServerAction};
use chronova_events::ids::ProcessId;
use chronova_events::instance::SortedPairs;
use serde_json::Value;

use crate::compute::reject;
use crate::compute::servers::change::{asker, send};
use crate::compute::servers::create;
use crate::compute::servers::lookup::PermittedServer;
use crate::ctx::Ctx;
use crate::fault::Fault;

/// Checks the server's lock and state. A handler does this before its other checks.
pub(super) fn admit(ctx: &Ctx, found: &PermittedServer, action: ServerAction) -> Result<(), Fault> {
    actions::admit(found.server()?, action, asker(ctx, found)).map_err(|error| reject::instance_reject(found.id, error))
}

pub(super) async fn ask(ctx: &Ctx, found: &PermittedServer, request: WorkRequest) -> Result<(), Fault> {
    send(ctx, found, request).await
}

/// Sends a request for work that creates the config drive again. The new drive gets the administrator's password, which
/// stays in memory until then.
pub(super) async fn ask_with(
    ctx: &Ctx,
    found: &PermittedServer,
    process: ProcessId,
    password: Option<&String>,
    request: WorkRequest,
) -> Result<(), Fault> {
    let dispatch = ctx.dispatch()?;
    create::keep_password(dispatch, process, found.server()?.request.config_drive, password);
    let asked = ask(ctx, found, request).await;
    if asked.is_err() {
        dispatch.passwords().forget(process);
    }
    asked
}

/// The pairs of `object`, sorted by key as in events.
pub(super) fn pairs(object: Option<&Value>) -> SortedPairs {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = object.and_then(Value::as_object).into_iter().flatten();
    let mut pairs: SortedPairs = entries.map(|(key, value)| (key.clone(), text(value))).collect();
    pairs.sort();
    pairs
}
