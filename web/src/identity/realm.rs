//! Access to the one realm of users and projects: commands, and reads of its current state.

use chronova_actors::aggregate::Committed;
use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityRealmId, IdentityRoot};
use chronova_events::identity::Identity;

use super::fault;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::Permit;

/// Has something decided; refusals become Keystone's errors.
pub(super) async fn command(ctx: &Ctx, permit: &Permit, command: IdentityCommand) -> Result<Committed, Fault> {
    dispatch::send::<IdentityRoot>(ctx.app.dispatch()?, permit, &IdentityRealmId, command)
        .await
        .map_err(fault::of_command)
}

/// Looks at the users and projects as they are now.
pub(super) fn read<R>(ctx: &Ctx, look: impl FnOnce(&Identity) -> R) -> Result<R, Fault> {
    Ok(ctx.app.queries()?.views.identities.read(|view| look(&view.identity)))
}
