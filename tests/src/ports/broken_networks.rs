//! A network service that breaks one chosen promise. A case of the conformance suite must detect it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::pci::ports::DevicePort;
use chronova_actors::ports::{
    FloatingAddress, HostNetworkSetup, InterfaceRequest, InterfacesRequest, NetworkResources, NetworkService,
    PortError, PortGrants, PortInfo, PortProviders, PortResourceRequest, SecurityGroupInfo, ServiceCaller,
};
use chronova_actors::topology::networks::NetworkCarrier;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};

/// The promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkFault {
    /// The checks before an allocation or an attachment accept everything.
    ChecksNothing,
    /// A repeated allocation makes other ports.
    AllocatesAgain,
    /// A repeated attachment makes another port.
    AttachesAgain,
    /// Ports stay when the server is deleted.
    ReleasesNothing,
    /// The port of an undone attachment stays.
    UndoesNothing,
    /// A port is detached from any server, not only the named one.
    DetachesAnyPort,
    /// Security groups are accepted but not applied.
    AppliesNoGroup,
    /// Security groups are not found by name.
    FindsNoGroup,
    AddsNoAddress,
    /// Ports are not found by their address.
    KnowsNoAddress,
    TellsNoFloatingAddress,
    /// A refresh returns the interfaces as they were given, even if their ports are deleted.
    RefreshesNothing,
    RebindsNothing,
    /// The traffic moves to the destination of a live migration before the guest does.
    MovesPortsAtOnce,
    /// Every project lists every network.
    ShowsAllNetworks,
    /// Every project can release every floating address.
    ReleasesForAll,
    /// A floating address cannot be disassociated from its port.
    AssociatesForEver,
    /// Every project lists every group.
    ListsAllGroups,
    /// Groups with ports are deleted.
    DeletesUsedGroups,
    /// Every project adds rules to every group.
    AddsRulesForAll,
}

pub struct BrokenNetworks {
    pub networks: Arc<dyn NetworkService>,
    pub fault: NetworkFault,
}

impl BrokenNetworks {
    fn has(&self, fault: NetworkFault) -> bool {
        self.fault == fault
    }
}

#[async_trait]
impl NetworkService for BrokenNetworks {
    async fn check(
        &self,
        project: &ProjectId,
        networks: &RequestedNetworks,
        security_groups: &[String],
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        if self.has(NetworkFault::ChecksNothing) {
            return Ok(());
        }
        self.networks.check(project, networks, security_groups, caller).await
    }

    async fn check_auto(&self, project: &ProjectId, caller: &ServiceCaller) -> Result<(), PortError> {
        self.networks.check_auto(project, caller).await
    }

    async fn allocate(&self, wanted: InterfacesRequest, meta: Arc<Meta>) -> Result<Vec<NicInfo>, PortError> {
        if self.has(NetworkFault::AllocatesAgain) {
            let wanted = InterfacesRequest { instance: InstanceId::random(), ..wanted };
            return self.networks.allocate(wanted, meta).await;
        }
        self.networks.allocate(wanted, meta).await
    }

    async fn check_attach(
        &self,
        project: &ProjectId,
        nic: &RequestedNic,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        if self.has(NetworkFault::ChecksNothing) {
            return Ok(());
        }
        self.networks.check_attach(project, nic, caller).await
    }

    async fn attach(&self, wanted: InterfaceRequest, meta: Arc<Meta>) -> Result<NicInfo, PortError> {
        if self.has(NetworkFault::AttachesAgain) {
            let wanted = InterfaceRequest { process: ProcessId::random(), ..wanted };
            return self.networks.attach(wanted, meta).await;
        }
        self.networks.attach(wanted, meta).await
    }

    async fn undo_attach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        if self.has(NetworkFault::UndoesNothing) {
            return Ok(());
        }
        self.networks.undo_attach(instance, project, process, meta).await
    }

    async fn resource_requests(
        &self,
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<Vec<PortResourceRequest>, PortError> {
        self.networks.resource_requests(ports, meta).await
    }

    async fn name_providers(
        &self,
        given: &[(PortId, Option<PortProviders>)],
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        self.networks.name_providers(given, meta).await
    }

    async fn detach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        port: PortId,
        owned: bool,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        if self.has(NetworkFault::DetachesAnyPort) {
            let found = self.networks.find_ports(&[port], &ServiceCaller::system("fault")).await?;
            let holder = found.first().and_then(|port| port.server).unwrap_or(instance);
            return self.networks.detach(holder, project, port, owned, meta).await;
        }
        self.networks.detach(instance, project, port, owned, meta).await
    }

    async fn add_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        network: NetworkId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        if self.has(NetworkFault::AddsNoAddress) {
            return Ok(());
        }
        self.networks.add_address(instance, project, network, meta).await
    }

    async fn remove_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        address: IpAddr,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.networks.remove_address(instance, project, address, meta).await
    }

    async fn add_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        if self.has(NetworkFault::AppliesNoGroup) {
            return Ok(());
        }
        self.networks.add_security_group(instance, project, group, caller).await
    }

    async fn remove_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.networks.remove_security_group(instance, project, group, caller).await
    }

    async fn group_names(
        &self,
        servers: &[(InstanceId, ProjectId)],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<Vec<String>>>, PortError> {
        self.networks.group_names(servers, caller).await
    }

    async fn find_security_groups(
        &self,
        project: &ProjectId,
        named: &[String],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<SecurityGroupInfo>>, PortError> {
        if self.has(NetworkFault::FindsNoGroup) {
            return Ok(named.iter().map(|_| None).collect());
        }
        self.networks.find_security_groups(project, named, caller).await
    }

    async fn floating_addresses(
        &self,
        ports: &[PortId],
        caller: &ServiceCaller,
    ) -> Result<Vec<FloatingAddress>, PortError> {
        if self.has(NetworkFault::TellsNoFloatingAddress) {
            return Ok(vec![]);
        }
        self.networks.floating_addresses(ports, caller).await
    }

    async fn device_ports(&self, ports: &[PortId], meta: &Arc<Meta>) -> Result<Vec<DevicePort>, PortError> {
        self.networks.device_ports(ports, meta).await
    }

    async fn carriers(
        &self,
        networks: &[NetworkId],
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<BTreeSet<NetworkCarrier>, PortError> {
        self.networks.carriers(networks, ports, meta).await
    }

    async fn find_ports(&self, ports: &[PortId], caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        self.networks.find_ports(ports, caller).await
    }

    async fn ports_at(&self, address: IpAddr, caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        if self.has(NetworkFault::KnowsNoAddress) {
            return Ok(vec![]);
        }
        self.networks.ports_at(address, caller).await
    }

    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError> {
        if self.has(NetworkFault::RefreshesNothing) {
            return Ok(nics.to_vec());
        }
        self.networks.refresh(instance, nics).await
    }

    async fn release(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        owned: &[PortId],
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        if self.has(NetworkFault::ReleasesNothing) {
            return Ok(());
        }
        self.networks.release(instance, project, owned, meta).await
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
        if self.has(NetworkFault::RebindsNothing) {
            return Ok(());
        }
        self.networks.rebind(instance, project, host, availability_zone, grants, meta).await
    }

    async fn bind_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        grants: &PortGrants,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        if self.has(NetworkFault::MovesPortsAtOnce) {
            return self.networks.rebind(instance, project, Some(host), "nova", grants, meta).await;
        }
        self.networks.bind_destination(instance, project, host, grants, meta).await
    }

    async fn activate_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.networks.activate_destination(instance, project, host, meta).await
    }

    async fn unbind_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.networks.unbind_destination(instance, project, host, meta).await
    }

    async fn realise_at(&self, nics: &[NicInfo], host: &str) -> Result<HostNetworkSetup, PortError> {
        self.networks.realise_at(nics, host).await
    }

    fn resources(&self) -> Option<&dyn NetworkResources> {
        Some(self)
    }

    async fn realise(&self, nics: &[NicInfo]) -> Result<HostNetworkSetup, PortError> {
        self.networks.realise(nics).await
    }
}
