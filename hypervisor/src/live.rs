//! What a driver does so that a running guest can go to another host.
//!
//! The hosts move it between themselves (libvirt's peer-to-peer migration): once begun, it goes on whatever becomes of the
//! control plane. So nothing here waits for the end: [`LiveMoves::depart`] begins, [`LiveMoves::standing`] says how a host
//! sees the guest, and who must know where a guest is asks both hosts.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::{HostId, InstanceId, ProcessId};

use crate::driver::DriverResult;
use crate::guest::GuestSpec;
use crate::pinning::Pinning;

/// What a guest needs at its destination, as its source tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Luggage {
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
    /// Why it cannot leave its host at all.
    pub bound: Option<String>,
}

/// How a guest travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journey {
    /// Whose journey it is: what is said of one that failed is not taken for another.
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
    /// Where its CPUs and memory are to be at its destination.
    pub pinning: Pinning,
}

/// What decides the way to a destination: the operator's words, and the host's own name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entrance<'a> {
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

/// `peer` and `stream` of a [`Journey`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    pub peer: String,
    pub stream: Option<String>,
}

/// Bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub memory_total: u64,
    pub memory_processed: u64,
    pub memory_remaining: u64,
    pub disk_total: u64,
    pub disk_processed: u64,
    pub disk_remaining: u64,
}

/// How a host sees a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
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

/// What a host says of a guest that may be on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub presence: Presence,
    /// It is on its way from this host to another.
    pub departing: Option<Progress>,
    /// Whether it runs at its destination already, while the rest of its memory follows.
    pub in_post_copy: bool,
    /// The last journey that failed, and why.
    pub failed: Option<(ProcessId, String)>,
}

impl Standing {
    pub fn of(presence: Presence) -> Self {
        Self { presence, departing: None, in_post_copy: false, failed: None }
    }
}

/// How a migration that takes too long is brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hasten {
    /// The guest goes on at the destination at once, and fetches what is missing. One that set out without post-copy, as
    /// the hosts cannot do it, stands still.
    PostCopy,
    /// The guest stands still until it is across.
    Pause,
}

#[async_trait]
pub trait LiveMoves {
    /// What the guest needs elsewhere.
    async fn luggage(&self, instance: InstanceId) -> DriverResult<Luggage>;
    /// Why the guest cannot run here, in so many words; none where it can.
    async fn obstacles(&self, luggage: &Luggage) -> DriverResult<Vec<String>>;
    /// The hosts that see this host's storage as their own, this one included.
    async fn sharers(&self) -> DriverResult<BTreeSet<HostId>>;
    /// Makes what a guest finds at its destination: its disks, empty, where they are to be copied, and what is made anew
    /// wherever a guest is. Nothing is defined. There already is success.
    async fn await_guest(&self, guest: &GuestSpec, copied: bool) -> DriverResult<()>;
    /// Begins the journey of a running guest. On its way already is success.
    async fn depart(&self, instance: InstanceId, journey: &Journey) -> DriverResult<()>;
    async fn standing(&self, instance: InstanceId) -> DriverResult<Standing>;
    /// Returns when the guest's journey has ended, as far as this host knows, or after `most`.
    async fn until_departed(&self, instance: InstanceId, most: Duration);
    /// Calls the journey off. None under way is success; one that cannot be called off any more fails.
    async fn call_back(&self, instance: InstanceId) -> DriverResult<()>;
    async fn hasten(&self, instance: InstanceId, how: Hasten) -> DriverResult<()>;
    /// How long the guest may stand still at the end of its journey.
    async fn allow_downtime(&self, instance: InstanceId, milliseconds: u64) -> DriverResult<()>;
    /// Removes the guest's definition, not its disks: they are another host's, too. A guest that is on is not touched.
    async fn forget(&self, instance: InstanceId) -> DriverResult<()>;
    /// Why the host cannot encrypt what guests take along, in so many words; `None` where it can.
    async fn unfit_for_tls(&self) -> DriverResult<Option<String>>;
    /// The address of one of the host's network interfaces, by its name; `None` where its hypervisor tells of none.
    async fn interface_address(&self, name: &str) -> DriverResult<Option<String>>;
    /// Where this host's hypervisor is reached by others, as its own URI tells; `None` for one of this machine.
    fn remote_address(&self) -> Option<String>;
    /// The way to this host, in the words of its driver.
    fn way(&self, entrance: &Entrance<'_>) -> Way;
    /// Carries what the guest wrote on its console at its source to its destination.
    async fn adopt_console(&self, instance: InstanceId, text: bytes::Bytes) -> DriverResult<()>;
}
