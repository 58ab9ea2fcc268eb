//! Drivers of hypervisors.
//!
//! [`driver::Driver`] is the core of the interface and [`capability`] its optional parts. [`backend::BACKENDS`] is the
//! table of drivers. `libvirt` drives real hosts through their libvirtd (any URI, no program of ours on the host).
//! `sim` is a simulated fleet with seeded latency and faults. One conformance suite runs on both. This crate makes no
//! policy decisions: a driver performs its calls idempotently and reports the state of its host.

pub mod answer;
pub mod backend;
pub mod capability;
pub mod ceph_place;
mod checksum;
pub mod conformance;
pub mod cpus;
pub mod domain_xml;
pub mod driver;
pub mod firmware;
pub mod found;
pub mod guest;
pub mod iso9660;
#[cfg(feature = "libvirt")]
pub mod libvirt;
pub mod mdev;
pub mod memory_encryption;
pub mod options;
pub mod pci;
pub mod pinning;
pub mod pmem;
pub mod program_messages;
pub mod sim;
pub mod tpm;
mod traits;
pub mod vfat;
pub mod volumes;
pub mod xml;
