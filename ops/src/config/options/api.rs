//! The Compute API: `[api]`, `[oslo_policy]`, `[cors]`, `[oslo_middleware]`, `[quota]`, `[wsgi]`.

use std::path::PathBuf;

use super::super::option::{Default::Text, Multi};

section! {
    /// Nova's `[api]`.
    Api = "api" from Nova {
        auth_strategy: String => here {
            default: Text("keystone"), choices: &["keystone", "noauth2"],
            help: "`keystone` asks for a token of the identity service. `noauth2` believes what the token says (USER \
                   or USER:PROJECT; the user `admin` has the role admin). It is a mode for tests: Chronova refuses it \
                   unless all listeners are loopback addresses.",
        }
        max_limit: u32 => web.max_limit by Whole {
            min: Some(0.0),
            deprecated: &[("DEFAULT", "osapi_max_limit")],
            help: "The largest number of items in one answer to a list request.",
        }
        compute_link_prefix: Option<String> => web.compute_link_prefix {
            deprecated: &[("DEFAULT", "osapi_compute_link_prefix")],
            help: "Scheme, host and port that replace the request's own in links to compute resources.",
        }
        glance_link_prefix: Option<String> => web.glance_link_prefix {
            deprecated: &[("DEFAULT", "osapi_glance_link_prefix")],
            help: "Scheme, host and port that replace the request's own in links to images.",
        }
        enable_instance_password: bool => compute.enable_instance_password {
            deprecated: &[("DEFAULT", "enable_instance_password")],
            help: "Show `adminPass` in answers to create, rebuild, evacuate and rescue.",
        }
        dhcp_domain: String => runtime.servers.metadata.domain {
            deprecated: &[("DEFAULT", "dhcp_domain")],
            help: "Domain appended to a server's name in its metadata; empty appends nothing.",
        }
        config_drive_skip_versions: String => runtime.servers.metadata.skipped_versions by Blanks {
            deprecated: &[("DEFAULT", "config_drive_skip_versions")],
            help: "Versions of EC2's metadata left out of config drives, separated by blanks.",
        }
        vendordata_providers: Vec<String> => here {
            default: Text("StaticJSON"), choices: &["StaticJSON", "DynamicJSON"],
            deprecated: &[("DEFAULT", "vendordata_providers")],
            help: "Sources of vendor data in metadata. StaticJSON is the same for all servers. DynamicJSON asks \
                   other services about each server.",
        }
        vendordata_jsonfile_path: Option<PathBuf> => here {
            deprecated: &[("DEFAULT", "vendordata_jsonfile_path")],
            help: "JSON file that StaticJSON vendor data comes from: an object, read once at the start.",
        }
        vendordata_dynamic_targets: Vec<String> => here {
            deprecated: &[("DEFAULT", "vendordata_dynamic_targets")],
            help: "NAME@URL of services that DynamicJSON calls by POST for each metadata request; the answer of each \
                   is in vendor_data2.json under its name. The request has a token if [vendordata_dynamic_auth] has \
                   an account.",
        }
        vendordata_dynamic_ssl_certfile: Option<PathBuf> => here {
            deprecated: &[("DEFAULT", "vendordata_dynamic_ssl_certfile")],
            help: "Certificates (PEM) of the authorities that signed those services' certificates. Unset: the \
                   system's.",
        }
        vendordata_dynamic_connect_timeout: u32 => here {
            default: Text("5"), min: Some(3.0), unit: "seconds",
            deprecated: &[("DEFAULT", "vendordata_dynamic_connect_timeout")],
            help: "How long Chronova may take to connect to one of these services.",
        }
        vendordata_dynamic_read_timeout: u32 => here {
            default: Text("5"), min: Some(0.0), unit: "seconds",
            deprecated: &[("DEFAULT", "vendordata_dynamic_read_timeout")],
            help: "How long the answer of one of these services may take. An answer may have up to 256 KiB.",
        }
        vendordata_dynamic_failure_fatal: bool => here {
            default: Text("false"),
            deprecated: &[("DEFAULT", "vendordata_dynamic_failure_fatal")],
            help: "Fail metadata requests and config drives if one of these services does not answer. Off: the data \
                   of that service is {}.",
        }
        metadata_cache_expiration: u32 => here {
            default: Text("15"), min: Some(0.0), unit: "seconds",
            deprecated: &[("DEFAULT", "metadata_cache_expiration")],
            help: "How long Nova may answer with metadata from its cache. Chronova has no cache of metadata: every \
                   value gives the present data, as 0 does in Nova.",
        }
        use_forwarded_for: bool => web.metadata.use_forwarded_for {
            deprecated: &[("DEFAULT", "use_forwarded_for")],
            help: "Use the address in X-Forwarded-For to identify the guest that asks for its metadata, if the header \
                   names exactly one address. Any client can write this header, so it counts only if the request comes \
                   from one of [chronova] trusted_proxies.",
        }
    }
}

section! {
    /// oslo.policy.
    OsloPolicy = "oslo_policy" from Oslo {
        enforce_scope: bool => web.policy.enforce_scope {
            help: "Refuse a token whose scope (system, domain, project) is not among the scopes of the rule.",
        }
        enforce_new_defaults: bool => web.policy.enforce_new_defaults {
            help: "Apply only the new default rules. Off: a user who passes the older default rule is also allowed.",
        }
        policy_file: PathBuf => web.policy.policy_file by Present {
            default: Text("policy.yaml"),
            deprecated: &[("DEFAULT", "policy_file")],
            help: "YAML or JSON file that overrides rules, relative to the configuration file that is read first. \
                   Without this option, the file may be missing.",
        }
        policy_default_rule: String => web.policy.default_rule {
            deprecated: &[("DEFAULT", "policy_default_rule")],
            help: "The rule that replaces a rule that is not defined. If this rule is not defined either, a request \
                   that needs it is refused.",
        }
        policy_dirs: Multi => web.policy.policy_dirs by Paths {
            default: Text("policy.d"),
            deprecated: &[("DEFAULT", "policy_dirs")],
            help: "Directories with more rules, relative to the configuration file that is read first. Their files \
                   are read after policy_file, in the order of their names; later rules win. Hidden files and \
                   subdirectories are skipped. A missing directory causes a warning.",
        }
    }
}

section! {
    /// oslo.middleware's cross-origin resource sharing.
    Cors = "cors" from Oslo {
        allowed_origin: Vec<String> => web.cors.allowed_origin {
            help: "Origins (scheme://host:port, or *) whose pages may call the APIs. Empty: none, and no CORS headers.",
        }
        allow_credentials: bool => web.cors.allow_credentials {
            help: "Let pages of allowed origins send credentials.",
        }
        expose_headers: Vec<String> => web.cors.expose_headers {
            help: "Response headers that pages may read. The default is Nova's own.",
        }
        max_age: u32 => web.cors.max_age {
            min: Some(0.0), unit: "seconds",
            help: "How long a browser may remember the answer to a preflight request.",
        }
        allow_methods: Vec<String> => web.cors.allow_methods {
            help: "Methods that pages may use. The default is Nova's own.",
        }
        allow_headers: Vec<String> => web.cors.allow_headers {
            help: "Request headers that pages may send. The default is Nova's own.",
        }
    }
}

section! {
    /// oslo.middleware.
    OsloMiddleware = "oslo_middleware" from Oslo {
        enable_proxy_headers_parsing: bool => web.enable_proxy_headers_parsing {
            help: "Build the links of answers from X-Forwarded-Proto, -Host and -Prefix, if a proxy of [chronova] \
                   trusted_proxies sent the request.",
        }
    }
}

section! {
    /// Nova's default quotas; -1 is no bound.
    Quota = "quota" from Nova {
        driver: String => compute.enforces_quota by QuotaDriverWords {
            choices: &["nova.quota.DbQuotaDriver", "nova.quota.NoopQuotaDriver", "nova.quota.UnifiedLimitsDriver"],
            deprecated: &[("DEFAULT", "quota_driver")],
            help: "DbQuotaDriver keeps quotas in the event log (the name is Nova's). With NoopQuotaDriver nothing is limited, \
                   and every limit is shown as -1. UnifiedLimitsDriver, which reads limits of the identity service, is not \
                   supported and stops the start.",
        }
        instances: i64 => compute.quota["instances"] {
            min: Some(-1.0),
            deprecated: &[("DEFAULT", "quota_instances")],
            help: "Servers of one project.",
        }
        cores: i64 => compute.quota["cores"] {
            min: Some(-1.0),
            deprecated: &[("DEFAULT", "quota_cores")],
            help: "Virtual CPUs of one project.",
        }
        ram: i64 => compute.quota["ram"] {
            min: Some(-1.0), unit: "MiB",
            deprecated: &[("DEFAULT", "quota_ram")],
            help: "Memory of one project's servers.",
        }
        metadata_items: i64 => compute.quota["metadata_items"] {
            min: Some(-1.0),
            deprecated: &[("DEFAULT", "quota_metadata_items")],
            help: "Metadata items of one server.",
        }
        injected_files: i64 => compute.quota["injected_files"] {
            min: Some(-1.0),
            deprecated: &[("DEFAULT", "quota_injected_files")],
            help: "Injected files of one server.",
        }
        injected_file_content_bytes: i64 => compute.quota["injected_file_content_bytes"] {
            min: Some(-1.0), unit: "bytes",
            deprecated: &[("DEFAULT", "quota_injected_file_content_bytes")],
            help: "Size of one injected file.",
        }
        injected_file_path_length: i64 => compute.quota["injected_file_path_bytes"] {
            min: Some(-1.0), unit: "characters",
            deprecated: &[("DEFAULT", "quota_injected_file_path_length")],
            help: "Length of an injected file's path.",
        }
        key_pairs: i64 => compute.quota["key_pairs"] {
            min: Some(-1.0),
            deprecated: &[("DEFAULT", "quota_key_pairs")],
            help: "Key pairs of one user.",
        }
        server_groups: i64 => compute.quota["server_groups"] {
            min: Some(-1.0),
            deprecated: &[("DEFAULT", "quota_server_groups")],
            help: "Server groups of one project.",
        }
        server_group_members: i64 => compute.quota["server_group_members"] {
            min: Some(-1.0),
            deprecated: &[("DEFAULT", "quota_server_group_members")],
            help: "Members of one server group.",
        }
    }
}

section! {
    /// Nova's `[wsgi]`: the sockets of the APIs.
    Wsgi = "wsgi" from Nova {
        ssl_cert_file: Option<PathBuf> => here {
            deprecated: &[("DEFAULT", "ssl_cert_file")],
            help: "File with the certificate of the API listeners (PEM), followed by the certificates of the \
                   authorities that signed it. Unset: no TLS. The server reads the file at the start, and again on \
                   SIGHUP. See [DEFAULT] enabled_ssl_apis.",
        }
        ssl_key_file: Option<PathBuf> => here {
            deprecated: &[("DEFAULT", "ssl_key_file")],
            help: "File with the private key of ssl_cert_file (PEM). The server reads both files at the same time.",
        }
        ssl_ca_file: Option<PathBuf> => here {
            deprecated: &[("DEFAULT", "ssl_ca_file")],
            help: "File with certificates (PEM) of authorities. Each client must then show a certificate signed by one \
                   of them. Unset: clients need none.",
        }
        keep_alive: bool => here {
            default: Text("true"),
            deprecated: &[("DEFAULT", "wsgi_keep_alive")],
            help: "Let a client send several requests over one connection.",
        }
        client_socket_timeout: u32 => serving.patience.stalled by Seconds {
            max: Some(86400.0), unit: "seconds",
            deprecated: &[("DEFAULT", "client_socket_timeout")],
            help: "Close a connection if the client reads nothing of an answer for this time; 0 waits without limit. \
                   Other limits are fixed: a connection stays open for 8 seconds between two requests. The head of a \
                   request must arrive within 10 seconds, and a JSON body within 60 seconds. An upload must bring \
                   data at least every 60 seconds.",
        }
    }
}
