//! A simple network service for tests of other parts, and, in [`images`], an image service. Both survive a crash, as
//! real services do. They list their ports and images, so that tests detect leaks.

mod images;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chronova_actors::pci::ports::{DevicePort, DeviceVnic, PortDevice};
use chronova_actors::ports::{
    FloatingAddress, HostNetworkSetup, InterfaceRequest, InterfacesRequest, NetworkService, PlugState, PortAllocations,
    PortError, PortGrants, PortInfo, PortProviders, PortResourceRequest, SecurityGroupInfo, ServiceCaller,
};
use chronova_actors::topology::networks::NetworkCarrier;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{FixedIp, NicInfo, RequestedNetworks, RequestedNic};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::guest::{NetworkSpec, Nic, NicPlug};
use uuid::Uuid;

pub use self::images::{Made, NO_IMAGE, OneImage, Plain};
use crate::bandwidth;

/// One network with one port for each server, and more on request.
#[derive(Debug, Default)]
pub struct OneNetwork {
    ports: Mutex<BTreeMap<InstanceId, NicInfo>>,
    more: Mutex<BTreeMap<PortId, (InstanceId, NicInfo)>>,
    /// The host that each server's port is bound to.
    hosts: Mutex<BTreeMap<InstanceId, Option<String>>>,
    /// Further hosts that servers' ports are bound to, by bindings that carry no traffic.
    others: Mutex<BTreeSet<(InstanceId, String)>>,
    /// A destination host to which no port can be bound.
    unsuitable: Mutex<Option<String>>,
    /// The number of allocations that fail from now on.
    refused_allocations: Mutex<u32>,
    /// The number of questions about plugged ports that get no answer from now on.
    unanswered: Mutex<u32>,
    /// The devices in the profiles of ports that are devices of their hosts.
    equipped: Mutex<BTreeMap<PortId, PortDevice>>,
    /// The ports that users have changed to `vnic_type` `normal`.
    made_normal: Mutex<BTreeSet<PortId>>,
    /// The providers that the bindings of ports name.
    given: Mutex<PortAllocations>,
    /// Whether questions about the resources that ports request get no answer.
    hides_requests: Mutex<bool>,
    /// How many more bindings can be changed to name a provider or none; `None`: all.
    namings: Mutex<Option<u32>>,
}

impl OneNetwork {
    /// The servers that have a port.
    pub fn holders(&self) -> Vec<InstanceId> {
        let (ports, more) = (self.ports.lock().unwrap(), self.more.lock().unwrap());
        ports.keys().copied().chain(more.values().map(|(instance, _)| *instance)).collect()
    }

    /// The servers whose port is bound to no host, even if the port was detached.
    pub fn unbound(&self) -> Vec<InstanceId> {
        self.hosts.lock().unwrap().iter().filter(|(_, host)| host.is_none()).map(|(id, _)| *id).collect()
    }

    /// The host that the server's port is bound to; `None` if it is unbound, or if no port was allocated for the
    /// server. A detach changes nothing here.
    pub fn host_of(&self, instance: InstanceId) -> Option<String> {
        self.hosts.lock().unwrap().get(&instance).cloned().flatten()
    }

    /// The bindings besides those that carry traffic.
    pub fn other_bindings(&self) -> Vec<(InstanceId, String)> {
        self.others.lock().unwrap().iter().cloned().collect()
    }

    /// From now on, no port can be bound to this destination.
    pub fn refuse_destination(&self, host: &str) {
        *self.unsuitable.lock().unwrap() = Some(host.to_owned());
    }

    /// The next `number` allocations for new servers fail.
    pub fn refuse_allocations(&self, number: u32) {
        *self.refused_allocations.lock().unwrap() = number;
    }

    /// The next `number` questions whether ports are plugged get no answer.
    pub fn leave_unanswered(&self, number: u32) {
        *self.unanswered.lock().unwrap() = number;
    }

    /// The devices in the profiles of ports.
    pub fn equipped(&self) -> BTreeMap<PortId, PciAddress> {
        self.equipped.lock().unwrap().iter().map(|(port, device)| (*port, device.device.address)).collect()
    }

    /// The server's ports have these devices from now on, and no others.
    fn equip(&self, instance: InstanceId, devices: &[PortDevice]) {
        let own = self.ports_of(instance);
        let mut equipped = self.equipped.lock().unwrap();
        equipped.retain(|port, _| !own.contains(port));
        equipped.extend(
            devices.iter().filter(|device| own.contains(&device.port)).map(|device| (device.port, device.clone())),
        );
    }

    /// Changes the port to `vnic_type` `normal`.
    pub fn make_normal(&self, port: PortId) {
        self.made_normal.lock().unwrap().insert(port);
    }

    /// The providers that the port's binding names.
    pub fn given_to(&self, port: PortId) -> Option<PortProviders> {
        self.given.lock().unwrap().get(&port).cloned()
    }

    /// Sets whether questions about the resources that ports request get no answer from now on.
    pub fn hide_requests(&self, hides: bool) {
        *self.hides_requests.lock().unwrap() = hides;
    }

    /// After `number` more bindings have been changed to name a provider or none, no such change succeeds. `None`: all
    /// succeed.
    pub fn limit_namings(&self, number: Option<u32>) {
        *self.namings.lock().unwrap() = number;
    }

    /// The ports of a server.
    pub fn ports_of(&self, instance: InstanceId) -> Vec<PortId> {
        let first = self.ports.lock().unwrap().get(&instance).map(|nic| nic.port);
        let more = self.more.lock().unwrap();
        first.into_iter().chain(more.iter().filter(|(_, (of, _))| *of == instance).map(|(port, _)| *port)).collect()
    }
}

fn port_of(process: ProcessId) -> PortId {
    PortId::derive(process.0, "port")
}

/// The words of `vnic_type` that a port's id can have.
const VNICS: [&str; 5] = ["direct", "direct-physical", "macvtap", "vdpa", "remote-managed"];
/// Marks the id of a port that a user made with a `vnic_type`.
const DEVICE_PORT: u128 = 0x5110_c0de;

/// A port of the server's user that is a device of its host. Its id says its `vnic_type`, so that it outlives crashes.
pub fn device_port(instance: InstanceId, vnic: &str) -> PortId {
    let kind = VNICS.iter().position(|word| *word == vnic).unwrap() as u128;
    PortId(Uuid::from_u128((DEVICE_PORT << 96) | (kind << 80) | (instance.0.as_u128() & u128::from(u64::MAX))))
}

/// Whether the port is one of [`device_port`].
pub fn is_device_port(port: PortId) -> bool {
    vnic_of(port).is_some()
}

fn vnic_of(port: PortId) -> Option<DeviceVnic> {
    if bandwidth::is_card_port(port) {
        return Some(DeviceVnic::Direct);
    }
    let id = port.0.as_u128();
    let kind = usize::try_from((id >> 80) & 0xffff).unwrap();
    (id >> 96 == DEVICE_PORT).then(|| DeviceVnic::of_word(VNICS[kind]).unwrap())
}

fn nic(port: PortId, number: usize, tag: Option<String>) -> NicInfo {
    NicInfo {
        port,
        network: NetworkId(Uuid::nil()),
        network_label: "private".to_owned(),
        mac: format!("fa:16:3e:00:00:{number:02x}"),
        mtu: 1500,
        fixed_ips: vec![FixedIp {
            address: format!("10.0.0.{number}"),
            prefix: 24,
            gateway: Some("10.0.0.1".to_owned()),
            dns: vec![],
            dhcp: true,
        }],
        tag,
        owned: vnic_of(port).is_none(),
        security_groups: vec!["default".to_owned()],
    }
}

#[async_trait]
impl NetworkService for OneNetwork {
    async fn check(
        &self,
        _: &ProjectId,
        _: &RequestedNetworks,
        _: &[String],
        _: &ServiceCaller,
    ) -> Result<(), PortError> {
        Ok(())
    }

    async fn allocate(&self, wanted: InterfacesRequest, _: Arc<Meta>) -> Result<Vec<NicInfo>, PortError> {
        if matches!(wanted.networks, RequestedNetworks::None) {
            return Ok(vec![]);
        }
        let left = self.refused_allocations.lock().unwrap().checked_sub(1);
        if let Some(left) = left {
            *self.refused_allocations.lock().unwrap() = left;
            return Err(PortError::Invalid("the network refuses".to_owned()));
        }
        let mut ports = self.ports.lock().unwrap();
        self.hosts.lock().unwrap().insert(wanted.instance, Some(wanted.host.clone()));
        let number = ports.len() + 2;
        let named = wanted.networks.listed().iter().find_map(|nic| nic.port);
        let port = named.unwrap_or_else(|| PortId::derive(wanted.instance.0, "port-0"));
        let made = || NicInfo { owned: named.is_none(), ..nic(port, number, None) };
        let nic = ports.entry(wanted.instance).or_insert_with(made).clone();
        drop(ports);
        self.equip(wanted.instance, &wanted.grants.devices);
        self.given.lock().unwrap().extend(wanted.grants.allocations);
        Ok(vec![nic])
    }

    async fn resource_requests(&self, ports: &[PortId], _: &Arc<Meta>) -> Result<Vec<PortResourceRequest>, PortError> {
        if *self.hides_requests.lock().unwrap() {
            return Err(PortError::Unavailable("the network does not answer".to_owned()));
        }
        Ok(ports.iter().filter_map(|port| bandwidth::request_of(*port, self.given_to(*port))).collect())
    }

    async fn name_providers(&self, given: &[(PortId, Option<PortProviders>)], _: &Arc<Meta>) -> Result<(), PortError> {
        let mut known = self.given.lock().unwrap();
        for (port, providers) in given {
            match self.namings.lock().unwrap().as_mut() {
                Some(0) => return Err(PortError::Unavailable("the network does not answer".to_owned())),
                Some(left) => *left -= 1,
                None => {}
            }
            match providers {
                Some(providers) => drop(known.insert(*port, providers.clone())),
                None => drop(known.remove(port)),
            }
        }
        Ok(())
    }

    async fn release(&self, instance: InstanceId, _: &ProjectId, _: &[PortId], _: Arc<Meta>) -> Result<(), PortError> {
        self.equip(instance, &[]);
        for port in self.ports_of(instance) {
            self.given.lock().unwrap().remove(&port);
        }
        self.ports.lock().unwrap().remove(&instance);
        self.more.lock().unwrap().retain(|_, (of, _)| *of != instance);
        self.hosts.lock().unwrap().remove(&instance);
        self.others.lock().unwrap().retain(|(of, _)| *of != instance);
        Ok(())
    }

    async fn rebind(
        &self,
        instance: InstanceId,
        _: &ProjectId,
        host: Option<&str>,
        _: &str,
        grants: &PortGrants,
        _: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.equip(instance, &grants.devices);
        for port in self.ports_of(instance) {
            let mut known = self.given.lock().unwrap();
            match (host, grants.allocations.get(&port)) {
                (Some(_), Some(given)) => drop(known.insert(port, given.clone())),
                (Some(_), None) => {}
                (None, _) => drop(known.remove(&port)),
            }
        }
        if let Some(bound) = self.hosts.lock().unwrap().get_mut(&instance) {
            *bound = host.map(str::to_owned);
        }
        self.others.lock().unwrap().retain(|(of, _)| *of != instance);
        Ok(())
    }

    async fn bind_destination(
        &self,
        instance: InstanceId,
        _: &ProjectId,
        host: &str,
        _: &PortGrants,
        _: Arc<Meta>,
    ) -> Result<(), PortError> {
        if self.unsuitable.lock().unwrap().as_deref() == Some(host) {
            return Err(PortError::NotHere("Binding failed for port 1".to_owned()));
        }
        if self.host_of(instance).is_some_and(|bound| bound != host) {
            self.others.lock().unwrap().insert((instance, host.to_owned()));
        }
        Ok(())
    }

    async fn activate_destination(
        &self,
        instance: InstanceId,
        _: &ProjectId,
        host: &str,
        _: Arc<Meta>,
    ) -> Result<(), PortError> {
        let mut others = self.others.lock().unwrap();
        if others.remove(&(instance, host.to_owned()))
            && let Some(source) = self.hosts.lock().unwrap().insert(instance, Some(host.to_owned())).flatten()
        {
            others.insert((instance, source));
        }
        Ok(())
    }

    async fn unbind_destination(
        &self,
        instance: InstanceId,
        _: &ProjectId,
        host: &str,
        _: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.others.lock().unwrap().remove(&(instance, host.to_owned()));
        Ok(())
    }

    async fn check_attach(&self, _: &ProjectId, _: &RequestedNic, _: &ServiceCaller) -> Result<(), PortError> {
        Ok(())
    }

    async fn attach(&self, wanted: InterfaceRequest, _: Arc<Meta>) -> Result<NicInfo, PortError> {
        let port = wanted.nic.port.unwrap_or_else(|| port_of(wanted.process));
        let mut more = self.more.lock().unwrap();
        let number = more.len() + 130;
        let owned = wanted.nic.port.is_none();
        let made = || (wanted.instance, NicInfo { owned, ..nic(port, number, wanted.nic.tag.clone()) });
        let nic = more.entry(port).or_insert_with(made).1.clone();
        let PortGrants { devices, allocations } = wanted.grants;
        self.equipped.lock().unwrap().extend(devices.into_iter().map(|device| (port, device)));
        self.given.lock().unwrap().extend(allocations);
        Ok(nic)
    }

    async fn detach(
        &self,
        instance: InstanceId,
        _: &ProjectId,
        port: PortId,
        _: bool,
        _: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.equipped.lock().unwrap().remove(&port);
        self.more.lock().unwrap().remove(&port);
        self.given.lock().unwrap().remove(&port);
        self.ports.lock().unwrap().retain(|of, nic| (*of, nic.port) != (instance, port));
        Ok(())
    }

    async fn undo_attach(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.detach(instance, project, port_of(process), true, meta).await
    }

    async fn add_address(&self, _: InstanceId, _: &ProjectId, _: NetworkId, _: Arc<Meta>) -> Result<(), PortError> {
        Err(PortError::Conflict("ports have one address here".to_owned()))
    }

    async fn remove_address(&self, _: InstanceId, _: &ProjectId, _: IpAddr, _: Arc<Meta>) -> Result<(), PortError> {
        Err(PortError::Conflict("ports have one address here".to_owned()))
    }

    async fn add_security_group(
        &self,
        _: InstanceId,
        _: &ProjectId,
        _: &str,
        _: &ServiceCaller,
    ) -> Result<(), PortError> {
        Err(PortError::NotFound("there is one group here, and every port is in it".to_owned()))
    }

    async fn remove_security_group(
        &self,
        _: InstanceId,
        _: &ProjectId,
        _: &str,
        _: &ServiceCaller,
    ) -> Result<(), PortError> {
        Err(PortError::NotFound("there is one group here, and every port is in it".to_owned()))
    }

    async fn group_names(
        &self,
        servers: &[(InstanceId, ProjectId)],
        _: &ServiceCaller,
    ) -> Result<Vec<Option<Vec<String>>>, PortError> {
        let names = |ports: &[PortId]| ports.iter().map(|_| "default".to_owned()).collect();
        let of = |server: InstanceId| Some(self.ports_of(server)).filter(|ports| !ports.is_empty());
        Ok(servers.iter().map(|(server, _)| of(*server).map(|ports| names(&ports))).collect())
    }

    async fn find_security_groups(
        &self,
        _: &ProjectId,
        named: &[String],
        _: &ServiceCaller,
    ) -> Result<Vec<Option<SecurityGroupInfo>>, PortError> {
        Ok(named.iter().map(|_| None).collect())
    }

    async fn floating_addresses(&self, _: &[PortId], _: &ServiceCaller) -> Result<Vec<FloatingAddress>, PortError> {
        Ok(vec![])
    }

    async fn device_ports(&self, ports: &[PortId], _: &Arc<Meta>) -> Result<Vec<DevicePort>, PortError> {
        let normal = self.made_normal.lock().unwrap();
        let wanted = ports.iter().filter(|port| !normal.contains(*port)).filter_map(|port| {
            let network = Some("physnet1".to_owned());
            Some(DevicePort { port: *port, vnic: vnic_of(*port)?, network, policy: None, trusted: false })
        });
        Ok(wanted.collect())
    }

    async fn carriers(
        &self,
        _: &[NetworkId],
        _: &[PortId],
        _: &Arc<Meta>,
    ) -> Result<BTreeSet<NetworkCarrier>, PortError> {
        Ok([NetworkCarrier::Physical("physnet1".to_owned())].into())
    }

    async fn find_ports(&self, _: &[PortId], _: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        Ok(vec![])
    }

    async fn ports_at(&self, _: IpAddr, _: &ServiceCaller) -> Result<Vec<PortInfo>, PortError> {
        Ok(vec![])
    }

    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError> {
        let own = self.ports_of(instance);
        Ok(nics.iter().filter(|nic| own.contains(&nic.port)).cloned().collect())
    }

    async fn realise(&self, nics: &[NicInfo]) -> Result<HostNetworkSetup, PortError> {
        if nics.is_empty() {
            return Ok(HostNetworkSetup::default());
        }
        let nics = nics.iter().map(|nic| Nic {
            port: nic.port,
            network: nic.network,
            mac: nic.mac.clone(),
            mtu: nic.mtu,
            filter: None,
            tap: format!("tap{}", &nic.port.to_string()[..11]),
            plug: vnic_of(nic.port).map_or(NicPlug::Network, |vnic| vnic.plug(None)),
        });
        let network = NetworkSpec { network: NetworkId(Uuid::nil()), mtu: 1500, subnets: vec![], reservations: vec![] };
        Ok(HostNetworkSetup { nics: nics.collect(), networks: vec![network], ..HostNetworkSetup::default() })
    }

    async fn await_plugged(&self, _: &[PortId], _: Duration) -> Result<PlugState, PortError> {
        let mut unanswered = self.unanswered.lock().unwrap();
        let Some(left) = unanswered.checked_sub(1) else { return Ok(PlugState::Plugged) };
        *unanswered = left;
        Err(PortError::Unavailable("the network does not answer".to_owned()))
    }

    /// Each destination has its own bridge, named after the host.
    async fn realise_at(&self, nics: &[NicInfo], host: &str) -> Result<HostNetworkSetup, PortError> {
        let mut setup = self.realise(nics).await?;
        for nic in setup.nics.iter_mut().filter(|nic| nic.plug == NicPlug::Network) {
            nic.plug = NicPlug::Bridge { bridge: format!("br-{host}") };
        }
        Ok(setup)
    }
}
