//! Real Cinder, as [`VolumeService`](crate::ports::VolumeService).
//!
//! - [`calls`]: makes requests, chooses their tokens, and interprets Cinder's refusals;
//! - [`documents`]: volumes, snapshots and attachments as Cinder shows them;
//! - [`connections`]: how a host reaches a volume, from an attachment's `connection_info`;
//! - [`attachments`]: the calls on attachments, as of microversion 3.44;
//! - [`encryption`]: the passphrases of encrypted volumes;
//! - [`migrations`]: the end of Cinder's own migration of an attached volume;
//! - [`volumes`]: the port.
//!
//! Invariants: a change that a user asked for carries the user's token as long as Chronova has the token. So Cinder
//! judges the user's rights. Chronova's own account reads volumes and snapshots, and the client compares their project
//! with the caller's. If a user asks to see them, the client also reads them with the user's token
//! ([`check_user`](crate::ports::VolumeService::check_user)). Cinder chooses ids itself. The metadata of a new volume
//! or snapshot has the id that the caller proposed ([`documents::PROPOSED`]), so a repeated request finds the resource.
//! Connection info may hold a password, so it is neither kept nor logged.

pub mod attachments;
pub mod calls;
pub mod connections;
pub mod documents;
pub mod encryption;
pub mod migrations;
pub mod volumes;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::ports::keys::VolumeKeyKeeper;
use crate::services::external::keystone::{CalledService, SharedUserTokens};

/// `[libvirt]` options on Ceph. They apply if Cinder's connection info names no user or no secret.
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
    /// The tokens of the users whose requests began the calling processes.
    users: SharedUserTokens,
    rbd: RbdAccess,
    /// The key manager with the keys of encrypted volumes.
    keys: Option<Arc<dyn VolumeKeyKeeper>>,
}

impl CinderVolumes {
    pub fn new(
        service: Arc<CalledService>,
        users: SharedUserTokens,
        rbd: RbdAccess,
        keys: Option<Arc<dyn VolumeKeyKeeper>>,
    ) -> Arc<Self> {
        Arc::new(Self { service, users, rbd, keys })
    }

    pub fn service(&self) -> &Arc<CalledService> {
        &self.service
    }
}
