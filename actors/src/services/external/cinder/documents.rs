//! Volumes, snapshots and attachments as Cinder shows them, and the bodies of requests.

use chrono::NaiveDateTime;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{AttachmentId, ImageId, InstanceId, SnapshotId, VolumeId};
use chronova_events::instance::{ImageSnapshot, SortedPairs};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ports::{AttachmentInfo, NewContent, NewSnapshot, NewVolume, PortError, SnapshotInfo, VolumeInfo};

/// The metadata key of the id that the caller proposed.
pub(super) const PROPOSED: &str = "chronova:proposed_id";
/// Metadata that Cinder shows although no user set it.
const OF_CINDER: [&str; 2] = ["readonly", "attached_mode"];

/// `2030-01-02T03:04:05.000000`, in UTC.
fn time(text: Option<&str>) -> Timestamp {
    let parsed = text.and_then(|text| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok());
    parsed.map_or(Timestamp(0), |time| Timestamp(time.and_utc().timestamp_micros()))
}

/// The value as text. Image properties have texts and numbers.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn number<T: std::str::FromStr>(properties: &Map<String, Value>, key: &str) -> Option<T> {
    properties.get(key).and_then(text)?.parse().ok()
}

fn pairs(metadata: &Map<String, Value>, keep: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let kept = metadata.iter().filter(|(key, _)| keep(key));
    let mut all: Vec<_> = kept.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect();
    all.sort();
    all
}

fn users_metadata(metadata: &Map<String, Value>) -> Vec<(String, String)> {
    pairs(metadata, |key| key != PROPOSED && !OF_CINDER.contains(&key))
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct CinderVolume {
    pub id: VolumeId,
    #[serde(rename = "os-vol-tenant-attr:tenant_id")]
    pub project: Option<String>,
    user_id: Option<String>,
    name: Option<String>,
    description: Option<String>,
    size: u32,
    pub status: String,
    /// `"true"` or `"false"`.
    bootable: Option<String>,
    #[serde(default)]
    multiattach: bool,
    #[serde(default)]
    encrypted: bool,
    availability_zone: Option<String>,
    volume_type: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
    snapshot_id: Option<SnapshotId>,
    source_volid: Option<VolumeId>,
    volume_image_metadata: Option<Map<String, Value>>,
    #[serde(default)]
    attachments: Vec<CinderVolumeAttachment>,
    /// Only an administrator of Cinder sees it.
    pub migration_status: Option<String>,
    pub created_at: Option<String>,
}

/// An attachment in a volume's document. Cinder shows only complete attachments there.
#[derive(Debug, Clone, Deserialize)]
struct CinderVolumeAttachment {
    attachment_id: AttachmentId,
    server_id: Option<InstanceId>,
    host_name: Option<String>,
    device: Option<String>,
}

impl CinderVolume {
    pub(super) fn info(self) -> VolumeInfo {
        let image = self.volume_image_metadata.as_ref().and_then(image);
        let attachment = |one: CinderVolumeAttachment| AttachmentInfo {
            id: one.attachment_id,
            instance: one.server_id,
            host: one.host_name,
            device: one.device.filter(|device| device != "na"),
            attached: true,
        };
        VolumeInfo {
            id: self.id,
            project: self.project.unwrap_or_default().into(),
            user: self.user_id.unwrap_or_default().into(),
            name: self.name.unwrap_or_default(),
            description: self.description,
            size_gb: self.size,
            status: self.status,
            bootable: self.bootable.as_deref() == Some("true"),
            multiattach: self.multiattach,
            encrypted: self.encrypted,
            readonly: self.metadata.get("readonly").and_then(text).is_some_and(|text| text == "True"),
            availability_zone: self.availability_zone.unwrap_or_default(),
            volume_type: self.volume_type.unwrap_or_default(),
            metadata: users_metadata(&self.metadata),
            snapshot: self.snapshot_id,
            source: self.source_volid,
            image,
            attachments: self.attachments.into_iter().map(attachment).collect(),
            // Every host reaches Cinder's volumes.
            host: None,
            created_at: time(self.created_at.as_deref()),
        }
    }
}

/// The image that a volume's content came from.
fn image(properties: &Map<String, Value>) -> Option<ImageSnapshot> {
    const FIELDS: [&str; 8] =
        ["image_id", "image_name", "checksum", "container_format", "disk_format", "min_disk", "min_ram", "size"];
    let own = |key: &str| properties.get(key).and_then(text);
    let id: ImageId = own("image_id")?.parse().ok()?;
    let size = number(properties, "size").unwrap_or(0);
    let others: SortedPairs = pairs(properties, |key| !FIELDS.contains(&key));
    Some(ImageSnapshot {
        id,
        name: own("image_name").unwrap_or_default(),
        checksum: own("checksum").unwrap_or_default(),
        format: own("disk_format").unwrap_or_default(),
        size,
        virtual_size: size,
        min_memory_mib: number(properties, "min_ram").unwrap_or(0),
        min_disk_gib: number(properties, "min_disk").unwrap_or(0),
        properties: others,
    })
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct CinderSnapshot {
    pub id: SnapshotId,
    volume_id: VolumeId,
    #[serde(rename = "os-extended-snapshot-attributes:project_id")]
    pub project: Option<String>,
    name: Option<String>,
    description: Option<String>,
    size: u32,
    status: String,
    #[serde(default)]
    metadata: Map<String, Value>,
    pub created_at: Option<String>,
}

impl CinderSnapshot {
    pub(super) fn info(self) -> SnapshotInfo {
        SnapshotInfo {
            id: self.id,
            volume: self.volume_id,
            project: self.project.unwrap_or_default().into(),
            name: self.name.unwrap_or_default(),
            description: self.description,
            size_gb: self.size,
            status: self.status,
            metadata: users_metadata(&self.metadata),
            created_at: time(self.created_at.as_deref()),
        }
    }
}

/// An attachment. A list shows no `connection_info`.
#[derive(Clone, Deserialize)]
pub(super) struct CinderAttachment {
    pub id: AttachmentId,
    /// `reserved`, `attaching`, `attached`, `detached`, ...
    pub status: String,
    pub volume_id: VolumeId,
    pub instance: Option<InstanceId>,
    pub attach_mode: Option<String>,
    #[serde(default)]
    pub connection_info: Option<Map<String, Value>>,
}

/// Prints no connection info, because it may hold a password.
impl std::fmt::Debug for CinderAttachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CinderAttachment").field("id", &self.id).field("status", &self.status).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct CinderVolumeType {
    pub id: String,
    pub name: String,
    /// Cinder shows the same value under `os-volume-type-access:is_public`. If the field is missing, the type is not
    /// public.
    #[serde(default)]
    pub is_public: bool,
}

fn with_proposed(metadata: &[(String, String)], id: &dyn std::fmt::Display) -> Map<String, Value> {
    let own = [(PROPOSED.to_owned(), json!(id.to_string()))];
    metadata.iter().map(|(key, value)| (key.clone(), json!(value))).chain(own).collect()
}

/// The body of `POST volumes`; `source` is the source's own id in Cinder.
pub(super) fn new_volume(wanted: &NewVolume, source: &NewContent) -> Value {
    let mut body = json!({
        "size": wanted.size_gb,
        "name": wanted.name,
        "description": wanted.description,
        "volume_type": wanted.volume_type,
        "availability_zone": wanted.availability_zone,
        "metadata": with_proposed(&wanted.metadata, &wanted.volume),
    });
    match source {
        NewContent::Blank => {}
        NewContent::Image(image) => body["imageRef"] = json!(image),
        NewContent::Snapshot(snapshot) => body["snapshot_id"] = json!(snapshot),
        NewContent::Volume(volume) => body["source_volid"] = json!(volume),
    }
    json!({"volume": body})
}

pub(super) fn new_snapshot(wanted: &NewSnapshot) -> Value {
    json!({"snapshot": {
        "volume_id": wanted.volume,
        "name": wanted.name,
        "description": wanted.description,
        "force": wanted.force,
        "metadata": with_proposed(&wanted.metadata, &wanted.snapshot),
    }})
}

pub(super) fn no_volume(volume: VolumeId) -> PortError {
    PortError::NotFound(format!("Volume {volume} could not be found."))
}

pub(super) fn no_snapshot(snapshot: SnapshotId) -> PortError {
    PortError::NotFound(format!("Snapshot {snapshot} could not be found."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_volume_is_read_as_cinder_shows_it() {
        let shown = json!({
            "id": "7a1f6f5c-0000-4000-8000-000000000001", "os-vol-tenant-attr:tenant_id": "p1", "user_id": "u1",
            "name": null, "description": null, "size": 3, "status": "in-use", "bootable": "true", "multiattach": true,
            "encrypted": false, "availability_zone": "nova", "volume_type": "rbd", "snapshot_id": null,
            "source_volid": null, "created_at": "2030-01-02T03:04:05.000006",
            "metadata": {"of": "ann", "readonly": "True", "attached_mode": "rw", PROPOSED: "x"},
            "volume_image_metadata": {"image_id": "7a1f6f5c-0000-4000-8000-000000000002", "image_name": "disk",
                "min_disk": "1", "size": "7", "disk_format": "raw", "hw_disk_bus": "scsi"},
            "attachments": [{"id": "7a1f6f5c-0000-4000-8000-000000000001",
                "attachment_id": "7a1f6f5c-0000-4000-8000-000000000003", "host_name": "h1", "device": "/dev/vdb",
                "server_id": "7a1f6f5c-0000-4000-8000-000000000004"}],
        });
        let info = serde_json::from_value::<CinderVolume>(shown).unwrap().info();
        assert_eq!((info.size_gb, info.bootable, info.readonly, info.host), (3, true, true, None));
        assert_eq!(info.metadata, [("of".to_owned(), "ann".to_owned())], "only the user's own metadata is shown");
        assert_eq!(info.created_at.iso_micros(), "2030-01-02T03:04:05.000006");
        assert_eq!(info.attachments[0].host.as_deref(), Some("h1"));
        let image = info.image.unwrap();
        assert_eq!((image.min_disk_gib, image.size, image.format.as_str()), (1, 7, "raw"));
        assert_eq!(image.properties, [("hw_disk_bus".to_owned(), "scsi".to_owned())]);
    }

    #[test]
    fn connection_info_is_not_printed() {
        let shown = json!({
            "id": "7a1f6f5c-0000-4000-8000-000000000003", "status": "attached",
            "volume_id": "7a1f6f5c-0000-4000-8000-000000000001", "attach_mode": "rw",
            "connection_info": {"auth_password": "s3cret"},
        });
        let read: CinderAttachment = serde_json::from_value(shown).unwrap();
        assert!(!format!("{read:?}").contains("s3cret"));
    }
}
