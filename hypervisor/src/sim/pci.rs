//! The PCI devices of simulated machines.
//!
//! `pci=10de:1eb8*2,8086:10fb/10ed*4@1` in the fleet's URI: each machine has two devices of product `10de:1eb8`, and a
//! physical function `8086:10fb` with four virtual functions of product `10ed` on NUMA cell 1. In `15b3:101d/101ev*2`, the
//! `v` gives each virtual function a vDPA device.

use std::str::FromStr;

use chronova_events::ledger::PciDeviceType;
use chronova_events::pci::PciAddress;

use crate::pci::{HostPci, PciDevice, PciNic};

/// The most devices of one entry: a physical function has at most 31 slots of eight virtual functions.
const MOST: u32 = 248;

/// The devices of each machine of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimPci(Vec<SimCards>);

/// One entry: `count` ordinary devices of one product, or a physical function with `count` virtual functions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SimCards {
    vendor: String,
    product: String,
    /// The product of the virtual functions; `None`: the devices are ordinary ones.
    function: Option<String>,
    /// Whether the virtual functions have vDPA devices.
    vdpa: bool,
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
        let (ids, function, vdpa) = match ids.split_once('/') {
            None => (ids, None, false),
            Some((ids, function)) => match function.strip_suffix('v') {
                None => (ids, Some(id(function)?), false),
                Some(function) => (ids, Some(id(function)?), true),
            },
        };
        let (vendor, product) = ids.split_once(':').ok_or(())?;
        let cards = Self { vendor: id(vendor)?, product: id(product)?, function, vdpa, count, place };
        if (1..=MOST).contains(&count) { Ok(cards) } else { Err(()) }
    }
}

fn id(text: &str) -> Result<String, ()> {
    let right = text.len() == 4 && text.chars().all(|c| c.is_ascii_hexdigit());
    right.then(|| text.to_ascii_lowercase()).ok_or(())
}

/// The network interface of a card or a virtual function. Its names and addresses derive from the place of the device.
fn nic(address: PciAddress, kind: PciDeviceType, (slot, function): (u32, u32)) -> PciNic {
    let PciAddress { bus, .. } = address;
    let number = |slot: u32| 8 * slot.saturating_sub(1) + function;
    let is_function = matches!(kind, PciDeviceType::Vf | PciDeviceType::Vdpa);
    PciNic {
        interface: (kind != PciDeviceType::Pci).then(|| match is_function {
            true => format!("enp{bus}s0v{}", number(slot)),
            false => format!("enp{bus}s0"),
        }),
        mac: (kind != PciDeviceType::Pci).then(|| format!("02:51:00:{bus:02x}:{slot:02x}:{function:02x}")),
        function: is_function.then(|| number(slot)),
        vdpa: (kind == PciDeviceType::Vdpa).then(|| format!("/dev/vhost-vdpa-{bus}-{}", number(slot))),
    }
}

/// The devices of a machine with this number of NUMA cells. Each card has its own bus, from 0x10 on.
pub(super) fn devices(of: &SimPci, cells: u32) -> HostPci {
    let mut devices = Vec::new();
    let mut bus = 0x10_u32;
    for cards in &of.0 {
        let on = |bus: u32| match cards.place {
            SimPlace::Any => (cells > 0).then(|| bus % cells.max(1)),
            SimPlace::Cell(cell) => Some(cell),
            SimPlace::Unknown => None,
        };
        let mut add = |bus: u32, at: (u32, u32), product: &str, kind: PciDeviceType, parent: Option<PciAddress>| {
            let address = PciAddress::of(bus >> 8, bus & 0xFF, at.0, at.1)?;
            devices.push(PciDevice {
                address,
                vendor: cards.vendor.clone(),
                product: product.to_owned(),
                kind,
                parent,
                cell: on(bus),
                card_serial: (kind == PciDeviceType::Pf).then(|| format!("SIM{bus:04x}")),
                nic: nic(address, kind, at),
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
                let kind = if cards.vdpa { PciDeviceType::Vdpa } else { PciDeviceType::Vf };
                for number in 0..cards.count {
                    add(bus, (1 + number / 8, number % 8), function, kind, parent);
                }
                bus += 1;
            }
        }
    }
    // Two cells share a socket.
    HostPci { devices, sockets: (0..cells).map(|cell| (cell, cell / 2)).collect() }
}
