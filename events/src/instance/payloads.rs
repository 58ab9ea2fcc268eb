//! Payloads of the events of a server.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::InstanceEvent;
use super::image_properties::ImagePropertiesChanged;
use super::machine::{MachineTypeChanged, MachineTypeRecorded, TpmSecretStored};
use crate::ids::{
    ErasureId, FlavorId, HostId, ImageId, InstanceId, NetworkId, PortId, ProcessId, ProjectId, RequestId, UserId,
};

/// Keys and values, sorted by key.
pub type SortedPairs = Vec<(String, String)>;

/// The flavor at the time of the request. Later changes of the flavor do not change the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlavorSnapshot {
    pub id: FlavorId,
    pub name: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub root_gib: u32,
    pub ephemeral_gib: u32,
    pub swap_mib: u32,
    pub extra_specs: SortedPairs,
}

/// The image at the time of the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageSnapshot {
    pub id: ImageId,
    pub name: String,
    /// The SHA-512 of the content in lower-case hex.
    pub checksum: String,
    /// For example `raw`, `qcow2` or `iso`.
    pub format: String,
    /// The size of the content in bytes.
    pub size: u64,
    /// The size in bytes that the guest sees.
    pub virtual_size: u64,
    pub min_memory_mib: u64,
    pub min_disk_gib: u32,
    pub properties: SortedPairs,
}

/// The public key at the time of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeySnapshot {
    pub name: String,
    /// `ssh` or `x509`.
    pub kind: String,
    pub public_key: String,
}

/// One requested network interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestedNic {
    pub network: Option<NetworkId>,
    pub port: Option<PortId>,
    pub fixed_ip: Option<String>,
    pub tag: Option<String>,
}

impl RequestedNic {
    /// An interface on the one network that the project can use.
    pub const fn automatic() -> Self {
        Self { network: None, port: None, fixed_ip: None, tag: None }
    }

    pub const fn is_automatic(&self) -> bool {
        self.network.is_none() && self.port.is_none()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskConfig {
    Auto,
    Manual,
}

/// The requested networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RequestedNetworks {
    /// No `networks`: the one network that the project can use, or no interface if it has none. Older events also have
    /// this value for `auto`.
    Auto,
    /// `none`: no interface at all.
    None,
    /// The listed interfaces. `auto` lists one [automatic](RequestedNic::automatic) interface.
    These(Vec<RequestedNic>),
    /// Like [`These`](Self::These), but an administrator sent the request. So the networks may belong to any project,
    /// and may be external (Nova's rule `network:attach_external_network`).
    OfAnyProject(Vec<RequestedNic>),
}

impl RequestedNetworks {
    /// The interfaces that the request lists.
    pub fn listed(&self) -> &[RequestedNic] {
        match self {
            Self::Auto | Self::None => &[],
            Self::These(nics) | Self::OfAnyProject(nics) => nics,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuildRequested {
    pub instance: InstanceId,
    pub process: ProcessId,
    /// The server's number in the order of the requests for servers. `instance_name_template` forms the domain's name
    /// from this number.
    pub number: u64,
    pub reservation: String,
    pub launch_index: u32,
    /// The number of servers in the request. All of them are placed, or none.
    pub batch: u32,
    pub project: ProjectId,
    pub user: UserId,
    pub name: String,
    pub hostname: String,
    pub description: Option<String>,
    /// The flavor. It is in an `Arc`, like the image, because many servers use few flavors and images.
    pub flavor: Arc<FlavorSnapshot>,
    pub image: Option<Arc<ImageSnapshot>>,
    pub key: Option<KeySnapshot>,
    /// Base64, as the user sent it.
    pub user_data: Option<String>,
    pub config_drive: bool,
    pub networks: RequestedNetworks,
    pub security_groups: Vec<String>,
    pub metadata: SortedPairs,
    pub tags: Vec<String>,
    pub availability_zone: Option<String>,
    /// The host that an administrator forced, without the filters (`zone:host:node`).
    pub forced_host: Option<String>,
    /// The requested host. The server is built there only if the filters accept the host (2.74).
    pub requested_host: Option<String>,
    pub scheduler_hints: Vec<(String, Vec<String>)>,
    pub disk_config: DiskConfig,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    pub trusted_certs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    pub process: ProcessId,
    pub host: HostId,
    pub hostname: String,
    /// The number of this attempt, from 1. Each attempt is on another host.
    pub attempt: u32,
    pub availability_zone: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unplaced {
    pub process: ProcessId,
    pub host: HostId,
    pub reason: String,
}

/// A network interface of a server. Nova calls the list of them the network info cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicInfo {
    pub port: PortId,
    pub network: NetworkId,
    pub network_label: String,
    pub mac: String,
    pub mtu: u32,
    pub fixed_ips: Vec<FixedIp>,
    pub tag: Option<String>,
    /// Whether the port was created for this server. If so, it is deleted with the server.
    pub owned: bool,
    pub security_groups: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FixedIp {
    pub address: String,
    /// The prefix length of the subnet.
    pub prefix: u8,
    pub gateway: Option<String>,
    pub dns: Vec<String>,
    pub dhcp: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkAllocated {
    pub process: ProcessId,
    pub nics: Vec<NicInfo>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuildSucceeded {
    pub process: ProcessId,
}

/// The `fault` of a server in the API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultInfo {
    pub code: u16,
    pub message: String,
    /// Details for administrators only.
    pub details: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuildFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteRequested {
    pub process: ProcessId,
    /// The build to cancel first, if the server is still being built.
    pub cancels: Option<ProcessId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deleted {
    pub process: ProcessId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerAction {
    Start,
    Stop,
    RebootSoft,
    RebootHard,
    /// The guest's CPUs are paused; its memory stays in RAM.
    Pause,
    Unpause,
    /// The guest's memory is saved to the host's disk, and the guest is off.
    Suspend,
    Resume,
}

impl PowerAction {
    /// The words of `chronova inspect`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::RebootSoft => "reboot (soft)",
            Self::RebootHard => "reboot (hard)",
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
        }
    }
}

/// Nova's numbers: 0 NOSTATE, 1 RUNNING, 3 PAUSED, 4 SHUTDOWN, 6 CRASHED, 7 SUSPENDED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    NoState,
    Running,
    Paused,
    Shutdown,
    Crashed,
    Suspended,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerRequested {
    pub process: ProcessId,
    pub action: PowerAction,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerCompleted {
    pub process: ProcessId,
    pub action: PowerAction,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerFailed {
    pub process: ProcessId,
    pub action: PowerAction,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerObserved {
    pub host: HostId,
    pub power: Power,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Renamed {
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DescriptionChanged {
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostnameChanged {
    pub hostname: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskConfigChanged {
    pub disk_config: DiskConfig,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessAddressesChanged {
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetadataReplaced {
    pub metadata: SortedPairs,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TagsReplaced {
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Locked {
    /// Whether an administrator locked the server. Only an administrator can remove such a lock.
    pub by_admin: bool,
    pub reason: Option<String>,
    pub request_id: Option<RequestId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unlocked {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonalErased {
    pub erasure: ErasureId,
}

/// One example of each event.
pub fn samples() -> Vec<InstanceEvent> {
    let mut all = of_servers();
    all.extend(super::operator::samples());
    all.extend(super::soft_delete::samples());
    all.extend(super::interfaces::samples());
    all.extend(super::block::samples());
    all.extend(super::imaging::samples());
    all.extend(super::rebuild::samples());
    all.extend(super::rescue::samples());
    all.extend(super::shelving::samples());
    all.extend(super::guest_data::samples());
    all.extend(super::moving::samples());
    all.extend(super::live::samples());
    all.extend(super::evacuation::samples());
    all.extend(super::adopted::samples());
    all.extend(of_machines());
    all
}

pub(super) fn sample_image() -> ImageSnapshot {
    ImageSnapshot {
        id: ImageId(uuid::Uuid::from_u128(3)),
        name: "cirros".into(),
        checksum: "ab".repeat(64),
        format: "qcow2".into(),
        size: 13_287_936,
        virtual_size: 117_440_512,
        min_memory_mib: 0,
        min_disk_gib: 0,
        properties: vec![("hw_disk_bus".into(), "virtio".into())],
    }
}

fn of_machines() -> Vec<InstanceEvent> {
    let secret = uuid::Uuid::from_u128(9);
    vec![
        MachineTypeRecorded { machine_type: "pc".into() }.into(),
        MachineTypeChanged { machine_type: "q35".into() }.into(),
        TpmSecretStored { secret, reference: secret.to_string() }.into(),
        ImagePropertiesChanged { properties: vec![("hw_disk_bus".into(), "scsi".into())] }.into(),
    ]
}

fn of_servers() -> Vec<InstanceEvent> {
    let uuid = |n: u128| uuid::Uuid::from_u128(n);
    let process = ProcessId(uuid(2));
    let fault = FaultInfo { code: 500, message: "No valid host was found.".into(), details: "0 of 3 hosts".into() };
    let pairs = |k: &str, v: &str| vec![(k.to_owned(), v.to_owned())];
    vec![
        BuildRequested {
            instance: InstanceId(uuid(1)),
            process,
            number: 7,
            reservation: "r-0abc1234".into(),
            launch_index: 0,
            batch: 1,
            project: ProjectId::new("6f70656e737461636b20342065766572"),
            user: UserId::new("fake"),
            name: "web-1".into(),
            hostname: "web-1".into(),
            description: Some("front end".into()),
            flavor: Arc::new(FlavorSnapshot {
                id: FlavorId::new("1"),
                name: "m1.tiny".into(),
                vcpus: 1,
                memory_mib: 512,
                root_gib: 1,
                ephemeral_gib: 0,
                swap_mib: 0,
                extra_specs: pairs("hw:mem_page_size", "small"),
            }),
            image: Some(Arc::new(sample_image())),
            key: Some(KeySnapshot { name: "k".into(), kind: "ssh".into(), public_key: "ssh-ed25519 AAAA".into() }),
            user_data: Some("IyEvYmluL3No".into()),
            config_drive: true,
            networks: RequestedNetworks::These(vec![RequestedNic {
                network: Some(NetworkId(uuid(4))),
                port: None,
                fixed_ip: Some("10.0.0.5".into()),
                tag: Some("nic1".into()),
            }]),
            security_groups: vec!["default".into()],
            metadata: pairs("role", "web"),
            tags: vec!["blue".into()],
            availability_zone: Some("nova".into()),
            forced_host: None,
            requested_host: None,
            scheduler_hints: vec![("group".into(), vec!["5".into()])],
            disk_config: DiskConfig::Auto,
            access_ip_v4: None,
            access_ip_v6: None,
            trusted_certs: vec![],
        }
        .into(),
        Placed { process, host: HostId(uuid(5)), hostname: "h1".into(), attempt: 1, availability_zone: "nova".into() }
            .into(),
        Unplaced { process, host: HostId(uuid(5)), reason: "no room".into() }.into(),
        NetworkAllocated {
            process,
            nics: vec![NicInfo {
                port: PortId(uuid(6)),
                network: NetworkId(uuid(4)),
                network_label: "private".into(),
                mac: "fa:16:3e:00:00:01".into(),
                mtu: 1500,
                fixed_ips: vec![FixedIp {
                    address: "10.0.0.5".into(),
                    prefix: 24,
                    gateway: Some("10.0.0.1".into()),
                    dns: vec!["10.0.0.2".into()],
                    dhcp: true,
                }],
                tag: None,
                owned: true,
                security_groups: vec!["default".into()],
            }],
        }
        .into(),
        BuildSucceeded { process }.into(),
        BuildFailed { process, fault: fault.clone() }.into(),
        DeleteRequested { process, cancels: Some(ProcessId(uuid(8))) }.into(),
        Deleted { process }.into(),
        PowerRequested { process, action: PowerAction::RebootSoft }.into(),
        PowerCompleted { process, action: PowerAction::Stop }.into(),
        PowerFailed { process, action: PowerAction::Start, fault }.into(),
        PowerObserved { host: HostId(uuid(5)), power: Power::Crashed }.into(),
        Renamed { name: "web-2".into() }.into(),
        DescriptionChanged { description: None }.into(),
        HostnameChanged { hostname: "web-2".into() }.into(),
        DiskConfigChanged { disk_config: DiskConfig::Manual }.into(),
        AccessAddressesChanged { access_ip_v4: Some("192.0.2.1".into()), access_ip_v6: None }.into(),
        MetadataReplaced { metadata: pairs("role", "db") }.into(),
        TagsReplaced { tags: vec!["green".into()] }.into(),
        Locked { by_admin: true, reason: Some("audit".into()), request_id: None }.into(),
        Unlocked {}.into(),
        super::scheduled::sample(process).into(),
        PersonalErased { erasure: ErasureId(uuid(9)) }.into(),
        PowerRequested { process, action: PowerAction::Pause }.into(),
        PowerRequested { process, action: PowerAction::Unpause }.into(),
        PowerRequested { process, action: PowerAction::Suspend }.into(),
        PowerRequested { process, action: PowerAction::Resume }.into(),
    ]
}
