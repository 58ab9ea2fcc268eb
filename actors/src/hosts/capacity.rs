//! Converts the resources of a host into the types of the events and of Placement.

use chronova_events::envelope::Meta;
use chronova_events::host::Capabilities;
use chronova_events::ids::ProviderId;
use chronova_events::instance::Power;
use chronova_events::ledger::Inventory;
use chronova_hypervisor::capability::traits_of;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::guest::{HostCapabilities, PowerState};

use super::fleet::ConnectedHost;
use super::options::HostOptions;
use crate::gateway::CommandGateway;
use crate::ledger::{CELL, LedgerCommand, LedgerRoot, ReportedPci};
use crate::topology::host::HostNumaCells;
use crate::{mdev, pci};

/// Converts a driver's power state into the events' type.
pub fn power(state: PowerState) -> Power {
    match state {
        PowerState::NoState => Power::NoState,
        PowerState::Running => Power::Running,
        PowerState::Paused => Power::Paused,
        PowerState::Shutdown => Power::Shutdown,
        PowerState::Crashed => Power::Crashed,
        PowerState::Suspended => Power::Suspended,
    }
}

/// Converts the host's capabilities into the events' type.
pub fn capabilities(found: &HostCapabilities) -> Capabilities {
    Capabilities {
        hypervisor_type: found.hypervisor_type.clone(),
        hypervisor_version: found.hypervisor_version,
        libvirt_version: found.libvirt_version,
        host_ip: found.host_ip.clone(),
        vcpus: found.vcpus,
        memory_mib: found.memory_mib,
        disk_gib: found.disk_gib,
        kvm: found.kvm,
        cpu_arch: found.cpu.arch.clone(),
        cpu_model: found.cpu.model.clone(),
        cpu_vendor: found.cpu.vendor.clone(),
        cpu_sockets: found.cpu.sockets,
        cpu_cores: found.cpu.cores,
        cpu_threads: found.cpu.threads,
        cpu_features: found.cpu.features.clone(),
        traits: found.traits.clone(),
    }
}

/// Adds the traits of the optional parts that the host's driver offers. Removes those that the operator does not offer.
pub fn settle_traits(found: &mut HostCapabilities, driver: &dyn Driver, options: &HostOptions) {
    found.traits.extend(traits_of(driver).map(str::to_owned));
    found.traits.retain(|name| options.offers(name));
    found.traits.sort();
    found.traits.dedup();
}

/// Reports a known host's resources to the ledger, less the bytes of its image cache. A host whose provider was removed
/// meanwhile gets no provider.
pub(crate) async fn report(
    gateway: &CommandGateway,
    options: &HostOptions,
    member: &ConnectedHost,
) -> Result<(), String> {
    let mut found = member.driver.capabilities().await.map_err(|error| error.to_string())?;
    settle_traits(&mut found, &*member.driver, options);
    let (provider, report) = (ProviderId(found.host.0), resources(&found, options, member.cached())?);
    let report = LedgerCommand::IfKnown { provider, command: Box::new(report) };
    let sent = gateway.send::<LedgerRoot>(&CELL, report, Meta::system("host-watch")).await;
    sent.map(drop).map_err(|error| error.to_string())
}

/// The report of the host's resources, less the bytes of its image cache.
///
/// # Errors
/// The operator's options do not fit the host.
pub fn resources(found: &HostCapabilities, options: &HostOptions, cached: u64) -> Result<LedgerCommand, String> {
    let provider = ProviderId(found.host.0);
    let cells = HostNumaCells::of(&found.cells, options.host_cpus.of(&found.hostname))?;
    let cells = cells.without(&options.reserved_huge_pages);
    let (specs, tracked) = (options.host_pci.of(&found.hostname), options.host_pci.reports);
    let devices = pci::host::offered(&found.pci, specs, provider, tracked)?;
    Ok(LedgerCommand::Report {
        provider,
        name: found.hostname.clone(),
        inventories: inventories(found, &cells, options, cached),
        traits: found.traits.clone(),
        cells,
        pci: ReportedPci { devices: Some(devices), tracked, mdevs: Some(mdev::offered(&found.mdevs, &options.mdevs)) },
    })
}

/// The host's inventories, as in `update_provider_tree` of Nova's libvirt driver. `cached` is the number of bytes to
/// reserve for the image cache.
pub fn inventories(
    found: &HostCapabilities,
    cells: &HostNumaCells,
    options: &HostOptions,
    cached: u64,
) -> Vec<Inventory> {
    let (shared, dedicated) = cells.counted.unwrap_or((found.vcpus.into(), 0));
    let reserved_disk_mib = options.reserved_host_disk_mb.saturating_add(cached.div_ceil(1 << 20));
    let line = |class: &str, total: u64, reserved: u64, allocation_ratio: f64| Inventory {
        class: class.to_owned(),
        total,
        reserved: reserved.min(total),
        min_unit: 1,
        max_unit: total,
        step_size: 1,
        allocation_ratio,
    };
    let persistent = found.pmem.iter().map(|(class, total)| line(class, u64::from(*total), 0, 1.0));
    let others = [
        line("DISK_GB", found.disk_gib, reserved_disk_mib.div_ceil(1024), options.disk_allocation_ratio),
        line("MEMORY_MB", found.memory_mib, options.reserved_host_memory_mb, options.ram_allocation_ratio),
        line("MEM_ENCRYPTION_CONTEXT", found.encrypted_guests.into(), 0, 1.0),
        // Dedicated processors are never overcommitted. None are reserved, because the operator has chosen them for
        // guests.
        line("PCPU", dedicated, 0, 1.0),
        line("VCPU", shared, options.reserved_host_cpus, options.cpu_allocation_ratio),
    ];
    persistent.chain(others).filter(|inventory| inventory.total > 0).collect()
}
