//! Options of the compute hosts.

use std::sync::Arc;
use std::time::Duration;

use crate::mdev::MdevOptions;
use crate::pci::HostPciOptions;
use crate::provider_config::ProviderConfigs;
use crate::topology::host::{HostCpus, ReservedHugePages};

/// Options on the capacity of hosts and on their agents. The reference of `nova.conf` options explains each.
#[derive(Debug, Clone, PartialEq)]
pub struct HostOptions {
    /// The ratios of a new host: `[DEFAULT] cpu_allocation_ratio`, `ram_allocation_ratio` and `disk_allocation_ratio`,
    /// or the options of the same names with `initial_`.
    pub cpu_allocation_ratio: f64,
    pub ram_allocation_ratio: f64,
    pub disk_allocation_ratio: f64,
    /// Each resource class whose option without `initial_` is set, and its ratio. Every report of a host sets these
    /// ratios again.
    pub imposed_ratios: Vec<(String, f64)>,
    /// `[DEFAULT] reserved_host_cpus`, `reserved_host_memory_mb`, `reserved_host_disk_mb`.
    pub reserved_host_cpus: u64,
    pub reserved_host_memory_mb: u64,
    pub reserved_host_disk_mb: u64,
    /// `[DEFAULT] reserved_huge_pages`.
    pub reserved_huge_pages: Vec<ReservedHugePages>,
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
    /// `[DEFAULT] service_down_time`: the time without an answer after which a host is down.
    pub down_time: Duration,
    /// The longest period in which an agent compares its host with the log; also the longest wait for the read models.
    pub resync: Duration,
    /// `[DEFAULT] sync_power_state_interval`: the period in which the power states of all guests are compared; `None`
    /// means only when the host connects.
    pub power_sync: Option<Duration>,
    /// `[DEFAULT] running_deleted_instance_poll_interval`: the period of the search for guests of deleted servers;
    /// `None` means never.
    pub deleted_poll: Option<Duration>,
    /// `[DEFAULT] update_resources_interval`: the period in which a host reports its resources, traits and ratios again.
    /// Zero means [`HostOptions::resync`]. `None` means that the host reports only when it connects.
    pub resources_poll: Option<Duration>,
    /// `[workarounds] handle_virt_lifecycle_events`: whether the agent reads a guest at once when the host reports a
    /// change of it.
    pub follows_guests: bool,
    /// `[compute] image_type_exclude_list`: image formats that no host offers.
    pub excluded_image_types: Vec<String>,
    /// Whether the agent refuses a host that a copy of this log drives ([`super::fence`]). `chronova serve` sets it.
    pub fenced: bool,
    /// `[DEFAULT] compute_monitors`; if empty, no metrics are computed.
    pub monitors: Vec<String>,
    /// The hosts' processors for pinned and for floating guests.
    pub host_cpus: HostCpus,
    /// The hosts' PCI devices that guests may get.
    pub host_pci: HostPciOptions,
    /// The types of mediated devices that the hosts offer.
    pub mdevs: MdevOptions,
    /// The custom inventories and traits of the files in `[compute] provider_config_location`.
    pub provider_configs: Arc<ProviderConfigs>,
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
            reserved_huge_pages: Vec::new(),
            max_concurrent_builds: 10,
            max_concurrent_snapshots: 5,
            enable_new_services: true,
            resume_guests: false,
            deleted_guests: DeletedGuests::Reap,
            heartbeat: Duration::from_secs(10),
            down_time: Duration::from_mins(1),
            resync: Duration::from_mins(1),
            power_sync: Some(Duration::from_mins(10)),
            deleted_poll: Some(Duration::from_mins(30)),
            resources_poll: Some(Duration::ZERO),
            follows_guests: true,
            excluded_image_types: Vec::new(),
            fenced: false,
            monitors: Vec::new(),
            host_cpus: HostCpus::default(),
            host_pci: HostPciOptions::default(),
            mdevs: MdevOptions::default(),
            provider_configs: Arc::default(),
        }
    }
}

impl HostOptions {
    /// The time without an answer after which a host is down. As in Nova, a time up to the period of heartbeats becomes
    /// 2.5 periods, so that one lost heartbeat does not make a host down.
    pub fn down_after(&self) -> Duration {
        if self.down_time > self.heartbeat { self.down_time } else { self.heartbeat * 5 / 2 }
    }

    /// The period in which an agent compares its host with the log. It is the shortest period of the comparisons. A
    /// host's report of its resources is no comparison, and has a clock of its own.
    pub(super) fn resync_period(&self) -> Duration {
        [self.power_sync, self.deleted_poll].into_iter().flatten().fold(self.resync, Duration::min)
    }

    /// The period in which a host reports its resources again; `None` means only when the host connects.
    pub(super) fn resources_period(&self) -> Option<Duration> {
        self.resources_poll.map(|period| if period.is_zero() { self.resync } else { period })
    }

    /// Whether hosts offer a trait of their drivers.
    pub(super) fn offers(&self, name: &str) -> bool {
        let format = name.strip_prefix("COMPUTE_IMAGE_TYPE_");
        format.is_none_or(|format| !self.excluded_image_types.iter().any(|known| known.eq_ignore_ascii_case(format)))
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
