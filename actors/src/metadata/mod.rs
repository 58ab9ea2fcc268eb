//! What a guest is told about itself: the OpenStack metadata ([`openstack`]) and what Amazon's EC2 had in its place
//! ([`ec2`]), each in the versions that guests know: as files on the guest's config drive, and as the [`tree`] that the
//! metadata service answers from. One builder, two ways to the guest.
//!
//! Source: nova `api/metadata/base.py`. A version never gets a key that came after it, so that what reads an old one reads it
//! for ever.

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
use chronova_hypervisor::iso9660;
use serde_json::{Map, Value};

/// Nova's `[api]` options on metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataOptions {
    /// `dhcp_domain`: what a guest's name is completed with; empty for nothing.
    pub domain: String,
    /// `config_drive_skip_versions`: versions of EC2's tree that are left out of config drives.
    pub skipped_versions: Vec<String>,
    /// What `vendordata_jsonfile_path` holds, where `StaticJSON` is among `vendordata_providers`; `None` where it is not.
    pub vendor_data: Option<Arc<Value>>,
    /// Who else is asked, where `DynamicJSON` is among `vendordata_providers`.
    pub dynamic: Option<dynamic::Dynamic>,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        let skipped = "1.0 2007-01-19 2007-03-01 2007-08-29 2007-10-10 2007-12-15 2008-02-01 2008-09-01";
        Self {
            domain: "novalocal".to_owned(),
            skipped_versions: skipped.split(' ').map(str::to_owned).collect(),
            vendor_data: Some(Arc::new(Value::Object(Map::new()))),
            dynamic: None,
        }
    }
}

/// A server, and what else its guest is told.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub server: &'a Alive,
    /// Of the guest's administrator, where one was just asked for.
    pub password: Option<&'a str>,
    pub options: &'a MetadataOptions,
    /// Where the guest's devices are, as far as that is known: not while its config drive is made, before there is a guest.
    pub devices: &'a [GuestDevice],
    /// The floating address that stands for it.
    pub floating_ip: Option<&'a str>,
    /// What other services say of it, by their names.
    pub said: Option<&'a Map<String, Value>>,
}

/// Path and content.
pub type File = (String, Vec<u8>);

impl About<'_> {
    /// The drive as an ISO 9660 image with the label `config-2`.
    pub fn config_drive(&self) -> Result<Bytes, String> {
        iso9660::write("config-2", &self.files()?).map(Bytes::from).map_err(|error| error.to_string())
    }

    /// Paths and contents of all files of the drive.
    pub fn files(&self) -> Result<Vec<File>, String> {
        let user_data = self.user_data()?;
        let mut files = ec2::files(self, user_data.as_deref());
        files.extend(openstack::files(self, user_data.as_deref())?);
        for (number, (_, content)) in self.server.files.iter().enumerate() {
            files.push((format!("openstack{}", openstack::place(number)), decode_base64(content)?));
        }
        Ok(files)
    }

    /// The content of a file that the server was asked for with, by its four digits.
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

/// What a guest may feed its own source of randomness with.
fn seed() -> Result<String, String> {
    use base64::Engine;
    let mut bytes = [0; 512];
    match entropy::fill(&mut bytes) {
        true => Ok(base64::engine::general_purpose::STANDARD.encode(bytes)),
        false => Err("the machine has no randomness to give".to_owned()),
    }
}

fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    use base64::Engine;
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(packed).map_err(|error| format!("no base64: {error}"))
}
