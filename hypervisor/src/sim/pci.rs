//! The PCI devices of simulated machines.
//!
//! `pci=10de:1eb8*2,8086:10fb/10ed*4@1` in the fleet's URI: each machine has two devices of product `10de:1eb8`, and a
//! physical function `8086:10fb` with four virtual functions of product `10ed` on NUMA cell 1.

use std::str::FromStr;

use chronova_events::ids::InstanceId;
use chronova_events::ledger::PciDeviceType;
use chronova_events::pci::PciAddress;

use super::machine::SimMachine;
use super::uri::SimUri;
use crate::driver::{DriverError, DriverResult};
use crate::pci::{HostPci, PassedDevice, PciDevice};

/// The most devices of one entry: a physical function has at most 31 slots of eight virtual functions.
const MOST: u32 = 248;

/// The devices of each machine of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimPci(Vec<SimCards>);

/// Devices of one product.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SimCards {
    vendor: String,
    product: String,
    /// The product of the virtual functions; `None`: the devices are ordinary ones.
    function: Option<String>,
    count: u32,
    place: SimPlace,
}

/// The NUMA cell of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SimPlace {
    /// The devices take turns on the cells.
    Any,
    Cell(u32),
    /// `@-`: the machine does not report the cell.
    Unknown,
}

impl FromStr for SimPci {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        text.split(',').map(str::parse).collect::<Result<Vec<SimCards>, ()>>().map(Self)
    }
}

impl FromStr for SimCards {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (cards, place) = match text.split_once('@') {
            None => (text, SimPlace::Any),
            Some((cards, "-")) => (cards, SimPlace::Unknown),
            Some((cards, cell)) => (cards, SimPlace::Cell(cell.parse().map_err(drop)?)),
        };
        let (ids, count) = match cards.split_once('*') {
            None => (cards, 1),
            Some((ids, count)) => (ids, count.parse().map_err(drop)?),
        };
        let (ids, function) = match ids.split_once('/') {
            None => (ids, None),
            Some((ids, function)) => (ids, Some(id(function)?)),
        };
        let (vendor, product) = ids.split_once(':').ok_or(())?;
        let cards = Self { vendor: id(vendor)?, product: id(product)?, function, count, place };
        if (1..=MOST).contains(&count) { Ok(cards) } else { Err(()) }
    }
}

fn id(text: &str) -> Result<String, ()> {
    let right = text.len() == 4 && text.chars().all(|c| c.is_ascii_hexdigit());
    right.then(|| text.to_ascii_lowercase()).ok_or(())
}

/// The devices of a machine. Each card has its own bus, from 10 on.
pub(super) fn devices(uri: &SimUri) -> HostPci {
    let cells = uri.cells.min(uri.vcpus);
    let mut devices = Vec::new();
    let mut bus = 0x10_u32;
    for cards in &uri.pci.0 {
        let on = |bus: u32| match cards.place {
            SimPlace::Any => (cells > 0).then(|| bus % cells.max(1)),
            SimPlace::Cell(cell) => Some(cell),
            SimPlace::Unknown => None,
        };
        let mut add = |bus: u32, at: (u32, u32), product: &str, kind, parent| {
            let address = PciAddress::of(bus >> 8, bus & 0xFF, at.0, at.1)?;
            devices.push(PciDevice {
                address,
                vendor: cards.vendor.clone(),
                product: product.to_owned(),
                kind,
                parent,
                cell: on(bus),
                card_serial: None,
            });
            Some(address)
        };
        match &cards.function {
            None => {
                for _ in 0..cards.count {
                    add(bus, (0, 0), &cards.product, PciDeviceType::Pci, None);
                    bus += 1;
                }
            }
            Some(function) => {
                let parent = add(bus, (0, 0), &cards.product, PciDeviceType::Pf, None);
                for number in 0..cards.count {
                    add(bus, (1 + number / 8, number % 8), function, PciDeviceType::Vf, parent);
                }
                bus += 1;
            }
        }
    }
    // Two cells share a socket.
    HostPci { devices, sockets: (0..cells).map(|cell| (cell, cell / 2)).collect() }
}

impl SimMachine {
    /// Fails if the machine lacks a device, or if another guest that is on has it, as libvirt does.
    pub(super) fn require_devices(&self, instance: InstanceId, wanted: &[PassedDevice]) -> DriverResult<()> {
        let refused = |message: String| Err(DriverError::Failed { call: "define", message });
        if wanted.is_empty() {
            return Ok(());
        }
        let present = devices(&self.uri).devices;
        for device in wanted {
            if !present.iter().any(|found| found.address == device.address) {
                return refused(format!("there is no PCI device {}", device.address));
            }
            let mut others = self.guests.iter().filter(|(other, guest)| **other != instance && guest.is_on());
            if let Some((other, _)) = others.find(|(_, guest)| guest.devices.contains(device)) {
                return refused(format!("PCI device {} is in use by domain {other}", device.address));
            }
        }
        Ok(())
    }

    pub(super) fn pass(&mut self, instance: InstanceId, devices: &[PassedDevice]) {
        if let Some(guest) = self.guests.get_mut(&instance) {
            guest.devices = devices.to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_uri_describes_the_devices_of_each_machine() {
        let uri: SimUri = "sim://2?cells=2&pci=10de:1eb8*2,8086:10FB/10ed*9@1,1af4:1000@-".parse().unwrap();
        let found = devices(&uri);
        let line = |device: &PciDevice| {
            let cell = device.cell.map_or("-".to_owned(), |cell| cell.to_string());
            format!("{} {}:{} {} {cell}", device.address, device.vendor, device.product, device.kind.word())
        };
        let lines: Vec<String> = found.devices.iter().map(line).collect();
        assert_eq!(lines[0], "0000:10:00.0 10de:1eb8 type-PCI 0");
        assert_eq!(lines[1], "0000:11:00.0 10de:1eb8 type-PCI 1");
        assert_eq!(lines[2], "0000:12:00.0 8086:10fb type-PF 1");
        assert_eq!(lines[3], "0000:12:01.0 8086:10ed type-VF 1");
        assert_eq!(lines[11], "0000:12:02.0 8086:10ed type-VF 1");
        assert_eq!(lines[12], "0000:13:00.0 1af4:1000 type-PCI -");
        assert_eq!(found.devices[11].parent, Some(found.devices[2].address));
        assert_eq!(found.sockets, [(0, 0), (1, 0)]);
        for wrong in ["", "10de", "10de:1eb8*0", "10de:1eb8*249", "10de:1ebg", "10de:1eb8@x", "8086:10fb/1*2"] {
            assert!(format!("sim://1?pci={wrong}").parse::<SimUri>().is_err(), "{wrong}");
        }
    }
}
