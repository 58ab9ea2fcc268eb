//! Real Neutron: the port of the network service.
//!
//! A request of a user goes to Neutron with the user's token, so that Neutron judges the user's rights. A process uses
//! the account of `[neutron]`. That account also reads data that only an administrator sees, such as bindings.
//!
//! Invariants:
//!  - one request creates a port, gives it to its server and binds it. A mark in the port's `binding:profile` derives
//!    from the interface in the server's request, or from the process that attached the port. Users can neither see nor
//!    set the mark. The client deletes ports with a mark, and ports that Nova created for a server before its adoption.
//!    It unbinds all other ports, and deletes none of them;
//!  - a request that is repeated after a lost answer creates no second port. The MAC address of a new port derives from
//!    its mark. Neutron refuses a second port with the same MAC address on one network ([`allocate`]);
//!  - a Neutron that hung may create or bind a port for a call that was given up. So a call that releases or binds ports
//!    looks at the ports again after a while, if an earlier call of the same request had no answer in time
//!    ([`NeutronCalls::again_if_late`]);
//!  - a port of another project is never touched, even if its `device_id` names the server.

mod allocate;
mod bind;
mod bindings;
mod calls;
mod check;
mod devices;
mod documents;
mod grants;
mod groups;
mod plug;
mod port_resources;
mod read;
mod resources;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};
use tokio::sync::broadcast;

use self::calls::NeutronCalls;
use crate::pci::ports::DevicePort;
use crate::ports::{
    FloatingAddress, HostNetworkSetup, InterfaceRequest, InterfacesRequest, NetworkResources, NetworkService,
    PlugState, PortError, PortGrants, PortInfo, PortProviders, PortResourceRequest, SecurityGroupInfo, ServiceCaller,
};
use crate::services::external::keystone::CalledService;
use crate::topology::networks::NetworkCarrier;

/// The size of the queue of events. If a waiting process falls behind by more events than this, it asks Neutron again.
const EVENTS: usize = 256;

/// Choices of `[neutron]` besides the address and the accounts.
#[derive(Debug, Clone)]
pub struct NeutronOptions {
    /// `ovs_bridge`: the bridge of a port whose VIF details name none.
    pub ovs_bridge: String,
    /// `extension_sync_interval`.
    pub extension_sync_interval: Duration,
}

/// The network service of a real Neutron.
#[derive(Debug)]
pub struct NeutronNetworks {
    calls: NeutronCalls,
    ovs_bridge: String,
    /// Neutron's events about ports: `true` if a port was plugged, `false` if it could not be.
    plugged: broadcast::Sender<(PortId, bool)>,
}

impl NeutronNetworks {
    pub fn new(service: Arc<CalledService>, options: NeutronOptions) -> Arc<Self> {
        let (plugged, _) = broadcast::channel(EVENTS);
        let calls = NeutronCalls::new(service, options.extension_sync_interval);
        Arc::new(Self { calls, ovs_bridge: options.ovs_bridge, plugged })
    }

    pub fn service(&self) -> &Arc<CalledService> {
        self.calls.service()
    }
}

#[async_trait]
impl NetworkService for NeutronNetworks {
    async fn check(
        &self,
        project: &ProjectId,
        networks: &RequestedNetworks,
        security_groups: &[String],
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.check_all(project, networks, security_groups, caller).await
    }

    async fn check_auto(&self, project: &ProjectId, caller: &ServiceCaller) -> Result<(), PortError> {
        self.check_topology(project, caller).await
    }

    async fn allocate(&self, wanted: InterfacesRequest, meta: Arc<Meta>) -> Result<Vec<NicInfo>, PortError> {
        let allocated = self.allocate_all(&wanted, &meta).await;
        if let Err(error) = &allocated
            && !matches!(error, PortError::Unavailable(_))
            && let Err(undo) = self.release_all(wanted.instance, &wanted.project, &[], &meta).await
        {
            // The calling process releases the ports again when it is undone.
            tracing::warn!(instance = %wanted.instance, %error, %undo, "undoing ports failed, retrying");
        }
        allocated
    }

    async fn check_attach(
        &self,
        project: &ProjectId,
        nic: &RequestedNic,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.check_one(project, nic, caller).await
    }

    async fn attach(&self, wanted: InterfaceRequest, meta: Arc<Meta>) -> Result<NicInfo, PortError> {
        self.attach_one(&wanted, &meta).await
    }

    async fn undo_attach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.undo_one(instance, project, process, &meta).await
    }

    async fn resource_requests(
        &self,
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<Vec<PortResourceRequest>, PortError> {
        self.requests_of(ports, meta).await
    }

    async fn name_providers(
        &self,
        given: &[(PortId, Option<PortProviders>)],
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        self.name_all(given, meta).await
    }

    async fn detach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        port: PortId,
        owned: bool,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.detach_one(instance, project, port, owned, &meta).await
    }

    async fn add_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        network: NetworkId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.add_one(instance, project, network, &meta).await
    }

    async fn remove_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        address: IpAddr,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.remove_one(instance, project, address, &meta).await
    }

    async fn add_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.change_group_of(instance, project, group, true, caller).await
    }

    async fn remove_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.change_group_of(instance, project, group, false, caller).await
    }

    async fn group_names(
        &self,
        servers: &[(InstanceId, ProjectId)],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<Vec<String>>>, PortError> {
        self.names_of_groups(servers, caller).await
    }

    async fn find_security_groups(
        &self,
        project: &ProjectId,
        named: &[String],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<SecurityGroupInfo>>, PortError> {
        self.named_groups(project, named, caller).await
    }

    async fn floating_addresses(
        &self,
        ports: &[PortId],
        caller: &ServiceCaller,
    ) -> Result<Vec<FloatingAddress>, PortError> {
        self.floating_of(ports, caller).await
    }

    async fn device_ports(&self, ports: &[PortId], meta: &Arc<Meta>) -> Result<Vec<DevicePort>, PortError> {
        self.ports_with_devices(ports, meta).await
    }

    async fn carriers(
        &self,
        networks: &[NetworkId],
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<BTreeSet<NetworkCarrier>, PortError> {
        self.carriers_of(networks, ports, meta).await
    }

    async fn find_ports(&self, ports: &[PortId], caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        self.ports_with_ids(ports, caller).await
    }

    async fn ports_at(&self, address: IpAddr, caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        self.ports_with_address(address, caller).await
    }

    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError> {
        self.present(instance, nics).await
    }

    async fn release(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        owned: &[PortId],
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.release_all(instance, project, owned, &meta).await
    }

    async fn rebind(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: Option<&str>,
        availability_zone: &str,
        grants: &PortGrants,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.bind_all(instance, project, (host, availability_zone), grants, &meta).await
    }

    async fn bind_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        grants: &PortGrants,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.bind_all_to_destination(instance, project, (host, grants), &meta).await
    }

    async fn activate_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.activate_all(instance, project, host, &meta).await
    }

    async fn unbind_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.unbind_all_from_destination(instance, project, host, &meta).await
    }

    fn resources(&self) -> Option<&dyn NetworkResources> {
        Some(self)
    }

    async fn realise(&self, nics: &[NicInfo]) -> Result<HostNetworkSetup, PortError> {
        self.setup_of(nics, None).await
    }

    async fn realise_at(&self, nics: &[NicInfo], host: &str) -> Result<HostNetworkSetup, PortError> {
        self.setup_of(nics, Some(host)).await
    }

    async fn await_plugged(&self, ports: &[PortId], patience: Duration) -> Result<PlugState, PortError> {
        self.wait_for(ports, patience).await
    }

    fn heard_of(&self, port: PortId, plugged: bool) {
        // This fails if no process waits for ports.
        let _ = self.plugged.send((port, plugged));
    }
}
