//! How to do things to machines.
//!
//! [`driver::Driver`] is the interface; `libvirt` drives real hosts through their libvirtd (any URI, nothing of ours
//! on the host), `sim` is a simulated fleet with seeded latency and faults. One conformance suite runs on both.
//! Policy stays out of this crate: a driver does what it is told, idempotently, and tells what it sees.

pub mod agent;
mod checksum;
pub mod conformance;
pub mod connect;
pub mod console;
pub mod cpus;
pub mod device;
pub mod domain_xml;
pub mod driver;
pub mod guest;
pub mod image_cache;
pub mod iso9660;
pub mod leftovers;
pub mod libvirt;
pub mod live;
pub mod moves;
pub mod options;
pub mod pinning;
pub mod sim;
mod traits;
pub mod volume_store;
pub mod volumes;
pub mod xml;
