//! Options on servers that queries, processes and reconcilers share.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::ids::InstanceId;
use chronova_hypervisor::options::MachineTypes;

use crate::guest_name::NameTemplate;
use crate::mdev::MdevOptions;
use crate::metadata::MetadataOptions;
use crate::pci::alias::PciAliases;

/// The scope in which each host name is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameScope {
    /// Names may repeat.
    #[default]
    Unbound,
    Project,
    Global,
}

/// Nova's options on servers; the reference of `nova.conf` options says the meaning of each.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerOptions {
    /// `[DEFAULT] instance_name_template`.
    pub instance_name_template: Arc<NameTemplate>,
    /// `[DEFAULT] osapi_compute_unique_server_name_scope`.
    pub name_scope: NameScope,
    /// `[DEFAULT] default_availability_zone`.
    pub availability_zone: String,
    /// `[DEFAULT] shutdown_timeout`, seconds.
    pub shutdown_timeout: u32,
    /// `[compute] max_disk_devices_to_attach`: the most disks of a new server; `None` means no limit.
    pub max_disk_devices: Option<usize>,
    /// `[DEFAULT] reclaim_instance_interval`: how long a soft-deleted server can be restored. Zero turns soft deletion
    /// off.
    pub reclaim_interval: Duration,
    /// `[DEFAULT] shelved_offload_time`: how long shelved servers stay on their hosts; `None` means for ever.
    pub shelved_offload: Option<Duration>,
    /// `[libvirt] snapshot_image_format`: the disk format of images that are made of servers' disks.
    pub snapshot_format: String,
    /// The metadata that guests get.
    pub metadata: MetadataOptions,
    /// `[libvirt] hw_machine_type`: the machine types of new servers whose images have none.
    pub machine_types: MachineTypes,
    /// `[pci] alias`.
    pub pci_aliases: PciAliases,
    /// The types of mediated devices that guests get.
    pub mdevs: MdevOptions,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            instance_name_template: Arc::default(),
            name_scope: NameScope::Unbound,
            availability_zone: "nova".to_owned(),
            shutdown_timeout: 60,
            max_disk_devices: None,
            reclaim_interval: Duration::ZERO,
            shelved_offload: Some(Duration::ZERO),
            snapshot_format: "qcow2".to_owned(),
            metadata: MetadataOptions::default(),
            machine_types: MachineTypes::default(),
            pci_aliases: PciAliases::default(),
            mdevs: MdevOptions::default(),
        }
    }
}

impl ServerOptions {
    /// The libvirt name of a server's domain.
    pub fn domain_name(&self, server: InstanceId, number: u64) -> String {
        self.instance_name_template.fill(server, number)
    }
}
