//! An image as Glance shows it.

use chronova_events::ids::{ImageId, ProjectId};
use chronova_events::instance::ImageSnapshot;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ports::{ImageDraft, PortError};

/// Fields that are no properties.
const FIELDS: [&str; 26] = [
    "id",
    "name",
    "status",
    "visibility",
    "owner",
    "size",
    "virtual_size",
    "checksum",
    "os_hash_algo",
    "os_hash_value",
    "os_hidden",
    "protected",
    "tags",
    "created_at",
    "updated_at",
    "min_disk",
    "min_ram",
    "disk_format",
    "container_format",
    "file",
    "self",
    "schema",
    "locations",
    "direct_url",
    "stores",
    "owner_specified",
];

#[derive(Debug, Clone, Deserialize)]
pub struct GlanceImage {
    pub id: ImageId,
    pub name: Option<String>,
    pub status: String,
    #[serde(default)]
    pub visibility: String,
    pub owner: Option<String>,
    pub size: Option<u64>,
    pub virtual_size: Option<u64>,
    pub os_hash_algo: Option<String>,
    pub os_hash_value: Option<String>,
    #[serde(default)]
    min_disk: u32,
    #[serde(default)]
    min_ram: u64,
    pub disk_format: Option<String>,
    pub container_format: Option<String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl GlanceImage {
    /// Whether everybody who knows its id may see it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.visibility.as_str(), "public" | "community")
    }

    pub(super) fn belongs_to(&self, project: &ProjectId) -> bool {
        self.owner.as_deref() == Some(project.as_str())
    }

    /// The image as a server is made from it.
    pub(super) fn snapshot(&self) -> Result<ImageSnapshot, PortError> {
        if self.status != "active" {
            return Err(PortError::Invalid(format!("Image {} is not active.", self.id)));
        }
        let unacceptable = |reason: &str| PortError::Invalid(format!("Image {} is unacceptable: {reason}", self.id));
        let format = self.disk_format.clone().unwrap_or_default();
        if !matches!(format.as_str(), "raw" | "qcow2" | "iso") {
            return Err(unacceptable(&format!("disk format {format} is not supported")));
        }
        let container = self.container_format.as_deref().unwrap_or_default();
        if container != "bare" {
            return Err(unacceptable(&format!("container format {container} is not supported")));
        }
        // The hosts' caches go by the checksum.
        let checksum = match (self.os_hash_algo.as_deref(), &self.os_hash_value) {
            (Some("sha512" | "sha256"), Some(value)) => value.clone(),
            _ => return Err(unacceptable("it has no checksum by SHA-512 or SHA-256")),
        };
        let size = self.size.ok_or_else(|| unacceptable("its size is not known"))?;
        let mut properties: Vec<(String, String)> =
            self.more.iter().filter(|(key, _)| !FIELDS.contains(&key.as_str())).filter_map(text).collect();
        properties.sort();
        Ok(ImageSnapshot {
            id: self.id,
            name: self.name.clone().unwrap_or_default(),
            checksum,
            format,
            size,
            virtual_size: self.virtual_size.unwrap_or(size),
            min_memory_mib: self.min_ram,
            min_disk_gib: self.min_disk,
            properties,
        })
    }
}

fn text((key, value): (&String, &Value)) -> Option<(String, String)> {
    Some((key.clone(), value.as_str()?.to_owned()))
}

/// The body of `POST /v2/images`.
pub(super) fn body(draft: &ImageDraft) -> Value {
    let mut body = json!({
        "id": draft.image,
        "name": draft.name,
        "owner": draft.owner,
        "visibility": "private",
        "disk_format": draft.format,
        "container_format": "bare",
        "min_disk": draft.min_disk_gib,
        "min_ram": draft.min_memory_mib,
    });
    for (key, value) in draft.properties.iter().filter(|(key, _)| !FIELDS.contains(&key.as_str())) {
        body[key] = json!(value);
    }
    body
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn image(more: Value) -> GlanceImage {
        let mut shown = json!({
            "id": "7a1f6f5c-0000-4000-8000-000000000001", "name": "disk", "status": "active", "visibility": "shared",
            "owner": "p1", "size": 7, "virtual_size": null, "os_hash_algo": "sha512", "os_hash_value": "ab", "tags": [],
            "min_disk": 3, "min_ram": 64, "disk_format": "raw", "container_format": "bare", "protected": false,
            "hw_disk_bus": "virtio", "stores": "file", "file": "/v2/images/1/file",
        });
        shown.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(shown).unwrap()
    }

    #[test]
    fn only_what_can_be_booted_is_given_out() {
        let given = image(json!({})).snapshot().unwrap();
        assert_eq!((given.checksum.as_str(), given.size, given.virtual_size), ("ab", 7, 7));
        assert_eq!((given.min_disk_gib, given.min_memory_mib), (3, 64));
        assert_eq!(given.properties, [("hw_disk_bus".to_owned(), "virtio".to_owned())]);
        for (change, reason) in [
            (json!({"status": "queued"}), "not active"),
            (json!({"disk_format": "vmdk"}), "vmdk"),
            (json!({"container_format": "docker"}), "docker"),
            (json!({"os_hash_algo": "md5"}), "checksum"),
            (json!({"os_hash_value": null}), "checksum"),
            (json!({"size": null}), "size"),
        ] {
            let refused = image(change.clone()).snapshot();
            assert!(
                matches!(&refused, Err(PortError::Invalid(text)) if text.contains(reason)),
                "{change}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_property_is_no_field() {
        let draft = ImageDraft {
            image: ImageId::random(),
            name: "n".to_owned(),
            owner: ProjectId::new("p"),
            format: "qcow2".to_owned(),
            min_disk_gib: 1,
            min_memory_mib: 0,
            properties: vec![("owner".to_owned(), "other".to_owned()), ("os_type".to_owned(), "linux".to_owned())],
        };
        let body = body(&draft);
        assert_eq!((body["owner"].as_str(), body["os_type"].as_str()), (Some("p"), Some("linux")));
    }
}
