//! The mark by which a host remembers the log that drives it.
//!
//! A log that is copied or restored is the same installation in another generation. While one generation drives a host,
//! no other generation of the installation may drive it. Different installations may share a host, so each installation
//! has its own mark.

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;
use uuid::Uuid;

use crate::driver::DriverResult;

/// The log that drives a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostOwner {
    /// The same for a log and for all its copies.
    pub installation: Uuid,
    /// Differs in each copy.
    pub generation: Uuid,
    /// When this generation took the host over from another generation. This log does not know the changes that the
    /// other generation made. `None`: no other generation has driven the host.
    pub taken_at: Option<Timestamp>,
}

#[async_trait]
pub trait OwnerMark: Send + Sync {
    /// The log of this installation that drives the host; `None` if none does.
    async fn owner_of(&self, installation: Uuid) -> DriverResult<Option<HostOwner>>;
    /// Makes the host remember `owner` instead of another generation of the same installation.
    async fn remember(&self, owner: HostOwner) -> DriverResult<()>;
}
