//! The one realm of users and projects: commands to it, and looks at it as it is now.

use chronova_actors::aggregate::Committed;
use chronova_actors::services::embedded::identity::{IdentityAggregate, IdentityCommand, Realm};
use chronova_events::identity::Identity;

use super::fault;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::Permit;

/// Has something decided; refusals become Keystone's errors.
pub(super) async fn command(ctx: &Ctx, permit: &Permit, command: IdentityCommand) -> Result<Committed, Fault> {
    dispatch::send::<IdentityAggregate>(ctx.app.dispatch()?, permit, &Realm, command).await.map_err(fault::of_command)
}

/// Looks at the users and projects as they are now.
pub(super) fn read<R>(ctx: &Ctx, look: impl FnOnce(&Identity) -> R) -> Result<R, Fault> {
    Ok(ctx.app.queries()?.views.identities.read(|view| look(&view.identity)))
}
