//! Live migration: a running guest goes to another host.
//!
//! The hosts migrate it between themselves (libvirt's peer-to-peer migration). Once started, it goes on even if the
//! control plane dies, so nothing here waits for its end. [`LiveMigration::start_migration`] starts it,
//! [`LiveMigration::migration_state`] tells how one host sees the guest, and a caller that must know where the guest is
//! asks both hosts.

use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::{InstanceId, ProcessId};

use crate::driver::DriverResult;
use crate::guest::GuestSpec;
use crate::pinning::Pinning;

/// The needs of a guest at its destination, as its source reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigrationData {
    /// `QEMU`, and its version.
    pub hypervisor_type: String,
    pub hypervisor_version: u32,
    /// The guest's processor as the hypervisor describes it; `None` where it has no description.
    pub cpu: Option<String>,
    pub arch: String,
    pub machine: String,
    /// `kvm`, `qemu`.
    pub virt_type: String,
    pub memory_mib: u64,
    /// Disks of its own that it writes to, by what the guest calls them (`vda`), with the bytes that it sees.
    pub disks: Vec<(String, u64)>,
    /// Why it cannot leave its host at all; `None` where it can.
    pub bound: Option<String>,
}

/// How a guest is migrated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationPlan {
    /// The process that made the plan, so that the error of another plan is not taken for this one's.
    pub migration: ProcessId,
    /// The destination's hypervisor, as the source reaches it.
    pub peer: String,
    /// Where the destination listens for the guest's memory; `None` leaves it to the hosts.
    pub stream: Option<String>,
    /// The disks that are copied, by what the guest calls them; none where the storage is shared.
    pub copied: Vec<String>,
    pub tls: bool,
    /// Its memory goes by way of the two libvirtds instead of from QEMU to QEMU.
    pub tunnelled: bool,
    /// It may be slowed down until it gets across, where it does not go by post-copy.
    pub auto_converge: bool,
    /// It may go on at its destination before all of its memory is there. Where the hosts cannot do that it goes without.
    pub post_copy: bool,
    /// MiB/s; 0 is the hypervisor's own.
    pub bandwidth: u64,
    /// The placement of its CPUs and memory at its destination.
    pub pinning: Pinning,
}

/// The input for the URIs of a destination: the operator's options, and the host's own name.
#[derive(Debug, Clone, Copy, Default)]
pub struct MigrationAddressing<'a> {
    /// `live_migration_scheme`
    pub scheme: Option<&'a str>,
    /// `live_migration_uri`, in which `%s` stands for the address.
    pub uri: Option<&'a str>,
    /// The address that is meant for guests that come in, where there is one.
    pub inbound: Option<&'a str>,
    /// Where neither that nor the host's own URI says where it is.
    pub hostname: &'a str,
    pub tunnelled: bool,
}

/// `peer` and `stream` of a [`MigrationPlan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationUris {
    pub peer: String,
    pub stream: Option<String>,
}

/// Bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrationProgress {
    pub memory_total: u64,
    pub memory_processed: u64,
    pub memory_remaining: u64,
    pub disk_total: u64,
    pub disk_processed: u64,
    pub disk_remaining: u64,
}

/// How a host sees a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestPresence {
    Absent,
    /// Defined, and off.
    Off,
    /// Off, because it went to another host.
    Left,
    /// Its memory is coming in; it does not run yet.
    Arriving,
    Running,
    /// It stands still, as it was told to.
    Paused,
    /// It was divided between two hosts when their connection broke: it cannot go on.
    Torn,
}

/// A host's report on a guest that may be migrating.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestMigrationState {
    pub presence: GuestPresence,
    /// It is on its way from this host to another.
    pub departing: Option<MigrationProgress>,
    /// Whether it runs at its destination already, while the rest of its memory follows.
    pub in_post_copy: bool,
    /// The last plan that failed, and why.
    pub failed: Option<(ProcessId, String)>,
}

impl GuestMigrationState {
    pub fn of(presence: GuestPresence) -> Self {
        Self { presence, departing: None, in_post_copy: false, failed: None }
    }
}

/// How a migration that takes too long is brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForceComplete {
    /// The guest goes on at the destination at once, and fetches what is missing. One that set out without post-copy, as
    /// the hosts cannot do it, stands still.
    PostCopy,
    /// The guest stands still until it is across.
    Pause,
}

#[async_trait]
pub trait LiveMigration: Send + Sync {
    /// Reads the guest's needs at another host.
    async fn migration_data(&self, instance: InstanceId) -> DriverResult<MigrationData>;
    /// Why the guest cannot run here, in so many words; none where it can.
    async fn destination_obstacles(&self, migration_data: &MigrationData) -> DriverResult<Vec<String>>;
    /// Prepares a destination: empty disks where libvirt copies them, and the files that every host makes for itself
    /// (config drive, console log). Defines nothing. A prepared destination is success.
    async fn prepare_destination(&self, guest: &GuestSpec, copied: bool) -> DriverResult<()>;
    /// Begins the plan of a running guest. On its way already is success.
    async fn start_migration(&self, instance: InstanceId, plan: &MigrationPlan) -> DriverResult<()>;
    async fn migration_state(&self, instance: InstanceId) -> DriverResult<GuestMigrationState>;
    /// Returns when the guest's plan has ended, as far as this host knows, or after `most`.
    async fn wait_for_migration(&self, instance: InstanceId, most: Duration);
    /// Calls the plan off. None under way is success; one that cannot be called off any more fails.
    async fn abort_migration(&self, instance: InstanceId) -> DriverResult<()>;
    async fn force_complete(&self, instance: InstanceId, how: ForceComplete) -> DriverResult<()>;
    /// How long the guest may stand still at the end of its plan.
    async fn set_max_downtime(&self, instance: InstanceId, milliseconds: u64) -> DriverResult<()>;
    /// Why the host cannot encrypt what guests take along, in so many words; `None` where it can.
    async fn tls_obstacle(&self) -> DriverResult<Option<String>>;
    /// The address of one of the host's network interfaces, by its name; `None` where its hypervisor tells of none.
    async fn interface_address(&self, name: &str) -> DriverResult<Option<String>>;
    /// The way to this host, in the words of its driver.
    fn migration_uris(&self, addressing: &MigrationAddressing<'_>) -> MigrationUris;
    /// Carries what the guest wrote on its console at its source to its destination.
    async fn adopt_console(&self, instance: InstanceId, text: bytes::Bytes) -> DriverResult<()>;
}
