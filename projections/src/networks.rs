//! The networks with their subnets, ports and floating addresses, the routers, and every project's network limits.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::envelope::{Recorded, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::ids::{
    FloatingIpId, InstanceId, NetworkId, PortId, ProjectId, RouterId, SecurityGroupId, SubnetId,
};
use chronova_events::network::{Association, FloatingIp, Network, NetworkEvent, NetworkRow, Port, Subnet};
use chronova_events::network_quota::{CountedResource, NetworkLimits, NetworkQuotaEvent};
use chronova_events::registry::Event;
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER, Router, RouterEvent, RouterRow};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct NetworksView {
    by_id: BTreeMap<NetworkId, Network>,
    /// The network of each subnet.
    subnets: BTreeMap<SubnetId, NetworkId>,
    /// The network of each port.
    ports: BTreeMap<PortId, NetworkId>,
    by_device: BTreeMap<String, BTreeSet<PortId>>,
    by_host: BTreeMap<String, BTreeSet<PortId>>,
    /// The ports of each address. Separate networks may use the same addresses.
    by_address: BTreeMap<IpAddr, BTreeSet<PortId>>,
    by_group: BTreeMap<SecurityGroupId, BTreeSet<PortId>>,
    /// The network of each floating address.
    floating_ips: BTreeMap<FloatingIpId, NetworkId>,
    /// The floating addresses of each port.
    floating_by_port: BTreeMap<PortId, BTreeSet<FloatingIpId>>,
    routers: BTreeMap<RouterId, Router>,
    /// The ports of each router, even of a deleted one.
    by_router: BTreeMap<RouterId, BTreeSet<PortId>>,
    held: BTreeMap<ProjectId, ProjectNetworkResources>,
    limits: BTreeMap<ProjectId, NetworkLimits>,
    /// Deleted resources whose reserved quota is not released yet.
    freed: BTreeMap<ProjectId, BTreeSet<CountedResource>>,
}

/// The network resources of a project.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct ProjectNetworkResources {
    pub networks: BTreeSet<NetworkId>,
    pub subnets: BTreeSet<SubnetId>,
    pub ports: BTreeSet<PortId>,
    pub routers: BTreeSet<RouterId>,
    pub floating_ips: BTreeSet<FloatingIpId>,
}

impl ProjectNetworkResources {
    /// The resources of the kinds that reserve quota: all except floating addresses.
    pub fn counted(&self) -> impl Iterator<Item = CountedResource> {
        let networks = self.networks.iter().copied().map(CountedResource::Network);
        let subnets = self.subnets.iter().copied().map(CountedResource::Subnet);
        let ports = self.ports.iter().copied().map(CountedResource::Port);
        networks.chain(subnets).chain(ports).chain(self.routers.iter().copied().map(CountedResource::Router))
    }
}

impl NetworksView {
    /// The network with its subnets, ports and floating addresses.
    pub fn whole(&self, id: NetworkId) -> Option<&Network> {
        self.by_id.get(&id)
    }

    pub fn network(&self, id: NetworkId) -> Option<&Arc<NetworkRow>> {
        self.by_id.get(&id)?.row.as_ref()
    }

    pub fn networks(&self) -> impl Iterator<Item = &Arc<NetworkRow>> {
        self.by_id.values().filter_map(|network| network.row.as_ref())
    }

    pub fn subnet(&self, id: SubnetId) -> Option<&Arc<Subnet>> {
        self.by_id.get(self.subnets.get(&id)?)?.subnets.get(&id)
    }

    pub fn subnets(&self) -> impl Iterator<Item = &Arc<Subnet>> {
        self.by_id.values().flat_map(|network| network.subnets.values())
    }

    pub fn port(&self, id: PortId) -> Option<&Arc<Port>> {
        self.by_id.get(self.ports.get(&id)?)?.ports.get(&id)
    }

    pub fn ports(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.by_id.values().flat_map(|network| network.ports.values())
    }

    /// All ports that name this device. [`of_server`](Self::of_server) lists those that really belong to the server.
    pub fn of_device(&self, device: &str) -> impl Iterator<Item = &Arc<Port>> + use<'_> {
        self.by_device.get(device).into_iter().flatten().filter_map(|id| self.port(*id))
    }

    /// The ports of a server: the ports of its project with the server as device. Any project may write any device into
    /// its own port, so a port of another project is never the server's.
    pub fn of_server(&self, project: &ProjectId, server: InstanceId) -> impl Iterator<Item = &Arc<Port>> {
        // Lists ask for each of their servers, so the id is written without a formatter.
        let mut digits = [0; uuid::fmt::Hyphenated::LENGTH];
        let device: &str = server.0.hyphenated().encode_lower(&mut digits);
        self.of_device(device).filter(move |port| port.created.project == *project)
    }

    /// The ports bound to a compute host.
    pub fn on_host(&self, host: &str) -> impl Iterator<Item = &Arc<Port>> {
        self.by_host.get(host).into_iter().flatten().filter_map(|id| self.port(*id))
    }

    /// The ports that have this fixed address.
    pub fn at_address(&self, address: IpAddr) -> impl Iterator<Item = &Arc<Port>> {
        self.by_address.get(&address).into_iter().flatten().filter_map(|id| self.port(*id))
    }

    /// The ports that a security group applies to.
    pub fn members(&self, group: SecurityGroupId) -> impl Iterator<Item = &Arc<Port>> {
        self.by_group.get(&group).into_iter().flatten().filter_map(|id| self.port(*id))
    }

    pub fn floating_ip(&self, id: FloatingIpId) -> Option<&Arc<FloatingIp>> {
        self.by_id.get(self.floating_ips.get(&id)?)?.floating_ips.get(&id)
    }

    pub fn floating_ips(&self) -> impl Iterator<Item = &Arc<FloatingIp>> {
        self.floating_ips.keys().filter_map(|id| self.floating_ip(*id))
    }

    /// The association of a floating address. `None` as soon as its port is deleted or loses the fixed address. The
    /// event that ends the association follows later, in the stream of the external network.
    pub fn association<'a>(&self, floating: &'a FloatingIp) -> Option<&'a Association> {
        let to = floating.association.as_ref()?;
        let has = |port: &Arc<Port>| port.addresses().iter().any(|fixed| fixed.address == to.address);
        self.port(to.port).is_some_and(has).then_some(to)
    }

    /// The floating addresses that are associated with the port.
    pub fn floating_ips_at(&self, port: PortId) -> impl Iterator<Item = (&Arc<FloatingIp>, &Association)> {
        let given = self.floating_by_port.get(&port).into_iter().flatten().filter_map(|id| self.floating_ip(*id));
        given.filter_map(|floating| Some((floating, self.association(floating)?)))
    }

    /// Whether at least one port has a floating address. Callers skip their search if this is false.
    pub fn any_floats(&self) -> bool {
        !self.floating_by_port.is_empty()
    }

    pub fn router(&self, id: RouterId) -> Option<&Arc<RouterRow>> {
        self.routers.get(&id)?.row.as_ref()
    }

    pub fn routers(&self) -> impl Iterator<Item = &Arc<RouterRow>> {
        self.routers.values().filter_map(|router| router.row.as_ref())
    }

    /// All ports of the router: its gateway and its interfaces.
    pub fn of_router(&self, router: RouterId) -> impl Iterator<Item = &Arc<Port>> {
        self.by_router.get(&router).into_iter().flatten().filter_map(|id| self.port(*id))
    }

    /// The router's port in an external network.
    pub fn gateway_of(&self, router: RouterId) -> Option<&Arc<Port>> {
        self.of_router(router).find(|port| port.binding().owner == GATEWAY_OWNER)
    }

    pub fn interfaces_of(&self, router: RouterId) -> impl Iterator<Item = &Arc<Port>> {
        self.of_router(router).filter(|port| port.binding().owner == INTERFACE_OWNER)
    }

    /// Ports of deleted routers.
    pub fn orphaned(&self) -> impl Iterator<Item = &Arc<Port>> {
        let gone = self.by_router.keys().filter(|router| self.router(**router).is_none());
        gone.flat_map(|router| self.of_router(*router))
    }

    /// The floating addresses that reach their ports through this router.
    pub fn routed_by(&self, router: RouterId) -> impl Iterator<Item = (&Arc<FloatingIp>, &Association)> {
        let associated = self.floating_by_port.keys().flat_map(|port| self.floating_ips_at(*port));
        associated.filter(move |(_, to)| to.router == router)
    }

    pub fn held(&self, project: &ProjectId) -> Option<&ProjectNetworkResources> {
        self.held.get(project)
    }

    /// Deleted resources with reserved quota that is not released yet.
    pub fn freed(&self, project: &ProjectId) -> Option<&BTreeSet<CountedResource>> {
        self.freed.get(project)
    }

    /// The limits that an administrator set for the project, and its reserved quota.
    pub fn limits(&self, project: &ProjectId) -> Option<&NetworkLimits> {
        self.limits.get(project)
    }

    /// Projects with limits of their own.
    pub fn limited(&self) -> impl Iterator<Item = (&ProjectId, &NetworkLimits)> {
        self.limits.iter().filter(|(_, own)| !own.limits.is_empty())
    }
}

impl Projection for NetworksView {
    const NAME: &'static str = "networks";
    const VERSION: u32 = 4;
    const NOUNS: &'static [&'static str] = &["network", "network_quota", "router"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let at = recorded.recorded_at;
        match event {
            Event::NetworkEvent(event) => {
                if let Ok(id) = recorded.stream.key().parse() {
                    self.apply_network(id, event, at);
                }
            }
            Event::NetworkQuotaEvent(event) => self.apply_quota(event, at),
            Event::RouterEvent(event) => {
                if let Ok(id) = recorded.stream.key().parse() {
                    self.apply_router(id, event, at);
                }
            }
            _ => {}
        }
    }

    fn weight(&self) -> u64 {
        (self.ports.len() + self.by_id.len()) as u64 * 1_536
    }
}

impl NetworksView {
    fn apply_quota(&mut self, event: &NetworkQuotaEvent, at: Timestamp) {
        let (project, things): (_, &[CountedResource]) = match event {
            NetworkQuotaEvent::NetworkLimitsSet(set) => (&set.project, &[]),
            NetworkQuotaEvent::NetworkLimitsReset(reset) => (&reset.project, &[]),
            NetworkQuotaEvent::NetworkRoomTaken(room) => (&room.project, &room.things),
            NetworkQuotaEvent::NetworkRoomReleased(room) => (&room.project, &room.things),
        };
        let own = self.limits.entry(project.clone()).or_default();
        own.evolve(event, at);
        if *own == NetworkLimits::default() {
            self.limits.remove(project);
        }
        for thing in things {
            take_out(&mut self.freed, project, thing);
        }
    }

    fn free(&mut self, project: &ProjectId, thing: CountedResource) {
        if self.limits.get(project).is_some_and(|own| own.taken.contains_key(&thing)) {
            self.freed.entry(project.clone()).or_default().insert(thing);
        }
    }

    fn apply_router(&mut self, id: RouterId, event: &RouterEvent, at: Timestamp) {
        match event {
            RouterEvent::RouterCreated(created) => {
                self.held.entry(created.project.clone()).or_default().routers.insert(id);
            }
            RouterEvent::RouterDeleted(_) => {
                if let Some(row) = self.router(id).cloned()
                    && let Some(held) = self.held.get_mut(row.project())
                {
                    held.routers.remove(&id);
                    self.free(row.project(), CountedResource::Router(id));
                }
            }
            RouterEvent::RouterSettingsReplaced(_) => {}
        }
        let router = self.routers.entry(id).or_default();
        router.evolve(event, at);
        if router.row.is_none() {
            self.routers.remove(&id);
        }
    }

    fn apply_network(&mut self, id: NetworkId, event: &NetworkEvent, at: Timestamp) {
        let port = port_of(event);
        if let Some(port) = port {
            self.forget_port(id, port);
        }
        let floating = floating_ip_of(event);
        if let Some(floating) = floating {
            self.forget_floating_ip(id, floating);
        }
        self.before(id, event);
        self.by_id.entry(id).or_default().evolve(event, at);
        self.after(id, event);
        if let Some(port) = port {
            self.index_port(id, port);
        }
        if let Some(floating) = floating {
            self.index_floating_ip(id, floating);
        }
    }

    fn forget_floating_ip(&mut self, network: NetworkId, id: FloatingIpId) {
        let known = self.by_id.get(&network).and_then(|network| network.floating_ips.get(&id));
        let Some(floating) = known.cloned() else { return };
        self.floating_ips.remove(&id);
        if let Some(to) = &floating.association {
            take_out(&mut self.floating_by_port, &to.port, &id);
        }
        if let Some(held) = self.held.get_mut(floating.project()) {
            held.floating_ips.remove(&id);
        }
    }

    fn index_floating_ip(&mut self, network: NetworkId, id: FloatingIpId) {
        let known = self.by_id.get(&network).and_then(|network| network.floating_ips.get(&id));
        let Some(floating) = known.cloned() else { return };
        self.floating_ips.insert(id, network);
        if let Some(to) = &floating.association {
            self.floating_by_port.entry(to.port).or_default().insert(id);
        }
        self.held.entry(floating.project().clone()).or_default().floating_ips.insert(id);
    }

    /// Takes deleted networks and subnets out of the indexes, and notes deleted resources that hold reserved quota.
    /// Runs while their rows still exist.
    fn before(&mut self, id: NetworkId, event: &NetworkEvent) {
        match event {
            NetworkEvent::NetworkDeleted(_) => {
                if let Some(row) = self.by_id.get(&id).and_then(|network| network.row.clone())
                    && let Some(held) = self.held.get_mut(&row.created.project)
                {
                    held.networks.remove(&id);
                    self.free(&row.created.project, CountedResource::Network(id));
                }
            }
            NetworkEvent::SubnetRemoved(removed) => {
                if let Some(subnet) = self.subnet(removed.subnet).cloned()
                    && let Some(held) = self.held.get_mut(&subnet.added.project)
                {
                    held.subnets.remove(&removed.subnet);
                    self.free(&subnet.added.project, CountedResource::Subnet(removed.subnet));
                }
                self.subnets.remove(&removed.subnet);
            }
            NetworkEvent::PortDeleted(deleted) => {
                let port = self.by_id.get(&id).and_then(|network| network.ports.get(&deleted.port)).cloned();
                if let Some(port) = port {
                    self.free(&port.created.project, CountedResource::Port(deleted.port));
                }
            }
            _ => {}
        }
    }

    fn after(&mut self, id: NetworkId, event: &NetworkEvent) {
        match event {
            NetworkEvent::NetworkCreated(created) => {
                self.held.entry(created.project.clone()).or_default().networks.insert(id);
            }
            NetworkEvent::NetworkDeleted(_) => {
                self.by_id.remove(&id);
            }
            // Chronova may create a deleted port of a server again, with the same id.
            NetworkEvent::PortCreated(created) => {
                take_out(&mut self.freed, &created.project, &CountedResource::Port(created.port));
            }
            NetworkEvent::SubnetAdded(added) => {
                self.subnets.insert(added.subnet, id);
                self.held.entry(added.project.clone()).or_default().subnets.insert(added.subnet);
            }
            _ => {}
        }
    }

    fn forget_port(&mut self, network: NetworkId, id: PortId) {
        let Some(port) = self.by_id.get(&network).and_then(|network| network.ports.get(&id)).cloned() else { return };
        self.ports.remove(&id);
        take_out(&mut self.by_device, &port.binding().device, &id);
        take_out(&mut self.by_host, &port.binding().host, &id);
        for address in addresses(&port) {
            take_out(&mut self.by_address, &address, &id);
        }
        if let Some(router) = router_of(&port) {
            take_out(&mut self.by_router, &router, &id);
        }
        for group in &port.settings().security_groups {
            take_out(&mut self.by_group, group, &id);
        }
        if let Some(held) = self.held.get_mut(&port.created.project) {
            held.ports.remove(&id);
        }
    }

    fn index_port(&mut self, network: NetworkId, id: PortId) {
        let Some(port) = self.by_id.get(&network).and_then(|network| network.ports.get(&id)).cloned() else { return };
        self.ports.insert(id, network);
        let binding = port.binding();
        if !binding.device.is_empty() {
            self.by_device.entry(binding.device.clone()).or_default().insert(id);
        }
        if !binding.host.is_empty() {
            self.by_host.entry(binding.host.clone()).or_default().insert(id);
        }
        for address in addresses(&port) {
            self.by_address.entry(address).or_default().insert(id);
        }
        if let Some(router) = router_of(&port) {
            self.by_router.entry(router).or_default().insert(id);
        }
        for group in &port.settings().security_groups {
            self.by_group.entry(*group).or_default().insert(id);
        }
        self.held.entry(port.created.project.clone()).or_default().ports.insert(id);
    }
}

fn take_out<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, id: &V) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

fn addresses(port: &Port) -> impl Iterator<Item = IpAddr> {
    port.addresses().iter().map(|fixed| fixed.address)
}

/// The router of the port, if the port is a router's gateway or interface.
fn router_of(port: &Port) -> Option<RouterId> {
    let binding = port.binding();
    matches!(binding.owner.as_str(), GATEWAY_OWNER | INTERFACE_OWNER).then(|| binding.device.parse().ok())?
}

/// The floating address that an event names.
fn floating_ip_of(event: &NetworkEvent) -> Option<FloatingIpId> {
    match event {
        NetworkEvent::FloatingIpAllocated(allocated) => Some(allocated.floating_ip),
        NetworkEvent::FloatingIpSettingsReplaced(replaced) => Some(replaced.floating_ip),
        NetworkEvent::FloatingIpAssociated(associated) => Some(associated.floating_ip),
        NetworkEvent::FloatingIpDisassociated(end) => Some(end.floating_ip),
        NetworkEvent::FloatingIpReleased(released) => Some(released.floating_ip),
        _ => None,
    }
}

/// The port that an event names.
fn port_of(event: &NetworkEvent) -> Option<PortId> {
    match event {
        NetworkEvent::PortCreated(created) => Some(created.port),
        NetworkEvent::PortSettingsReplaced(replaced) => Some(replaced.port),
        NetworkEvent::PortReaddressed(new) => Some(new.port),
        NetworkEvent::PortBound(bound) => Some(bound.port),
        NetworkEvent::PortUnbound(unbound) => Some(unbound.port),
        NetworkEvent::PortDeleted(deleted) => Some(deleted.port),
        NetworkEvent::NetworkCreated(_)
        | NetworkEvent::NetworkSettingsReplaced(_)
        | NetworkEvent::NetworkDeleted(_)
        | NetworkEvent::SubnetAdded(_)
        | NetworkEvent::SubnetSettingsReplaced(_)
        | NetworkEvent::SubnetRemoved(_)
        | NetworkEvent::FloatingIpAllocated(_)
        | NetworkEvent::FloatingIpSettingsReplaced(_)
        | NetworkEvent::FloatingIpAssociated(_)
        | NetworkEvent::FloatingIpDisassociated(_)
        | NetworkEvent::FloatingIpReleased(_) => None,
    }
}
