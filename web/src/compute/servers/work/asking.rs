//! How work is asked for: the lock and the state first, then the command.

use chronova_actors::instance::InstanceCommand;
use chronova_actors::instance::actions::{self, Action};
use chronova_actors::instance::work::WorkCommand;
use chronova_events::ids::ProcessId;
use chronova_events::instance::Pairs;
use serde_json::Value;

use crate::compute::reject;
use crate::compute::servers::change::{asker, send};
use crate::compute::servers::create;
use crate::compute::servers::found::Found;
use crate::ctx::Ctx;
use crate::fault::Fault;

/// The lock and the state, before anything else is looked at.
pub(super) fn admit(ctx: &Ctx, found: &Found, action: Action) -> Result<(), Fault> {
    actions::admit(found.server()?, action, asker(ctx, found)).map_err(|error| reject::instance_reject(found.id, error))
}

pub(super) async fn ask(ctx: &Ctx, found: &Found, command: WorkCommand) -> Result<(), Fault> {
    send(ctx, found, InstanceCommand::Work(Box::new(command))).await
}

/// As [`ask`], for what makes the guest's config drive anew: its administrator's password is put on it.
pub(super) async fn ask_with(
    ctx: &Ctx,
    found: &Found,
    process: ProcessId,
    password: Option<&String>,
    command: WorkCommand,
) -> Result<(), Fault> {
    let dispatch = ctx.dispatch()?;
    create::keep_password(dispatch, process, found.server()?.request.config_drive, password);
    let asked = ask(ctx, found, command).await;
    if asked.is_err() {
        dispatch.passwords().forget(process);
    }
    asked
}

/// Sorted by key, as events keep it.
pub(super) fn pairs(object: Option<&Value>) -> Pairs {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = object.and_then(Value::as_object).into_iter().flatten();
    let mut pairs: Pairs = entries.map(|(key, value)| (key.clone(), text(value))).collect();
    pairs.sort();
    pairs
}
