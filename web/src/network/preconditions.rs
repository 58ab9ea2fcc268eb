//! `If-Match: revision_number=N`: a change takes effect only if the resource has that revision, as with Neutron's
//! extension `revision-if-match`.
//!
//! The aggregate compares the revision when it decides, so two clients that read the same revision cannot both change
//! the resource. A change of tags is a change of their resource. A request with the header is refused if it
//! changes no resource with a revision.

use chronova_actors::services::embedded::network::router::RouterCommand;
use chronova_actors::services::embedded::network::security_group::SecurityGroupCommand;
use chronova_actors::services::embedded::network::{NetworkCommand, NetworkPart, RevisionMismatch};
use chronova_events::ids::SecurityGroupId;

use super::faults;
use crate::ctx::Ctx;
use crate::fault::Fault;

/// The revision that the request depends on.
fn wanted(ctx: &Ctx) -> Result<Option<u64>, Fault> {
    let Some(text) = ctx.header("If-Match") else { return Ok(None) };
    let number = text.trim().strip_prefix("revision_number=").and_then(|number| number.parse().ok());
    let bad = || faults::bad("if-match", format_args!("'{text}' is not of the form revision_number=NUMBER"));
    number.map(Some).ok_or_else(bad)
}

/// Checks the revision before the first of several changes that a request makes.
pub(super) fn check(ctx: &Ctx, current: u64) -> Result<(), Fault> {
    wanted(ctx)?.map_or(Ok(()), |expected| RevisionMismatch::check(expected, Some(current)).map_err(faults::revision))
}

/// Refuses the header at an operation on something without a revision of its own. Neutron fails there, too.
pub(super) fn refuse(ctx: &Ctx) -> Result<(), Fault> {
    match wanted(ctx)? {
        Some(_) => Err(faults::bad("if-match", "Revision matching not supported for this resource")),
        None => Ok(()),
    }
}

pub(super) fn network(ctx: &Ctx, of: NetworkPart, command: NetworkCommand) -> Result<NetworkCommand, Fault> {
    Ok(match wanted(ctx)? {
        Some(revision) => NetworkCommand::IfRevision { of, revision, command: Box::new(command) },
        None => command,
    })
}

pub(super) fn router(ctx: &Ctx, command: RouterCommand) -> Result<RouterCommand, Fault> {
    Ok(match wanted(ctx)? {
        Some(revision) => RouterCommand::IfRevision { revision, command: Box::new(command) },
        None => command,
    })
}

pub(super) fn group(
    ctx: &Ctx,
    group: SecurityGroupId,
    command: SecurityGroupCommand,
) -> Result<SecurityGroupCommand, Fault> {
    Ok(match wanted(ctx)? {
        Some(revision) => SecurityGroupCommand::IfRevision { group, revision, command: Box::new(command) },
        None => command,
    })
}
