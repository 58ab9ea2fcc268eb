//! The disks and the interfaces of a guest, from its definition and from what the operator tells.

use std::net::IpAddr;

use chronova_actors::instance::creation::hostname;
use chronova_actors::services::embedded::network::PortRequest;
use chronova_events::host::KnownHost;
use chronova_events::ids::{BlockDeviceId, NetworkId, PortId, ProjectId, VolumeId};
use chronova_events::instance::{BlockConnection, BlockDevice, BlockLocation, BlockSource, FixedIp, NicInfo};
use chronova_events::network::{PortBinding, PortSettings};
use chronova_hypervisor::found::{DefinitionMetadata, FoundGuest, FoundNic, FoundVolume};
use ipnet::IpNet;

use super::super::super::adopt::AdoptedThing;
use super::facts::{ToldInterface, ToldServer};
use super::judge::GuestJudge;
use super::networks::fixed;

impl GuestJudge<'_> {
    /// Returns the volumes. If the root disk is a volume, also returns the local disks, because such a server lists all
    /// its disks.
    pub(super) fn devices(&mut self, guest: &FoundGuest, metadata: &DefinitionMetadata) -> Option<Vec<BlockDevice>> {
        if guest.ephemerals > 1 {
            let reason = format!("it has {} ephemeral disks, and their sizes are unknown", guest.ephemerals);
            self.lacks(guest, reason, "leave it out");
            return None;
        }
        let mut devices = Vec::new();
        let mut is_complete = true;
        for volume in &guest.volumes {
            match self.volume(guest, volume) {
                Some(device) => devices.push(device),
                None => is_complete = false,
            }
        }
        if metadata.image.is_none() {
            is_complete &= self.name_root(guest, &mut devices);
            devices.extend(local(guest, "ephemeral", metadata.ephemeral_gib, None));
            devices.extend(local(guest, "swap", metadata.swap_mib, Some("swap")));
        }
        is_complete.then_some(devices)
    }

    /// Marks the volume from which the guest boots first.
    fn name_root(&mut self, guest: &FoundGuest, devices: &mut Vec<BlockDevice>) -> bool {
        let first = guest.volumes.iter().find(|volume| volume.boot_order == Some(1));
        let root = first.and_then(|volume| devices.iter().position(|device| names(device, &volume.serial)));
        match root {
            Some(at) => {
                let mut device = devices.remove(at);
                device.boot_index = Some(0);
                devices.insert(0, device);
                true
            }
            None => {
                self.lacks(guest, "it boots from no volume, and it has no local root disk", "leave it out");
                false
            }
        }
    }

    fn volume(&mut self, guest: &FoundGuest, found: &FoundVolume) -> Option<BlockDevice> {
        let serial = &found.serial;
        let id = serial.parse::<VolumeId>().ok();
        let told = id.and_then(|id| self.choices.facts.volumes.get(&id).cloned());
        let (Some(id), Some(told)) = (id, told) else {
            let reason = format!("the log has no volume {serial}");
            self.lacks(guest, reason, "with Cinder, tell volumes.ID.attachment; otherwise leave it out");
            return None;
        };
        let Some((pool, volume)) = found.place.clone() else {
            let reason = format!("QEMU reaches its volume {id} over the network, which is not taken over");
            self.lacks(guest, reason, "leave it out");
            return None;
        };
        let device = BlockDeviceId::derive(guest.instance.0, &format!("adopted volume {id}"));
        Some(BlockDevice {
            device_type: Some(found.kind.clone()),
            disk_bus: Some(found.bus.clone()),
            device_name: Some(format!("/dev/{}", found.device)),
            delete_on_termination: told.delete_on_termination,
            volume: Some(id),
            attachment: Some(told.attachment),
            connection: Some(BlockConnection {
                pool,
                volume,
                format: found.format.clone(),
                serial: serial.clone(),
                readonly: found.readonly,
                shareable: found.shareable,
            }),
            ..BlockDevice::new(device, BlockSource::Volume(id), BlockLocation::Volume)
        })
    }

    /// All interfaces of the guest; `None`: something about one of them is missing.
    pub(super) fn nics(
        &mut self,
        host: &KnownHost,
        guest: &FoundGuest,
        of: (&DefinitionMetadata, &ToldServer),
    ) -> Option<Vec<NicInfo>> {
        let found: Vec<Option<NicInfo>> = guest.nics.iter().map(|nic| self.nic(host, guest, of, nic)).collect();
        found.into_iter().collect()
    }

    fn nic(
        &mut self,
        host: &KnownHost,
        guest: &FoundGuest,
        of: (&DefinitionMetadata, &ToldServer),
        nic: &FoundNic,
    ) -> Option<NicInfo> {
        let told = self.choices.facts.interfaces.get(&nic.mac).cloned().unwrap_or_default();
        let mac = &nic.mac;
        let spec = nic.network.as_ref().and_then(|name| self.specs.get(name)).map(|spec| spec.network);
        let (port, network) = (told.port.or(nic.port), told.network.or(spec));
        let (Some(port), Some(network)) = (port, network) else {
            let lost = if port.is_none() { "port" } else { "network" };
            let reason = format!("the {lost} of its interface {mac} is unknown");
            self.lacks(guest, reason, "tell interfaces.MAC.port and interfaces.MAC.network");
            return None;
        };
        let Some(addresses) = told.addresses.iter().map(|text| text.parse::<IpNet>().ok()).collect::<Option<Vec<_>>>()
        else {
            let reason = format!("an address of its interface {mac} is none, or lacks the prefix");
            self.lacks(guest, reason, "tell interfaces.MAC.addresses as 10.0.0.5/24");
            return None;
        };
        if self.choices.neutron {
            return Some(of_neutron(nic, (port, network), &told, &addresses));
        }
        let mut fixed: Vec<IpAddr> = addresses.iter().map(IpNet::addr).collect();
        if fixed.is_empty() {
            fixed = self.reserved(network, mac);
        }
        self.embedded(host, guest, of, nic, ((port, network), &told, fixed.as_slice()))
    }

    /// The addresses that the host's DHCP server has for the MAC.
    fn reserved(&self, network: NetworkId, mac: &str) -> Vec<IpAddr> {
        let spec = self.specs.values().find(|spec| spec.network == network);
        let own = spec.into_iter().flat_map(|spec| &spec.reservations);
        own.filter(|known| known.mac.eq_ignore_ascii_case(mac)).filter_map(|known| known.ip.parse().ok()).collect()
    }

    /// The interface with its port in the embedded network service.
    fn embedded(
        &mut self,
        host: &KnownHost,
        guest: &FoundGuest,
        (metadata, told_server): (&DefinitionMetadata, &ToldServer),
        nic: &FoundNic,
        ((port, network), told, addresses): ((PortId, NetworkId), &ToldInterface, &[IpAddr]),
    ) -> Option<NicInfo> {
        if !self.provide(network) {
            self.lacks(guest, format!("the log has no network {network}"), "see the network");
            return None;
        }
        let device = guest.instance.to_string();
        match self.networks.device_of(network, port) {
            Some(known) if known == device => return self.networks.interface(network, port),
            Some(_) => {
                self.lacks(guest, format!("its port {port} is another device's"), "leave it out");
                return None;
            }
            None => {}
        }
        let groups = match (&told.security_groups, nic.is_filtered) {
            (Some(groups), _) => groups.clone(),
            (None, false) => Vec::new(),
            (None, true) if self.choices.without_port_security => Vec::new(),
            (None, true) => {
                let reason = format!("the security groups of its interface {} are unknown", nic.mac);
                let way_out = "tell interfaces.MAC.security_groups, or use --without-port-security";
                self.lacks(guest, reason, way_out);
                return None;
            }
        };
        let name = told_server.name.as_ref().unwrap_or(&metadata.display_name);
        let own = told_server.hostname.clone().unwrap_or_else(|| hostname(name, guest.instance));
        let project = told_server.project.as_ref().map_or_else(|| metadata.project.clone(), ProjectId::new);
        let zone = self.views.host_aggregates.read(|view| view.zone_of(host.id).map(str::to_owned));
        let zone = zone.unwrap_or_else(|| self.choices.servers.availability_zone.clone());
        let added = self.networks.add(
            network,
            PortRequest {
                port,
                project,
                mac: Some(nic.mac.clone()),
                addresses: Some(fixed(addresses)),
                settings: PortSettings { dns_name: own, ..PortSettings::default() },
                port_security: Some(!groups.is_empty()),
                security_groups: Some(groups),
                binding: PortBinding { device, owner: format!("compute:{zone}"), host: host.hostname.clone() },
                made_for: told.created_for_server.then_some(guest.instance),
            },
        );
        if let Err(error) = added {
            self.lacks(guest, format!("the network service refuses its port {port}: {error}"), "leave it out");
            return None;
        }
        self.networks.interface(network, port)
    }

    /// Whether the network service has the network, or gets it.
    fn provide(&mut self, network: NetworkId) -> bool {
        if self.networks.has(network) {
            return true;
        }
        let id = network.to_string();
        self.report.see(AdoptedThing::Network, &id, "");
        let spec = self.specs.values().find(|spec| spec.network == network).cloned();
        let (Some(spec), Some(told)) = (spec, self.choices.facts.networks.get(&network)) else {
            let reason = "the log does not have it";
            let way_out = "tell networks.ID.name and networks.ID.project";
            self.report.obstacle(AdoptedThing::Network, &id, reason, way_out);
            return false;
        };
        self.report.see(AdoptedThing::Network, &id, &told.name);
        match self.networks.create(&spec, told) {
            Ok(()) => true,
            Err(error) => {
                let reason = format!("the network service refuses it: {error}");
                self.report.obstacle(AdoptedThing::Network, &id, reason, "leave its servers out");
                false
            }
        }
    }
}

/// Whether the device is the volume with this serial number.
fn names(device: &BlockDevice, serial: &str) -> bool {
    device.connection.as_ref().is_some_and(|connection| connection.serial == serial)
}

/// The local disk with this name; `None` if its size is 0, because the server then has no such disk.
fn local(guest: &FoundGuest, name: &str, size: u32, format: Option<&str>) -> Option<BlockDevice> {
    let id = BlockDeviceId::derive(guest.instance.0, &format!("adopted {name}"));
    (size > 0).then(|| BlockDevice {
        size: Some(size),
        guest_format: format.map(str::to_owned),
        ..BlockDevice::new(id, BlockSource::Blank, BlockLocation::Local)
    })
}

/// An interface whose port Neutron has. Neutron tells the rest at the next start.
fn of_neutron(
    nic: &FoundNic,
    (port, network): (PortId, NetworkId),
    told: &ToldInterface,
    addresses: &[IpNet],
) -> NicInfo {
    let address = |address: &IpNet| FixedIp {
        address: address.addr().to_string(),
        prefix: address.prefix_len(),
        gateway: None,
        dns: Vec::new(),
        dhcp: true,
    };
    NicInfo {
        port,
        network,
        network_label: String::new(),
        mac: nic.mac.clone(),
        mtu: nic.mtu,
        fixed_ips: addresses.iter().map(address).collect(),
        tag: None,
        owned: told.created_for_server,
        security_groups: Vec::new(),
    }
}
