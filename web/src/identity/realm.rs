//! Access to the users and projects: commands that change them, and reads of their current state.

use chronova_actors::aggregate::Committed;
use chronova_actors::services::embedded::identity::{Edit, IdentityCommand, IdentityRealmId, IdentityRoot};
use chronova_events::identity::Identity;

use super::fault;
use super::tokens::Claims;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::Permit;
use crate::schema::typed::SentField;
use crate::secret::Secret;

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

/// The change of an attribute that `null` removes.
pub(super) fn edit<T>(sent: SentField<T>) -> Edit<T> {
    match sent {
        SentField::Nothing => Edit::Keep,
        SentField::Null => Edit::Clear,
        SentField::Value(value) => Edit::Set(value),
    }
}

/// The claims of the caller's own token.
pub(super) fn own(ctx: &Ctx) -> Result<Claims, Fault> {
    let token = Secret::new(ctx.header("X-Auth-Token").unwrap_or_default());
    ctx.app.identity()?.claims(&token).ok_or_else(Fault::unauthorized)
}
