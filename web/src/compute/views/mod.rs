//! The views of the Compute API's resources, at each microversion.

pub mod action;
pub mod aggregate;
pub mod attachment;
pub mod diagnostics;
pub mod flavor;
pub mod hypervisor;
pub mod keypair;
pub mod migration;
pub mod security_group;
pub mod server;
pub mod server_group;
pub mod server_migration;
pub mod service;

use chronova_events::ids::ProjectId;
use sha2::{Digest, Sha224};

/// The id under which a project sees a host. All of the project's servers on that host show this id. Every other
/// project sees another id.
pub fn host_id(project: &ProjectId, host: &str) -> String {
    use std::fmt::Write as _;
    let digest = Sha224::digest(format!("{project}{host}"));
    digest.iter().fold(String::with_capacity(56), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
