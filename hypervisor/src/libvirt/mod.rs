//! Real hosts through their libvirtd: any URI, nothing of ours on the host.
//!
//! | file | what |
//! |---|---|
//! | `host`, `driver` | one host with its threads; the core of the driver |
//! | `connection` | open, keepalive, reconnect with backoff; one thread per host |
//! | `call_threads`, `gates` | the bounded threads on which a host's calls block; what must not overlap |
//! | `events`, `node`, `counters`, `snapshot`, `volumes`, `blockcopy`, `sparse` | the only unsafe code: what the bindings lack |
//! | `watch` | lifecycle events -> host signals |
//! | `capabilities` | what the host is, has and uses |
//! | `pool`, `images`, `cached_image`, `unused_images` | volumes, the image cache, one of its images, the unused ones |
//! | `storage`, `sparse` | where guests' disks are kept; streams with holes |
//! | `network`, `nwfilter` | virtual networks, packet filters |
//! | `domain`, `definition` | a guest's domain; its disks, files and definition |
//! | `guest_requests` | what a guest is asked for, and given time for |
//! | `volumes`, `snapshot`, `disk_snapshots` | the volume service's volumes; copies of a guest's disk |
//! | `disk_transfer`, `redefinition` | disks read and written, domains defined over disks that exist; other definitions |
//! | `storage_cleanup`, `shared_storage` | leftovers of the dead; storage that several hosts see |
//! | `live_migration`, `migrations`, `migration_plan`, `migration` | a live migration's course, those that run, how a guest travels, libvirt's calls |
//! | `console`, `troubleshooting` | screens and serial lines; diagnostics and interrupts |
//! | `managed_save`, `suspension` | guests that stand still |
//! | `nics`, `interfaces`, `virtual_networks` | interfaces of a guest that exists already; networks and filters |
//! | `devices` | where a guest finds its interfaces and disks |
//! | `disks`, `blockcopy`, `volume_attachment` | volumes plugged in, pulled out, exchanged under a running guest |
//!
//! Invariants: no call touches the host's file system except as a volume of our pool; every call has a deadline; a
//! domain without our metadata element is never touched.

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
