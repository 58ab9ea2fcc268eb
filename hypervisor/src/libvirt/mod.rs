//! Real hosts through their libvirtd: any URI, and no program of ours on the host.
//!
//! | file | what |
//! |---|---|
//! | `host`, `driver` | one host with its threads; the core of the driver |
//! | `connection` | open, keepalive, reconnect with backoff; one thread per host |
//! | `call_threads`, `gates` | the bounded threads for a host's blocking calls; calls that must not overlap |
//! | `events`, `node`, `counters`, `snapshot`, `volumes`, `blockcopy`, `sparse` | the only unsafe code: calls that the bindings lack |
//! | `watch` | turns lifecycle events into host signals |
//! | `capabilities` | a host's properties, resources and usage |
//! | `pool`, `images`, `cached_image`, `unused_images` | volumes, the image cache, one of its images, the unused ones |
//! | `storage`, `sparse` | the back ends of guests' disks; streams with holes |
//! | `network`, `nwfilter` | virtual networks, packet filters |
//! | `domain`, `definition` | a guest's domain; its disks, files and definition |
//! | `guest_requests` | requests to a guest that take time |
//! | `volumes`, `snapshot`, `disk_snapshots` | the volume service's volumes; copies of a guest's disk |
//! | `disk_transfer`, `redefinition` | disks read and written, domains defined over disks that exist; other definitions |
//! | `storage_cleanup`, `shared_storage` | leftovers of interrupted operations; storage that several hosts share |
//! | `live_migration`, `migrations`, `migration_plan`, `migration` | live migration: the driver's calls, running migrations, plans as libvirt's parameters, libvirt's calls |
//! | `console`, `troubleshooting` | screens and serial lines; diagnostics and interrupts |
//! | `managed_save`, `suspension` | paused and suspended guests |
//! | `nics`, `interfaces`, `virtual_networks` | interfaces of existing guests; networks and filters |
//! | `devices` | the bus addresses of a guest's interfaces and disks |
//! | `disks`, `blockcopy`, `volume_attachment` | volumes attached to, detached from and swapped under a running guest |
//!
//! Invariants: calls touch the host's file system only through volumes of our pools. Every call has a deadline. A
//! domain without our metadata element or Nova's is never touched.

mod agent;
mod blockcopy;
mod cached_image;
mod call_threads;
mod capabilities;
mod cells;
mod connection;
mod console;
mod counters;
mod definition;
mod devices;
mod disk_snapshots;
mod disk_transfer;
mod disks;
mod domain;
mod driver;
mod error;
mod events;
mod gates;
mod guest_requests;
mod host;
mod images;
mod interfaces;
mod live_migration;
mod managed_save;
mod migration;
mod migration_plan;
mod migrations;
mod network;
mod nics;
mod node;
mod nwfilter;
mod pool;
mod redefinition;
mod shared_storage;
mod snapshot;
mod sparse;
mod storage;
mod storage_cleanup;
mod suspension;
#[cfg(test)]
mod tests;
mod troubleshooting;
mod unused_images;
mod virtual_networks;
mod volume_attachment;
mod volumes;
mod watch;

pub use host::LibvirtDriver;
