//! The trait of the network service, embedded or real Neutron.
//!
//! There are two kinds of callers. A request calls for its user ([`ServiceCaller`] with the user's token). A process
//! calls for a project, when the user no longer waits. A client of Neutron then uses its own account, which `[neutron]`
//! configures.
//!
//! Invariants: the service chooses the ids of ports, and compute learns them only from answers. A change names a server
//! or a process. A repeated change for the same server or process has no further effect, except that each `add_address`
//! adds an address. A server's ports belong to the server's project.
//!
//! | call | Neutron's part in it |
//! |---|---|
//! | `check`, `check_attach` | a user's `GET networks`, `ports`, `security-groups`; Chronova's `GET quotas`, `ports` |
//! | `check_auto` | the user's `GET networks`, `auto-allocated-topology` with `fields=dry-run` |
//! | `allocate`, `attach` | `POST ports` with `device_id`, `binding:host_id`, and a mark in `binding:profile` |
//! | `allocate` of `auto` | also `GET auto-allocated-topology`, which makes a network |
//! | `undo_attach` | `GET ports` by `device_id`, `DELETE` of the port with the process's mark |
//! | `detach`, `release` | `DELETE` of ports with a mark, `PUT ports` without `device_id` for the others |
//! | `rebind` | `PUT ports` with another `binding:host_id`; after `bind_destination` as `activate_destination` |
//! | `bind_destination` | `POST ports/ID/bindings`, `PUT ports` with `migrating_to` in `binding:profile` |
//! | `activate_destination` | `PUT ports/ID/bindings/HOST/activate` |
//! | `unbind_destination` | `DELETE ports/ID/bindings/HOST` |
//! | `add_address`, `remove_address` | `PUT ports` with other `fixed_ips` |
//! | `add_security_group`, `remove_security_group` | `GET security-groups`, `PUT ports` with other `security_groups` |
//! | `group_names` | one `GET ports` for all servers, one `GET security-groups` |
//! | `find_security_groups` | `GET security-groups` |
//! | `floating_addresses` | `GET floatingips` by `port_id` |
//! | `realise` | `GET ports`: `binding:vif_type` and `binding:vif_details` |
//! | `realise_at` | the same, and `GET ports/ID/bindings` |
//! | `await_plugged` | `GET ports`, at each `network-vif-plugged` and from time to time |
//! | `device_ports`, `carriers` | `GET ports` by `id`, `GET networks` by `id` |
//! | `find_ports`, `ports_at` | `GET ports` by `id`, by `fixed_ips` |
//! | `resource_requests` | `GET ports` by `id`, if Neutron has the extension `port-resource-request` |
//! | `name_providers` | `GET ports/ID`, `PUT ports` with another `binding:profile` |
//! | `refresh` | `GET ports` by `device_id` |

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};
use chronova_events::network::FixedAddress;
use chronova_events::security_group::RuleTraffic;
use chronova_hypervisor::guest::{FilterSpec, NetworkSpec, Nic};
use chronova_projections::views::Views;

use super::network_plane::NetworkPlane;
use super::network_resources::NetworkResources;
use super::port_grants::PortGrants;
use super::port_resources::{PortProviders, PortResourceRequest};
use super::{PortError, ServiceCaller};
use crate::pci::ports::DevicePort;
use crate::topology::networks::NetworkCarrier;

/// The request for the interfaces of a new server.
#[derive(Debug, Clone)]
pub struct InterfacesRequest {
    pub instance: InstanceId,
    pub project: ProjectId,
    pub hostname: String,
    /// The compute host that the ports are bound to.
    pub host: String,
    pub availability_zone: String,
    pub networks: RequestedNetworks,
    /// Names or ids of the security groups for ports that the service creates for the server.
    pub security_groups: Vec<String>,
    /// The devices and resources of the user's ports on the host.
    pub grants: PortGrants,
}

/// The request for one more interface of an existing server.
#[derive(Debug, Clone)]
pub struct InterfaceRequest {
    pub process: ProcessId,
    pub instance: InstanceId,
    pub project: ProjectId,
    pub hostname: String,
    /// The compute host that the port is bound to.
    pub host: String,
    pub availability_zone: String,
    pub nic: RequestedNic,
    /// The port's device and resources on the host, if a user made the port.
    pub grants: PortGrants,
}

/// The networks, filters and interfaces that a host needs before a guest with these interfaces can start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostNetworkSetup {
    pub networks: Vec<NetworkSpec>,
    pub filters: Vec<FilterSpec>,
    pub nics: Vec<Nic>,
}

/// The fields of a port that compute reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    pub port: PortId,
    pub network: NetworkId,
    pub project: ProjectId,
    /// The server in the port's `device_id`; `None` if the field is empty, or names a device that is no server.
    pub server: Option<InstanceId>,
    /// The compute host that the port is bound to.
    pub host: Option<String>,
    pub addresses: Vec<FixedAddress>,
}

/// Whether the network carries the traffic of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlugState {
    Plugged,
    NotYet,
    /// An agent of the network service could not plug one of the ports.
    Failed,
}

/// A floating address, and the port that it is mapped to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingAddress {
    pub port: PortId,
    pub address: IpAddr,
}

/// A security group with its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityGroupInfo {
    pub id: SecurityGroupId,
    pub project: ProjectId,
    pub name: String,
    pub description: String,
    pub rules: Vec<SecurityRuleInfo>,
}

/// A rule of a security group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityRuleInfo {
    pub id: SecurityGroupRuleId,
    pub group: SecurityGroupId,
    pub traffic: RuleTraffic,
    /// The project and the name of the rule's remote group, if that group still exists.
    pub remote: Option<(ProjectId, String)>,
}

/// The network service. Its refusals have Nova's messages.
#[async_trait]
pub trait NetworkService: Send + Sync + 'static {
    /// Checks that a server of `project` could get these interfaces. The API calls this before it accepts the server.
    async fn check(
        &self,
        project: &ProjectId,
        networks: &RequestedNetworks,
        security_groups: &[String],
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// Checks that an explicit `auto` could be served. A request without `networks` may lead to a server without
    /// interfaces, but `auto` requires one.
    async fn check_auto(&self, _project: &ProjectId, _caller: &ServiceCaller) -> Result<(), PortError> {
        Ok(())
    }

    /// Creates or binds the ports of a server, in the order of the request. Idempotent under `wanted.instance`: a
    /// second call gives the same ports.
    async fn allocate(&self, wanted: InterfacesRequest, meta: Arc<Meta>) -> Result<Vec<NicInfo>, PortError>;

    /// Checks that an existing server of `project` could get this interface.
    async fn check_attach(
        &self,
        project: &ProjectId,
        nic: &RequestedNic,
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// Creates or binds one more port of a server. Idempotent under `process`.
    async fn attach(&self, wanted: InterfaceRequest, meta: Arc<Meta>) -> Result<NicInfo, PortError>;

    /// Deletes the port that [`attach`](Self::attach) created for `process`, even if the answer of that call was lost.
    /// Succeeds if there is no such port. A port that was only bound stays, and [`detach`](Self::detach) unbinds it.
    async fn undo_attach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// The resources that these ports request. Unknown ids and ports that request none are left out. Chronova's own
    /// account asks the service, because users cannot see requests.
    async fn resource_requests(
        &self,
        _ports: &[PortId],
        _meta: &Arc<Meta>,
    ) -> Result<Vec<PortResourceRequest>, PortError> {
        Ok(Vec::new())
    }

    /// Names, in the bindings of these ports, the providers that give them their resources. `None`: the binding names
    /// none afterwards. The ports stay bound to their host. The call may fail half-way.
    async fn name_providers(
        &self,
        _given: &[(PortId, Option<PortProviders>)],
        _meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        Ok(())
    }

    /// Takes one port from a server: deletes a port that the service created for the server, and unbinds any other
    /// port. Does nothing if the server does not have the port, or if the port belongs to another project than the
    /// server's. That project could have given the port the server's id. `owned`: the server's record says that the
    /// port was created for the server. For a port that Nova created before the server was adopted, only this record
    /// says so.
    async fn detach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        port: PortId,
        owned: bool,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// Gives the server one more address on a network that it has a port on.
    async fn add_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        network: NetworkId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// Removes an address from the server's port that has it.
    async fn remove_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        address: IpAddr,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// Adds a security group of `project` to all ports of the server. The group is named by its id or by a unique name.
    /// `NotFound`: there is no such group. `Conflict`: several groups have the name. `Invalid`: the server has no
    /// ports, or one of them cannot have groups. A port that already has the group does not change.
    async fn add_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// Removes a security group from all ports of the server. The refusals are those of
    /// [`add_security_group`](Self::add_security_group). `NotFound` also means that no port has the group.
    async fn remove_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// The names of the security groups of each server's ports, in the order of `servers`. A name may occur several
    /// times. `None`: the server has no ports.
    async fn group_names(
        &self,
        servers: &[(InstanceId, ProjectId)],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<Vec<String>>>, PortError>;

    /// The groups with these ids or names, in the order of `named`. Names are looked up in `project`. `None`: there is
    /// no such group.
    async fn find_security_groups(
        &self,
        project: &ProjectId,
        named: &[String],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<SecurityGroupInfo>>, PortError>;

    /// The floating addresses that are mapped to these ports, in the order of `ports`.
    async fn floating_addresses(
        &self,
        ports: &[PortId],
        caller: &ServiceCaller,
    ) -> Result<Vec<FloatingAddress>, PortError>;

    /// The ports among these that need a PCI device of their host. Other ids are left out. Chronova's own account asks
    /// the service, because users cannot see the physical networks of networks.
    async fn device_ports(&self, _ports: &[PortId], _meta: &Arc<Meta>) -> Result<Vec<DevicePort>, PortError> {
        Ok(Vec::new())
    }

    /// The carriers of these networks, and of the networks of these ports. Unknown ids are left out. Chronova's own
    /// account asks the service, because users cannot see the physical networks of networks.
    async fn carriers(
        &self,
        _networks: &[NetworkId],
        _ports: &[PortId],
        _meta: &Arc<Meta>,
    ) -> Result<BTreeSet<NetworkCarrier>, PortError> {
        Ok(BTreeSet::new())
    }

    /// The ports with these ids; ids without a port are left out.
    async fn find_ports(&self, ports: &[PortId], caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError>;

    /// The ports of all projects with this fixed address. Separate networks may use the same address.
    async fn ports_at(&self, address: IpAddr, caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError>;

    /// The service at the time of the read models `past`. `None`: the service does not keep its past.
    fn as_of(&self, _past: &Arc<Views>) -> Option<Arc<dyn NetworkService>> {
        None
    }

    /// The present state of the interfaces. An interface is left out if its port is no longer the server's.
    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError>;

    /// Deletes the ports that the service created for the server, and unbinds the others. Succeeds if the server has no
    /// port. `owned`: the ports that were created for the server according to its record, as in
    /// [`detach`](Self::detach). After a crash, the record may lack some of the ports that the service created.
    async fn release(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        owned: &[PortId],
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// Binds the server's ports to a host, or unbinds them from every host; the ports still belong to the server.
    /// Succeeds if the server has no port. `grants`: what the ports got on that host. A port without a device there has
    /// none afterwards.
    async fn rebind(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: Option<&str>,
        availability_zone: &str,
        grants: &PortGrants,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// Binds the server's ports to the destination of a live migration as well. Their traffic stays at the source. A
    /// repeat changes nothing. `NotHere`: the service cannot connect a port there. A service that keeps only one
    /// binding for each port does nothing. `grants`: what the ports got at the destination.
    async fn bind_destination(
        &self,
        _instance: InstanceId,
        _project: &ProjectId,
        _host: &str,
        _grants: &PortGrants,
        _meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        Ok(())
    }

    /// Moves the traffic to the destination. [`rebind`](Self::rebind) does this, too, and removes the other bindings.
    async fn activate_destination(
        &self,
        _instance: InstanceId,
        _project: &ProjectId,
        _host: &str,
        _meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        Ok(())
    }

    /// Undoes [`bind_destination`](Self::bind_destination), even if the answer of that call was lost. A port whose
    /// traffic is at the destination stays bound there.
    async fn unbind_destination(
        &self,
        _instance: InstanceId,
        _project: &ProjectId,
        _host: &str,
        _meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        Ok(())
    }

    /// The resources of users, for Nova's old API. `None`: the service does not offer them.
    fn resources(&self) -> Option<&dyn NetworkResources> {
        None
    }

    /// The setup that a host needs for the interfaces. An interface that is a device of the host does not have its
    /// device yet, because only the placement ledger knows it.
    async fn realise(&self, nics: &[NicInfo]) -> Result<HostNetworkSetup, PortError>;

    /// The setup that the destination of a live migration needs, after [`bind_destination`](Self::bind_destination).
    async fn realise_at(&self, nics: &[NicInfo], _host: &str) -> Result<HostNetworkSetup, PortError> {
        self.realise(nics).await
    }

    /// Waits until the network carries the traffic of these ports, at most for `patience`. A service without agents on
    /// hosts has nothing to wait for.
    async fn await_plugged(&self, _ports: &[PortId], _patience: Duration) -> Result<PlugState, PortError> {
        Ok(PlugState::Plugged)
    }

    /// The program that carries the traffic between hosts. `None`: each host has its own networks, or the service
    /// itself cares for the program.
    fn plane(&self) -> Option<Arc<dyn NetworkPlane>> {
        None
    }

    /// Notes an event of the network service: it plugged the port (`network-vif-plugged`), or could not plug it.
    fn heard_of(&self, _port: PortId, _plugged: bool) {}
}
