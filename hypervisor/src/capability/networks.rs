//! Virtual networks and packet filters on a host.

use async_trait::async_trait;
use chronova_events::ids::NetworkId;

use crate::driver::DriverResult;
use crate::guest::{FilterSpec, NetworkSpec};

#[async_trait]
pub trait VirtualNetworks: Send + Sync {
    /// Realises a virtual network (bridge, DHCP reservations) or brings it up to date.
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()>;
    async fn remove_network(&self, network: NetworkId) -> DriverResult<()>;
    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()>;
    async fn remove_filter(&self, name: &str) -> DriverResult<()>;
}
