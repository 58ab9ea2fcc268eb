//! The options of the web layer, already read and checked. Names and defaults are those of `nova.conf`, except in
//! `[chronova]`.

use std::path::PathBuf;

use ipnet::IpNet;

use crate::access::budget::AccessRates;
use crate::auth::ServiceTokenRules;
use crate::metadata::MetadataConfig;
use crate::service::Service;

/// All options of the web layer.
#[derive(Debug, Clone)]
pub struct WebConfig {
    /// `[chronova] max_body_bytes`: the longest JSON body, in bytes.
    pub max_request_body_size: usize,
    /// `[oslo_middleware] enable_proxy_headers_parsing`: believe `X-Forwarded-Proto`, `-Host`, `-Prefix` and `-For` of
    /// trusted proxies.
    pub enable_proxy_headers_parsing: bool,
    /// `[chronova] trusted_proxies`: the proxies that may send `X-Forwarded-` headers.
    pub trusted_proxies: Vec<IpNet>,
    /// `[chronova] reserved_networks`: address ranges that subnets of projects must not overlap.
    pub reserved_networks: Vec<IpNet>,
    /// `[chronova] rate_limit`: requests a second of one project; 0 means no limit.
    pub rate_limit: f64,
    /// `[chronova] rate_limit_burst`: requests that may come at once.
    pub rate_limit_burst: u32,
    /// `[api] compute_link_prefix`: replaces scheme, host and path prefix in the links of compute resources.
    pub compute_link_prefix: Option<String>,
    /// `[api] glance_link_prefix`: the same for links to images.
    pub glance_link_prefix: Option<String>,
    /// `[neutron] default_floating_pool`: the network of a floating address when the request names none.
    pub default_floating_pool: String,
    /// `[api] max_limit`: the largest page.
    pub max_limit: u64,
    /// The records of refused requests, log-ins, console sessions and reads of secrets.
    pub access: AccessRates,
    /// `[chronova] max_feeds`: live feeds of the log at the same time.
    pub max_feeds: usize,
    /// `[chronova] max_consoles`: consoles that are open at the same time.
    pub max_consoles: usize,
    /// `[chronova] dashboard`: whether the process serves the dashboard below `/dashboard`.
    pub dashboard: bool,
    /// `[keystone_authtoken] www_authenticate_uri`: the address of the identity service in the header of a 401. By
    /// default this is the host of the request.
    pub www_authenticate_uri: Option<String>,
    /// `[keystone_authtoken] service_token_roles` and `service_token_roles_required`.
    pub service_tokens: ServiceTokenRules,
    /// How the metadata service identifies the guest that asks.
    pub metadata: MetadataConfig,
    pub cors: CorsConfig,
    pub policy: PolicyConfig,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            max_request_body_size: 114_688,
            enable_proxy_headers_parsing: false,
            trusted_proxies: Vec::new(),
            reserved_networks: Vec::new(),
            rate_limit: 0.0,
            rate_limit_burst: 100,
            compute_link_prefix: None,
            glance_link_prefix: None,
            default_floating_pool: "nova".to_owned(),
            max_limit: 1000,
            access: AccessRates::default(),
            max_feeds: 64,
            max_consoles: 256,
            dashboard: true,
            www_authenticate_uri: None,
            service_tokens: ServiceTokenRules::default(),
            metadata: MetadataConfig::default(),
            cors: CorsConfig::default(),
            policy: PolicyConfig::default(),
        }
    }
}

/// `[cors]`. Without an allowed origin, replies get no CORS headers.
#[derive(Debug, Clone)]
pub struct CorsConfig {
    /// `allowed_origin`; `*` allows every origin.
    pub allowed_origin: Vec<String>,
    pub allow_credentials: bool,
    pub expose_headers: Vec<String>,
    pub max_age: u32,
    pub allow_methods: Vec<String>,
    pub allow_headers: Vec<String>,
}

impl Default for CorsConfig {
    fn default() -> Self {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        Self {
            allowed_origin: Vec::new(),
            allow_credentials: true,
            expose_headers: list(&[
                "X-Auth-Token",
                "X-Openstack-Request-Id",
                "X-Subject-Token",
                "X-Service-Token",
                "X-OpenStack-Nova-API-Version",
                "OpenStack-API-Version",
            ]),
            max_age: 3600,
            allow_methods: list(&["GET", "PUT", "POST", "DELETE", "PATCH"]),
            allow_headers: list(&[
                "X-Auth-Token",
                "X-Openstack-Request-Id",
                "X-Identity-Status",
                "X-Roles",
                "X-Service-Catalog",
                "X-User-Id",
                "X-Tenant-Id",
                "X-OpenStack-Nova-API-Version",
                "OpenStack-API-Version",
            ]),
        }
    }
}

/// `[oslo_policy]`
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    /// `policy_file`, already resolved to a path. If the file does not exist, there are no overrides.
    pub policy_file: Option<PathBuf>,
    /// `policy_dirs`, as paths; their files are read after `policy_file`.
    pub policy_dirs: Vec<PathBuf>,
    /// `policy_default_rule`: the rule that is used in place of an undefined rule.
    pub default_rule: String,
    /// The services that have a policy file of their own (`[placement] policy_file`...). For such a service, this file
    /// replaces the shared file.
    pub service_policy_files: Vec<(Service, PathBuf)>,
    /// `enforce_scope`: refuse tokens whose scope the rule does not list.
    pub enforce_scope: bool,
    /// `enforce_new_defaults`: ignore the deprecated defaults. Without this option, a deprecated default also grants
    /// access.
    pub enforce_new_defaults: bool,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            policy_file: None,
            policy_dirs: Vec::new(),
            default_rule: "default".to_owned(),
            service_policy_files: Vec::new(),
            enforce_scope: true,
            enforce_new_defaults: true,
        }
    }
}
