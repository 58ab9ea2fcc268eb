//! The state of a network, folded from its events.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::floating::{Association, FloatingIp};
use super::ipam::Ipam;
use super::payloads::{FixedAddress, Ipv6Mode, NetworkCreated, PortBinding, PortCreated, PortSettings, SubnetAdded};
use super::{NetworkEvent, NetworkSettings};
use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{FloatingIpId, PortId, ProjectId, SubnetId};

/// The network itself, with its present settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkRow {
    pub created: NetworkCreated,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Grows with every change.
    pub revision: u64,
}

impl NetworkRow {
    pub fn settings(&self) -> &NetworkSettings {
        &self.created.settings
    }
}

/// A subnet with its present settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subnet {
    pub added: SubnetAdded,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: u64,
}

impl Subnet {
    /// Whether addresses are derived from the MAC.
    pub fn derives_addresses(&self) -> bool {
        matches!(self.added.ipv6_address_mode, Some(Ipv6Mode::Slaac | Ipv6Mode::Stateless))
    }
}

/// A port with its present settings, addresses and binding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Port {
    pub created: PortCreated,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: u64,
}

impl Port {
    pub fn settings(&self) -> &PortSettings {
        &self.created.settings
    }

    pub fn binding(&self) -> &PortBinding {
        &self.created.binding
    }

    pub fn addresses(&self) -> &[FixedAddress] {
        &self.created.addresses
    }
}

/// A network. `row` is `None` before its creation and after its deletion.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Network {
    pub row: Option<Arc<NetworkRow>>,
    /// Whether the network was deleted. Its id is never used again.
    pub deleted: bool,
    pub subnets: BTreeMap<SubnetId, Arc<Subnet>>,
    pub ports: BTreeMap<PortId, Arc<Port>>,
    pub floating_ips: BTreeMap<FloatingIpId, Arc<FloatingIp>>,
    ipam: BTreeMap<SubnetId, Ipam>,
    macs: BTreeSet<String>,
    /// The ports of each device.
    by_device: BTreeMap<String, BTreeSet<PortId>>,
}

impl Network {
    pub fn ipam(&self, subnet: SubnetId) -> Option<&Ipam> {
        self.ipam.get(&subnet)
    }

    pub fn has_mac(&self, mac: &str) -> bool {
        self.macs.contains(mac)
    }

    /// The port that holds `address`.
    pub fn holder(&self, address: IpAddr) -> Option<PortId> {
        self.ipam.values().find_map(|ipam| ipam.holder(address))
    }

    pub fn of_device(&self, device: &str) -> impl Iterator<Item = &Arc<Port>> {
        self.by_device.get(device).into_iter().flatten().filter_map(|id| self.ports.get(id))
    }

    /// The number of floating addresses that the project has in this network.
    pub fn floating_ips_of(&self, project: &ProjectId) -> usize {
        self.floating_ips.values().filter(|floating| floating.project() == project).count()
    }

    /// The floating address that is associated with this fixed address.
    pub fn floating_ip_for(&self, port: PortId, address: IpAddr) -> Option<&Arc<FloatingIp>> {
        let is_for = |to: &Association| to.port == port && to.address == address;
        self.floating_ips.values().find(|floating| floating.association.as_ref().is_some_and(is_for))
    }

    fn floating_ip(&mut self, id: FloatingIpId, at: Timestamp, with: impl FnOnce(&mut FloatingIp)) {
        if let Some(floating) = self.floating_ips.get_mut(&id) {
            let floating = Arc::make_mut(floating);
            with(floating);
            floating.updated_at = at;
            floating.revision += 1;
        }
    }

    fn port(&mut self, id: PortId, at: Timestamp, with: impl FnOnce(&mut Port)) {
        if let Some(port) = self.ports.get_mut(&id) {
            let port = Arc::make_mut(port);
            with(port);
            port.updated_at = at;
            port.revision += 1;
        }
    }

    fn hold(&mut self, port: PortId, mac: &str, addresses: &[FixedAddress]) {
        self.macs.insert(mac.to_owned());
        for fixed in addresses {
            if let Some(ipam) = self.ipam.get_mut(&fixed.subnet) {
                ipam.take(fixed.address, port);
            }
        }
    }

    fn give_back(&mut self, mac: &str, addresses: &[FixedAddress]) {
        self.macs.remove(mac);
        for fixed in addresses {
            if let Some(ipam) = self.ipam.get_mut(&fixed.subnet) {
                ipam.give_back(fixed.address);
            }
        }
    }

    fn bind(&mut self, id: PortId, binding: PortBinding, at: Timestamp) {
        let Some(port) = self.ports.get(&id) else { return };
        let before = port.binding().device.clone();
        self.forget_device(&before, id);
        if !binding.device.is_empty() {
            self.by_device.entry(binding.device.clone()).or_default().insert(id);
        }
        self.port(id, at, |port| port.created.binding = binding);
    }

    fn forget_device(&mut self, device: &str, id: PortId) {
        if let Some(ports) = self.by_device.get_mut(device) {
            ports.remove(&id);
            if ports.is_empty() {
                self.by_device.remove(device);
            }
        }
    }

    fn create_port(&mut self, created: &PortCreated, at: Timestamp) {
        self.hold(created.port, &created.mac, &created.addresses);
        if !created.binding.device.is_empty() {
            self.by_device.entry(created.binding.device.clone()).or_default().insert(created.port);
        }
        let port = Port { created: created.clone(), created_at: at, updated_at: at, revision: 1 };
        self.ports.insert(created.port, Arc::new(port));
    }
}

impl Fold for Network {
    type Event = NetworkEvent;
    const STATE_VERSION: u32 = 2;

    fn evolve(&mut self, event: &NetworkEvent, at: Timestamp) {
        match event {
            NetworkEvent::NetworkCreated(created) => {
                let row = NetworkRow { created: created.clone(), created_at: at, updated_at: at, revision: 1 };
                self.row = Some(Arc::new(row));
            }
            NetworkEvent::NetworkSettingsReplaced(replaced) => {
                if let Some(row) = &mut self.row {
                    let row = Arc::make_mut(row);
                    replaced.tags.replace(&mut row.created.settings, &replaced.settings);
                    row.updated_at = at;
                    row.revision += 1;
                }
            }
            NetworkEvent::NetworkDeleted(_) => *self = Self { deleted: true, ..Self::default() },
            NetworkEvent::SubnetAdded(added) => {
                self.ipam.insert(added.subnet, Ipam::new(added.settings.pools.clone()));
                let subnet = Subnet { added: added.clone(), created_at: at, updated_at: at, revision: 0 };
                self.subnets.insert(added.subnet, Arc::new(subnet));
            }
            NetworkEvent::SubnetSettingsReplaced(replaced) => {
                if let Some(subnet) = self.subnets.get_mut(&replaced.subnet) {
                    let subnet = Arc::make_mut(subnet);
                    if subnet.added.settings.pools != replaced.settings.pools
                        && let Some(ipam) = self.ipam.get_mut(&replaced.subnet)
                    {
                        ipam.set_pools(replaced.settings.pools.clone());
                    }
                    replaced.tags.replace(&mut subnet.added.settings, &replaced.settings);
                    subnet.updated_at = at;
                    subnet.revision += 1;
                }
            }
            NetworkEvent::SubnetRemoved(removed) => {
                self.subnets.remove(&removed.subnet);
                self.ipam.remove(&removed.subnet);
            }
            NetworkEvent::PortCreated(created) => self.create_port(created, at),
            NetworkEvent::PortSettingsReplaced(replaced) => {
                self.port(replaced.port, at, |port| {
                    replaced.tags.replace(&mut port.created.settings, &replaced.settings);
                });
            }
            NetworkEvent::PortReaddressed(new) => {
                if let Some(port) = self.ports.get(&new.port).cloned() {
                    self.give_back(&port.created.mac, port.addresses());
                }
                self.hold(new.port, &new.mac, &new.addresses);
                self.port(new.port, at, |port| {
                    port.created.mac.clone_from(&new.mac);
                    port.created.addresses.clone_from(&new.addresses);
                });
            }
            NetworkEvent::PortBound(bound) => self.bind(bound.port, bound.binding.clone(), at),
            NetworkEvent::PortUnbound(unbound) => self.bind(unbound.port, PortBinding::default(), at),
            NetworkEvent::PortDeleted(deleted) => {
                if let Some(port) = self.ports.remove(&deleted.port) {
                    self.give_back(&port.created.mac, port.addresses());
                    self.forget_device(&port.binding().device, deleted.port);
                }
            }
            NetworkEvent::FloatingIpAllocated(allocated) => {
                let floating = FloatingIp {
                    allocated: allocated.clone(),
                    association: None,
                    created_at: at,
                    updated_at: at,
                    revision: 0,
                };
                self.floating_ips.insert(allocated.floating_ip, Arc::new(floating));
            }
            NetworkEvent::FloatingIpSettingsReplaced(replaced) => {
                self.floating_ip(replaced.floating_ip, at, |floating| {
                    replaced.tags.replace(&mut floating.allocated.settings, &replaced.settings);
                });
            }
            NetworkEvent::FloatingIpAssociated(associated) => {
                self.floating_ip(associated.floating_ip, at, |floating| {
                    floating.association = Some(associated.association);
                });
            }
            NetworkEvent::FloatingIpDisassociated(end) => {
                self.floating_ip(end.floating_ip, at, |floating| floating.association = None);
            }
            NetworkEvent::FloatingIpReleased(released) => {
                self.floating_ips.remove(&released.floating_ip);
            }
        }
    }
}
