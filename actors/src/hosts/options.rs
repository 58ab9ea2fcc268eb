//! Options of the compute hosts.

use std::time::Duration;

use crate::pci::HostPciOptions;
use crate::topology::host::HostCpus;

/// Options on the capacity of hosts and on their agents. The reference of `nova.conf` options explains each.
#[derive(Debug, Clone, PartialEq)]
pub struct HostOptions {
    /// The ratios of a new host: `[DEFAULT] cpu_allocation_ratio`, `ram_allocation_ratio` and `disk_allocation_ratio`,
    /// or the options of the same names with `initial_`.
    pub cpu_allocation_ratio: f64,
    pub ram_allocation_ratio: f64,
    pub disk_allocation_ratio: f64,
    /// Resource class and ratio, if the option without `initial_` is set. Every report of a host sets this ratio.
    pub imposed_ratios: Vec<(String, f64)>,
    /// `[DEFAULT] reserved_host_cpus`, `reserved_host_memory_mb`, `reserved_host_disk_mb`.
    pub reserved_host_cpus: u64,
    pub reserved_host_memory_mb: u64,
    pub reserved_host_disk_mb: u64,
    /// `[DEFAULT] max_concurrent_builds` and `max_concurrent_snapshots`, per host; 0 means no limit.
    pub max_concurrent_builds: usize,
    pub max_concurrent_snapshots: usize,
    /// `[DEFAULT] enable_new_services`: whether a new host may take servers at once.
    pub enable_new_services: bool,
    /// `[DEFAULT] resume_guests_state_on_host_boot`.
    pub resume_guests: bool,
    /// `[DEFAULT] running_deleted_instance_action`.
    pub deleted_guests: DeletedGuests,
    /// The period of heartbeats.
    pub heartbeat: Duration,
    /// The period in which an agent compares its host with the log; also the longest wait for the read models.
    pub resync: Duration,
    /// The hosts' processors for pinned and for floating guests.
    pub host_cpus: HostCpus,
    /// The hosts' PCI devices that guests may get.
    pub host_pci: HostPciOptions,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            cpu_allocation_ratio: 4.0,
            ram_allocation_ratio: 1.0,
            disk_allocation_ratio: 1.0,
            imposed_ratios: Vec::new(),
            reserved_host_cpus: 0,
            reserved_host_memory_mb: 512,
            reserved_host_disk_mb: 0,
            max_concurrent_builds: 10,
            max_concurrent_snapshots: 5,
            enable_new_services: true,
            resume_guests: false,
            deleted_guests: DeletedGuests::Reap,
            heartbeat: Duration::from_secs(10),
            resync: Duration::from_mins(1),
            host_cpus: HostCpus::default(),
            host_pci: HostPciOptions::default(),
        }
    }
}

/// The action on a guest of a deleted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedGuests {
    /// Remove it.
    Reap,
    /// Log it.
    Log,
    /// Log it and power it off; its disks stay.
    Shutdown,
    Noop,
}
