//! Operations that Nova once passed on to the image and network services and has deprecated since: images and networks
//! until 2.35, image metadata until 2.38. Clients of that age still expect them, in Nova's form and with Nova's words.
//!
//! They read the same read models and send the same commands as the services' own APIs. The other service's policy
//! decides who may see or change what, as when Nova calls it with the user's token.

pub(super) mod baremetal;
pub(super) mod floating_ips;
pub(super) mod image_metadata;
pub(super) mod images;
pub(super) mod networks;
pub(super) mod security_group_rules;
pub(super) mod security_groups;
pub(super) mod volumes;
