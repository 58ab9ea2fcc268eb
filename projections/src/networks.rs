//! The networks with their subnets and ports, and every project's network limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::{Recorded, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::ids::{NetworkId, PortId, ProjectId, SecurityGroupId, SubnetId};
use chronova_events::network::{Network, NetworkEvent, NetworkRow, Port, Subnet};
use chronova_events::network_quota::{NetworkLimits, NetworkQuotaEvent};
use chronova_events::registry::Event;
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Networks {
    by_id: BTreeMap<NetworkId, Network>,
    /// Which network a subnet is of.
    subnets: BTreeMap<SubnetId, NetworkId>,
    /// Which network a port is of.
    ports: BTreeMap<PortId, NetworkId>,
    by_device: BTreeMap<String, BTreeSet<PortId>>,
    by_host: BTreeMap<String, BTreeSet<PortId>>,
    by_group: BTreeMap<SecurityGroupId, BTreeSet<PortId>>,
    held: BTreeMap<ProjectId, Held>,
    limits: BTreeMap<ProjectId, NetworkLimits>,
}

/// What a project has.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Held {
    pub networks: BTreeSet<NetworkId>,
    pub subnets: BTreeSet<SubnetId>,
    pub ports: BTreeSet<PortId>,
}

impl Networks {
    /// The network with everything in it.
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

    pub fn of_device(&self, device: &str) -> impl Iterator<Item = &Arc<Port>> {
        self.by_device.get(device).into_iter().flatten().filter_map(|id| self.port(*id))
    }

    /// The ports bound to a compute host.
    pub fn on_host(&self, host: &str) -> impl Iterator<Item = &Arc<Port>> {
        self.by_host.get(host).into_iter().flatten().filter_map(|id| self.port(*id))
    }

    /// The ports that a security group applies to.
    pub fn members(&self, group: SecurityGroupId) -> impl Iterator<Item = &Arc<Port>> {
        self.by_group.get(&group).into_iter().flatten().filter_map(|id| self.port(*id))
    }

    pub fn held(&self, project: &ProjectId) -> Option<&Held> {
        self.held.get(project)
    }

    /// Limits other than the defaults.
    pub fn limits(&self, project: &ProjectId) -> Option<&NetworkLimits> {
        self.limits.get(project)
    }

    /// Projects with limits of their own.
    pub fn limited(&self) -> impl Iterator<Item = (&ProjectId, &NetworkLimits)> {
        self.limits.iter()
    }
}

impl Projection for Networks {
    const NAME: &'static str = "networks";
    const VERSION: u32 = 1;
    const NOUNS: &'static [&'static str] = &["network", "network_quota"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let at = recorded.recorded_at;
        match event {
            Event::NetworkEvent(event) => {
                if let Ok(id) = recorded.stream.key().parse() {
                    self.apply_network(id, event, at);
                }
            }
            Event::NetworkQuotaEvent(event) => self.apply_quota(event, at),
            _ => {}
        }
    }

    fn weight(&self) -> u64 {
        (self.ports.len() + self.by_id.len()) as u64 * 1_536
    }
}

impl Networks {
    fn apply_quota(&mut self, event: &NetworkQuotaEvent, at: Timestamp) {
        match event {
            NetworkQuotaEvent::NetworkLimitsSet(set) => {
                self.limits.entry(set.project.clone()).or_default().evolve(event, at);
            }
            NetworkQuotaEvent::NetworkLimitsReset(reset) => {
                self.limits.remove(&reset.project);
            }
        }
    }

    fn apply_network(&mut self, id: NetworkId, event: &NetworkEvent, at: Timestamp) {
        let port = port_of(event);
        if let Some(port) = port {
            self.forget_port(id, port);
        }
        self.before(id, event);
        self.by_id.entry(id).or_default().evolve(event, at);
        self.after(id, event);
        if let Some(port) = port {
            self.index_port(id, port);
        }
    }

    /// What goes away is taken out of the indexes while it can still be seen.
    fn before(&mut self, id: NetworkId, event: &NetworkEvent) {
        match event {
            NetworkEvent::NetworkDeleted(_) => {
                if let Some(row) = self.by_id.get(&id).and_then(|network| network.row.clone())
                    && let Some(held) = self.held.get_mut(&row.created.project)
                {
                    held.networks.remove(&id);
                }
            }
            NetworkEvent::SubnetRemoved(removed) => {
                if let Some(subnet) = self.subnet(removed.subnet).cloned()
                    && let Some(held) = self.held.get_mut(&subnet.added.project)
                {
                    held.subnets.remove(&removed.subnet);
                }
                self.subnets.remove(&removed.subnet);
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
        take_out(&mut self.by_device, &port.binding().device, id);
        take_out(&mut self.by_host, &port.binding().host, id);
        for group in &port.settings().security_groups {
            take_out(&mut self.by_group, group, id);
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
        for group in &port.settings().security_groups {
            self.by_group.entry(*group).or_default().insert(id);
        }
        self.held.entry(port.created.project.clone()).or_default().ports.insert(id);
    }
}

fn take_out<K: Ord>(index: &mut BTreeMap<K, BTreeSet<PortId>>, key: &K, id: PortId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

/// The port that an event is about.
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
        | NetworkEvent::SubnetRemoved(_) => None,
    }
}
