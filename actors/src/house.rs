//! What the processes, the host agents and the reconcilers share.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::clock::Clock;
use chronova_events::ids::InstanceId;
use chronova_events::store::EventStore;
use chronova_projections::views::Views;

use crate::departures::Departures;
use crate::gateway::Gateway;
use crate::guest_name::NameTemplate;
use crate::hosts::fleet::Fleet;
use crate::hosts::image_use::ImageUse;
use crate::metadata::MetadataOptions;
use crate::passwords::Passwords;
use crate::ports::{Images, Networks, Volumes};
use crate::process::interference::Interference;
use crate::reconcile::image_cache::ImageCacheOptions;
use crate::reconcile::leftovers::Tidying;
use crate::scheduler::{Scheduler, SchedulerOptions};
use crate::topology::host::HostCpus;
use crate::volume::service::VolumeOptions;

/// The options of this crate; what each means stands in the reference of `nova.conf` options.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `[DEFAULT] instance_name_template`.
    pub instance_name_template: Arc<NameTemplate>,
    /// `[DEFAULT] default_availability_zone`.
    pub availability_zone: String,
    /// The ratios that a new host begins with: `[DEFAULT] cpu_allocation_ratio`, `ram_allocation_ratio`,
    /// `disk_allocation_ratio`, or their `initial_` like.
    pub cpu_allocation_ratio: f64,
    pub ram_allocation_ratio: f64,
    pub disk_allocation_ratio: f64,
    /// Class and ratio where the option without `initial_` is set: every report of a host imposes it.
    pub imposed_ratios: Vec<(String, f64)>,
    /// `[DEFAULT] reserved_host_cpus`, `reserved_host_memory_mb`, `reserved_host_disk_mb`.
    pub reserved_host_cpus: u64,
    pub reserved_host_memory_mb: u64,
    pub reserved_host_disk_mb: u64,
    /// `[DEFAULT] shutdown_timeout`, seconds.
    pub shutdown_timeout: u32,
    /// `[DEFAULT] reboot_timeout`-like patience with a soft reboot, seconds; Nova's driver waits 120.
    pub soft_reboot_timeout: u32,
    /// `[DEFAULT] max_concurrent_builds` and `max_concurrent_snapshots`, per host; 0 is any number.
    pub max_concurrent_builds: usize,
    pub max_concurrent_snapshots: usize,
    /// `[DEFAULT] enable_new_services`: hosts that were never seen may take servers.
    pub enable_new_services: bool,
    /// `[DEFAULT] resume_guests_state_on_host_boot`.
    pub resume_guests: bool,
    /// `[DEFAULT] running_deleted_instance_action`.
    pub deleted_guests: DeletedGuests,
    /// `[compute] max_disk_devices_to_attach`: most disks that a new server has; `None`: no bound.
    pub max_disk_devices: Option<usize>,
    /// `[scheduler] max_attempts`.
    pub max_attempts: u32,
    pub scheduler: SchedulerOptions,
    /// How often a host is asked for its usage.
    pub heartbeat: Duration,
    /// How often what is on a host is compared with what should be.
    pub resync: Duration,
    /// `[DEFAULT] reclaim_instance_interval`: how long deleted servers can be restored; zero deletes at once.
    pub reclaim_interval: Duration,
    /// `[DEFAULT] block_device_allocate_retries`: how often a new volume is looked at until it is there.
    pub volume_looks: u32,
    /// `[DEFAULT] block_device_allocate_retries_interval`.
    pub volume_pause: Duration,
    /// `[DEFAULT] shelved_offload_time`: how long shelved servers stay on their hosts; `None` for ever.
    pub shelved_offload: Option<Duration>,
    /// `[DEFAULT] allow_resize_to_same_host`.
    pub allow_resize_to_same_host: bool,
    /// `[DEFAULT] resize_confirm_window`: how long a move waits to be confirmed; zero waits for ever.
    pub resize_confirm_window: Duration,
    /// How long changes of security groups are gathered before running guests get new filters.
    pub filter_pause: Duration,
    /// How often the reconcilers run.
    pub reconcile: Duration,
    /// First pause before a step is tried again; doubles up to `retry_cap`.
    pub retry_base: Duration,
    pub retry_cap: Duration,
    /// How often a step that undoes itself is tried before it counts as failed.
    pub step_tries: u32,
    /// Which processors of hosts are for which guests.
    pub host_cpus: HostCpus,
    /// Live migrations.
    pub live: LiveOptions,
    /// The hosts' image caches.
    pub image_cache: ImageCacheOptions,
    /// `[volume]`: the embedded volume service.
    pub volume: VolumeOptions,
    /// What guests are told about themselves.
    pub metadata: MetadataOptions,
    /// Processes at work at the same time.
    pub max_processes: usize,
}

/// What is done with a guest on a host whose server is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedGuests {
    /// It is removed.
    Reap,
    /// It is told of.
    Log,
    /// It is told of and switched off; its disks stay.
    Shutdown,
    Noop,
}

/// `[libvirt] live_migration_...`; each stands in the reference of `nova.conf` options.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveOptions {
    /// `[DEFAULT] max_concurrent_live_migrations`: how many leave one host at a time; 0 is any number.
    pub per_host: usize,
    /// Seconds for each GiB; 0 is for ever.
    pub completion_timeout: u64,
    /// What is done then: whether it is brought to its end, or aborted.
    pub force_at_timeout: bool,
    /// Milliseconds that a guest may stand still in the end, the steps up to that, and the seconds between them for each
    /// GiB.
    pub downtime: u64,
    pub downtime_steps: u64,
    pub downtime_delay: u64,
    /// MiB/s; 0 is the hypervisor's own.
    pub bandwidth: u64,
    pub permit_post_copy: bool,
    pub permit_auto_converge: bool,
    pub native_tls: bool,
    pub tunnelled: bool,
    pub scheme: Option<String>,
    pub uri: Option<String>,
    pub inbound_addr: Option<String>,
    /// The network interface of hosts that migrations come in by.
    pub interface: Option<String>,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            per_host: 1,
            completion_timeout: 800,
            force_at_timeout: false,
            downtime: 500,
            downtime_steps: 10,
            downtime_delay: 75,
            bandwidth: 0,
            permit_post_copy: false,
            permit_auto_converge: false,
            native_tls: false,
            tunnelled: false,
            scheme: None,
            uri: None,
            inbound_addr: None,
            interface: None,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instance_name_template: Arc::default(),
            availability_zone: "nova".to_owned(),
            cpu_allocation_ratio: 4.0,
            ram_allocation_ratio: 1.0,
            disk_allocation_ratio: 1.0,
            imposed_ratios: Vec::new(),
            reserved_host_cpus: 0,
            reserved_host_memory_mb: 512,
            reserved_host_disk_mb: 0,
            shutdown_timeout: 60,
            soft_reboot_timeout: 120,
            max_disk_devices: None,
            max_concurrent_builds: 10,
            max_concurrent_snapshots: 5,
            enable_new_services: true,
            resume_guests: false,
            deleted_guests: DeletedGuests::Reap,
            max_attempts: 3,
            scheduler: SchedulerOptions::default(),
            heartbeat: Duration::from_secs(10),
            resync: Duration::from_mins(1),
            reclaim_interval: Duration::ZERO,
            volume_looks: 60,
            volume_pause: Duration::from_secs(3),
            shelved_offload: Some(Duration::ZERO),
            allow_resize_to_same_host: false,
            resize_confirm_window: Duration::ZERO,
            filter_pause: Duration::from_secs(1),
            reconcile: Duration::from_mins(1),
            retry_base: Duration::from_millis(100),
            retry_cap: Duration::from_secs(5),
            step_tries: 5,
            host_cpus: HostCpus::default(),
            live: LiveOptions::default(),
            image_cache: ImageCacheOptions::default(),
            volume: VolumeOptions::default(),
            metadata: MetadataOptions::default(),
            max_processes: 4_096,
        }
    }
}

/// Everything that work needs.
pub struct House {
    pub gateway: Arc<Gateway>,
    pub views: Arc<Views>,
    pub fleet: Arc<Fleet>,
    pub networks: Arc<dyn Networks>,
    pub images: Arc<dyn Images>,
    pub volumes: Arc<dyn Volumes>,
    pub clock: Arc<dyn Clock>,
    /// Passwords on their way to guests; in memory only.
    pub passwords: Passwords,
    pub scheduler: Arc<Scheduler>,
    /// Who is leaving which host.
    pub departures: Departures,
    /// Whose disks are set aside, or tidied up, at this moment.
    pub tidying: Tidying,
    /// Which cached images are about to be used, or removed, at this moment.
    pub image_use: ImageUse,
    /// Read where nothing is kept in memory: what was decided, and why.
    pub log: Arc<dyn EventStore>,
    pub options: Options,
    /// Only in proofs; `None` in a control plane.
    pub interference: Option<Arc<dyn Interference>>,
}

impl std::fmt::Debug for House {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("House").field("options", &self.options).finish_non_exhaustive()
    }
}

impl House {
    /// The libvirt name of a server's domain.
    pub fn domain_name(&self, server: InstanceId, number: u64) -> String {
        self.options.instance_name_template.fill(server, number)
    }
}
