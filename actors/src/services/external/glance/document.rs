//! The document of an image in Glance's API.

use chrono::DateTime;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{ImageId, ProjectId};
use chronova_events::instance::{ImageSnapshot, SortedPairs};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ports::{ImageDraft, ImageInfo, PortError};

/// The fields of the document that are not properties. serde collects every key that [`GlanceImage`] does not name.
/// [`is_property`] then leaves out these fields.
const FIELDS: [&str; 25] = [
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
];

/// The prefix of properties that Glance reserves for itself. Glance refuses such properties from clients.
const RESERVED: &str = "os_glance";

fn is_property(key: &str) -> bool {
    !FIELDS.contains(&key) && !key.starts_with(RESERVED)
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct GlanceImage {
    pub id: ImageId,
    pub name: Option<String>,
    pub status: String,
    #[serde(default)]
    pub visibility: String,
    pub owner: Option<String>,
    pub size: Option<u64>,
    pub virtual_size: Option<u64>,
    /// An MD5.
    pub checksum: Option<String>,
    pub os_hash_algo: Option<String>,
    pub os_hash_value: Option<String>,
    #[serde(default)]
    min_disk: u32,
    #[serde(default)]
    min_ram: u32,
    pub disk_format: Option<String>,
    pub container_format: Option<String>,
    created_at: String,
    updated_at: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// A page of images.
#[derive(Debug, Deserialize)]
pub(super) struct ImagePage {
    pub images: Vec<GlanceImage>,
    /// The path of the next page.
    pub next: Option<String>,
}

/// Whether a checksum in hexadecimal digits is an MD5.
pub(super) fn is_md5(checksum: &str) -> bool {
    checksum.len() == 32
}

fn time(text: &str) -> Timestamp {
    DateTime::parse_from_rfc3339(text).map_or(Timestamp(0), |time| Timestamp(time.timestamp_micros()))
}

impl GlanceImage {
    /// Whether every project that knows the image's id may see the image.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.visibility.as_str(), "public" | "community")
    }

    pub(super) fn belongs_to(&self, project: &ProjectId) -> bool {
        self.owner.as_deref() == Some(project.as_str())
    }

    /// The checksum that hosts compare. `None` if Glance has neither a SHA-512 nor a SHA-256 of the image.
    pub(super) fn sha2(&self) -> Option<&str> {
        let length = match self.os_hash_algo.as_deref()? {
            "sha512" => 128,
            "sha256" => 64,
            _ => return None,
        };
        self.os_hash_value.as_deref().filter(|value| value.len() == length)
    }

    /// Checks that the image has the content from which a server was built. `recorded` is the checksum in the server's
    /// record. A server that Nova built has the image's MD5, because Nova records no other checksum. The error names
    /// both checksums.
    pub(super) fn has_content(&self, recorded: &str) -> Result<(), String> {
        let shown = if is_md5(recorded) { self.checksum.as_deref() } else { self.sha2() };
        match shown {
            Some(shown) if shown.eq_ignore_ascii_case(recorded) => Ok(()),
            shown => Err(format!(
                "its data in Glance is not the data that the server was built from: Glance shows the checksum {}, and \
                 the server's record has {recorded}",
                shown.unwrap_or("(none)")
            )),
        }
    }

    /// The URLs of the image's data in Glance's stores. Glance shows them with `show_image_direct_url` or
    /// `show_multiple_locations`.
    pub(super) fn places(&self) -> Vec<String> {
        let direct = self.more.get("direct_url").and_then(Value::as_str);
        let all = self.more.get("locations").and_then(Value::as_array);
        let urls = all.into_iter().flatten().filter_map(|location| location["url"].as_str());
        let mut places: Vec<String> = direct.into_iter().chain(urls).map(str::to_owned).collect();
        places.dedup();
        places
    }

    fn properties(&self) -> SortedPairs {
        let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let mut properties: SortedPairs =
            self.more.iter().filter(|(key, _)| is_property(key)).filter_map(text).collect();
        properties.sort();
        properties
    }

    /// The image in the form from which servers are built.
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
        let checksum = self.sha2().ok_or_else(|| {
            unacceptable("it has no os_hash_value by sha512 or sha256: set [DEFAULT] hashing_algorithm of Glance, and upload it again")
        })?;
        let size = self.size.ok_or_else(|| unacceptable("its size is not known"))?;
        Ok(ImageSnapshot {
            id: self.id,
            name: self.name.clone().unwrap_or_default(),
            checksum: checksum.to_ascii_lowercase(),
            format,
            size,
            virtual_size: self.virtual_size.unwrap_or(size),
            min_memory_mib: u64::from(self.min_ram),
            min_disk_gib: self.min_disk,
            properties: self.properties(),
        })
    }

    /// The image in the form of Nova's old image API.
    pub(super) fn info(self) -> ImageInfo {
        let properties = self.properties();
        ImageInfo {
            id: self.id,
            name: self.name,
            status: self.status,
            size: self.size,
            min_disk_gib: self.min_disk,
            min_memory_mib: self.min_ram,
            properties,
            created_at: time(&self.created_at),
            updated_at: time(&self.updated_at),
        }
    }
}

/// The body of `POST /v2/images`.
pub(super) fn new_image(draft: &ImageDraft) -> Value {
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
    for (key, value) in draft.properties.iter().filter(|(key, _)| is_property(key)) {
        body[key] = json!(value);
    }
    body
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn image(more: &Value) -> GlanceImage {
        let mut shown = json!({
            "id": "7a1f6f5c-0000-4000-8000-000000000001", "name": "disk", "status": "active", "visibility": "shared",
            "owner": "p1", "size": 7, "virtual_size": null, "os_hash_algo": "sha512", "os_hash_value": "a".repeat(128),
            "tags": [], "min_disk": 3, "min_ram": 64, "disk_format": "raw", "container_format": "bare",
            "protected": false, "hw_disk_bus": "virtio", "stores": "file", "file": "/v2/images/1/file",
            "os_glance_importing_to_stores": "", "created_at": "2030-01-02T03:04:05Z", "updated_at": "2030-01-02T03:04:06Z",
        });
        shown.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(shown).unwrap()
    }

    #[test]
    fn only_bootable_images_are_read() {
        let given = image(&json!({})).snapshot().unwrap();
        assert_eq!((given.checksum.len(), given.size, given.virtual_size), (128, 7, 7));
        assert_eq!((given.min_disk_gib, given.min_memory_mib), (3, 64));
        assert_eq!(given.properties, [("hw_disk_bus".to_owned(), "virtio".to_owned())]);
        let by_sha256 = json!({"os_hash_algo": "sha256", "os_hash_value": "b".repeat(64)});
        assert_eq!(image(&by_sha256).snapshot().unwrap().checksum, "b".repeat(64));
        for (change, reason) in [
            (json!({"status": "queued"}), "not active"),
            (json!({"disk_format": "vmdk"}), "vmdk"),
            (json!({"container_format": "docker"}), "docker"),
            (json!({"os_hash_algo": "md5", "os_hash_value": "c".repeat(32)}), "os_hash_value"),
            // A BLAKE2b hash has the length of a SHA-512, so only the name of the algorithm tells them apart.
            (json!({"os_hash_algo": "blake2b"}), "os_hash_value"),
            (json!({"os_hash_value": "short"}), "os_hash_value"),
            (json!({"os_hash_value": null}), "os_hash_value"),
            (json!({"size": null}), "size"),
        ] {
            let refused = image(&change).snapshot();
            assert!(
                matches!(&refused, Err(PortError::Invalid(text)) if text.contains(reason)),
                "{change}: {refused:?}"
            );
        }
    }

    #[test]
    fn content_is_recognised_by_the_checksum_that_the_server_has() {
        let (md5, sha2) = ("d".repeat(32), "a".repeat(128));
        let both = image(&json!({"checksum": md5}));
        assert_eq!((both.has_content(&md5), both.has_content(&sha2)), (Ok(()), Ok(())));
        assert_eq!(both.has_content(&md5.to_uppercase()), Ok(()));
        for (shown, recorded) in [(&both, "e".repeat(32)), (&both, "b".repeat(128)), (&image(&json!({})), md5.clone())]
        {
            let refused = shown.has_content(&recorded).unwrap_err();
            let named = if is_md5(&recorded) { shown.checksum.as_deref().unwrap_or("(none)") } else { sha2.as_str() };
            assert!(refused.contains(&recorded) && refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn the_places_of_the_data_are_read_and_are_no_properties() {
        let url = "rbd://fsid/images/one/snap";
        let both =
            image(&json!({"direct_url": url, "locations": [{"url": url, "metadata": {}}, {"url": "file:///a"}]}));
        assert_eq!(both.places(), [url, "file:///a"]);
        assert_eq!(both.snapshot().unwrap().properties.len(), 1);
        assert!(image(&json!({"locations": [{"metadata": {}}]})).places().is_empty());
        assert!(image(&json!({})).places().is_empty());
    }

    #[test]
    fn a_queued_image_is_shown() {
        let shown = image(&json!({"status": "queued", "size": null})).info();
        assert_eq!((shown.status.as_str(), shown.size), ("queued", None));
        assert_eq!(shown.created_at.iso_seconds(), "2030-01-02T03:04:05Z");
    }

    #[test]
    fn a_property_is_no_field() {
        let pair = |key: &str| (key.to_owned(), "other".to_owned());
        let draft = ImageDraft {
            image: ImageId::random(),
            name: "n".to_owned(),
            owner: ProjectId::new("p"),
            format: "qcow2".to_owned(),
            min_disk_gib: 1,
            min_memory_mib: 0,
            properties: vec![pair("os_glance_stage_host"), pair("os_type"), pair("owner")],
        };
        let body = new_image(&draft);
        assert_eq!((body["owner"].as_str(), body["os_type"].as_str()), (Some("p"), Some("other")));
        assert!(body.get("os_glance_stage_host").is_none());
    }
}
