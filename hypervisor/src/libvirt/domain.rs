//! Finds, lists, starts and stops the domain of a guest. All calls block.

use std::collections::BTreeSet;

use chronova_events::ids::InstanceId;
use virt::connect::Connect;
use virt::domain::{Domain, DomainState};
use virt::enumutil::Enum;
use virt::error::{Error, ErrorNumber};

use super::error::{Context, found, is, number, translate};
use super::mdevs;
use crate::domain_xml::NAMESPACE;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{GuestStatus, PowerState};

/// The guest's domain. If a domain with that UUID is not ours, the result is `None`.
pub(super) fn lookup(connect: &Connect, instance: InstanceId) -> DriverResult<Option<Domain>> {
    const CALL: &str = "guest lookup";
    let Some(domain) = found(CALL, connect.lookup_domain_by_uuid(instance.0))? else { return Ok(None) };
    Ok(is_ours(&domain).during(CALL)?.then_some(domain))
}

pub(super) fn require(connect: &Connect, instance: InstanceId) -> DriverResult<Domain> {
    lookup(connect, instance)?.ok_or(DriverError::NoSuchGuest(instance))
}

/// The metadata elements of Nova, by release. `chronova adopt` takes over guests unchanged, so guests with these
/// elements are ours, too. A guest of another cloud is not in the log and is left alone.
const NOVA_NAMESPACES: [&str; 2] =
    ["http://openstack.org/xmlns/libvirt/nova/1.1", "http://openstack.org/xmlns/libvirt/nova/1.0"];

/// Whether the domain has our metadata element or Nova's. If libvirt does not answer, the result is an error and never
/// `false`, because the driver removes the disks of a guest that is absent.
fn is_ours(domain: &Domain) -> Result<bool, Error> {
    for namespace in [NAMESPACE].into_iter().chain(NOVA_NAMESPACES) {
        if carries(domain, namespace)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether Chronova defined this domain of ours. If not, Nova defined it, and `chronova adopt` took it over.
pub(super) fn has_our_definition(domain: &Domain) -> Result<bool, Error> {
    carries(domain, NAMESPACE)
}

fn carries(domain: &Domain, namespace: &str) -> Result<bool, Error> {
    const ELEMENT: i32 = virt_sys::VIR_DOMAIN_METADATA_ELEMENT.cast_signed();
    match domain.metadata(ELEMENT, Some(namespace), 0) {
        Ok(_) => Ok(true),
        Err(error) => match number(&error) {
            Some(ErrorNumber::NoDomainMetadata | ErrorNumber::NoDomain) => Ok(false),
            _ => Err(error),
        },
    }
}

/// The ids of all our guests.
pub(super) fn ours(connect: &Connect) -> Result<BTreeSet<InstanceId>, Error> {
    let mut ours = BTreeSet::new();
    for domain in connect.list_all_domains(0)? {
        if is_ours(&domain)? {
            ours.insert(InstanceId(domain.uuid()?));
        }
    }
    Ok(ours)
}

fn power(domain: &Domain) -> Result<PowerState, Error> {
    // `Domain::state` of the bindings hides an error; `info` does not.
    Ok(match domain.info()?.state {
        // As in Nova, libvirt's states `blocked` and `being shut down` are the power state RUNNING.
        Enum::Known(DomainState::Running | DomainState::Blocked | DomainState::Shutdown) => PowerState::Running,
        Enum::Known(DomainState::Paused) => PowerState::Paused,
        Enum::Known(DomainState::Shutoff) => PowerState::Shutdown,
        Enum::Known(DomainState::Crashed) => PowerState::Crashed,
        Enum::Known(DomainState::PMSuspended) => PowerState::Suspended,
        Enum::Known(DomainState::NoState) | Enum::Unknown(_) => PowerState::NoState,
    })
}

/// Whether the guest is off, or has crashed and is only kept for a look at it.
pub(super) fn is_off(domain: &Domain) -> Result<bool, Error> {
    Ok(matches!(power(domain)?, PowerState::Shutdown | PowerState::Crashed))
}

fn status(domain: &Domain, instance: InstanceId) -> Result<GuestStatus, Error> {
    Ok(GuestStatus { instance, domain_name: domain.name()?, power: power(domain)? })
}

pub(super) fn one(connect: &Connect, instance: InstanceId) -> DriverResult<GuestStatus> {
    status(&require(connect, instance)?, instance).map_err(|error| match number(&error) {
        Some(ErrorNumber::NoDomain) => DriverError::NoSuchGuest(instance),
        _ => translate("guest", &error),
    })
}

/// Name and power state of each guest of ours.
pub(super) fn list(connect: &Connect, known: &BTreeSet<InstanceId>) -> DriverResult<Vec<GuestStatus>> {
    const CALL: &str = "guest list";
    let mut guests = Vec::new();
    for domain in connect.list_all_domains(0).during(CALL)? {
        let instance = InstanceId(domain.uuid().during(CALL)?);
        if !known.contains(&instance) && !is_ours(&domain).during(CALL)? {
            continue;
        }
        match status(&domain, instance) {
            Ok(status) => guests.push(status),
            // The guest was undefined during the listing.
            Err(error) if is(&error, ErrorNumber::NoDomain) => {}
            Err(error) => return Err(translate(CALL, &error)),
        }
    }
    guests.sort_by_key(|guest| guest.instance);
    Ok(guests)
}

/// Starts a guest. Succeeds if it already runs. If mediated devices of the guest are missing, creates them first. Most
/// guests have none, so the guest's metadata are read only after a start has failed.
pub(super) fn start(domain: &Domain) -> DriverResult<()> {
    match start_now(domain) {
        Err(error) => match mdevs::create_missing(domain)? {
            true => start_now(domain),
            false => Err(error),
        },
        started => started,
    }
}

fn start_now(domain: &Domain) -> DriverResult<()> {
    match domain.create() {
        Ok(()) => Ok(()),
        Err(error) => match domain.is_active() {
            Ok(true) => Ok(()),
            _ => Err(translate("start", &error)),
        },
    }
}

/// Powers a guest off. Succeeds if it is already off.
pub(super) fn pull(domain: &Domain) -> DriverResult<()> {
    match domain.destroy() {
        Ok(()) => Ok(()),
        Err(error) => match domain.is_active() {
            Ok(false) => Ok(()),
            _ if is(&error, ErrorNumber::NoDomain) => Ok(()),
            _ => Err(translate("power off", &error)),
        },
    }
}

/// Asks the guest to power itself off. `false` if it was already off.
pub(super) fn ask_to_stop(domain: &Domain) -> DriverResult<bool> {
    match domain.shutdown_flags(virt_sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN) {
        Ok(()) => Ok(true),
        Err(error) => match domain.is_active() {
            Ok(false) => Ok(false),
            _ => Err(translate("shutdown", &error)),
        },
    }
}

pub(super) fn undefine(domain: &Domain) -> DriverResult<()> {
    let all = virt_sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | virt_sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | virt_sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        | virt_sys::VIR_DOMAIN_UNDEFINE_NVRAM;
    match domain.undefine_flags(all) {
        Err(error) if !is(&error, ErrorNumber::NoDomain) => Err(translate("undefine", &error)),
        _ => Ok(()),
    }
}
