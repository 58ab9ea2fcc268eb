//! The facts that definitions do not tell, as the operator tells them: a file in YAML or JSON.

use std::collections::BTreeMap;
use std::path::Path;

use chronova_events::ids::{AttachmentId, FlavorId, ImageId, InstanceId, NetworkId, PortId, SecurityGroupId, VolumeId};
use chronova_events::instance::ImageSnapshot;
use serde::Deserialize;

use super::super::super::CommandFailure;

/// All that the operator tells. A field that is missing is not told, and is never guessed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdoptionFacts {
    pub servers: BTreeMap<InstanceId, ToldServer>,
    pub images: BTreeMap<ImageId, ToldImage>,
    /// By MAC address, in lower case.
    pub interfaces: BTreeMap<String, ToldInterface>,
    pub networks: BTreeMap<NetworkId, ToldNetwork>,
    pub volumes: BTreeMap<VolumeId, ToldVolume>,
}

/// A server. A field that is told here overrides what the definition tells.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToldServer {
    /// The name of the host with the server's guest, if several hosts have it.
    pub host: Option<String>,
    pub name: Option<String>,
    pub hostname: Option<String>,
    pub description: Option<String>,
    pub project: Option<String>,
    pub user: Option<String>,
    pub flavor: Option<FlavorId>,
    /// The image of a root volume.
    pub image: Option<ImageId>,
    /// Whether a root volume has no image.
    pub no_image: bool,
    /// The server's metadata.
    pub metadata: BTreeMap<String, String>,
}

/// An image that the log does not know.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldImage {
    #[serde(default)]
    pub name: String,
    /// In lower-case hex.
    pub checksum: String,
    /// For example `raw`, `qcow2` or `iso`.
    pub format: String,
    /// In bytes.
    pub size: u64,
    /// In bytes, as guests see it; without it, `size`.
    pub virtual_size: Option<u64>,
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

impl ToldImage {
    pub(super) fn snapshot(&self, id: ImageId) -> ImageSnapshot {
        ImageSnapshot {
            id,
            name: self.name.clone(),
            checksum: self.checksum.clone(),
            format: self.format.clone(),
            size: self.size,
            virtual_size: self.virtual_size.unwrap_or(self.size),
            min_memory_mib: 0,
            min_disk_gib: 0,
            properties: self.properties.clone().into_iter().collect(),
        }
    }
}

/// An interface of a guest.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToldInterface {
    pub port: Option<PortId>,
    pub network: Option<NetworkId>,
    /// With the length of the subnet's prefix: `10.0.0.5/24`.
    pub addresses: Vec<String>,
    /// The groups of the port, which the new log must have.
    pub security_groups: Option<Vec<SecurityGroupId>>,
    /// Whether the port was created for the server. Then it is deleted with the server.
    pub created_for_server: bool,
}

/// A virtual network of a host.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldNetwork {
    pub name: String,
    pub project: String,
    #[serde(default)]
    pub shared: bool,
}

/// A volume of Cinder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldVolume {
    pub attachment: AttachmentId,
    #[serde(default)]
    pub delete_on_termination: bool,
}

impl AdoptionFacts {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, CommandFailure> {
        let text =
            std::fs::read_to_string(path).map_err(|error| CommandFailure::File { path: path.to_owned(), error })?;
        let mut facts: Self = serde_saphyr::from_str(&text)
            .map_err(|error| CommandFailure::Usage(format!("{} cannot be parsed: {error}", path.display())))?;
        facts.interfaces = facts.interfaces.into_iter().map(|(mac, told)| (mac.to_ascii_lowercase(), told)).collect();
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_tells_servers_images_and_interfaces_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("facts.yaml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            AdoptionFacts::read(&file)
        };
        let id = "00000000-0000-0000-0000-000000000007";
        let told = format!(
            "servers:\n  {id}: {{host: h2, metadata: {{a: b}}}}\n\
             images:\n  {id}: {{checksum: ab, format: raw, size: 4}}\n\
             interfaces:\n  \"FA:16:3E:00:00:02\": {{addresses: [10.0.0.2/24]}}\n"
        );
        let facts = read(&told).unwrap();
        let server: InstanceId = id.parse().unwrap();
        assert_eq!(facts.servers[&server].host.as_deref(), Some("h2"));
        let image: ImageId = id.parse().unwrap();
        let image = facts.images[&image].snapshot(image);
        assert_eq!((image.size, image.virtual_size), (4, 4));
        assert_eq!(facts.interfaces["fa:16:3e:00:00:02"].addresses, ["10.0.0.2/24"]);
        assert!(read("servers:\n  web: {}\n").is_err(), "a name is no id");
        assert!(read(&format!("servers:\n  {id}: {{flavour: x}}\n")).is_err(), "an unknown word is ignored");
    }
}
