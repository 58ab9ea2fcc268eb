//! Live migration: a running guest moves to another host.
//!
//! The hosts migrate the guest between themselves (libvirt's peer-to-peer migration). A migration continues even if the
//! control plane dies, so no call here waits for its end. [`LiveMigration::start_migration`] starts it.
//! [`LiveMigration::migration_state`] reports how one host sees the guest. A caller that must know where the guest is
//! asks both hosts.

use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::{InstanceId, ProcessId};

use crate::driver::DriverResult;
use crate::guest::{GuestSpec, Nic};
use crate::pinning::Pinning;

/// The guest's requirements on its destination, as its source host reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationData {
    /// The hypervisor of the source, for example `QEMU`.
    pub hypervisor_type: String,
    pub hypervisor_version: u32,
    /// The guest's CPU as the hypervisor describes it; `None` without a description.
    pub cpu: Option<String>,
    pub arch: String,
    pub machine: String,
    /// `kvm` or `qemu`.
    pub virt_type: String,
    pub memory_mib: u64,
    /// The guest's own writable disks. Each entry has the disk's name in the guest (`vda`), and its size in bytes as
    /// the guest sees it.
    pub disks: Vec<(String, u64)>,
    /// Why the guest cannot leave its host; `None` if it can.
    pub bound: Option<String>,
}

/// How a guest is migrated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationPlan {
    /// The id of the process that made this plan. It distinguishes the errors of this plan from those of another plan.
    pub migration: ProcessId,
    /// The URI by which the source connects to the destination's hypervisor.
    pub peer: String,
    /// The address on which the destination receives the guest's memory. `None`: the hosts choose the address.
    pub stream: Option<String>,
    /// The disks to copy, by their names in the guest; empty for shared storage.
    pub copied: Vec<String>,
    /// Whether the hosts share the storage of disks and other files.
    pub shared: bool,
    pub tls: bool,
    /// Whether the guest's memory is sent between the two libvirtds instead of between the two QEMUs.
    pub tunnelled: bool,
    /// Whether the hypervisor may slow the guest down until the migration converges. Not used together with post-copy.
    pub auto_converge: bool,
    /// Whether the guest may run at its destination before all of its memory is there. Ignored if the hosts do not
    /// support it.
    pub post_copy: bool,
    /// The bandwidth limit in MiB/s; 0 means the hypervisor's default.
    pub bandwidth: u64,
    /// The placement of the guest's CPUs and memory at its destination.
    pub pinning: Pinning,
    /// The guest's interfaces, as its destination plugs them in.
    pub nics: Vec<Nic>,
}

/// The values from which a driver forms the migration URIs of a destination: the operator's options, and the host's
/// name.
#[derive(Debug, Clone, Copy, Default)]
pub struct MigrationAddressing<'a> {
    /// `live_migration_scheme`
    pub scheme: Option<&'a str>,
    /// `live_migration_uri`. The address replaces `%s` in this text.
    pub uri: Option<&'a str>,
    /// The host's address for incoming migrations, if it has one.
    pub inbound: Option<&'a str>,
    /// The host name, which is used if neither `inbound` nor the host's own URI has an address.
    pub hostname: &'a str,
    pub tunnelled: bool,
}

/// The `peer` and `stream` of a [`MigrationPlan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationUris {
    pub peer: String,
    pub stream: Option<String>,
}

/// The progress of a migration, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrationProgress {
    pub memory_total: u64,
    pub memory_processed: u64,
    pub memory_remaining: u64,
    pub disk_total: u64,
    pub disk_processed: u64,
    pub disk_remaining: u64,
}

/// The state of a guest on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestPresence {
    Absent,
    /// The guest is defined and off.
    Off,
    /// The guest is off here, because it moved to another host.
    Left,
    /// A migration has paused the guest. At its destination, the memory is arriving. At its source, the memory was
    /// sent. A source that does not report the guest as `departing` does not know whether the destination has the
    /// guest.
    Arriving,
    Running,
    /// The guest is paused by request.
    Paused,
    /// The connection broke during post-copy, with memory on both hosts. The guest cannot continue.
    Torn,
}

/// A host's report on a guest that may be migrating.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestMigrationState {
    pub presence: GuestPresence,
    /// The progress if the guest is migrating from this host to another.
    pub departing: Option<MigrationProgress>,
    /// Whether the guest already runs at its destination while the rest of its memory follows.
    pub in_post_copy: bool,
    /// The last plan that failed, and the reason.
    pub failed: Option<(ProcessId, String)>,
}

impl GuestMigrationState {
    pub fn of(presence: GuestPresence) -> Self {
        Self { presence, departing: None, in_post_copy: false, failed: None }
    }
}

/// How to force a slow migration to complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForceComplete {
    /// Switches to post-copy: the guest runs at the destination at once and fetches missing memory. If the migration
    /// began without post-copy, the guest is paused instead.
    PostCopy,
    /// Pauses the guest until the migration is complete.
    Pause,
}

#[async_trait]
pub trait LiveMigration: Send + Sync {
    /// Reads the guest's requirements on a destination.
    async fn migration_data(&self, instance: InstanceId) -> DriverResult<MigrationData>;
    /// Returns the reasons why the guest cannot run on this host, as text. Empty if the guest can run here.
    async fn destination_obstacles(&self, migration_data: &MigrationData) -> DriverResult<Vec<String>>;
    /// Prepares a destination. If the disks are `copied`, creates empty disks for libvirt to copy into. Also creates
    /// the files that the destination does not share with the source (config drive, console log). Defines no domain.
    /// Succeeds if the destination is already prepared.
    async fn prepare_destination(&self, guest: &GuestSpec, copied: bool) -> DriverResult<()>;
    /// Starts the migration of a running guest. Succeeds if it is already migrating.
    async fn start_migration(&self, instance: InstanceId, plan: &MigrationPlan) -> DriverResult<()>;
    async fn migration_state(&self, instance: InstanceId) -> DriverResult<GuestMigrationState>;
    /// Returns when this host knows that the guest's migration has ended, or after `most`.
    async fn wait_for_migration(&self, instance: InstanceId, most: Duration);
    /// Aborts the migration. Succeeds if no migration runs. Fails if the migration can no longer be aborted.
    async fn abort_migration(&self, instance: InstanceId) -> DriverResult<()>;
    async fn force_complete(&self, instance: InstanceId, how: ForceComplete) -> DriverResult<()>;
    /// Sets how long the guest may be paused at the end of its migration.
    async fn set_max_downtime(&self, instance: InstanceId, milliseconds: u64) -> DriverResult<()>;
    /// The reason why the host cannot encrypt migrations, as text; `None` if it can.
    async fn tls_obstacle(&self) -> DriverResult<Option<String>>;
    /// The address of the host's network interface with this name; `None` if the hypervisor does not report one.
    async fn interface_address(&self, name: &str) -> DriverResult<Option<String>>;
    /// The URIs for migrations to this host, in the driver's format.
    fn migration_uris(&self, addressing: &MigrationAddressing<'_>) -> MigrationUris;
    /// Gives the destination the console output that the guest wrote at its source.
    async fn adopt_console(&self, instance: InstanceId, text: bytes::Bytes) -> DriverResult<()>;
}
