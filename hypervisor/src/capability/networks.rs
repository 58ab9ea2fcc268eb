//! Virtual networks and packet filters on a host.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::NetworkId;

use crate::driver::DriverResult;
use crate::guest::{FilterSpec, NetworkSpec};

#[async_trait]
pub trait VirtualNetworks: Send + Sync {
    /// Creates a virtual network (bridge, DHCP reservations) or updates it.
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()>;
    async fn remove_network(&self, network: NetworkId) -> DriverResult<()>;
    /// The virtual networks that Chronova created on this host, including those of other control planes.
    async fn list_networks(&self) -> DriverResult<BTreeSet<NetworkId>>;
    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()>;
    async fn remove_filter(&self, name: &str) -> DriverResult<()>;
}
