//! A network service in two parts: servers get their ports from [`OneNetwork`], and users' requests go to the embedded
//! service.
//!
//! Most test worlds need only one port for each server. Their users can still create networks, groups and floating
//! addresses through the network API, and see them on their servers.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_actors::pci::ports::DevicePort;
use chronova_actors::ports::{
    FloatingAddress, HostNetworkSetup, InterfaceRequest, InterfacesRequest, NetworkResources, NetworkService,
    PlugState, PortError, PortGrants, PortInfo, PortProviders, PortResourceRequest, SecurityGroupInfo, ServiceCaller,
};
use chronova_actors::runtime::Leadership;
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_actors::topology::networks::NetworkCarrier;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};
use chronova_projections::views::Views;

use crate::services::OneNetwork;

pub struct MixedNetworks {
    /// The source of servers' ports; it survives a crash.
    pub ports: Arc<OneNetwork>,
    /// The service that answers users' requests.
    pub service: Arc<EmbeddedNetworks>,
}

impl MixedNetworks {
    pub fn new(ports: Arc<OneNetwork>, leadership: &Leadership) -> Arc<Self> {
        let service = EmbeddedNetworks::new(
            Arc::clone(&leadership.gateway),
            Arc::clone(&leadership.views),
            Arc::clone(&leadership.clock),
        );
        Arc::new(Self { ports, service })
    }
}

#[async_trait]
impl NetworkService for MixedNetworks {
    async fn check(
        &self,
        project: &ProjectId,
        networks: &RequestedNetworks,
        security_groups: &[String],
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.ports.check(project, networks, security_groups, caller).await
    }

    async fn check_auto(&self, project: &ProjectId, caller: &ServiceCaller) -> Result<(), PortError> {
        self.ports.check_auto(project, caller).await
    }

    async fn allocate(&self, wanted: InterfacesRequest, meta: Arc<Meta>) -> Result<Vec<NicInfo>, PortError> {
        self.ports.allocate(wanted, meta).await
    }

    async fn check_attach(
        &self,
        project: &ProjectId,
        nic: &RequestedNic,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.ports.check_attach(project, nic, caller).await
    }

    async fn attach(&self, wanted: InterfaceRequest, meta: Arc<Meta>) -> Result<NicInfo, PortError> {
        self.ports.attach(wanted, meta).await
    }

    async fn undo_attach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.undo_attach(instance, project, process, meta).await
    }

    async fn resource_requests(
        &self,
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<Vec<PortResourceRequest>, PortError> {
        self.ports.resource_requests(ports, meta).await
    }

    async fn name_providers(
        &self,
        given: &[(PortId, Option<PortProviders>)],
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.name_providers(given, meta).await
    }

    async fn detach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        port: PortId,
        owned: bool,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.detach(instance, project, port, owned, meta).await
    }

    async fn add_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        network: NetworkId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.add_address(instance, project, network, meta).await
    }

    async fn remove_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        address: IpAddr,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.remove_address(instance, project, address, meta).await
    }

    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError> {
        self.ports.refresh(instance, nics).await
    }

    async fn release(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        owned: &[PortId],
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.release(instance, project, owned, meta).await
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
        self.ports.rebind(instance, project, host, availability_zone, grants, meta).await
    }

    async fn bind_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        grants: &PortGrants,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.bind_destination(instance, project, host, grants, meta).await
    }

    async fn activate_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.activate_destination(instance, project, host, meta).await
    }

    async fn unbind_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.ports.unbind_destination(instance, project, host, meta).await
    }

    async fn realise_at(&self, nics: &[NicInfo], host: &str) -> Result<HostNetworkSetup, PortError> {
        self.ports.realise_at(nics, host).await
    }

    async fn realise(&self, nics: &[NicInfo]) -> Result<HostNetworkSetup, PortError> {
        self.ports.realise(nics).await
    }

    async fn await_plugged(&self, ports: &[PortId], patience: Duration) -> Result<PlugState, PortError> {
        self.ports.await_plugged(ports, patience).await
    }

    async fn add_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.service.add_security_group(instance, project, group, caller).await
    }

    async fn remove_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.service.remove_security_group(instance, project, group, caller).await
    }

    async fn group_names(
        &self,
        servers: &[(InstanceId, ProjectId)],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<Vec<String>>>, PortError> {
        self.service.group_names(servers, caller).await
    }

    async fn find_security_groups(
        &self,
        project: &ProjectId,
        named: &[String],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<SecurityGroupInfo>>, PortError> {
        self.service.find_security_groups(project, named, caller).await
    }

    async fn floating_addresses(
        &self,
        ports: &[PortId],
        caller: &ServiceCaller,
    ) -> Result<Vec<FloatingAddress>, PortError> {
        self.service.floating_addresses(ports, caller).await
    }

    async fn device_ports(&self, ports: &[PortId], meta: &Arc<Meta>) -> Result<Vec<DevicePort>, PortError> {
        self.ports.device_ports(ports, meta).await
    }

    async fn carriers(
        &self,
        networks: &[NetworkId],
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<BTreeSet<NetworkCarrier>, PortError> {
        self.ports.carriers(networks, ports, meta).await
    }

    async fn find_ports(&self, ports: &[PortId], caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        self.service.find_ports(ports, caller).await
    }

    async fn ports_at(&self, address: IpAddr, caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        self.service.ports_at(address, caller).await
    }

    fn resources(&self) -> Option<&dyn NetworkResources> {
        self.service.resources()
    }

    fn as_of(&self, past: &Arc<Views>) -> Option<Arc<dyn NetworkService>> {
        self.service.as_of(past)
    }
}
