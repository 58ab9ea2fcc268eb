//! The options of the Compute API. Options of Nova have the names and defaults of `nova.conf`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::extra_specs::CustomExtraSpecs;
use crate::console::ConsoleConfig;

/// All options of the Compute API, already read and checked.
#[derive(Debug, Clone)]
pub struct ComputeConfig {
    /// `[quota]`: the default limits of a project, by the API's resource names.
    pub quota: BTreeMap<&'static str, i64>,
    /// `[DEFAULT] internal_service_availability_zone`
    pub internal_availability_zone: String,
    /// `[DEFAULT] default_schedule_zone`: the zone of servers for which the user requests no zone.
    pub default_schedule_zone: Option<String>,
    /// `[DEFAULT] password_length`
    pub password_length: usize,
    /// `[api] enable_instance_password`
    pub enable_instance_password: bool,
    /// `[DEFAULT] force_config_drive`
    pub force_config_drive: bool,
    /// The enabled consoles, and their addresses.
    pub consoles: ConsoleConfig,
    /// `[DEFAULT] max_local_block_devices`; a negative number means no limit.
    pub max_local_block_devices: i32,
    /// `[compute] max_disk_devices_to_attach`; `None` means no limit.
    pub max_disk_devices: Option<usize>,
    /// `[chronova] max_servers_per_request`
    pub max_servers_per_request: u32,
    /// `[quota] driver`: whether quotas are enforced.
    pub enforces_quota: bool,
    /// `[cinder] cross_az_attach`
    pub cross_az_attach: bool,
    /// `[glance] unchecked_certificates`: whether requests may name trusted certificates without a key manager. If this
    /// is true, Chronova verifies no signatures of images.
    pub unchecked_certificates: bool,
    /// Whether Chronova can get the certificates of signed images from a key manager.
    pub has_certificates: bool,
    /// The certificates of a server whose request names no certificates.
    pub default_trusted_certificates: Vec<String>,
    /// The host name under which the control plane's own services are listed; by default `chronova`.
    pub host: Option<String>,
    /// `[chronova] extra_spec_validators`: the extra specs of the operator's own filters.
    pub extra_specs: Arc<CustomExtraSpecs>,
}

/// The defaults of Nova's `[quota]`. Network resources have -1, because the network service limits them.
const QUOTA: [(&str, i64); 14] = [
    ("cores", 20),
    ("fixed_ips", -1),
    ("floating_ips", -1),
    ("injected_file_content_bytes", 10_240),
    ("injected_file_path_bytes", 255),
    ("injected_files", 5),
    ("instances", 10),
    ("key_pairs", 100),
    ("metadata_items", 128),
    ("ram", 51_200),
    ("security_group_rules", -1),
    ("security_groups", -1),
    ("server_group_members", 10),
    ("server_groups", 10),
];

impl Default for ComputeConfig {
    fn default() -> Self {
        Self {
            quota: BTreeMap::from(QUOTA),
            internal_availability_zone: "internal".to_owned(),
            default_schedule_zone: None,
            password_length: 12,
            enable_instance_password: true,
            force_config_drive: false,
            consoles: ConsoleConfig::default(),
            max_local_block_devices: 3,
            max_disk_devices: None,
            max_servers_per_request: 10_000,
            enforces_quota: true,
            cross_az_attach: true,
            unchecked_certificates: false,
            has_certificates: false,
            default_trusted_certificates: Vec::new(),
            host: None,
            extra_specs: Arc::default(),
        }
    }
}

impl ComputeConfig {
    /// The default limit of a resource; -1 means unlimited.
    pub fn limit(&self, resource: &str) -> i64 {
        self.quota.get(resource).copied().filter(|_| self.enforces_quota).unwrap_or(-1)
    }
}
