//! From the configuration to each crate's own options.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chronova_actors::hosts::options::{DeletedGuests, HostOptions};
use chronova_actors::metadata::MetadataOptions;
use chronova_actors::metadata::dynamic::Dynamic;
use chronova_actors::process::options::{LiveOptions, ProcessOptions};
use chronova_actors::reconcile::options::{ImageCacheOptions, ReconcileOptions};
use chronova_actors::runtime::RuntimeOptions;
use chronova_actors::scheduler::{Multipliers, PrefilterOptions, SchedulerOptions, names};
use chronova_actors::server_options::ServerOptions;
use chronova_actors::topology::host::{CpuSets, HostCpus};
use chronova_actors::volume::service::VolumeOptions;
use chronova_actors::volume_quota::VolumeLimits;
use chronova_events::store::sqlite::SqliteOptions;
use chronova_hypervisor::connect::DriverOptions;
use chronova_hypervisor::options::{
    CacheMode, CacheModes, CpuFlag, CpuMode, ForwardMode, GuestOptions, ImagesOptions, ImagesType, LibvirtOptions,
    RbdOptions, Screens, Serial, Spice, VirtType, VolumeClear,
};
use chronova_projections::checkpoint::{CheckpointOptions, KeeperOptions};
use chronova_projections::history::HistoryOptions;
use chronova_web::auth::Secret;
use chronova_web::compute::{Compute, ComputeConfig};
use chronova_web::config::{CorsConfig, PolicyConfig, WebConfig};
use chronova_web::console::{self, ConsoleConfig};
use chronova_web::metadata::MetadataConfig;
use chronova_web::server::{Listener, Patience, Serving};
use chronova_web::service::Service;
use chronova_web::tls::TlsFiles;
use serde_json::{Map, Value};

use super::vendor_data::HttpServices;
use crate::config::{Config, Words};

pub fn log(config: &Config) -> SqliteOptions {
    SqliteOptions { batch_requests: config.chronova.log_batch as usize, ..SqliteOptions::default() }
}

/// Which checkpoints of the read models are kept.
pub fn checkpoints(config: &Config) -> CheckpointOptions {
    let own = &config.chronova;
    CheckpointOptions {
        history: own.checkpoint_history as usize,
        spacing: own.checkpoint_spacing,
        disk: own.checkpoint_disk.saturating_mul(1 << 20),
        ..CheckpointOptions::default()
    }
}

/// When checkpoints are written.
pub fn keeper(config: &Config) -> KeeperOptions {
    let interval = Duration::from_secs(u64::from(config.chronova.checkpoint_interval));
    KeeperOptions { events: config.chronova.checkpoint_events, interval, ..KeeperOptions::default() }
}

/// What questions about the past may cost.
pub fn history(config: &Config) -> HistoryOptions {
    let own = &config.chronova;
    HistoryOptions {
        held: own.as_of_held as usize,
        memory: own.as_of_memory.saturating_mul(1 << 20),
        at_once: own.as_of_at_once as usize,
        ..HistoryOptions::default()
    }
}

pub fn actors(config: &Config) -> RuntimeOptions {
    let default = &config.default;
    // A ratio of 0.0 or none means "the initial one", as in Nova.
    let ratio = |set: Option<f64>, initial: f64| set.filter(|ratio| *ratio > 0.0).unwrap_or(initial);
    let set = [
        ("DISK_GB", default.disk_allocation_ratio),
        ("MEMORY_MB", default.ram_allocation_ratio),
        ("VCPU", default.cpu_allocation_ratio),
    ];
    let imposed =
        set.into_iter().filter_map(|(class, set)| Some((class.to_owned(), set.filter(|ratio| *ratio > 0.0)?)));
    RuntimeOptions {
        servers: servers(config),
        hosts: HostOptions {
            cpu_allocation_ratio: ratio(default.cpu_allocation_ratio, default.initial_cpu_allocation_ratio),
            ram_allocation_ratio: ratio(default.ram_allocation_ratio, default.initial_ram_allocation_ratio),
            disk_allocation_ratio: ratio(default.disk_allocation_ratio, default.initial_disk_allocation_ratio),
            imposed_ratios: imposed.collect(),
            reserved_host_cpus: u64::from(default.reserved_host_cpus),
            reserved_host_memory_mb: default.reserved_host_memory_mb,
            reserved_host_disk_mb: default.reserved_host_disk_mb,
            max_concurrent_builds: default.max_concurrent_builds as usize,
            max_concurrent_snapshots: default.max_concurrent_snapshots as usize,
            enable_new_services: default.enable_new_services,
            resume_guests: default.resume_guests_state_on_host_boot,
            deleted_guests: match default.running_deleted_instance_action.as_str() {
                "log" => DeletedGuests::Log,
                "shutdown" => DeletedGuests::Shutdown,
                "noop" => DeletedGuests::Noop,
                _ => DeletedGuests::Reap,
            },
            heartbeat: Duration::from_secs(u64::from(default.report_interval)),
            host_cpus: host_cpus(config),
            ..HostOptions::default()
        },
        processes: ProcessOptions {
            max_attempts: config.scheduler.max_attempts,
            soft_reboot_timeout: config.libvirt.wait_soft_reboot_seconds,
            volume_looks: default.block_device_allocate_retries,
            volume_pause: Duration::from_secs(default.block_device_allocate_retries_interval.into()),
            allow_resize_to_same_host: default.allow_resize_to_same_host,
            ..ProcessOptions::default()
        },
        live: live(config),
        reconcile: ReconcileOptions {
            resize_confirm_window: Duration::from_secs(default.resize_confirm_window.into()),
            ..ReconcileOptions::default()
        },
        image_cache: image_cache(config),
        scheduler: scheduler(config),
        volume: volumes(config),
    }
}

/// All but the metadata, which [`metadata`] reads from files.
fn servers(config: &Config) -> ServerOptions {
    let default = &config.default;
    ServerOptions {
        instance_name_template: default.instance_name_template.clone().into(),
        availability_zone: default.default_availability_zone.clone(),
        shutdown_timeout: default.shutdown_timeout,
        max_disk_devices: usize::try_from(config.compute.max_disk_devices_to_attach).ok(),
        reclaim_interval: Duration::from_secs(default.reclaim_instance_interval.into()),
        // -1 is for ever.
        shelved_offload: u64::try_from(default.shelved_offload_time).ok().map(Duration::from_secs),
        ..ServerOptions::default()
    }
}

/// `[compute] cpu_shared_set` and `cpu_dedicated_set`. What cannot be read was refused when the configuration was.
pub fn cpu_sets(config: &Config) -> CpuSets {
    let read = |text: &Option<String>| text.as_deref().and_then(|text| CpuSets::read(text).ok());
    let compute = &config.compute;
    CpuSets { shared: read(&compute.cpu_shared_set), dedicated: read(&compute.cpu_dedicated_set) }
}

fn host_cpus(config: &Config) -> HostCpus {
    let named = config.chronova.host_cpus.as_deref().map(HostCpus::read_named);
    HostCpus { others: cpu_sets(config), named: named.and_then(Result::ok).unwrap_or_default() }
}

/// `[image_cache]`. A period of 0 is oslo.service's own for periodic tasks.
fn image_cache(config: &Config) -> ImageCacheOptions {
    let section = &config.image_cache;
    let interval = match u64::try_from(section.manager_interval) {
        Ok(0) => Some(Duration::from_mins(1)),
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => None,
    };
    ImageCacheOptions {
        interval,
        remove_unused: section.remove_unused_base_images,
        minimum_age: Duration::from_secs(section.remove_unused_original_minimum_age_seconds.into()),
        reserve_disk: config.workarounds.reserve_disk_resource_for_image_cache,
        precache_concurrency: section.precache_concurrency as usize,
    }
}

/// What guests are told about themselves; fails where the file that all are told of is not as it should be.
pub fn metadata(config: &Config) -> Result<MetadataOptions> {
    let api = &config.api;
    let empty = MetadataOptions::default().vendor_data;
    let vendor_data = match &api.vendordata_jsonfile_path {
        _ if !api.vendordata_providers.iter().any(|provider| provider == "StaticJSON") => None,
        None => empty,
        Some(path) => Some(Arc::new(Value::Object(vendor_data(path)?))),
    };
    Ok(MetadataOptions {
        domain: api.dhcp_domain.clone(),
        skipped_versions: api.config_drive_skip_versions.split_whitespace().map(str::to_owned).collect(),
        vendor_data,
        dynamic: match api.vendordata_providers.iter().any(|provider| provider == "DynamicJSON") {
            true => Some(Dynamic(Arc::new(HttpServices::new(config)?))),
            false => None,
        },
    })
}

fn vendor_data(path: &Path) -> Result<Map<String, Value>> {
    let what = || format!("[api] vendordata_jsonfile_path: {}", path.display());
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", what()))?;
    serde_json::from_str(&text).with_context(|| format!("{} holds no JSON object", what()))
}

fn live(config: &Config) -> LiveOptions {
    let libvirt = &config.libvirt;
    LiveOptions {
        per_host: config.default.max_concurrent_live_migrations as usize,
        completion_timeout: libvirt.live_migration_completion_timeout.into(),
        force_at_timeout: libvirt.live_migration_timeout_action == "force_complete",
        downtime: libvirt.live_migration_downtime.into(),
        downtime_steps: libvirt.live_migration_downtime_steps.into(),
        downtime_delay: libvirt.live_migration_downtime_delay.into(),
        bandwidth: libvirt.live_migration_bandwidth.into(),
        permit_post_copy: libvirt.live_migration_permit_post_copy,
        permit_auto_converge: libvirt.live_migration_permit_auto_converge,
        native_tls: libvirt.live_migration_with_native_tls,
        tunnelled: libvirt.live_migration_tunnelled,
        scheme: libvirt.live_migration_scheme.clone(),
        uri: libvirt.live_migration_uri.clone(),
        inbound_addr: libvirt.live_migration_inbound_addr.clone(),
        interface: config.chronova.live_migration_interface.clone(),
    }
}

fn volumes(config: &Config) -> VolumeOptions {
    let volume = &config.volume;
    VolumeOptions {
        pool: volume.pool.clone(),
        shared: volume.shared,
        availability_zone: volume.storage_availability_zone.clone(),
        limits: VolumeLimits {
            volumes: volume.quota_volumes,
            snapshots: volume.quota_snapshots,
            gigabytes: volume.quota_gigabytes,
            per_volume_gigabytes: volume.per_volume_size_limit,
        },
    }
}

/// The names were checked when the files were read, so that the defaults never stand in for a mistake.
pub fn scheduler(config: &Config) -> SchedulerOptions {
    let (filter, scheduler, default) = (&config.filter_scheduler, &config.scheduler, SchedulerOptions::default());
    SchedulerOptions {
        enabled_filters: names::enabled_filters(&filter.enabled_filters).unwrap_or(default.enabled_filters),
        weighers: names::weighers_of(&filter.weight_classes).unwrap_or(default.weighers),
        multipliers: Multipliers {
            ram: filter.ram_weight_multiplier,
            cpu: filter.cpu_weight_multiplier,
            disk: filter.disk_weight_multiplier,
            hypervisor_version: filter.hypervisor_version_weight_multiplier,
            num_instances: filter.num_instances_weight_multiplier,
            io_ops: filter.io_ops_weight_multiplier,
            image_props: filter.image_props_weight_multiplier,
            pci: filter.pci_weight_multiplier,
            soft_affinity: filter.soft_affinity_weight_multiplier,
            soft_anti_affinity: filter.soft_anti_affinity_weight_multiplier,
            build_failure: filter.build_failure_weight_multiplier,
            metrics: config.metrics.weight_multiplier,
        },
        max_placement_results: scheduler.max_placement_results as usize,
        max_attempts: scheduler.max_attempts as usize,
        host_subset_size: filter.host_subset_size as usize,
        shuffle_best_same_weighed_hosts: filter.shuffle_best_same_weighed_hosts,
        max_io_ops_per_host: filter.max_io_ops_per_host,
        max_instances_per_host: filter.max_instances_per_host,
        isolated_images: filter.isolated_images.clone(),
        isolated_hosts: filter.isolated_hosts.clone(),
        restrict_isolated_hosts_to_isolated_images: filter.restrict_isolated_hosts_to_isolated_images,
        aggregate_image_properties_isolation_namespace: filter.aggregate_image_properties_isolation_namespace.clone(),
        aggregate_image_properties_isolation_separator: filter.aggregate_image_properties_isolation_separator.clone(),
        image_properties_default_architecture: filter.image_properties_default_architecture.clone(),
        image_props_weight_setting: names::weight_settings(&filter.image_props_weight_setting),
        metrics_weight_setting: names::weight_settings(&config.metrics.weight_setting),
        metrics_weight_of_unavailable: config.metrics.weight_of_unavailable,
        prefilters: PrefilterOptions {
            limit_tenants_to_placement_aggregate: scheduler.limit_tenants_to_placement_aggregate,
            placement_aggregate_required_for_tenants: scheduler.placement_aggregate_required_for_tenants,
            query_placement_for_image_type_support: scheduler.query_placement_for_image_type_support,
            enable_isolated_aggregate_filtering: scheduler.enable_isolated_aggregate_filtering,
            image_metadata_prefilter: scheduler.image_metadata_prefilter,
        },
        counts_build_failures: config.compute.consecutive_build_service_disable_threshold != 0,
        disable_fallback_pcpu_query: config.workarounds.disable_fallback_pcpu_query,
        packs_cells: config.compute.packing_host_numa_cells_allocation_strategy,
    }
}

pub fn drivers(config: &Config) -> DriverOptions {
    let libvirt = &config.libvirt;
    let options = LibvirtOptions {
        virt_type: match libvirt.virt_type.as_str() {
            "kvm" => VirtType::Kvm,
            "qemu" => VirtType::Qemu,
            _ => VirtType::Auto,
        },
        cpu_mode: libvirt.cpu_mode.as_deref().map(|mode| match mode {
            "host-model" => CpuMode::HostModel,
            "host-passthrough" => CpuMode::HostPassthrough,
            "maximum" => CpuMode::Maximum,
            "custom" => CpuMode::Custom,
            _ => CpuMode::None,
        }),
        cpu_models: libvirt.cpu_models.clone(),
        // `x86_64=q35,aarch64=virt`: the driver takes the one for x86_64.
        machine_type: libvirt.hw_machine_type.iter().find_map(|pair| pair.strip_prefix("x86_64=")).map(str::to_owned),
        guests: guests(config),
        pool_path: pool_path(config),
        images: images(config),
        volume_pool_name: config.volume.pool.clone(),
        volume_pool_path: config.volume.pool_path.clone(),
        screens: screens(config),
        forward: ForwardMode::Auto,
        call_deadline: Duration::from_secs(u64::from(config.chronova.driver_timeout)),
        device_detach_attempts: libvirt.device_detach_attempts,
        device_detach_timeout: Duration::from_secs(u64::from(libvirt.device_detach_timeout)),
        workers: config.chronova.driver_threads as usize,
        ..LibvirtOptions::default()
    };
    DriverOptions { libvirt: options, sim_state_dir: Some(config.chronova.data_dir.join("sim")) }
}

fn guests(config: &Config) -> GuestOptions {
    let libvirt = &config.libvirt;
    // Kinds and modes were checked when the configuration was read; of a kind that is named twice the last word counts.
    let cache = |kind: &str| {
        let modes = libvirt.disk_cachemodes.iter().filter_map(|word| word.split_once('='));
        modes.rev().find(|(of, _)| *of == kind).and_then(|(_, mode)| CacheMode::parse(mode))
    };
    GuestOptions {
        cpu_flags: libvirt.cpu_model_extra_flags.iter().map(|word| CpuFlag::parse(word)).collect(),
        tablet: config.default.pointer_model.as_deref() == Some("usbtablet"),
        cache: CacheModes { file: cache("file"), block: cache("block"), network: cache("network") },
        discard: libvirt.hw_disk_discard.as_deref().map(|word| word == "unmap"),
        rng_device: libvirt.rng_dev_path.to_string_lossy().into_owned(),
        serial: match libvirt.sysinfo_serial.as_str() {
            "none" => Serial::None,
            "unique" => Serial::Server,
            _ => Serial::Host,
        },
        memory_statistics: libvirt.mem_stats_period_seconds,
        pcie_ports: libvirt.num_pcie_ports,
        rx_queue_size: libvirt.rx_queue_size.as_deref().and_then(|size| size.parse().ok()),
        max_queues: libvirt.max_queues,
        trusts_cpus: config.workarounds.skip_cpu_compare_on_dest,
    }
}

/// Where guests' disks are kept. What does not go together was refused when the configuration was read.
fn images(config: &Config) -> ImagesOptions {
    let (default, libvirt) = (&config.default, &config.libvirt);
    let full = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ImagesOptions {
        kind: match libvirt.images_type.as_str() {
            "raw" | "flat" => ImagesType::Flat,
            "lvm" => ImagesType::Lvm,
            "rbd" | "ceph" => ImagesType::Rbd,
            "default" | "local" if !default.use_cow_images => ImagesType::Flat,
            _ => ImagesType::Qcow2,
        },
        keep_format: !default.force_raw_images,
        preallocate: default.preallocate_images == "space",
        volume_group: libvirt.images_volume_group.clone(),
        sparse_logical_volumes: libvirt.sparse_logical_volumes,
        clear: match libvirt.volume_clear.as_str() {
            "none" => VolumeClear::None,
            "shred" => VolumeClear::Shred,
            _ => VolumeClear::Zero,
        },
        clear_mib: u64::from(libvirt.volume_clear_size),
        rbd: RbdOptions {
            pool: libvirt.images_rbd_pool.clone(),
            monitors: config.chronova.rbd_monitors.clone(),
            conf: full(&libvirt.images_rbd_ceph_conf),
            user: libvirt.rbd_user.clone(),
            secret: libvirt.rbd_secret_uuid.clone(),
        },
    }
}

fn screens(config: &Config) -> Screens {
    let (vnc, spice) = (&config.vnc, &config.spice);
    let (listen, agent, secure) = (spice.server_listen.clone(), spice.agent_enabled, spice.require_secure);
    Screens {
        vnc: vnc.enabled.then(|| vnc.server_listen.clone()),
        spice: spice.enabled.then_some(Spice { listen, agent, secure }),
    }
}

/// The default of Nova's option is a directory of Nova's, on the hosts of Nova's.
fn pool_path(config: &Config) -> String {
    let path = &config.default.instances_path;
    match *path == config.default.state_path.join("instances") {
        true => LibvirtOptions::default().pool_path,
        false => path.to_string_lossy().into_owned(),
    }
}

pub fn compute(config: &Config) -> Compute {
    let (default, quota) = (&config.default, &config.quota);
    let mut limits = ComputeConfig::default().quota;
    limits.extend([
        ("cores", quota.cores),
        ("instances", quota.instances),
        ("ram", quota.ram),
        ("metadata_items", quota.metadata_items),
        ("injected_files", quota.injected_files),
        ("injected_file_content_bytes", quota.injected_file_content_bytes),
        ("injected_file_path_bytes", quota.injected_file_path_length),
        ("key_pairs", quota.key_pairs),
        ("server_groups", quota.server_groups),
        ("server_group_members", quota.server_group_members),
    ]);
    Compute::new(ComputeConfig {
        quota: limits,
        internal_availability_zone: default.internal_service_availability_zone.clone(),
        default_schedule_zone: default.default_schedule_zone.clone(),
        password_length: default.password_length as usize,
        enable_instance_password: config.api.enable_instance_password,
        force_config_drive: default.force_config_drive,
        consoles: consoles(config),
        max_local_block_devices: default.max_local_block_devices,
        max_disk_devices: usize::try_from(config.compute.max_disk_devices_to_attach).ok(),
        cross_az_attach: config.cinder.cross_az_attach,
        host: default.host.clone(),
    })
}

/// The defaults of Nova's options are addresses of Nova's proxies. Left at that, users are sent to the gateway.
fn consoles(config: &Config) -> ConsoleConfig {
    let (nova, gateway) = (ConsoleConfig::default(), gateway(config));
    let url = |given: &String, nova: &String, page: &str| match (&gateway, given == nova) {
        (Some(gateway), true) => format!("{gateway}{page}"),
        _ => given.clone(),
    };
    let (novnc, spice) = (&config.vnc.novncproxy_base_url, &config.spice.html5proxy_base_url);
    let serial = url(&config.serial_console.base_url, &nova.serial_url, "");
    ConsoleConfig {
        vnc: config.vnc.enabled,
        novnc_url: url(novnc, &nova.novnc_url, "/vnc_auto.html?path=console"),
        spice: config.spice.enabled,
        spice_html5_url: url(spice, &nova.spice_html5_url, "/spice_auto.html?path=console"),
        spice_direct_url: config.spice.spice_direct_proxy_base_url.clone(),
        serial: config.serial_console.enabled,
        serial_url: serial.strip_prefix("http").map_or(serial.clone(), |rest| format!("ws{rest}")),
        token_ttl: config.consoleauth.token_ttl,
        allowed_origins: config.console.allowed_origins.clone(),
        pages: config.default.web.clone(),
    }
}

/// The gateway's own address, where there is a listener that has it.
fn gateway(config: &Config) -> Option<String> {
    let url = public_url(config, &listeners(config).ok()?);
    (!url.is_empty()).then(|| format!("{url}{}", console::PATH))
}

pub fn web(config: &Config) -> WebConfig {
    let cors = &config.cors;
    let policy = &config.oslo_policy;
    WebConfig {
        max_request_body_size: usize::try_from(config.chronova.max_body_bytes).unwrap_or(usize::MAX),
        compute_link_prefix: config.api.compute_link_prefix.clone(),
        default_floating_pool: config.neutron.default_floating_pool.clone(),
        glance_link_prefix: config.api.glance_link_prefix.clone(),
        max_limit: u64::from(config.api.max_limit),
        max_feeds: config.chronova.max_feeds as usize,
        max_consoles: config.chronova.max_consoles as usize,
        enable_proxy_headers_parsing: config.oslo_middleware.enable_proxy_headers_parsing,
        trusted_proxies: config.chronova.trusted_proxies.iter().filter_map(|word| network(word)).collect(),
        reserved_networks: config.chronova.reserved_networks.iter().filter_map(|word| network(word)).collect(),
        metadata: MetadataConfig {
            proxy_secret: config
                .neutron
                .service_metadata_proxy
                .then(|| Secret::new(config.neutron.metadata_proxy_shared_secret.clone())),
            use_forwarded_for: config.api.use_forwarded_for,
            ..MetadataConfig::default()
        },
        rate_limit: config.chronova.rate_limit,
        rate_limit_burst: config.chronova.rate_limit_burst,
        cors: CorsConfig {
            allowed_origin: cors.allowed_origin.clone(),
            allow_credentials: cors.allow_credentials,
            expose_headers: cors.expose_headers.clone(),
            max_age: cors.max_age,
            allow_methods: cors.allow_methods.clone(),
            allow_headers: cors.allow_headers.clone(),
        },
        policy: PolicyConfig {
            policy_file: Some(policy.policy_file.clone()),
            policy_dirs: policy.policy_dirs.0.iter().map(PathBuf::from).collect(),
            default_rule: policy.policy_default_rule.clone(),
            enforce_scope: policy.enforce_scope,
            enforce_new_defaults: policy.enforce_new_defaults,
            ..PolicyConfig::default()
        },
        ..WebConfig::default()
    }
}

/// An address, or a network of them; what is neither was told when the configuration was read.
fn network(word: &str) -> Option<ipnet::IpNet> {
    let alone = || word.parse::<std::net::IpAddr>().ok().map(ipnet::IpNet::from);
    word.parse().ok().or_else(alone)
}

/// Every address to listen on, the ones for all services first.
pub fn listeners(config: &Config) -> Result<Vec<Listener>> {
    let own = &config.chronova;
    let groups: [(&Words, Option<Service>); 8] = [
        (&own.listen, None),
        (&own.compute_listen, Some(Service::Compute)),
        (&own.placement_listen, Some(Service::Placement)),
        (&own.identity_listen, Some(Service::Identity)),
        (&own.image_listen, Some(Service::Image)),
        (&own.network_listen, Some(Service::Network)),
        (&own.volume_listen, Some(Service::Volume)),
        (&own.metadata_listen, Some(Service::Metadata)),
    ];
    let tls = tls(config)?.is_some();
    let mut all = Vec::new();
    for (words, only) in groups {
        let api = if only == Some(Service::Metadata) { "metadata" } else { "osapi_compute" };
        let secure = tls && config.default.enabled_ssl_apis.iter().any(|enabled| enabled == api);
        let in_novas_words = in_novas_words(config, only).filter(|_| words.0.is_empty());
        for word in words.0.iter().cloned().chain(in_novas_words) {
            all.push(Listener { address: resolve(&word)?, only, secure });
        }
    }
    if !all.iter().any(|listener| listener.only.is_none()) {
        bail!("[chronova] listen is empty: there is nowhere to listen");
    }
    if config.api.auth_strategy == "noauth2"
        && let Some(open) = all.iter().find(|listener| !listener.address.ip().is_loopback())
    {
        bail!(
            "[api] auth_strategy = noauth2 believes whoever calls, so it listens on loopback only, not on {}",
            open.address
        );
    }
    Ok(all)
}

/// A listener that is configured as Nova's is.
fn in_novas_words(config: &Config, only: Option<Service>) -> Option<String> {
    let default = &config.default;
    let (host, port) = match only? {
        Service::Compute => (&default.osapi_compute_listen, default.osapi_compute_listen_port),
        Service::Metadata => (&default.metadata_listen, default.metadata_listen_port),
        _ => return None,
    };
    let port = port.filter(|port| *port != 0)?;
    Some(if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}

/// The files for TLS, where they are configured.
fn tls(config: &Config) -> Result<Option<TlsFiles>> {
    let wsgi = &config.wsgi;
    match (&wsgi.ssl_cert_file, &wsgi.ssl_key_file) {
        (Some(certificate), Some(key)) => {
            let (certificate, key) = (certificate.clone(), key.clone());
            Ok(Some(TlsFiles { certificate, key, client_ca: wsgi.ssl_ca_file.clone() }))
        }
        (None, None) if wsgi.ssl_ca_file.is_none() => Ok(None),
        (None, None) => bail!("[wsgi] ssl_ca_file needs ssl_cert_file and ssl_key_file"),
        _ => bail!("[wsgi] ssl_cert_file and ssl_key_file go together"),
    }
}

/// How the listeners serve.
pub fn serving(config: &Config) -> Result<Serving> {
    let socket = Duration::from_secs(config.wsgi.client_socket_timeout.into());
    let usual = Patience::default();
    let idle = usual.idle.map(|idle| if socket.is_zero() { idle } else { idle.min(socket) });
    let idle = idle.filter(|_| config.wsgi.keep_alive);
    let patience = Patience { idle, stalled: socket, ..usual };
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    Ok(Serving { workers, patience, tls: tls(config)? })
}

fn resolve(word: &str) -> Result<SocketAddr> {
    let mut found = word.to_socket_addrs().with_context(|| format!("{word:?} is no HOST:PORT to listen on"))?;
    found.next().with_context(|| format!("{word:?} has no address"))
}

/// The URL under which clients reach the first listener that serves everything.
pub fn public_url(config: &Config, listeners: &[Listener]) -> String {
    if let Some(url) = &config.chronova.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let Some(first) = listeners.iter().find(|listener| listener.only.is_none()) else { return String::new() };
    let (address, scheme) = (first.address, if first.secure { "https" } else { "http" });
    match address.ip().is_unspecified() {
        true => format!("{scheme}://{}:{}", config.chronova.public_host, address.port()),
        false => format!("{scheme}://{address}"),
    }
}

#[cfg(test)]
mod tests;
