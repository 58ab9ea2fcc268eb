//! Values that derive from several options.
//!
//! [`settle`] runs after the declarations have filled [`Targets`]. `agreement.rs` has already refused contradictory
//! combinations.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chronova_actors::mdev::MdevOptions;
use chronova_actors::notifications::{NotificationDriver, NotificationFormat, StateChangeUpdates};
use chronova_actors::pci::HostPciOptions;
use chronova_actors::pci::alias::PciAliases;
use chronova_actors::pci::device_spec::DeviceSpec;
use chronova_actors::topology::host::{CpuSets, HostCpus, ReservedHugePages};
use chronova_actors::topology::networks::NetworkCells;
use chronova_hypervisor::options::{HostCpuModels, ImagesType, Spice};
use chronova_hypervisor::pmem::PmemOptions;
use chronova_web::auth::Secret;
use chronova_web::identity::LockoutRule;

use super::Config;
use super::options::physnets;
use super::targets::Targets;
use super::{extra_spec_file, provider_files};
use crate::telemetry;

/// Fills the fields of `to` that derive from several options.
pub(super) fn settle(config: &Config, to: &mut Targets) {
    log_file(config, to);
    ratios(config, to);
    disks(config, to);
    to.runtime.hosts.host_cpus = host_cpus(config);
    to.runtime.hosts.reserved_huge_pages = reserved_huge_pages(config).unwrap_or_default();
    to.drivers.libvirt.guests.pmem = pmem(config).unwrap_or_default();
    to.drivers.libvirt.host_cpu_models = host_cpu_models(config).unwrap_or_default();
    to.runtime.hosts.fenced = true;
    to.runtime.servers.metadata.vfat = config.default.config_drive_format == "vfat";
    devices(config, to);
    to.runtime.scheduler.network_cells = network_cells(config).unwrap_or_default();
    // The check in `agreement.rs` has already refused unusable files.
    let files = provider_files::read(&config.compute.provider_config_location).unwrap_or_default();
    to.runtime.hosts.provider_configs = Arc::new(files.configs);
    let custom = config.chronova.extra_spec_validators.as_deref().and_then(|path| extra_spec_file::read(path).ok());
    to.compute.extra_specs = Arc::new(custom.unwrap_or_default());
    to.drivers.sim_state_dir = Some(config.chronova.data_dir.join("sim"));
    to.drivers.sim_shares_volumes = to.runtime.volume.shared;
    screens(config, to);
    lockout(config, to);
    notifications(config, to);
    certificates(to);
    let neutron = &config.neutron;
    let secret = || Secret::new(neutron.metadata_proxy_shared_secret.clone());
    to.web.metadata.proxy_secret = neutron.service_metadata_proxy.then(secret);
    // The client timeout limits how long a connection may stay idle. Without keep-alive, no idle connection is kept.
    let patience = &mut to.serving.patience;
    let most = if patience.stalled.is_zero() { Duration::MAX } else { patience.stalled };
    patience.idle = patience.idle.filter(|_| config.wsgi.keep_alive).map(|idle| idle.min(most));
}

/// The API records the configuration's trusted certificates for servers whose request names none.
fn certificates(to: &mut Targets) {
    to.compute.default_trusted_certificates = to.runtime.signatures.trusted(&[]).to_vec();
}

/// Fills the options of notifications. The drivers and the transport URL are already checked.
fn notifications(config: &Config, to: &mut Targets) {
    let (section, oslo) = (&config.notifications, &config.oslo_messaging_notifications);
    let options = &mut to.runtime.notifications;
    options.format = match section.notification_format.as_str() {
        "versioned" => NotificationFormat::Versioned,
        "both" => NotificationFormat::Both,
        _ => NotificationFormat::Unversioned,
    };
    options.state_changes = match section.notify_on_state_change.as_deref() {
        Some("vm_state") => StateChangeUpdates::VmState,
        Some(_) => StateChangeUpdates::VmAndTaskState,
        None => StateChangeUpdates::Never,
    };
    options.drivers = oslo.driver.0.iter().filter_map(|word| notification_driver(word).ok().flatten()).collect();
    options.host = config.default.host.clone().unwrap_or_default();
    let url = oslo.transport_url.as_ref().or(config.default.transport_url.as_ref());
    options.broker.transport_url = url.map(String::as_str).unwrap_or_default().into();
}

/// The driver that a word in the option `driver` names; `None` for `noop` and for an empty word.
///
/// # Errors
/// Chronova has no such driver.
pub(super) fn notification_driver(word: &str) -> Result<Option<NotificationDriver>, ()> {
    match word.trim() {
        "messagingv2" => Ok(Some(NotificationDriver::MessagingV2)),
        "messaging" => Ok(Some(NotificationDriver::Messaging)),
        "log" => Ok(Some(NotificationDriver::Log)),
        "noop" | "" => Ok(None),
        _ => Err(()),
    }
}

fn log_file(config: &Config, to: &mut Targets) {
    let default = &config.default;
    to.log.file = match (&default.log_dir, &default.log_file) {
        (None, file) => file.clone(),
        (Some(dir), file) => Some(dir.join(file.as_deref().unwrap_or(Path::new("chronova.log")))),
    };
    let facility = telemetry::FACILITIES.iter().find(|(name, _)| *name == default.syslog_log_facility);
    to.log.syslog = facility.filter(|_| default.use_syslog).map(|(_, number)| *number);
    // The check in `agreement.rs` has already refused an unusable file.
    if let Some(Ok(settings)) = default.log_config_append.as_deref().map(telemetry::log_config::read) {
        to.log = settings;
    }
}

const MEMORY: &str = "MEMORY_MB";

/// As in Nova, a ratio that is 0.0 or unset leaves the initial ratio in effect. Any other ratio overwrites the ratio of
/// the provider's inventory at each report of a host.
fn ratios(config: &Config, to: &mut Targets) {
    let (default, hosts) = (&config.default, &mut to.runtime.hosts);
    let set = [
        ("DISK_GB", default.disk_allocation_ratio, &mut hosts.disk_allocation_ratio),
        (MEMORY, default.ram_allocation_ratio, &mut hosts.ram_allocation_ratio),
        ("VCPU", default.cpu_allocation_ratio, &mut hosts.cpu_allocation_ratio),
    ];
    for (class, imposed, initial) in set {
        if let Some(ratio) = imposed.filter(|ratio| *ratio > 0.0) {
            *initial = ratio;
            hosts.imposed_ratios.push((class.to_owned(), ratio));
        }
    }
    // Memory in files cannot be overcommitted. So the ratio that a client of Placement gives a host, or all hosts of an
    // aggregate, does not last.
    let is_imposed = hosts.imposed_ratios.iter().any(|(class, _)| class == MEMORY);
    if config.libvirt.file_backed_memory > 0 && !is_imposed {
        hosts.imposed_ratios.push((MEMORY.to_owned(), 1.0));
    }
}

/// `[compute] cpu_shared_set` and `cpu_dedicated_set`.
pub(super) fn cpu_sets(config: &Config) -> CpuSets {
    let read = |text: &Option<String>| text.as_deref().and_then(|text| CpuSets::read(text).ok());
    let compute = &config.compute;
    CpuSets { shared: read(&compute.cpu_shared_set), dedicated: read(&compute.cpu_dedicated_set) }
}

fn host_cpus(config: &Config) -> HostCpus {
    let named = config.chronova.host_cpus.as_deref().map(HostCpus::read_named);
    HostCpus { others: cpu_sets(config), named: named.and_then(Result::ok).unwrap_or_default() }
}

/// `[chronova] host_cpu_models`.
pub(super) fn host_cpu_models(config: &Config) -> Result<HostCpuModels, String> {
    config.chronova.host_cpu_models.as_deref().map_or_else(|| Ok(HostCpuModels::default()), HostCpuModels::read)
}

/// `[DEFAULT] reserved_huge_pages`.
pub(super) fn reserved_huge_pages(config: &Config) -> Result<Vec<ReservedHugePages>, String> {
    config.default.reserved_huge_pages.0.iter().map(|text| ReservedHugePages::read(text)).collect()
}

/// `[libvirt] pmem_namespaces`, and the options of `[chronova]` beside it.
pub(super) fn pmem(config: &Config) -> Result<PmemOptions, String> {
    let own = &config.chronova;
    let path = own.pmem_path.as_ref().map(|path| path.display().to_string());
    PmemOptions::read(&config.libvirt.pmem_namespaces, &own.pmem_sizes, path, own.pmem_is_persistent)
}

/// `[pci] alias`.
pub(super) fn pci_aliases(config: &Config) -> Result<PciAliases, String> {
    PciAliases::read(&config.pci.alias.0, config.filter_scheduler.pci_in_placement)
}

/// `[devices] enabled_mdev_types`, with the groups of the types.
pub(super) fn mdevs(config: &Config) -> Result<MdevOptions, String> {
    let names = config.devices.enabled_mdev_types.iter().filter(|name| !name.is_empty());
    MdevOptions::of(names.map(|name| config.mdev_groups.of(name)).collect())
}

/// `[neutron] physnets`, `[neutron_tunnel]`, and the sections of the physical networks.
pub(super) fn network_cells(config: &Config) -> Result<NetworkCells, String> {
    let named = config.neutron.physnets.iter().filter(|name| !name.is_empty());
    let physical = named.map(|name| (name.clone(), config.physnet_groups.of(name))).collect();
    let tunnels = physnets::cells(config.neutron_tunnel.numa_nodes.iter().map(String::as_str))?;
    Ok(NetworkCells { physical, tunnels })
}

fn devices(config: &Config, to: &mut Targets) {
    let pci = &mut to.runtime.hosts.host_pci;
    pci.others = DeviceSpec::read_all(&config.pci.device_spec.0).unwrap_or_default();
    pci.named = HostPciOptions::read_named(&config.chronova.host_pci_device_spec.0).unwrap_or_default();
    to.drivers.libvirt.reads_pci = !pci.others.is_empty() || !pci.named.is_empty();
    let aliases = pci_aliases(config).unwrap_or_default();
    to.runtime.servers.pci_aliases = aliases.clone();
    to.runtime.scheduler.pci_aliases = aliases;
    let mdevs = mdevs(config).unwrap_or_default();
    to.drivers.libvirt.reads_mdevs = !mdevs.is_empty();
    to.runtime.servers.mdevs = mdevs.clone();
    to.runtime.hosts.mdevs = mdevs;
}

/// Sets the image backend from `images_type` and `use_cow_images`, and the directory of guests' disks. The default of
/// `instances_path` is Nova's directory on its compute hosts, so the option is used only with another value.
fn disks(config: &Config, to: &mut Targets) {
    let (default, libvirt) = (&config.default, &mut to.drivers.libvirt);
    // The option accepts only the words that `of_word` knows.
    let kind = ImagesType::of_word(&config.libvirt.images_type, default.use_cow_images);
    libvirt.images.kind = kind.unwrap_or_default();
    if default.instances_path != default.state_path.join("instances") {
        libvirt.pool_path = default.instances_path.to_string_lossy().into_owned();
    }
}

fn screens(config: &Config, to: &mut Targets) {
    let (spice, screens) = (&config.spice, &mut to.drivers.libvirt.screens);
    screens.vnc = screens.vnc.take().filter(|_| config.vnc.enabled);
    let (listen, agent, secure) = (spice.server_listen.clone(), spice.agent_enabled, spice.require_secure);
    screens.spice = spice.enabled.then_some(Spice { listen, agent, secure });
}

fn lockout(config: &Config, to: &mut Targets) {
    let compliance = &config.security_compliance;
    let duration = Duration::from_secs(compliance.lockout_duration);
    to.identity.lockout = compliance.lockout_failure_attempts.map(|attempts| LockoutRule { attempts, duration });
}
