//! The cards from which ports get their resources.
//!
//! The network service may give a port bandwidth of one card of its host. Then the port's virtual function must be of the
//! same card. Neutron's agent names the provider of a card's bandwidth after the card's interface
//! (`HOST:NIC Switch agent:ens1f0`), and the host reports the interface of each card. Nova puts this name into its request
//! as `parent_ifname`.

use std::collections::BTreeMap;

use chronova_events::ids::{PortId, ProviderId};
use chronova_events::ledger::{Ledger, PciDeviceType};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::pci::HostPci;

use super::alias::PciRequest;
use crate::ports::{PortAllocations, PortProviders};

/// The cards of a host, by the names of their interfaces.
pub type HostCards = BTreeMap<String, PciAddress>;

/// The cards that a host reports.
pub fn of_host(found: &HostPci) -> HostCards {
    let whole = found.devices.iter().filter(|device| matches!(device.kind, PciDeviceType::Pf | PciDeviceType::Pci));
    whole.filter_map(|device| Some((device.nic.interface.clone()?, device.address))).collect()
}

/// The cards that give the ports their resources. Ports without resources of a card are left out.
pub fn of_ports(given: &PortAllocations, ledger: &Ledger, cards: &HostCards) -> BTreeMap<PortId, PciAddress> {
    let card = |provider: ProviderId| {
        let name = &ledger.providers.get(&provider)?.name;
        cards.get(name.rsplit_once(':')?.1).copied()
    };
    let of = |providers: &PortProviders| match providers {
        PortProviders::One(provider) => card(*provider),
        PortProviders::OfGroups(all) => all.values().find_map(|provider| card(*provider)),
    };
    given.iter().filter_map(|(port, providers)| Some((*port, of(providers)?))).collect()
}

/// Restricts the requests of these ports to devices of their cards.
pub fn restrict(requests: &mut [PciRequest], cards: &BTreeMap<PortId, PciAddress>) {
    for request in requests {
        let port = request.port.as_ref().map(|port| port.port);
        request.card = port.and_then(|port| cards.get(&port).copied());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold as _;
    use chronova_events::ledger::{HostPciDevice, LedgerEvent, ProviderCreated};
    use chronova_hypervisor::pci::{PciDevice, PciNic};
    use uuid::Uuid;

    use super::*;
    use crate::pci::alias::PciNumaPolicy;
    use crate::pci::ports::{DevicePort, DeviceVnic};

    fn at(address: &str) -> PciAddress {
        address.parse().unwrap()
    }

    fn provider(number: u128) -> ProviderId {
        ProviderId(Uuid::from_u128(number))
    }

    fn port(number: u128) -> PortId {
        PortId(Uuid::from_u128(number))
    }

    /// A host with two cards, and a provider of bandwidth for each of them (2, 3) and for a bridge (4).
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        for (number, name) in [
            (1, "node7"),
            (2, "node7:NIC Switch agent:ens1f0"),
            (3, "node7:NIC Switch agent:ens2f0"),
            (4, "node7:Open vSwitch agent:br-ex"),
        ] {
            let parent = (number > 1).then(|| provider(1));
            let created = ProviderCreated { provider: provider(number), name: name.to_owned(), parent };
            ledger.evolve(&LedgerEvent::from(created), Timestamp(0));
        }
        ledger
    }

    fn found() -> HostPci {
        let card = |address: &str, interface: &str, kind: PciDeviceType| PciDevice {
            address: at(address),
            vendor: "8086".to_owned(),
            product: "1572".to_owned(),
            kind,
            parent: None,
            cell: None,
            card_serial: None,
            nic: PciNic { interface: Some(interface.to_owned()), ..PciNic::default() },
        };
        let devices = vec![
            card("0000:81:00.0", "ens1f0", PciDeviceType::Pf),
            card("0000:81:02.0", "ens1f0v0", PciDeviceType::Vf),
            card("0000:82:00.0", "ens2f0", PciDeviceType::Pf),
        ];
        HostPci { devices, sockets: vec![] }
    }

    fn function(address: &str, parent: &str) -> HostPciDevice {
        HostPciDevice {
            address: at(address),
            vendor: "8086".to_owned(),
            product: "154c".to_owned(),
            kind: PciDeviceType::Vf,
            parent: Some(at(parent)),
            cell: None,
            class: "CUSTOM_PCI_8086_154C".to_owned(),
            traits: vec![],
            provider: None,
            network: Some(Some("physnet1".to_owned())),
            remote_managed: false,
            managed: true,
            offered: true,
        }
    }

    #[test]
    fn the_device_of_a_port_is_of_the_card_that_gives_its_resources() {
        let given = PortAllocations::from([
            (port(1), PortProviders::One(provider(3))),
            (port(2), PortProviders::OfGroups([("bandwidth".to_owned(), provider(2))].into())),
            (port(3), PortProviders::One(provider(4))),
        ]);
        let cards = of_ports(&given, &ledger(), &of_host(&found()));
        assert_eq!(cards, BTreeMap::from([(port(1), at("0000:82:00.0")), (port(2), at("0000:81:00.0"))]));
        let request = |number: u128| PciRequest {
            alias: number.to_string(),
            count: 1,
            specs: vec![],
            port: Some(DevicePort {
                port: port(number),
                vnic: DeviceVnic::Direct,
                network: Some("physnet1".to_owned()),
                policy: None,
                trusted: false,
            }),
            policy: PciNumaPolicy::Legacy,
            card: None,
        };
        let mut requests = [request(1), request(2), request(3)];
        restrict(&mut requests, &cards);
        let functions = [function("0000:81:02.0", "0000:81:00.0"), function("0000:82:02.0", "0000:82:00.0")];
        let admitted = requests.map(|request| functions.each_ref().map(|function| request.admits(function)));
        assert_eq!(admitted, [[false, true], [true, false], [true, true]]);
    }
}
