//! The metadata of a guest, in the versions of OpenStack ([`openstack`]) and of Amazon EC2 ([`ec2`]). The config drive
//! has the metadata as files, and the metadata service serves it as a [`tree`]. The same code builds both.
//!
//! Source: nova `api/metadata/base.py`. A version never gets a later version's key, so a guest that reads an old
//! version finds only keys of that version or of older ones.

mod devices;
pub mod dynamic;
mod ec2;
mod openstack;
pub mod sources;
pub mod tree;

use std::sync::Arc;

use bytes::Bytes;
use chronova_events::entropy;
use chronova_events::instance::Alive;
use chronova_hypervisor::capability::device_locations::GuestDevice;
use chronova_hypervisor::guest::Nic;
use chronova_hypervisor::{iso9660, vfat};
use serde_json::{Map, Value};

/// Nova's `[api]` options on metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataOptions {
    /// `dhcp_domain`: the suffix of a guest's host name. If it is empty, the name has no suffix.
    pub domain: String,
    /// `[DEFAULT] config_drive_format`: whether config drives have the file system vfat instead of ISO 9660.
    pub vfat: bool,
    /// `config_drive_skip_versions`: versions of EC2's tree that are left out of config drives.
    pub skipped_versions: Vec<String>,
    /// The content of `vendordata_jsonfile_path`; `None` unless `StaticJSON` is among `vendordata_providers`.
    pub vendor_data: Option<Arc<Value>>,
    /// The services to ask; `None` unless `DynamicJSON` is among `vendordata_providers`.
    pub dynamic: Option<dynamic::DynamicVendorData>,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        let skipped = "1.0 2007-01-19 2007-03-01 2007-08-29 2007-10-10 2007-12-15 2008-02-01 2008-09-01";
        Self {
            domain: "novalocal".to_owned(),
            vfat: false,
            skipped_versions: skipped.split(' ').map(str::to_owned).collect(),
            vendor_data: Some(Arc::new(Value::Object(Map::new()))),
            dynamic: None,
        }
    }
}

/// A server, with all other contents of its guest's metadata.
#[derive(Debug, Clone, Copy)]
pub struct GuestMetadata<'a> {
    pub server: &'a Alive,
    /// The password of the guest's administrator, if one was just requested.
    pub password: Option<&'a str>,
    pub options: &'a MetadataOptions,
    /// The known addresses of the guest's devices. A config drive has none, because it is created before the guest.
    pub devices: &'a [GuestDevice],
    /// How the host plugs the interfaces. An interface that is not among them is shown as a physical one.
    pub plugged: &'a [Nic],
    /// The floating IP of the guest.
    pub floating_ip: Option<&'a str>,
    /// The vendor data from other services, by the services' names.
    pub said: Option<&'a Map<String, Value>>,
}

/// The path and the content of a file.
pub type MetadataFile = (String, Vec<u8>);

impl GuestMetadata<'_> {
    /// The drive as an image with the label `config-2`, in the file system of the options.
    pub fn config_drive(&self) -> Result<Bytes, String> {
        let files = self.files()?;
        let image = match self.options.vfat {
            true => vfat::write("config-2", &files).map_err(|error| error.to_string()),
            false => iso9660::write("config-2", &files).map_err(|error| error.to_string()),
        };
        image.map(Bytes::from)
    }

    /// Paths and contents of all files of the drive.
    pub fn files(&self) -> Result<Vec<MetadataFile>, String> {
        let user_data = self.user_data()?;
        let mut files = ec2::files(self, user_data.as_deref());
        files.extend(openstack::files(self, user_data.as_deref())?);
        for (number, (_, content)) in self.server.files.iter().enumerate() {
            files.push((format!("openstack{}", openstack::place(number)), decode_base64(content)?));
        }
        Ok(files)
    }

    /// The content of the injected file whose path has these four digits.
    fn content(&self, id: &str) -> Result<Option<Vec<u8>>, String> {
        let place = |number: usize| openstack::place(number) == format!("/content/{id}");
        let file = self.server.files.iter().enumerate().find(|(number, _)| place(*number));
        file.map(|(_, (_, content))| decode_base64(content)).transpose()
    }

    fn user_data(&self) -> Result<Option<Vec<u8>>, String> {
        self.server.request.user_data.as_deref().map(decode_base64).transpose()
    }

    fn hostname(&self) -> String {
        let name = &self.server.request.hostname;
        if self.options.domain.is_empty() { name.clone() } else { format!("{name}.{}", self.options.domain) }
    }

    fn availability_zone(&self) -> Option<&str> {
        self.server.placement.as_ref().map(|placed| placed.availability_zone.as_str())
    }
}

/// Random bytes with which the guest seeds its random number generator.
fn seed() -> Result<String, String> {
    use base64::Engine;
    let mut bytes = [0; 512];
    match entropy::fill(&mut bytes) {
        true => Ok(base64::engine::general_purpose::STANDARD.encode(bytes)),
        false => Err("the operating system gives no random numbers".to_owned()),
    }
}

fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    use base64::Engine;
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(packed).map_err(|error| format!("not valid base64: {error}"))
}
