//! Real Cinder, as [`VolumeService`](crate::ports::VolumeService).
//!
//! - [`calls`]: requests, with whose token, and the meaning of Cinder's refusals;
//! - [`documents`]: volumes, snapshots and attachments as Cinder shows them;
//! - [`connections`]: how a host reaches a volume, from an attachment's `connection_info`;
//! - [`attachments`]: the calls on attachments, as of microversion 3.44;
//! - [`volumes`]: the port.
//!
//! Invariants: a change that a user asked for carries the user's token, so that Cinder judges the user's rights. A question
//! is asked by Chronova's own account, and the answer is compared with the asker's project. Cinder chooses ids itself. A
//! new volume or snapshot has the id that the caller proposed in its metadata ([`documents::PROPOSED`]), where a repeated
//! request finds it. Connection info may hold a password, so it is neither kept nor logged.

pub mod attachments;
pub mod calls;
pub mod connections;
pub mod documents;
pub mod volumes;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::services::external::keystone::{CalledService, SharedUserTokens};

/// `[libvirt]` options about Ceph, which count where Cinder's connection info names none.
#[derive(Debug, Clone, Default)]
pub struct RbdAccess {
    /// `rbd_user`.
    pub user: Option<String>,
    /// `rbd_secret_uuid`.
    pub secret: Option<String>,
}

/// Real Cinder.
#[derive(Debug)]
pub struct CinderVolumes {
    service: Arc<CalledService>,
    /// The tokens of users whose requests began the work that calls.
    users: SharedUserTokens,
    rbd: RbdAccess,
}

impl CinderVolumes {
    pub fn new(service: Arc<CalledService>, users: SharedUserTokens, rbd: RbdAccess) -> Arc<Self> {
        Arc::new(Self { service, users, rbd })
    }

    pub fn service(&self) -> &Arc<CalledService> {
        &self.service
    }
}
