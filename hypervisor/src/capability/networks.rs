//! Virtual networks and packet filters on a host.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::NetworkId;

use crate::driver::DriverResult;
use crate::guest::{FilterSpec, NetworkSpec};

#[async_trait]
pub trait VirtualNetworks: Send + Sync {
    /// Realises a virtual network (bridge, DHCP reservations) or brings it up to date.
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()>;
    async fn remove_network(&self, network: NetworkId) -> DriverResult<()>;
    /// The virtual networks that Chronova realised on this host, of every control plane that uses it.
    async fn list_networks(&self) -> DriverResult<BTreeSet<NetworkId>>;
    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()>;
    async fn remove_filter(&self, name: &str) -> DriverResult<()>;
}
