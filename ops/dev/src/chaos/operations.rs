//! The operations of a run, and the API requests for them.

use chronova_events::ids::InstanceId;
use chronova_events::instance::Alive;
use serde_json::{Value, json};

use super::draws::Dice;
use super::world::{ChaosRequest, Life};

/// A public image.
pub(super) const IMAGE: &str = "70a599e0-31e7-49b7-b260-868f441e862b";
/// The flavors of a run: id, VCPUs, memory in MiB, root disk in GiB.
pub(super) const FLAVORS: [(&str, u32, u32, u32); 3] = [("1", 1, 128, 1), ("2", 2, 256, 2), ("3", 4, 512, 4)];
/// Old and new microversions, so that a run uses behaviour from before and after a change.
const VERSIONS: [&str; 3] = ["2.67", "2.79", "2.95"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChaosOperation {
    Create,
    CreateOnVolume,
    Delete,
    ForceDelete,
    Restore,
    Start,
    Stop,
    RebootSoft,
    RebootHard,
    Pause,
    Unpause,
    Suspend,
    Resume,
    Resize,
    Migrate,
    Confirm,
    Revert,
    LiveMigrate,
    Abort,
    ForceComplete,
    Evacuate,
    Shelve,
    Offload,
    Unshelve,
    Rebuild,
    Rescue,
    Unrescue,
    Snapshot,
    Backup,
    AttachVolume,
    DetachVolume,
    SwapVolume,
    AttachInterface,
    DetachInterface,
    CreateVolume,
    DeleteVolume,
    ExtendVolume,
    SnapshotVolume,
    DeleteSnapshot,
}

use ChaosOperation as D;

impl ChaosOperation {
    pub(super) fn name(self) -> &'static str {
        match self {
            D::Create => "create",
            D::CreateOnVolume => "create on a volume",
            D::Delete => "delete",
            D::ForceDelete => "force delete",
            D::Restore => "restore",
            D::Start => "start",
            D::Stop => "stop",
            D::RebootSoft => "reboot, soft",
            D::RebootHard => "reboot, hard",
            D::Pause => "pause",
            D::Unpause => "unpause",
            D::Suspend => "suspend",
            D::Resume => "resume",
            D::Resize => "resize",
            D::Migrate => "cold migrate",
            D::Confirm => "confirm",
            D::Revert => "revert",
            D::LiveMigrate => "live migrate",
            D::Abort => "abort",
            D::ForceComplete => "force complete",
            D::Evacuate => "evacuate",
            D::Shelve => "shelve",
            D::Offload => "offload",
            D::Unshelve => "unshelve",
            D::Rebuild => "rebuild",
            D::Rescue => "rescue",
            D::Unrescue => "unrescue",
            D::Snapshot => "snapshot",
            D::Backup => "backup",
            D::AttachVolume => "attach a volume",
            D::DetachVolume => "detach a volume",
            D::SwapVolume => "swap a volume",
            D::AttachInterface => "attach an interface",
            D::DetachInterface => "detach an interface",
            D::CreateVolume => "create a volume",
            D::DeleteVolume => "delete a volume",
            D::ExtendVolume => "extend a volume",
            D::SnapshotVolume => "snapshot a volume",
            D::DeleteSnapshot => "delete a snapshot",
        }
    }
}

/// Operations on a server. In its present state some of them may be invalid.
pub(super) const ANY: &[(u64, ChaosOperation)] = &[
    (4, D::Delete),
    (1, D::ForceDelete),
    (1, D::Restore),
    (2, D::Start),
    (2, D::Stop),
    (1, D::RebootSoft),
    (2, D::RebootHard),
    (2, D::Pause),
    (1, D::Unpause),
    (2, D::Suspend),
    (1, D::Resume),
    (2, D::Resize),
    (2, D::Migrate),
    (1, D::Confirm),
    (1, D::Revert),
    (3, D::LiveMigrate),
    (1, D::Abort),
    (1, D::ForceComplete),
    (1, D::Evacuate),
    (2, D::Shelve),
    (1, D::Offload),
    (1, D::Unshelve),
    (2, D::Rebuild),
    (2, D::Rescue),
    (1, D::Unrescue),
    (2, D::Snapshot),
    (2, D::AttachVolume),
    (2, D::DetachVolume),
    (2, D::AttachInterface),
    (2, D::DetachInterface),
];

const ACTIVE: &[(u64, ChaosOperation)] = &[
    (10, D::Stop),
    (4, D::RebootSoft),
    (6, D::RebootHard),
    (6, D::Pause),
    (6, D::Suspend),
    (14, D::Resize),
    (10, D::Migrate),
    (24, D::LiveMigrate),
    (8, D::Shelve),
    (5, D::Rebuild),
    (4, D::Rescue),
    (5, D::Snapshot),
    (2, D::Backup),
    (10, D::AttachVolume),
    (7, D::DetachVolume),
    (2, D::SwapVolume),
    (6, D::AttachInterface),
    (5, D::DetachInterface),
    (8, D::Delete),
];

const STOPPED: &[(u64, ChaosOperation)] =
    &[(24, D::Start), (6, D::Resize), (5, D::Migrate), (3, D::Rebuild), (3, D::Snapshot), (3, D::AttachVolume)];
const SHELVED: &[(u64, ChaosOperation)] =
    &[(30, D::Unshelve), (6, D::Offload), (6, D::Delete), (3, D::AttachVolume), (3, D::DetachVolume)];
const MOVING: &[(u64, ChaosOperation)] =
    &[(8, D::Abort), (8, D::ForceComplete), (5, D::Delete), (5, D::Stop), (2, D::Pause)];

/// The operations that make sense for a server in this state.
pub(super) fn of_status(status: &str) -> &'static [(u64, ChaosOperation)] {
    match status {
        "ACTIVE" => ACTIVE,
        "SHUTOFF" => STOPPED,
        "PAUSED" => &[(20, D::Unpause), (4, D::LiveMigrate), (3, D::Delete)],
        "SUSPENDED" => &[(20, D::Resume), (3, D::Shelve), (3, D::Delete)],
        "RESCUE" => &[(20, D::Unrescue), (3, D::Delete)],
        "VERIFY_RESIZE" => &[(14, D::Confirm), (14, D::Revert), (3, D::Delete), (2, D::Stop)],
        "SHELVED" | "SHELVED_OFFLOADED" => SHELVED,
        "MIGRATING" => MOVING,
        "ERROR" => &[(16, D::RebootHard), (5, D::Rebuild), (10, D::Delete)],
        "SOFT_DELETED" => &[(10, D::Restore), (10, D::ForceDelete)],
        "BUILD" => &[(6, D::Delete), (1, D::ForceDelete)],
        _ => ANY,
    }
}

fn action(id: InstanceId, body: Value, dice: &mut Dice) -> ChaosRequest {
    let version = dice.one_of(&VERSIONS).unwrap_or("2.95");
    ChaosRequest { method: "POST", path: format!("/compute/v2.1/servers/{id}/action"), version, body: Some(body) }
}

/// A request to the Compute API, below its root.
fn compute(method: &'static str, path: &str, body: Option<Value>) -> ChaosRequest {
    ChaosRequest { method, path: format!("/compute/v2.1{path}"), version: "2.84", body }
}

fn volumes(method: &'static str, path: &str, body: Option<Value>) -> ChaosRequest {
    ChaosRequest { method, path: format!("/volume/v3/admin{path}"), version: "2.1", body }
}

/// A request for a new server.
pub(super) fn create(on_volume: bool, number: u64, networks: &[String], dice: &mut Dice) -> ChaosRequest {
    let flavor = dice.one_of(&FLAVORS).map_or("1", |flavor| flavor.0);
    let network = networks.get(dice.index(networks.len()));
    let networks: Vec<Value> = network.into_iter().map(|network| json!({"uuid": network})).collect();
    let mut server = json!({"name": format!("s{number}"), "flavorRef": flavor, "networks": networks});
    if on_volume {
        server["block_device_mapping_v2"] = json!([{
            "boot_index": 0, "uuid": IMAGE, "source_type": "image", "destination_type": "volume", "volume_size": 1,
            "delete_on_termination": dice.happens(500),
        }]);
    } else {
        server["imageRef"] = json!(IMAGE);
    }
    compute("POST", "/servers", Some(json!({"server": server})))
}

/// The server of an operation, with the ids that its request may need.
pub(super) struct OperationTarget<'a> {
    pub(super) id: InstanceId,
    pub(super) server: &'a Alive,
    pub(super) life: &'a Life,
    pub(super) networks: &'a [String],
}

/// The request for an operation on this server; `None` if the server lacks a volume, port or other part that the
/// operation needs.
pub(super) fn request(
    operation: ChaosOperation,
    target: &OperationTarget<'_>,
    dice: &mut Dice,
) -> Option<ChaosRequest> {
    let simple = |name: &str| json!({name: null});
    let body = match operation {
        D::Start => simple("os-start"),
        D::Stop => simple("os-stop"),
        D::RebootSoft => json!({"reboot": {"type": "SOFT"}}),
        D::RebootHard => json!({"reboot": {"type": "HARD"}}),
        D::Pause => simple("pause"),
        D::Unpause => simple("unpause"),
        D::Suspend => simple("suspend"),
        D::Resume => simple("resume"),
        D::Resize => json!({"resize": {"flavorRef": dice.one_of(&FLAVORS)?.0}}),
        D::Migrate => simple("migrate"),
        D::Confirm => simple("confirmResize"),
        D::Revert => simple("revertResize"),
        D::LiveMigrate => json!({"os-migrateLive": {"host": null, "block_migration": "auto"}}),
        D::Evacuate => json!({"evacuate": {}}),
        D::Shelve => simple("shelve"),
        D::Offload => simple("shelveOffload"),
        D::Unshelve => simple("unshelve"),
        D::Rebuild => json!({"rebuild": {"imageRef": IMAGE}}),
        D::Rescue => json!({"rescue": {}}),
        D::Unrescue => simple("unrescue"),
        D::Snapshot => json!({"createImage": {"name": "copy"}}),
        D::Backup => json!({"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 2}}),
        D::ForceDelete => simple("forceDelete"),
        D::Restore => simple("restore"),
        other => return request_of_part(other, target, dice),
    };
    Some(action(target.id, body, dice))
}

/// The requests that are not actions of a server. Most of them name a volume, a port, a network or a migration.
fn request_of_part(operation: ChaosOperation, target: &OperationTarget<'_>, dice: &mut Dice) -> Option<ChaosRequest> {
    let OperationTarget { id, server, life, networks } = *target;
    let attached =
        || server.disks.iter().filter_map(|disk| disk.device.volume.filter(|_| disk.device.boot_index != Some(0)));
    let volume = |dice: &mut Dice| {
        let free = life.views().volumes.read(|view| view.of(None));
        let free: Vec<_> =
            free.iter().filter(|volume| volume.attachments.is_empty()).map(|v| v.created.volume).collect();
        dice.one_of(&free)
    };
    let migration = || life.views().migrations.read(|view| view.live_of(id).next().map(|migration| migration.number));
    Some(match operation {
        D::Delete => compute("DELETE", &format!("/servers/{id}"), None),
        D::Abort => compute("DELETE", &format!("/servers/{id}/migrations/{}", migration()?), None),
        D::ForceComplete => {
            let path = format!("/servers/{id}/migrations/{}/action", migration()?);
            compute("POST", &path, Some(json!({"force_complete": null})))
        }
        D::AttachVolume => {
            let body = json!({"volumeAttachment": {"volumeId": volume(dice)?}});
            compute("POST", &format!("/servers/{id}/os-volume_attachments"), Some(body))
        }
        D::DetachVolume => {
            let one = dice.one_of(&attached().collect::<Vec<_>>())?;
            compute("DELETE", &format!("/servers/{id}/os-volume_attachments/{one}"), None)
        }
        D::SwapVolume => {
            let (old, new) = (dice.one_of(&attached().collect::<Vec<_>>())?, volume(dice)?);
            let body = json!({"volumeAttachment": {"volumeId": new}});
            compute("PUT", &format!("/servers/{id}/os-volume_attachments/{old}"), Some(body))
        }
        D::AttachInterface if server.nics.len() < 6 => {
            let network = networks.get(dice.index(networks.len()))?;
            let body = json!({"interfaceAttachment": {"net_id": network}});
            compute("POST", &format!("/servers/{id}/os-interface"), Some(body))
        }
        D::DetachInterface => {
            let ports: Vec<_> = server.nics.iter().map(|nic| nic.port).collect();
            compute("DELETE", &format!("/servers/{id}/os-interface/{}", dice.one_of(&ports)?), None)
        }
        _ => return None,
    })
}

/// An operation on volumes, without a server.
pub(super) fn of_volume(life: &Life, dice: &mut Dice) -> (ChaosOperation, ChaosRequest) {
    let all = life.views().volumes.read(|view| view.of(None));
    let operation = dice.weighed(&[
        (if all.len() < life.context().fleet.len() { 12 } else { 2 }, D::CreateVolume),
        (4, D::DeleteVolume),
        (2, D::ExtendVolume),
        (3, D::SnapshotVolume),
        (3, D::DeleteSnapshot),
    ]);
    let create = || volumes("POST", "/volumes", Some(json!({"volume": {"size": 1}})));
    let Some(volume) = all.get(dice.index(all.len())) else { return (D::CreateVolume, create()) };
    let id = volume.created.volume;
    match operation {
        Some(D::DeleteVolume) => (D::DeleteVolume, volumes("DELETE", &format!("/volumes/{id}"), None)),
        Some(D::ExtendVolume) => {
            let extend = json!({"os-extend": {"new_size": volume.size_gb + 1}});
            (D::ExtendVolume, volumes("POST", &format!("/volumes/{id}/action"), Some(extend)))
        }
        Some(D::SnapshotVolume) => {
            let snapshot = json!({"snapshot": {"volume_id": id, "force": dice.happens(500)}});
            (D::SnapshotVolume, volumes("POST", "/snapshots", Some(snapshot)))
        }
        Some(D::DeleteSnapshot) => {
            let snapshots: Vec<_> = all.iter().flat_map(|volume| volume.snapshots.keys().copied()).collect();
            match dice.one_of(&snapshots) {
                Some(one) => (D::DeleteSnapshot, volumes("DELETE", &format!("/snapshots/{one}"), None)),
                None => (D::CreateVolume, create()),
            }
        }
        _ => (D::CreateVolume, create()),
    }
}

/// The requests that prepare a new cloud: flavors and unlimited quotas. Networks are created elsewhere, because the run
/// needs their ids.
pub(super) fn furniture() -> Vec<ChaosRequest> {
    let flavor = |(id, vcpus, ram, disk): (&str, u32, u32, u32)| {
        let flavor = json!({"id": id, "name": format!("m{id}"), "vcpus": vcpus, "ram": ram, "disk": disk});
        compute("POST", "/flavors", Some(json!({"flavor": flavor})))
    };
    let unlimited = json!({"quota_set": {"instances": -1, "cores": -1, "ram": -1}});
    let volumes_too =
        json!({"quota_set": {"volumes": -1, "gigabytes": -1, "snapshots": -1, "per_volume_gigabytes": -1}});
    let ports_too = json!({"quota": {"port": -1}});
    let ports = ChaosRequest {
        method: "PUT",
        path: "/network/v2.0/quotas/admin".to_owned(),
        version: "2.1",
        body: Some(ports_too),
    };
    let mut all: Vec<ChaosRequest> = FLAVORS.map(flavor).into();
    all.push(compute("PUT", "/os-quota-sets/admin", Some(unlimited)));
    all.push(volumes("PUT", "/os-quota-sets/admin", Some(volumes_too)));
    all.push(ports);
    all
}

pub(super) fn network(number: usize) -> ChaosRequest {
    let body = json!({"network": {"name": format!("net{number}"), "shared": true}});
    ChaosRequest { method: "POST", path: "/network/v2.0/networks".to_owned(), version: "2.1", body: Some(body) }
}

pub(super) fn subnet(network: &str, number: usize) -> ChaosRequest {
    let cidr = format!("10.{number}.0.0/16");
    let body = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": cidr}});
    ChaosRequest { method: "POST", path: "/network/v2.0/subnets".to_owned(), version: "2.1", body: Some(body) }
}

/// The request that deletes a volume at the end of a run.
pub(super) fn remove_volume(id: impl std::fmt::Display) -> ChaosRequest {
    volumes("DELETE", &format!("/volumes/{id}"), None)
}

pub(super) fn remove_snapshot(id: impl std::fmt::Display) -> ChaosRequest {
    volumes("DELETE", &format!("/snapshots/{id}"), None)
}

/// The request for an operation that names only the server.
pub(super) fn plain(operation: ChaosOperation, id: InstanceId) -> ChaosRequest {
    match operation {
        D::Confirm => compute("POST", &format!("/servers/{id}/action"), Some(json!({"confirmResize": null}))),
        D::Revert => compute("POST", &format!("/servers/{id}/action"), Some(json!({"revertResize": null}))),
        D::RebootHard => compute("POST", &format!("/servers/{id}/action"), Some(json!({"reboot": {"type": "HARD"}}))),
        D::Start => compute("POST", &format!("/servers/{id}/action"), Some(json!({"os-start": null}))),
        D::Unrescue => compute("POST", &format!("/servers/{id}/action"), Some(json!({"unrescue": null}))),
        D::ForceDelete => compute("POST", &format!("/servers/{id}/action"), Some(json!({"forceDelete": null}))),
        _ => compute("DELETE", &format!("/servers/{id}"), None),
    }
}
