//! Addresses of PCI devices, as Linux and libvirt write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The address of a PCI device on its host: `0000:81:00.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PciAddress {
    pub domain: u16,
    pub bus: u8,
    /// At most 0x1F.
    pub slot: u8,
    /// At most 7.
    pub function: u8,
}

/// The text is no address, or a part of it is too large.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{0:?} is not a PCI address like 0000:81:00.1, at most FFFF:FF:1F.7")]
pub struct NoPciAddress(String);

impl PciAddress {
    /// The address, if its parts are within the bounds of a PCI bus.
    pub fn of(domain: u32, bus: u32, slot: u32, function: u32) -> Option<Self> {
        let slot = u8::try_from(slot).ok().filter(|slot| *slot <= 0x1F)?;
        let function = u8::try_from(function).ok().filter(|function| *function <= 7)?;
        Some(Self { domain: u16::try_from(domain).ok()?, bus: u8::try_from(bus).ok()?, slot, function })
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.slot, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = NoPciAddress;

    /// Reads an address. Without a domain, the domain is 0.
    fn from_str(text: &str) -> Result<Self, NoPciAddress> {
        let wrong = || NoPciAddress(text.to_owned());
        let hex = |part: &str| match part.len() {
            1..=8 => u32::from_str_radix(part, 16).map_err(|_| wrong()),
            _ => Err(wrong()),
        };
        let (place, function) = text.rsplit_once('.').ok_or_else(wrong)?;
        let parts: Vec<&str> = place.split(':').collect();
        let (domain, bus, slot) = match parts[..] {
            [bus, slot] => (0, hex(bus)?, hex(slot)?),
            [domain, bus, slot] => (hex(domain)?, hex(bus)?, hex(slot)?),
            _ => return Err(wrong()),
        };
        Self::of(domain, bus, slot, hex(function)?).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_is_written_as_linux_writes_it() {
        let read = |text: &str| text.parse::<PciAddress>().map(|address| address.to_string());
        assert_eq!(read("0000:81:00.1").unwrap(), "0000:81:00.1");
        assert_eq!(read("81:0A.1").unwrap(), "0000:81:0a.1");
        assert_eq!(read("FFFF:ff:1f.7").unwrap(), "ffff:ff:1f.7");
        for wrong in ["", "81", "81:00", "10000:81:00.1", "0:100:00.1", "0:0:20.0", "0:0:0.8", "0:0:0:0.1", "g:0:0.1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
