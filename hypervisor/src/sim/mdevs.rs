//! The physical GPUs of simulated machines.
//!
//! `mdev=nvidia-35*4/nvidia-36*2,nvidia-35*4` in the fleet's URI: each machine has two physical GPUs. The first one can
//! have four devices of type `nvidia-35` or two of type `nvidia-36`, the second one four of type `nvidia-35`. As on
//! NVIDIA's cards, all devices of a GPU have the same type.

use std::collections::BTreeMap;
use std::str::FromStr;

use chronova_events::pci::PciAddress;

/// The bus of the first GPU; each further GPU has the next bus.
const FIRST_BUS: u32 = 0x80;
/// The most GPUs of a machine.
const MOST: usize = 64;

/// The physical GPUs of each machine of a fleet: the number of devices that each can have, by type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimMdevs(Vec<BTreeMap<String, u32>>);

impl FromStr for SimMdevs {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let offered = |text: &str| {
            let (name, count) = text.split_once('*').ok_or(())?;
            let count = count.parse().map_err(drop)?;
            if name.is_empty() { Err(()) } else { Ok((name.to_owned(), count)) }
        };
        let gpu = |text: &str| text.split('/').map(offered).collect::<Result<BTreeMap<String, u32>, ()>>();
        let gpus = text.split(',').map(gpu).collect::<Result<Vec<_>, ()>>()?;
        if gpus.len() <= MOST { Ok(Self(gpus)) } else { Err(()) }
    }
}

impl SimMdevs {
    /// The GPUs with their addresses.
    pub(super) fn by_address(&self) -> impl Iterator<Item = (PciAddress, &BTreeMap<String, u32>)> {
        let address = |bus| PciAddress::of(0, bus, 0, 0);
        (FIRST_BUS..).zip(&self.0).filter_map(move |(bus, types)| Some((address(bus)?, types)))
    }
}
