//! Access to the users and projects: commands, and reads of their current state.

use chronova_actors::aggregate::Committed;
use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityRealmId, IdentityRoot};
use chronova_events::identity::Identity;

use super::fault;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::Permit;

/// Sends a command; refusals become Keystone's errors.
pub(super) async fn command(ctx: &Ctx, permit: &Permit, command: IdentityCommand) -> Result<Committed, Fault> {
    dispatch::send::<IdentityRoot>(ctx.app.dispatch()?, permit, &IdentityRealmId, command)
        .await
        .map_err(fault::of_command)
}

/// Reads the current users and projects.
pub(super) fn read<R>(ctx: &Ctx, query: impl FnOnce(&Identity) -> R) -> Result<R, Fault> {
    Ok(ctx.views()?.identities.read(|view| query(&view.identity)))
}
