//! Real hosts through their libvirtd: any URI, and no program of ours on the host.
//!
//! | file | contents |
//! |---|---|
//! | `host`, `driver` | one host with its threads; the core of the driver |
//! | `connection` | opens, watches and reopens the connection to a host, on one thread per host |
//! | `call_threads`, `gates` | the threads for a host's blocking calls; locks for calls that must not overlap |
//! | `events`, `watch` | libvirt's event loop; turns lifecycle events into host signals |
//! | `error` | translates libvirt's errors |
//! | `capabilities`, `cells`, `pci`, `node` | a host's properties, resources and usage; its NUMA cells; its PCI devices; its id, memory and processor times |
//! | `cpu_models` | the operator's CPU models and flags, checked against the host |
//! | `pool`, `images`, `cached_image`, `unused_images` | volumes; the image cache; one of its images; the unused ones |
//! | `storage`, `sparse` | the back ends of guests' disks; streams with holes |
//! | `network`, `nwfilter`, `virtual_networks` | virtual networks; packet filters; the driver's calls on both |
//! | `domain`, `definition`, `redefinition` | a guest's domain; its disks, files and definition; another definition |
//! | `guest_definitions` | how guests and networks are defined |
//! | `guest_requests`, `agent` | requests to a guest that take time; the agent in a guest |
//! | `volumes` | the volume service's volumes |
//! | `snapshot`, `disk_snapshots` | copies of a guest's root disk; the driver's calls on them |
//! | `disk_transfer` | disks that move between hosts, and domains over existing disks |
//! | `storage_cleanup`, `shared_storage` | leftovers of interrupted operations; storage that several hosts share |
//! | `owner_mark` | the log that drives the host |
//! | `live_migration`, `migrations` | the driver's calls on live migrations; the migrations that this process started |
//! | `migration_plan`, `migration` | a plan as libvirt's parameters; libvirt's calls and states |
//! | `console` | screens and serial lines |
//! | `troubleshooting`, `counters` | the driver's calls for diagnostics and interrupts; libvirt's calls |
//! | `suspension`, `managed_save` | the driver's calls that pause and suspend guests; libvirt's calls |
//! | `interfaces`, `nics` | the driver's calls on interfaces of existing guests; libvirt's calls |
//! | `devices` | the bus addresses of a guest's interfaces and disks |
//! | `mdevs` | mediated devices of guests, for example virtual GPUs |
//! | `node_devices` | the XML of a host's devices |
//! | `pmem` | the files of guests' virtual persistent memory |
//! | `account` | the account of a host's emulators |
//! | `versions` | the versions of libvirt and QEMU that options need |
//! | `volume_attachment`, `disks` | the driver's calls that attach, detach and swap volumes; libvirt's calls |
//! | `emulated_tpm` | the passphrases and the state of guests' TPMs |
//! | `secrets` | the keys and passwords of disks that QEMU reaches over the network |
//! | `blockcopy` | the copy of a disk under a running guest |
//! | `adopted` | guests that Nova defined, and their files |
//!
//! Invariants: calls touch the host's file system only through volumes of storage pools. These pools are our own, or a
//! call opens them for the files of an adopted guest or of an emulated TPM. A caller waits only until its deadline. The
//! driver touches only domains with our metadata element or Nova's. Unsafe code only makes calls that the bindings
//! lack: in `agent`, `blockcopy`, `counters`, `events`, `migration`, `node`, `snapshot`, `sparse` and `volumes`.

mod account;
mod adopted;
mod agent;
mod blockcopy;
mod cached_image;
mod call_threads;
mod capabilities;
mod cells;
mod connection;
mod console;
mod counters;
mod cpu_models;
mod definition;
mod devices;
mod disk_snapshots;
mod disk_transfer;
mod disks;
mod domain;
mod driver;
mod emulated_tpm;
mod error;
mod events;
mod gates;
mod guest_definitions;
mod guest_requests;
mod host;
mod images;
mod interfaces;
mod live_migration;
mod managed_save;
mod mdevs;
mod migration;
mod migration_plan;
mod migrations;
mod network;
mod nics;
mod node;
mod node_devices;
mod nwfilter;
mod owner_mark;
mod pci;
mod pmem;
mod pool;
mod redefinition;
#[cfg(test)]
mod schema_tests;
mod secrets;
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
mod versions;
mod virtual_networks;
mod volume_attachment;
mod volumes;
mod watch;

pub(crate) use connection::without_credentials;
pub use host::LibvirtDriver;
