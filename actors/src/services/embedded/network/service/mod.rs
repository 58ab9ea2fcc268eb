//! Implements [`NetworkService`] with the embedded network service.
//!
//! [`check`] refuses requests with Nova's messages, before a server is accepted. [`allocate`] creates and binds the
//! ports of a new server, [`attach`] those of an existing server. [`automatic`] creates the network of a project that
//! has none, with addresses of [`automatic_range`]. [`groups`] changes the security groups of ports.
//! [`devices`] handles ports whose interfaces are PCI devices of their hosts. [`reads`] answers the compute service,
//! [`resources`] answers users. [`realise`] describes the networks and filters that a host needs. Invariants:
//!  - allocate is idempotent. A port's id derives from the server's id and the index of the interface, so a repeated
//!    call finds the same ports;
//!  - release misses no port. It goes to every network with a port of the server in the views, and to every network
//!    on which this operating-system process has requested a port that the views may not show yet. After a restart, the
//!    views are complete before the service is called.

mod allocate;
mod attach;
mod automatic;
mod automatic_range;
mod check;
mod devices;
mod groups;
mod reads;
mod realise;
mod resources;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::clock::Clock;
use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};
use chronova_events::network::{Port, PortBinding};
use chronova_events::network_quota::CountedResource;
use chronova_projections::networks::NetworksView;
use chronova_projections::views::Views;
use ipnet::Ipv4Net;

pub use self::automatic_range::read_automatic_range;

use super::ovn::{self, OvnOptions, OvnPlane};
use super::{NetworkCommand, NetworkReject, NetworkRoot};
use crate::aggregate::CommandError;
use crate::coordination::project_turns::ProjectTurns;
use crate::coordination::touched_networks::TouchedNetworks;
use crate::gateway::CommandGateway;
use crate::pci::ports::DevicePort;
use crate::ports::{
    FloatingAddress, HostNetworkSetup, InterfaceRequest, InterfacesRequest, NetworkPlane, NetworkResources,
    NetworkService, PlugState, PortError, PortGrants, PortInfo, SecurityGroupInfo, ServiceCaller,
};
use crate::services::embedded::network::quota::{NetworkQuotaCommand, NetworkQuotaReject, NetworkQuotaRoot, room};
use crate::topology::networks::NetworkCarrier;

/// The longest wait of a call for the read models, which lag by microseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the preparation of a live migration waits until OVN's database admits the destination. This takes a moment
/// if the database answers.
const ADMISSION: Duration = Duration::from_secs(10);

/// The embedded network service.
pub struct EmbeddedNetworks {
    gateway: Arc<CommandGateway>,
    views: Arc<Views>,
    clock: Arc<dyn Clock>,
    /// `None`: each host has its own libvirt networks.
    ovn: Option<Arc<OvnPlane>>,
    /// The addresses for networks of projects that have none; `None`: no such network is made.
    automatic_range: Option<Ipv4Net>,
    /// Whether the read models are those of a past moment. OVN keeps no past.
    is_past: bool,
    touched: TouchedNetworks,
    floating_ip_turns: ProjectTurns,
    /// Held while a network is made for a project that has none.
    automatic_turn: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for EmbeddedNetworks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EmbeddedNetworks")
    }
}

impl EmbeddedNetworks {
    /// The service with libvirt networks, which do not span hosts.
    pub fn new(gateway: Arc<CommandGateway>, views: Arc<Views>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::with(gateway, views, clock, None, None)
    }

    /// The service with the networks of OVN, or with libvirt networks. `automatic_range`: the addresses for networks
    /// that the service makes for projects without a network.
    pub fn with(
        gateway: Arc<CommandGateway>,
        views: Arc<Views>,
        clock: Arc<dyn Clock>,
        ovn: Option<Arc<OvnPlane>>,
        automatic_range: Option<Ipv4Net>,
    ) -> Arc<Self> {
        Arc::new(Self {
            gateway,
            views,
            clock,
            ovn,
            automatic_range,
            is_past: false,
            touched: TouchedNetworks::default(),
            floating_ip_turns: ProjectTurns::default(),
            automatic_turn: tokio::sync::Mutex::default(),
        })
    }

    /// OVN's options; `None` if libvirt carries the networks.
    fn carried(&self) -> Option<&OvnOptions> {
        self.ovn.as_deref().map(OvnPlane::options)
    }

    /// The networks that may have ports of the server.
    fn networks_of(&self, project: &ProjectId, instance: InstanceId) -> BTreeSet<NetworkId> {
        let mut networks = self.touched.of(instance);
        self.views
            .networks
            .read(|view| networks.extend(view.of_server(project, instance).map(|port| port.created.network)));
        networks
    }

    fn ports_of(&self, project: &ProjectId, instance: InstanceId) -> Vec<Arc<Port>> {
        self.views.networks.read(|view| view.of_server(project, instance).cloned().collect())
    }

    async fn send(
        &self,
        network: NetworkId,
        command: NetworkCommand,
        meta: &Arc<Meta>,
    ) -> Result<Position, CommandError<NetworkReject>> {
        let committed = self.gateway.send::<NetworkRoot>(&network, command, Arc::clone(meta)).await?;
        Ok(committed.position)
    }

    /// Reserves quota for new ports.
    async fn take_room(&self, project: &ProjectId, ports: BTreeSet<PortId>, meta: &Arc<Meta>) -> Result<(), PortError> {
        if ports.is_empty() {
            return Ok(());
        }
        let things = ports.into_iter().map(CountedResource::Port).collect();
        self.take_quota(project, things, check::too_many_ports(), meta).await
    }

    /// Reserves quota for new resources. `exceeded`: the error if there is not enough.
    async fn take_quota(
        &self,
        project: &ProjectId,
        things: BTreeSet<CountedResource>,
        exceeded: PortError,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let take = self.views.networks.read(|view| room::take(view, project, things, self.clock.now()));
        let sent = self.gateway.send::<NetworkQuotaRoot>(project, take, Arc::clone(meta)).await;
        sent.map(drop).map_err(|error| match error {
            CommandError::Rejected(NetworkQuotaReject::OverQuota(_)) => exceeded,
            CommandError::Unavailable(error) => PortError::Unavailable(error.to_string()),
        })
    }

    /// Releases the quota of ports that were not created.
    async fn give_back(&self, project: &ProjectId, ports: BTreeSet<PortId>, meta: &Arc<Meta>) {
        let things: BTreeSet<CountedResource> = self.views.networks.read(|view| {
            ports.into_iter().filter(|port| view.port(*port).is_none()).map(CountedResource::Port).collect()
        });
        let release = NetworkQuotaCommand::Release { project: project.clone(), things };
        if let Err(error) = self.gateway.send::<NetworkQuotaRoot>(project, release, Arc::clone(meta)).await {
            tracing::warn!(%project, %error, "releasing quota of ports failed, retrying later");
        }
    }

    async fn see(&self, position: Position) -> Result<(), PortError> {
        if self.views.wait_for(position, PATIENCE).await {
            Ok(())
        } else {
            Err(PortError::Unavailable("the network read models lag behind".to_owned()))
        }
    }
}

#[async_trait]
impl NetworkService for EmbeddedNetworks {
    async fn check(
        &self,
        project: &ProjectId,
        networks: &RequestedNetworks,
        security_groups: &[String],
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        for nic in networks.listed() {
            check::chosen_address(&self.views, project, nic, caller)?;
        }
        check::check(&self.views, project, networks, security_groups)
    }

    async fn check_auto(&self, project: &ProjectId, caller: &ServiceCaller) -> Result<(), PortError> {
        self.ensure_network(project, &caller.meta).await
    }

    async fn allocate(&self, wanted: InterfacesRequest, meta: Arc<Meta>) -> Result<Vec<NicInfo>, PortError> {
        let allocated = self.allocate_all(&wanted, &meta).await;
        if let Err(error) = &allocated
            && !matches!(error, PortError::Unavailable(_))
        {
            if let Err(undo) = self.release(wanted.instance, &wanted.project, &[], Arc::clone(&meta)).await {
                // The calling process releases the ports again when it is undone.
                tracing::warn!(instance = %wanted.instance, %error, %undo, "undoing ports failed, retrying");
            }
            self.give_back(&wanted.project, allocate::made_for(&wanted), &meta).await;
        }
        allocated
    }

    async fn check_attach(
        &self,
        project: &ProjectId,
        nic: &RequestedNic,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        check::chosen_address(&self.views, project, nic, caller)?;
        // If a part of Chronova calls without a user, it has the rights of the project.
        let by_administrator = caller.is_admin && caller.rights.is_some();
        attach::check(&self.views, project, nic, by_administrator).map(drop)
    }

    async fn attach(&self, wanted: InterfaceRequest, meta: Arc<Meta>) -> Result<NicInfo, PortError> {
        self.attach_one(wanted, &meta).await
    }

    async fn undo_attach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.detach(instance, project, attach::port_of(process), true, meta).await
    }

    async fn detach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        port: PortId,
        _: bool,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        let mut networks = self.touched.of(instance);
        networks.extend(self.views.networks.read(|view| view.port(port).map(|port| port.created.network)));
        let mut seen = Position::START;
        for network in networks {
            let command = NetworkCommand::ReleasePort { device: instance, project: project.clone(), port };
            seen = seen.max(self.send(network, command, &meta).await.map_err(port_error)?);
        }
        self.see(seen).await
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
        self.add_group(instance, project, group, &caller.meta).await
    }

    async fn remove_security_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        group: &str,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.remove_group(instance, project, group, &caller.meta).await
    }

    async fn group_names(
        &self,
        servers: &[(InstanceId, ProjectId)],
        _: &ServiceCaller,
    ) -> Result<Vec<Option<Vec<String>>>, PortError> {
        Ok(reads::group_names(&self.views, servers))
    }

    async fn find_security_groups(
        &self,
        project: &ProjectId,
        named: &[String],
        _: &ServiceCaller,
    ) -> Result<Vec<Option<SecurityGroupInfo>>, PortError> {
        Ok(self.views.security_groups.read(|view| {
            let find = |name: &String| reads::find_group(view, project, name);
            named.iter().map(|name| find(name).map(|group| reads::group_info(view, group))).collect()
        }))
    }

    async fn floating_addresses(&self, ports: &[PortId], _: &ServiceCaller) -> Result<Vec<FloatingAddress>, PortError> {
        Ok(self.views.networks.read(|view| reads::floating_addresses(view, ports)))
    }

    async fn device_ports(&self, ports: &[PortId], _: &Arc<Meta>) -> Result<Vec<DevicePort>, PortError> {
        Ok(self.views.networks.read(|view| devices::requested(view, ports)))
    }

    async fn carriers(
        &self,
        networks: &[NetworkId],
        ports: &[PortId],
        _: &Arc<Meta>,
    ) -> Result<BTreeSet<NetworkCarrier>, PortError> {
        Ok(self.views.networks.read(|view| devices::carriers(view, networks, ports)))
    }

    async fn find_ports(&self, ports: &[PortId], _: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        let found = |view: &NetworksView| {
            let known = ports.iter().filter_map(|port| view.port(*port));
            known.map(|port| reads::port_info(port)).collect()
        };
        Ok(self.views.networks.read(found))
    }

    async fn ports_at(&self, address: IpAddr, _: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        Ok(self.views.networks.read(|view| view.at_address(address).map(|port| reads::port_info(port)).collect()))
    }

    /// All state of the service is in the log, so the read models of a past moment suffice to answer for that moment.
    /// The result must not be used for changes.
    fn as_of(&self, past: &Arc<Views>) -> Option<Arc<dyn NetworkService>> {
        Some(Arc::new(Self {
            gateway: Arc::clone(&self.gateway),
            views: Arc::clone(past),
            clock: Arc::clone(&self.clock),
            ovn: self.ovn.clone(),
            automatic_range: None,
            is_past: true,
            touched: TouchedNetworks::default(),
            floating_ip_turns: ProjectTurns::default(),
            automatic_turn: tokio::sync::Mutex::default(),
        }))
    }

    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError> {
        Ok(attach::refreshed(&self.views, instance, nics, self.carried()))
    }

    async fn release(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        _: &[PortId],
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        let mut seen = Position::START;
        for network in self.networks_of(project, instance) {
            let command = NetworkCommand::ReleaseDevice { device: instance, project: project.clone() };
            seen = seen.max(self.send(network, command, &meta).await.map_err(port_error)?);
        }
        self.touched.forget(instance);
        self.see(seen).await
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
        let mut seen = Position::START;
        for port in self.ports_of(project, instance) {
            seen = seen.max(self.equip(&port, grants.of(port.created.port).device, &meta).await?);
            let (created, now) = (&port.created, port.binding().clone());
            let owner = match host {
                Some(_) => format!("compute:{availability_zone}"),
                None => now.owner.clone(),
            };
            let binding = PortBinding { owner, host: host.unwrap_or_default().to_owned(), ..now };
            let command = NetworkCommand::BindPort { port: created.port, project: created.project.clone(), binding };
            seen = seen.max(self.send(created.network, command, &meta).await.map_err(port_error)?);
        }
        self.see(seen).await
    }

    fn resources(&self) -> Option<&dyn NetworkResources> {
        Some(self)
    }

    async fn realise(&self, nics: &[NicInfo]) -> Result<HostNetworkSetup, PortError> {
        realise::realise(&self.views, nics, self.carried())
    }

    /// A port keeps its binding. OVN allows the port at the destination, too, as soon as the log records the
    /// destination.
    async fn bind_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        _: &PortGrants,
        _: Arc<Meta>,
    ) -> Result<(), PortError> {
        let Some(ovn) = &self.ovn else { return Ok(()) };
        let ports: Vec<PortId> = self.ports_of(project, instance).iter().map(|port| port.created.port).collect();
        if ovn.wait_for(&ports, ADMISSION, |row| ovn::admits(row, host)).await {
            return Ok(());
        }
        let reason = ovn.trouble().unwrap_or_else(|| "it lacks the destination of a live migration".to_owned());
        Err(PortError::Unavailable(format!("OVN's northbound database: {reason}")))
    }

    async fn await_plugged(&self, ports: &[PortId], patience: Duration) -> Result<PlugState, PortError> {
        let Some(ovn) = &self.ovn else { return Ok(PlugState::Plugged) };
        let is_carried = |port: &PortId| {
            let row = self.views.networks.read(|networks| networks.port(*port).cloned());
            row.is_none_or(|row| ovn::plugs(&row))
        };
        let carried: Vec<PortId> = ports.iter().copied().filter(is_carried).collect();
        let is_up = ovn.wait_for(&carried, patience, ovn::is_up).await;
        Ok(if is_up { PlugState::Plugged } else { PlugState::NotYet })
    }

    fn plane(&self) -> Option<Arc<dyn NetworkPlane>> {
        self.ovn.clone().filter(|_| !self.is_past).map(|ovn| ovn as _)
    }
}

/// Maps a network's refusal to Nova's error.
fn port_error(error: CommandError<NetworkReject>) -> PortError {
    let reject = match error {
        CommandError::Rejected(reject) => reject,
        CommandError::Unavailable(error) => return PortError::Unavailable(error.to_string()),
    };
    let message = reject.to_string();
    match reject {
        NetworkReject::NotFound | NetworkReject::SubnetNotFound(_) | NetworkReject::FloatingIpNotFound(_) => {
            PortError::NotFound(message)
        }
        NetworkReject::PortNotFound(port) => PortError::Invalid(format!("Port id {port} could not be found.")),
        NetworkReject::InvalidInput(_)
        | NetworkReject::InvalidPool(_)
        | NetworkReject::PoolOutOfBounds { .. }
        | NetworkReject::NotInNetwork(_)
        | NetworkReject::NotInSubnet(_)
        | NetworkReject::NotExternal(_)
        | NetworkReject::NoIpv4(_)
        | NetworkReject::NoExternalAddress(_)
        | NetworkReject::GroupsNeedSecurity => PortError::Invalid(message),
        NetworkReject::IdTaken(_)
        | NetworkReject::Revision(_)
        | NetworkReject::NetworkInUse(..)
        | NetworkReject::SharedInUse(_)
        | NetworkReject::SubnetInUse(_)
        | NetworkReject::OverlappingPools { .. }
        | NetworkReject::GatewayInPool { .. }
        | NetworkReject::AddressInUse { .. }
        | NetworkReject::MacInUse { .. }
        | NetworkReject::NoMoreAddresses(_)
        | NetworkReject::NoMoreMacs(_)
        | NetworkReject::PortHasGroups
        | NetworkReject::PairsNeedSecurity
        | NetworkReject::PortInUse(_)
        | NetworkReject::GatewayExists { .. }
        | NetworkReject::AlreadyAssociated { .. }
        | NetworkReject::ExternalInUse(_)
        | NetworkReject::OverQuota(_) => PortError::Conflict(message),
    }
}
