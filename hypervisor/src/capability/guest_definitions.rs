//! Tells how the guests and the virtual networks of a host are defined. A new log that takes over the guests of a lost
//! log reads them. No call changes the host.

use async_trait::async_trait;

use crate::driver::DriverResult;
use crate::found::FoundGuest;
use crate::guest::NetworkSpec;

#[async_trait]
pub trait GuestDefinitions: Send + Sync {
    /// Every guest of ours on the host, running or not.
    async fn found_guests(&self) -> DriverResult<Vec<FoundGuest>>;
    /// Our virtual networks on the host, with the DHCP reservations of the host's guests. A host keeps the DNS servers of
    /// all subnets together, so each subnet has all of them.
    async fn found_networks(&self) -> DriverResult<Vec<NetworkSpec>>;
}
