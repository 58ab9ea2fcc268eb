//! Options of the processes.

use std::time::Duration;

/// Options of all processes. The reference of `nova.conf` options explains those that Nova has.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessOptions {
    /// `[scheduler] max_attempts`.
    pub max_attempts: u32,
    /// `[libvirt] wait_soft_reboot_seconds`.
    pub soft_reboot_timeout: u32,
    /// `[DEFAULT] block_device_allocate_retries`: further polls of a new volume that is not available at the first
    /// poll.
    pub volume_looks: u32,
    /// `[DEFAULT] block_device_allocate_retries_interval`.
    pub volume_pause: Duration,
    /// `[DEFAULT] reimage_timeout_per_gb`: the wait of a rebuild until its image is in the root volume, for each GiB of the
    /// image.
    pub reimage_patience: Duration,
    /// How long the snapshots of a server's volumes may take, from the beginning of the process. Nova waits for ever.
    pub snapshot_patience: Duration,
    /// `[cinder] cross_az_attach`: if it is off, a build asks for new volumes in the zone of its server.
    pub cross_az_attach: bool,
    /// `[DEFAULT] vif_plugging_timeout`: the wait for the network to plug a new guest's ports; zero: no wait.
    pub vif_plugging_timeout: Duration,
    /// `[DEFAULT] vif_plugging_is_fatal`: whether a guest without its network fails.
    pub vif_plugging_is_fatal: bool,
    /// `[DEFAULT] instance_build_timeout`: the time after which a build does no further step; zero means never.
    pub build_timeout: Duration,
    /// `[DEFAULT] network_allocate_retries`: further attempts at the interfaces of a new server.
    pub network_retries: u32,
    /// The pause before the first of these attempts. It doubles up to 30 seconds, as in Nova.
    pub network_pause: Duration,
    /// `[DEFAULT] allow_resize_to_same_host`.
    pub allow_resize_to_same_host: bool,
    /// The first pause before a step is retried. It doubles up to `retry_cap`.
    pub retry_base: Duration,
    pub retry_cap: Duration,
    /// The number of attempts at a step before it fails, in a process that can be undone.
    pub step_tries: u32,
    /// The longest time that a record waits in memory for the next append. Without this limit, a long step would hide
    /// the completed steps before it.
    pub records_wait: Duration,
    /// The number of processes that run at the same time.
    pub max_processes: usize,
    /// The pause before a process continues after its task has panicked.
    pub restart_pause: Duration,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            soft_reboot_timeout: 120,
            volume_looks: 60,
            volume_pause: Duration::from_secs(3),
            reimage_patience: Duration::from_secs(20),
            snapshot_patience: Duration::from_hours(6),
            cross_az_attach: true,
            vif_plugging_timeout: Duration::from_mins(5),
            vif_plugging_is_fatal: true,
            build_timeout: Duration::ZERO,
            network_retries: 0,
            network_pause: Duration::from_secs(1),
            allow_resize_to_same_host: false,
            retry_base: Duration::from_millis(100),
            retry_cap: Duration::from_secs(5),
            step_tries: 5,
            records_wait: Duration::from_millis(250),
            max_processes: 4_096,
            restart_pause: Duration::from_mins(1),
        }
    }
}

/// The options `[libvirt] live_migration_...`. The reference of `nova.conf` options explains each.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveOptions {
    /// `[DEFAULT] max_concurrent_live_migrations`: the most live migrations from one host at a time; 0 means no limit.
    pub per_host: usize,
    /// The timeout at start-up, in seconds for each GiB; 0 means no timeout.
    /// [`CompletionTimeout`](crate::coordination::completion_timeout::CompletionTimeout) has the present value.
    pub completion_timeout: u64,
    /// Whether a timeout forces the migration to complete, instead of aborting it.
    pub force_at_timeout: bool,
    /// The final downtime in milliseconds, the number of steps that lead to it, and the delay between steps in seconds
    /// for each GiB.
    pub downtime: u64,
    pub downtime_steps: u64,
    pub downtime_delay: u64,
    /// MiB/s; 0 means the hypervisor's default.
    pub bandwidth: u64,
    pub permit_post_copy: bool,
    pub permit_auto_converge: bool,
    pub native_tls: bool,
    pub tunnelled: bool,
    pub scheme: Option<String>,
    pub uri: Option<String>,
    pub inbound_addr: Option<String>,
    /// The hosts' network interface for inbound migrations.
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
