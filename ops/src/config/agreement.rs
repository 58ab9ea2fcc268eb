//! Finds options that contradict each other although each is valid by itself.
//!
//! Each rule reports the problem at the option that is set, and says which change solves it.

mod affinity;
mod consoles;
mod ovn;
mod services;
mod signatures;
mod unmade;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use chronova_actors::pci::HostPciOptions;
use chronova_actors::pci::device_spec::DeviceSpec;
use chronova_actors::topology::host::{CpuSets, HostCpus};
use chronova_hypervisor::sim::SimUri;

use chrono::format::{Item, StrftimeItems};
use uuid::Uuid;

use crate::telemetry::{line_format, log_config};

use super::account::HasAccount as _;
use super::event_store::EventStoreAddress;
use super::ini::{self, IniAssignment};
use super::options::{self, SECTIONS};
use super::{Config, ConfigLine, OptionDef, Problem, Severity, derived, extra_spec_file, provider_files};

/// A contradiction, and the option at which it is reported.
struct Clash {
    severity: Severity,
    at: (&'static str, &'static str),
    message: Cow<'static, str>,
}

const fn error(at: (&'static str, &'static str), message: &'static str) -> Clash {
    Clash { severity: Severity::Error, at, message: Cow::Borrowed(message) }
}

/// A certificate without its key, or a key without its certificate: both options, and whether they are set.
fn half_set(
    section: &'static str,
    (certificate, has_certificate): (&'static str, bool),
    (key, has_key): (&'static str, bool),
) -> Option<Clash> {
    let (set, missing) = match (has_certificate, has_key) {
        (true, false) => (certificate, key),
        (false, true) => (key, certificate),
        _ => return None,
    };
    let message = format!("[{section}] {set} needs {missing}: set both, or neither").into();
    Some(Clash { severity: Severity::Error, at: (section, set), message })
}

const IMAGES_TYPE: (&str, &str) = ("libvirt", "images_type");

/// The contradictions, each with its line in the files.
pub(super) fn clashes(config: &Config, texts: &[(&Path, &str)]) -> Vec<Problem> {
    let told = |clash: Clash| Problem {
        severity: clash.severity,
        place: place(texts, clash.at),
        message: clash.message.into_owned(),
    };
    let agreements = [
        logging(config),
        storage(config),
        migration(config),
        metadata(config),
        reserved(config),
        processors(config),
        devices(config),
        affinity::networks(config),
        provider_configs(config, texts),
        extra_specs(config),
        scheduler_hook(config),
        guests_cpus(config),
        memory_in_files(config),
        persistent_memory(config),
        encrypted_memory(config),
        signatures::signatures(config),
        unmade::choices(config),
        event_store(config),
        identity(config),
        services::service_user(config),
        services::vendor_data(config),
        network(config),
        ovn::ovn(config),
        ovn::automatic_range(config),
        unused_keystone(config, texts),
        services::images(config),
        services::unused_glance(config, texts),
        services::notifications(config),
        services::volumes(config),
        services::unused_cinder(config, texts),
        consoles::screens(config),
        fleets(config),
    ];
    agreements.into_iter().flatten().map(told).collect()
}

/// Checks the file that `log_config_append` names, the specifiers in `log_date_format`, and the formats of lines.
fn logging(config: &Config) -> Vec<Clash> {
    let default = &config.default;
    let mut clashes = Vec::new();
    if let Some(path) = &default.log_config_append
        && let Err(reason) = log_config::read(path)
    {
        let message = format!("[DEFAULT] log_config_append: {} {reason}", path.display()).into();
        clashes.push(Clash { severity: Severity::Error, at: ("DEFAULT", "log_config_append"), message });
    }
    let unknown = |form: &str| StrftimeItems::new(form).any(|item| matches!(item, Item::Error));
    if default.log_date_format.as_deref().is_some_and(unknown) {
        clashes.push(error(
            ("DEFAULT", "log_date_format"),
            "[DEFAULT] log_date_format has a specifier that strftime does not know",
        ));
    }
    for (name, format) in [
        ("logging_context_format_string", &default.logging_context_format_string),
        ("logging_default_format_string", &default.logging_default_format_string),
        ("logging_debug_format_suffix", &default.logging_debug_format_suffix),
    ] {
        if let Some(problem) = format.as_deref().and_then(line_format::problem) {
            let message = format!("[DEFAULT] {name}: {problem}").into();
            clashes.push(Clash { severity: Severity::Error, at: ("DEFAULT", name), message });
        }
    }
    clashes
}

/// Checks the account of Keystone, and tells which identity service is in use.
fn identity(config: &Config) -> Vec<Clash> {
    let mut clashes = Vec::new();
    let fields = config.keystone_authtoken.account();
    let problems = [fields.complete().err(), fields.trust().err()];
    clashes.extend(problems.into_iter().flatten().map(|problem| Clash {
        severity: Severity::Error,
        at: (fields.section, problem.option),
        message: Cow::Owned(problem.message),
    }));
    let auth_url = ("keystone_authtoken", "auth_url");
    let Some(url) = &config.keystone_authtoken.auth_url else { return clashes };
    if config.api.auth_strategy == "noauth2" {
        let message =
            "[keystone_authtoken] auth_url is set, but [api] auth_strategy = noauth2 uses no identity service";
        clashes.push(Clash { severity: Severity::Warning, at: auth_url, message: Cow::Borrowed(message) });
    } else {
        let message = format!(
            "[keystone_authtoken] auth_url: Keystone at {url} is the identity service. The embedded one is not served. \
             The dashboard logs in at the embedded one, so it is not served either; [token] and [security_compliance] \
             have no effect"
        );
        clashes.push(Clash { severity: Severity::Note, at: auth_url, message: Cow::Owned(message) });
        if !config.chronova.identity_listen.0.is_empty() {
            let message = "[chronova] identity_listen serves the embedded identity service, and [keystone_authtoken] auth_url \
                           names another: take one of them out";
            clashes.push(error(("chronova", "identity_listen"), message));
        }
    }
    clashes
}

/// Checks the account of Neutron, and tells which network service is in use.
fn network(config: &Config) -> Vec<Clash> {
    let mut clashes = Vec::new();
    let fields = config.neutron.account();
    let problems = [fields.complete().err(), fields.trust().err()];
    clashes.extend(problems.into_iter().flatten().map(|problem| Clash {
        severity: Severity::Error,
        at: (fields.section, problem.option),
        message: Cow::Owned(problem.message),
    }));
    let auth_url = ("neutron", "auth_url");
    if config.neutron.auth_url.is_none() {
        let message = "[neutron] endpoint_override has no effect without auth_url: networks are those of the embedded network \
                       service, and no Neutron is called";
        let unused = || Clash {
            severity: Severity::Warning,
            at: ("neutron", "endpoint_override"),
            message: Cow::Borrowed(message),
        };
        clashes.extend(config.neutron.endpoint_override.is_some().then(unused));
        return clashes;
    }
    if config.keystone_authtoken.auth_url.is_none() {
        let message = "[neutron] auth_url is set and [keystone_authtoken] auth_url is not: Neutron does not know the users of \
                       the embedded identity service. Set both, or neither";
        clashes.push(error(auth_url, message));
    }
    let message = "[neutron] auth_url: Neutron is the network service, and the embedded one is not served";
    clashes.push(Clash { severity: Severity::Note, at: auth_url, message: Cow::Borrowed(message) });
    if !config.chronova.network_listen.0.is_empty() {
        let message = "[chronova] network_listen serves the embedded network service, and [neutron] names another: take one of \
                       them out";
        clashes.push(error(("chronova", "network_listen"), message));
    }
    clashes
}

/// Options of a Keystone that is not used, because the embedded identity service validates all tokens.
fn unused_keystone(config: &Config, texts: &[(&Path, &str)]) -> Vec<Clash> {
    const SECTION: &str = "keystone_authtoken";
    /// These options also have an effect with the embedded identity service.
    const EITHER: [&str; 3] = ["www_authenticate_uri", "service_token_roles", "service_token_roles_required"];
    let fields = config.keystone_authtoken.account();
    if config.keystone_authtoken.auth_url.is_some() || fields.complete().is_err() {
        return Vec::new();
    }
    let set = |name: &str| place(texts, (SECTION, name)).is_some();
    let unused = SECTIONS.iter().copied().flatten().filter(|def| def.section == SECTION && !EITHER.contains(&def.name));
    let clash = |name: &'static str| Clash {
        severity: Severity::Warning,
        at: (SECTION, name),
        message: Cow::Owned(format!(
            "[{SECTION}] {name} has no effect without auth_url: the embedded identity service validates tokens. Set \
             auth_url to Keystone's address, or take {name} out"
        )),
    };
    unused.map(|def| def.name).filter(|name| set(name)).map(clash).collect()
}

/// Two simulated fleets with the same name would have the same hosts.
fn fleets(config: &Config) -> Vec<Clash> {
    let mut names = BTreeSet::new();
    let fleets = config.chronova.hypervisors.0.iter().filter_map(|uri| uri.parse::<SimUri>().ok());
    let doubled: Vec<SimUri> = fleets.filter(|fleet| !names.insert(fleet.name.clone())).collect();
    let clash = |fleet: SimUri| {
        let SimUri { name, hosts, .. } = fleet;
        let message = format!(
            "[chronova] hypervisors has two simulated fleets named {name}, whose hosts would be the same: give one of \
             them a different name, as sim://{hosts}?name=second"
        );
        Clash { severity: Severity::Error, at: ("chronova", "hypervisors"), message: Cow::Owned(message) }
    };
    doubled.into_iter().map(clash).collect()
}

/// The address of the log is a secret, so the message does not repeat it.
fn event_store(config: &Config) -> Vec<Clash> {
    match EventStoreAddress::parse(&config.chronova.event_store) {
        Ok(_) => Vec::new(),
        Err(message) => {
            vec![Clash { severity: Severity::Error, at: ("chronova", "event_store"), message: Cow::Owned(message) }]
        }
    }
}

fn storage(config: &Config) -> Vec<Clash> {
    let (default, libvirt) = (&config.default, &config.libvirt);
    let kind = libvirt.images_type.as_str();
    let mut clashes = Vec::new();
    let mut found = |is: bool, clash: Clash| clashes.extend(is.then_some(clash));
    let group = libvirt.images_volume_group.as_deref().unwrap_or_default();
    found(
        kind == "lvm" && group.is_empty(),
        error(
            IMAGES_TYPE,
            "[libvirt] images_type is lvm and images_volume_group is not set: name the volume group that the compute hosts \
             have for guests' disks",
        ),
    );
    found(
        !group.is_empty() && !is_group(group),
        error(
            ("libvirt", "images_volume_group"),
            "[libvirt] images_volume_group is not the name of a volume group: it consists of letters, digits and + _ \
             . - and is not a path",
        ),
    );
    found(
        libvirt.sparse_logical_volumes && kind != "lvm",
        error(
            ("libvirt", "sparse_logical_volumes"),
            "[libvirt] sparse_logical_volumes is about logical volumes, and images_type is not lvm: take it out, or set \
             images_type to lvm",
        ),
    );
    let ceph = matches!(kind, "rbd" | "ceph");
    found(
        ceph && libvirt.images_rbd_pool.is_empty(),
        error(
            IMAGES_TYPE,
            "[libvirt] images_type is rbd and images_rbd_pool is empty: name the Ceph pool of guests' disks",
        ),
    );
    found(
        ceph && config.chronova.rbd_monitors.is_empty(),
        error(
            IMAGES_TYPE,
            "[libvirt] images_type is rbd and [chronova] rbd_monitors is not set: name Ceph's monitors, as in \
             10.0.0.1:6789,10.0.0.2:6789",
        ),
    );
    found(
        ceph && libvirt.rbd_user.is_some() != libvirt.rbd_secret_uuid.is_some(),
        error(
            IMAGES_TYPE,
            "[libvirt] rbd_user and rbd_secret_uuid go together: set both, or neither for a Ceph without cephx",
        ),
    );
    let secret = libvirt.rbd_secret_uuid.as_deref();
    found(
        secret.is_some_and(|secret| secret.parse::<Uuid>().is_err()),
        error(("libvirt", "rbd_secret_uuid"), "[libvirt] rbd_secret_uuid is not the UUID of a libvirt secret"),
    );
    let copy_on_write = matches!(kind, "qcow2") || (matches!(kind, "default" | "local") && default.use_cow_images);
    found(
        default.preallocate_images == "space" && copy_on_write,
        Clash {
            severity: Severity::Warning,
            at: ("DEFAULT", "preallocate_images"),
            message:
                "[DEFAULT] preallocate_images is about raw disks, and [libvirt] images_type makes copy-on-write files: \
                      set images_type to raw, or expect files that grow"
                    .into(),
        },
    );
    clashes
}

/// When its driver starts, Nova refuses tunnelled migrations with native TLS. It silently accepts native TLS without
/// the `tls` scheme, although libvirt then connects to the destination without TLS.
fn migration(config: &Config) -> Vec<Clash> {
    const TLS: (&str, &str) = ("libvirt", "live_migration_with_native_tls");
    let libvirt = &config.libvirt;
    if !libvirt.live_migration_with_native_tls {
        return Vec::new();
    }
    let by_tls = match &libvirt.live_migration_uri {
        Some(uri) => uri.contains("+tls:"),
        None => libvirt.live_migration_scheme.as_deref() == Some("tls"),
    };
    let tunnelled = error(
        TLS,
        "[libvirt] live_migration_tunnelled and live_migration_with_native_tls exclude each other: take out \
         live_migration_tunnelled, which encrypts no disks",
    );
    let plain = Clash {
        severity: Severity::Warning,
        at: TLS,
        message:
            "[libvirt] live_migration_with_native_tls without live_migration_scheme = tls: hosts reach each other's \
                  libvirtd by plain TCP"
                .into(),
    };
    let found = [(libvirt.live_migration_tunnelled, tunnelled), (!by_tls, plain)];
    found.into_iter().filter(|(is, _)| *is).map(|(_, clash)| clash).collect()
}

/// Checks that only known proxies can ask for a guest's metadata. Otherwise, a guest could read the metadata of another
/// guest.
fn metadata(config: &Config) -> Vec<Clash> {
    let (neutron, api) = (&config.neutron, &config.api);
    let unsigned = error(
        ("neutron", "service_metadata_proxy"),
        "[neutron] service_metadata_proxy is on and metadata_proxy_shared_secret is empty: anybody could ask for any \
         server's metadata. Set the secret that Neutron's metadata agent has",
    );
    let untrusted = Clash {
        severity: Severity::Warning,
        at: ("api", "use_forwarded_for"),
        message: Cow::Borrowed(
            "[api] use_forwarded_for trusts only [chronova] trusted_proxies, which is empty: name the proxies through \
             which the requests of guests come",
        ),
    };
    let found = [
        (neutron.service_metadata_proxy && neutron.metadata_proxy_shared_secret.is_empty(), unsigned),
        (api.use_forwarded_for && config.chronova.trusted_proxies.is_empty(), untrusted),
    ];
    found.into_iter().filter(|(is, _)| *is).map(|(_, clash)| clash).collect()
}

/// An invalid network is an error, because it would silently protect nothing.
fn reserved(config: &Config) -> Vec<Clash> {
    let wrong = |word: &&String| word.parse::<ipnet::IpNet>().is_err() && word.parse::<std::net::IpAddr>().is_err();
    let clash = |word: &String| Clash {
        severity: Severity::Error,
        at: ("chronova", "reserved_networks"),
        message: format!("[chronova] reserved_networks: {word} is not a network; write it as in 192.0.2.0/24").into(),
    };
    config.chronova.reserved_networks.iter().filter(wrong).map(clash).collect()
}

/// `cpu_mode = custom` and `cpu_models` belong together, as in Nova. Also checks `host_cpu_models`.
fn guests_cpus(config: &Config) -> Vec<Clash> {
    if let Err(reason) = derived::host_cpu_models(config) {
        let message =
            format!("[chronova] host_cpu_models: {reason}; write it as in node1=EPYC,Nehalem; node2=IvyBridge");
        return vec![Clash { severity: Severity::Error, at: ("chronova", "host_cpu_models"), message: message.into() }];
    }
    let custom = config.libvirt.cpu_mode.as_deref() == Some("custom");
    match (custom, config.libvirt.cpu_models.is_empty()) {
        (true, true) => vec![error(
            ("libvirt", "cpu_mode"),
            "[libvirt] cpu_mode = custom needs cpu_models: name at least one model",
        )],
        (false, false) => vec![error(
            ("libvirt", "cpu_models"),
            "[libvirt] cpu_models has an effect only with cpu_mode = custom: set that, or take cpu_models out",
        )],
        _ => vec![],
    }
}

/// Whether the hosts of this configuration offer guests more memory than they have.
fn overcommits_memory(config: &Config) -> bool {
    let (ratio, initial) = (config.default.ram_allocation_ratio, config.default.initial_ram_allocation_ratio);
    (ratio.unwrap_or(initial) - 1.0).abs() > f64::EPSILON
}

/// Guests cannot overcommit file-backed memory, so Nova demands an allocation ratio of 1.0. The host's own programs use
/// no memory of these files, so memory that is reserved for the host is lost. As in Nova, the reserved memory must be
/// less than the files.
fn memory_in_files(config: &Config) -> Vec<Clash> {
    const AT: (&str, &str) = ("libvirt", "file_backed_memory");
    if config.libvirt.file_backed_memory == 0 {
        return vec![];
    }
    let (files, reserved) = (config.libvirt.file_backed_memory, config.default.reserved_host_memory_mb);
    let overcommitted = error(AT, "[libvirt] file_backed_memory needs [DEFAULT] ram_allocation_ratio = 1.0");
    let nothing_left =
        error(AT, "[libvirt] file_backed_memory has to be greater than [DEFAULT] reserved_host_memory_mb");
    let lost = Clash {
        severity: Severity::Warning,
        at: AT,
        message: format!(
            "[libvirt] file_backed_memory: no guest gets the {reserved} MiB of [DEFAULT] reserved_host_memory_mb, which the \
             host does not need there either; set reserved_host_memory_mb = 0"
        )
        .into(),
    };
    let takes_all = reserved >= u64::from(files);
    let found =
        [(overcommits_memory(config), overcommitted), (takes_all, nothing_left), (reserved > 0 && !takes_all, lost)];
    found.into_iter().filter(|(is, _)| *is).map(|(_, clash)| clash).collect()
}

/// Checks the namespaces of virtual persistent memory.
fn persistent_memory(config: &Config) -> Vec<Clash> {
    let message = |reason| {
        format!(
            "[libvirt] pmem_namespaces: {reason}. Each label needs its size in [chronova] pmem_sizes, and pmem_path the \
             directory"
        )
    };
    let clash = |reason| Clash {
        severity: Severity::Error,
        at: ("libvirt", "pmem_namespaces"),
        message: message(reason).into(),
    };
    derived::pmem(config).err().map(clash).into_iter().collect()
}

/// Hosts never swap out encrypted memory. The ratio also applies to hosts without encrypted guests, where it does no
/// harm. So this is a warning.
fn encrypted_memory(config: &Config) -> Vec<Clash> {
    let encrypts = config.libvirt.num_memory_encrypted_guests.is_some_and(|guests| guests > 0);
    let warning = Clash {
        severity: Severity::Warning,
        at: ("libvirt", "num_memory_encrypted_guests"),
        message:
            "[libvirt] num_memory_encrypted_guests with a ram_allocation_ratio other than 1.0: hosts cannot swap out \
                  encrypted memory; set the ratio to 1.0, or hw:mem_page_size = small on such flavors"
                .into(),
    };
    (encrypts && overcommits_memory(config)).then_some(warning).into_iter().collect()
}

/// Checks the sets of dedicated and shared processors, and `host_cpus`.
fn processors(config: &Config) -> Vec<Clash> {
    let compute = &config.compute;
    let wrong = |at: (&'static str, &'static str), reason: String| {
        let message = format!("[{}] {}: {reason}; write processors as in 4-12,^8,15", at.0, at.1).into();
        Clash { severity: Severity::Error, at, message }
    };
    let mut clashes = Vec::new();
    for (name, set) in [("cpu_shared_set", &compute.cpu_shared_set), ("cpu_dedicated_set", &compute.cpu_dedicated_set)]
    {
        let read = set.as_deref().map_or(Ok(()), |text| CpuSets::read(text).map(drop));
        clashes.extend(read.err().map(|reason| wrong(("compute", name), reason)));
    }
    if clashes.is_empty() {
        let both = derived::cpu_sets(config).check();
        clashes.extend(both.err().map(|reason| wrong(("compute", "cpu_dedicated_set"), reason)));
    }
    let named = config.chronova.host_cpus.as_deref().map_or(Ok(()), |text| HostCpus::read_named(text).map(drop));
    clashes.extend(named.err().map(|reason| wrong(("chronova", "host_cpus"), reason)));
    clashes.extend(derived::reserved_huge_pages(config).err().map(|reason| Clash {
        severity: Severity::Error,
        at: ("DEFAULT", "reserved_huge_pages"),
        message: format!("[DEFAULT] reserved_huge_pages: {reason}; write it as in node:0,size:2048,count:64").into(),
    }));
    clashes
}

/// Checks the files of custom inventories and traits.
fn provider_configs(config: &Config, texts: &[(&Path, &str)]) -> Vec<Clash> {
    const AT: (&str, &str) = ("compute", "provider_config_location");
    let folder = &config.compute.provider_config_location;
    let clash = |severity, message: String| Clash { severity, at: AT, message: message.into() };
    if !folder.exists() && place(texts, AT).is_some() {
        let message = format!("[compute] provider_config_location: there is no directory {}", folder.display());
        return vec![clash(Severity::Warning, message)];
    }
    match provider_files::read(folder) {
        Ok(files) => files.remarks.into_iter().map(|remark| clash(Severity::Warning, remark)).collect(),
        Err(reason) => vec![clash(Severity::Error, format!("[compute] provider_config_location: {reason}"))],
    }
}

/// Checks the file that describes extra specs.
fn extra_specs(config: &Config) -> Vec<Clash> {
    const AT: (&str, &str) = ("chronova", "extra_spec_validators");
    let read =
        config.chronova.extra_spec_validators.as_deref().map_or(Ok(()), |path| extra_spec_file::read(path).map(drop));
    let clash =
        |reason| Clash { severity: Severity::Error, at: AT, message: format!("[{}] {}: {reason}", AT.0, AT.1).into() };
    read.err().map(clash).into_iter().collect()
}

/// Checks the address of the scheduler hook.
fn scheduler_hook(config: &Config) -> Vec<Clash> {
    let address = |url: &str| {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
    };
    match config.scheduler_hook.url.as_deref() {
        Some(url) if !address(url) => vec![error(
            ("scheduler_hook", "url"),
            "[scheduler_hook] url has to be http:// or https:// with a host: the scheduler posts its questions there",
        )],
        _ => Vec::new(),
    }
}

const MDEV_TYPES: (&str, &str) = ("devices", "enabled_mdev_types");

/// Checks the specs and aliases of PCI devices, and the types of mediated devices.
fn devices(config: &Config) -> Vec<Clash> {
    let wrong = |at: (&'static str, &'static str), read: Result<(), String>| {
        let message = |reason| format!("[{}] {}: {reason}", at.0, at.1).into();
        read.err().map(|reason| Clash { severity: Severity::Error, at, message: message(reason) })
    };
    let named = HostPciOptions::read_named(&config.chronova.host_pci_device_spec.0);
    let untracked = config.filter_scheduler.pci_in_placement && !config.pci.report_in_placement;
    let mdevs = derived::mdevs(config).map(drop);
    let unused =
        config.mdev_groups.names().filter(|name| !config.devices.enabled_mdev_types.iter().any(|on| on == name));
    let unused = unused.map(|name| Clash {
        severity: Severity::Warning,
        at: MDEV_TYPES,
        message: format!("[mdev_{name}] has no effect: [devices] enabled_mdev_types does not name {name}").into(),
    });
    let found = [
        wrong(MDEV_TYPES, mdevs.map_err(|reason| format!("invalid configuration for mdev-capable devices: {reason}"))),
        wrong(("pci", "device_spec"), DeviceSpec::read_all(&config.pci.device_spec.0).map(drop)),
        wrong(("pci", "alias"), derived::pci_aliases(config).map(drop)),
        wrong(("chronova", "host_pci_device_spec"), named.map(drop)),
        untracked.then(|| {
            error(
                ("filter_scheduler", "pci_in_placement"),
                "[filter_scheduler] pci_in_placement needs [pci] report_in_placement = true: Placement has no devices \
                 without it",
            )
        }),
    ];
    found.into_iter().flatten().chain(unused).collect()
}

/// Whether `lvm(8)` accepts the name.
fn is_group(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "+_.-".contains(c);
    name.len() < 128 && name.chars().all(fits) && !name.starts_with('-') && name != "." && name != ".."
}

/// The last line that sets an option under its present name; without one, under an older name.
fn place(texts: &[(&Path, &str)], (section, name): (&str, &str)) -> Option<ConfigLine> {
    let entries: Vec<_> = texts.iter().flat_map(|(file, text)| ini::parse(text, file).entries).collect();
    let last = |find: fn(&str, &str) -> Option<&'static OptionDef>| {
        let means = |entry: &&IniAssignment| {
            find(&entry.section, &entry.key).is_some_and(|def| def.section == section && def.name == name)
        };
        entries.iter().rfind(means).map(|entry| entry.place.clone())
    };
    last(options::find).or_else(|| last(options::find_deprecated))
}
