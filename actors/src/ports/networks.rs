//! Networks, as compute asks for them: from the embedded network service, or from real Neutron.
//!
//! Two kinds of callers ask. A request asks for its user ([`ServiceCaller`], with the user's token as long as the user
//! waits). A process asks for a project when that user has long gone; a client of another service then uses an account of
//! its own, as `[neutron]` configures one.
//!
//! Invariants: ids of ports are the service's, compute only learns them from answers; a change is idempotent under the
//! server or the process that is named in it; a server's ports are those of its own project.
//!
//! | call | Neutron's part in it |
//! |---|---|
//! | `check`, `check_attach` | `GET networks`, `ports`, `quotas`, `security-groups` with the user's token |
//! | `allocate`, `attach` | `POST ports` with `device_id` and `binding:host_id`; a tag tells the place or the process |
//! | `undo_attach` | `GET ports` by `device_id` and tag, `DELETE ports` |
//! | `detach`, `release` | `DELETE` of tagged ports, `PUT ports` without `device_id` for the others |
//! | `rebind` | `PUT ports` with another `binding:host_id` |
//! | `add_address`, `remove_address` | `PUT ports` with other `fixed_ips` |
//! | `add_security_group`, `remove_security_group` | `GET security-groups`, `PUT ports` with other `security_groups` |
//! | `group_names` | one `GET ports` for all servers, one `GET security-groups` |
//! | `floating_addresses` | `GET floatingips` by `port_id` |
//! | `find_ports`, `ports_at` | `GET ports` by `id`, by `fixed_ips` |

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};
use chronova_events::network::FixedAddress;
use chronova_events::security_group::RuleTraffic;
use chronova_hypervisor::guest::{FilterSpec, NetworkSpec, Nic};
use chronova_projections::views::Views;

use super::{PortError, ServiceCaller};

/// Which interfaces a server is to have.
#[derive(Debug, Clone)]
pub struct InterfacesRequest {
    pub instance: InstanceId,
    pub project: ProjectId,
    pub hostname: String,
    /// The compute host that the ports are bound to.
    pub host: String,
    pub availability_zone: String,
    pub networks: RequestedNetworks,
    /// Names or ids; for the ports made for the server.
    pub security_groups: Vec<String>,
}

/// One more interface for a server that runs already.
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
}

/// Networks, filters and interfaces that a host provides before a guest with these interfaces can start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostNetworkSetup {
    pub networks: Vec<NetworkSpec>,
    pub filters: Vec<FilterSpec>,
    pub nics: Vec<Nic>,
}

/// A port, as far as compute cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    pub port: PortId,
    pub network: NetworkId,
    pub project: ProjectId,
    /// The server that it says it is of; `None`: it is of none, or of something else.
    pub server: Option<InstanceId>,
    /// The compute host that it is bound to.
    pub host: Option<String>,
    pub addresses: Vec<FixedAddress>,
}

/// A floating address that stands for an address of a port.
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
    /// Project and name of the group that `traffic` names as the other side, where that is still there.
    pub remote: Option<(ProjectId, String)>,
}

/// The network service. Refusals of changes are in Nova's words.
#[async_trait]
pub trait NetworkService: Send + Sync + 'static {
    /// Whether a server of `project` could be given these interfaces; asked before the server is accepted.
    async fn check(
        &self,
        project: &ProjectId,
        networks: &RequestedNetworks,
        security_groups: &[String],
    ) -> Result<(), PortError>;

    /// Whether `auto`, said in so many words, could be honoured: where nothing at all is said a server may go without
    /// interfaces, but `auto` wants one.
    async fn check_auto(&self, _project: &ProjectId) -> Result<(), PortError> {
        Ok(())
    }

    /// Makes or binds the ports of a server, in the order asked for. Idempotent under `wanted.instance`: a second call
    /// gives the same ports.
    async fn allocate(&self, wanted: InterfacesRequest, meta: Arc<Meta>) -> Result<Vec<NicInfo>, PortError>;

    /// Whether a server of `project` that runs already could be given this interface.
    async fn check_attach(&self, project: &ProjectId, nic: &RequestedNic) -> Result<(), PortError>;

    /// Makes or binds one more port of a server. Idempotent under `process`.
    async fn attach(&self, wanted: InterfaceRequest, meta: Arc<Meta>) -> Result<NicInfo, PortError>;

    /// Deletes the port that [`attach`](Self::attach) made for `process`, whether or not its answer arrived. None is
    /// success, and a port that was only bound stays: [`detach`](Self::detach) unbinds it.
    async fn undo_attach(&self, instance: InstanceId, process: ProcessId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Deletes one port of a server if it was made for it, and unbinds it otherwise. Not the server's (any more) is success.
    async fn detach(&self, instance: InstanceId, port: PortId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Gives the server one more address on a network that it has a port on.
    async fn add_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        network: NetworkId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// Takes an address from the port of the server that has it.
    async fn remove_address(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        address: IpAddr,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// Has a security group of `project`, named by id or by a name that only one has, apply to all ports of the server.
    /// `NotFound`: there is no such group. `Conflict`: several have the name. `Invalid`: the server has no ports, or one of
    /// them can have no groups. A port that is in the group already is success.
    async fn add_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// Has a security group no longer apply to any port of the server. Besides the refusals of
    /// [`add_security_group`](Self::add_security_group), `NotFound` says that no port is in the group.
    async fn remove_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// The names of the groups that apply to the ports of each server, in the order of `servers`; a name may be there
    /// several times. `None`: the server has no ports.
    async fn group_names(
        &self,
        servers: &[(InstanceId, ProjectId)],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<Vec<String>>>, PortError>;

    /// The groups of these ids or names, in the order of `named`; a name is looked for in `project`. `None`: there is none.
    async fn find_security_groups(
        &self,
        project: &ProjectId,
        named: &[String],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<SecurityGroupInfo>>, PortError>;

    /// The floating addresses that stand for addresses of these ports, in the order of `ports`.
    async fn floating_addresses(
        &self,
        ports: &[PortId],
        caller: &ServiceCaller,
    ) -> Result<Vec<FloatingAddress>, PortError>;

    /// Those of these ports that there are.
    async fn find_ports(&self, ports: &[PortId], caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError>;

    /// The ports of all projects that have this fixed address: networks that do not meet may use the same ones.
    async fn ports_at(&self, address: IpAddr, caller: &ServiceCaller) -> Result<Vec<PortInfo>, PortError>;

    /// The service as it was when the read models were as `past` has them. `None`: it does not remember.
    fn as_of(&self, _past: &Arc<Views>) -> Option<Arc<dyn NetworkService>> {
        None
    }

    /// The interfaces as the service has them now: those whose port is no longer the server's are missing.
    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError>;

    /// Deletes the ports made for the server and unbinds the others. None left is success.
    async fn release(&self, instance: InstanceId, project: &ProjectId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Takes the server's ports to a host, or off every host; they stay the server's. None is success.
    async fn rebind(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: Option<&str>,
        availability_zone: &str,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// How the interfaces look from a host.
    async fn realise(&self, nics: &[NicInfo]) -> Result<HostNetworkSetup, PortError>;
}
