//! Operations that Nova passed on to other services, and that Nova has since deprecated. Until 2.35 these are images,
//! networks, security groups, floating addresses, volumes, snapshots and bare-metal nodes. Image metadata exists until
//! 2.38, and floating addresses of servers until 2.43. Old clients still expect these operations, in Nova's form and
//! with Nova's messages.
//!
//! The operations call the port of the other service in the name of the user. As in Nova, the policy of
//! that service also restricts access. The operations on bare-metal nodes call nothing, because Chronova has no
//! bare-metal service.

pub(super) mod baremetal;
pub(super) mod floating_ips;
pub(super) mod image_metadata;
pub(super) mod images;
pub(super) mod networks;
pub(super) mod security_group_rules;
pub(super) mod security_groups;
pub(super) mod volumes;

use chronova_actors::ports::{ImageResources, NetworkResources, PortError};

use crate::ctx::Ctx;
use crate::fault::Fault;

/// The part of the image port that serves users' own requests. 501 if the connected service does not offer that part.
fn images(ctx: &Ctx) -> Result<&dyn ImageResources, Fault> {
    let offered = ctx.queries()?.images.resources();
    offered.ok_or_else(|| Fault::not_implemented("The image service does not offer this operation."))
}

/// The part of the network port that serves users' own requests. 501 if the connected service does not offer that part.
fn networks(ctx: &Ctx) -> Result<&dyn NetworkResources, Fault> {
    let offered = ctx.queries()?.networks.resources();
    offered.ok_or_else(|| Fault::not_implemented("The network service does not offer this operation."))
}

/// Maps a refusal of the other service, with that service's message.
fn refused(error: PortError) -> Fault {
    match error {
        PortError::NotFound(message) => Fault::not_found(message),
        PortError::Invalid(message) => Fault::bad_request(message),
        PortError::Conflict(message) | PortError::NotHere(message) => Fault::conflict(message),
        PortError::Forbidden(message) => Fault::forbidden(message),
        PortError::Unavailable(cause) => Fault::unavailable("The other service does not answer.").caused_by(cause),
    }
}
