//! The driver's calls on networks and packet filters of a host.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::NetworkId;

use super::host::LibvirtDriver;
use super::{network, nwfilter};
use crate::capability::VirtualNetworks;
use crate::driver::DriverResult;
use crate::guest::{FilterSpec, NetworkSpec};

#[async_trait]
impl VirtualNetworks for LibvirtDriver {
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()> {
        let mut forward = self.forward.lock().await;
        let (spec, mode) = (network.clone(), *forward);
        *forward = self.call("network", move |connect, _| network::ensure(connect, &spec, mode)).await?;
        Ok(())
    }

    async fn remove_network(&self, network: NetworkId) -> DriverResult<()> {
        let _in_order = self.forward.lock().await;
        self.call("network removal", move |connect, _| network::remove(connect, network)).await
    }

    async fn list_networks(&self) -> DriverResult<BTreeSet<NetworkId>> {
        self.call("networks", |connect, _| network::list(connect)).await
    }

    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()> {
        let spec = filter.clone();
        self.call("network filter", move |connect, _| nwfilter::ensure(connect, &spec)).await
    }

    async fn remove_filter(&self, name: &str) -> DriverResult<()> {
        let name = name.to_owned();
        self.call("network filter removal", move |connect, _| nwfilter::remove(connect, &name)).await
    }
}
