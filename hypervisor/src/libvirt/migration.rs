//! Live migration. This file makes the calls that the `virt` crate lacks, and translates libvirt's states of a
//! migrating guest.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::ptr;

use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::{Error, ErrorNumber};
use virt_sys as sys;

use super::error::{Context, number, translate};
use crate::capability::live_migration::{GuestPresence, MigrationProgress};
use crate::driver::{DriverError, DriverResult};

const CALL: &str = "live migration";

/// libvirt's state of the guest, and libvirt's reason for it.
fn state(domain: &Domain) -> Result<(u32, u32), Error> {
    let (mut state, mut reason) = (0, 0);
    // SAFETY: the domain is alive (we hold a reference), and both variables live until the call returns.
    let got = unsafe { sys::virDomainGetState(domain.as_ptr(), &raw mut state, &raw mut reason, 0) };
    if got < 0 {
        return Err(Error::last_error());
    }
    Ok((state.cast_unsigned(), reason.cast_unsigned()))
}

/// The guest's presence on this host, from libvirt's state, and whether the guest already runs at its destination in
/// post-copy.
pub(super) fn presence(domain: &Domain) -> Result<(GuestPresence, bool), Error> {
    let (state, reason) = state(domain)?;
    Ok(match (state, reason) {
        (sys::VIR_DOMAIN_RUNNING, sys::VIR_DOMAIN_RUNNING_POSTCOPY_FAILED)
        | (sys::VIR_DOMAIN_PAUSED, sys::VIR_DOMAIN_PAUSED_POSTCOPY_FAILED) => (GuestPresence::Torn, false),
        (sys::VIR_DOMAIN_PAUSED, sys::VIR_DOMAIN_PAUSED_POSTCOPY) => (GuestPresence::Arriving, true),
        (sys::VIR_DOMAIN_PAUSED, sys::VIR_DOMAIN_PAUSED_MIGRATION | sys::VIR_DOMAIN_PAUSED_STARTING_UP) => {
            (GuestPresence::Arriving, false)
        }
        (sys::VIR_DOMAIN_RUNNING | sys::VIR_DOMAIN_BLOCKED | sys::VIR_DOMAIN_SHUTDOWN, _) => {
            (GuestPresence::Running, false)
        }
        (sys::VIR_DOMAIN_PAUSED | sys::VIR_DOMAIN_PMSUSPENDED, _) => (GuestPresence::Paused, false),
        (sys::VIR_DOMAIN_SHUTOFF, sys::VIR_DOMAIN_SHUTOFF_MIGRATED) => (GuestPresence::Left, false),
        _ => (GuestPresence::Off, false),
    })
}

/// Whether all of the guest is on this host. If this is true after a refusal by libvirt, the migration has not begun.
pub(super) fn is_whole(domain: &Domain) -> Result<bool, Error> {
    Ok(matches!(presence(domain)?, (GuestPresence::Running | GuestPresence::Paused, false)))
}

/// The progress of the guest's outgoing migration, if there is one.
pub(super) fn departing(domain: &Domain) -> Result<Option<MigrationProgress>, Error> {
    let (mut kind, mut list, mut count) = (0, ptr::null_mut(), 0);
    // SAFETY: the domain is alive, and the three variables that the call writes to live until it returns.
    let got = unsafe { sys::virDomainGetJobStats(domain.as_ptr(), &raw mut kind, &raw mut list, &raw mut count, 0) };
    if got < 0 {
        let error = Error::last_error();
        // The guest is off or gone, so no migration runs.
        return match number(&error) {
            Some(ErrorNumber::OperationInvalid | ErrorNumber::NoDomain) => Ok(None),
            _ => Err(error),
        };
    }
    let (mut progress, mut leaves) = (MigrationProgress::default(), false);
    // SAFETY: libvirt says that the list, if it is not null, has `count` elements. The elements live until the list is
    // freed.
    let params = match list.is_null() {
        true => &[][..],
        false => unsafe { std::slice::from_raw_parts(list, usize::try_from(count).unwrap_or(0)) },
    };
    for param in params {
        // SAFETY: field names end with a zero within their 80 bytes.
        let name = unsafe { CStr::from_ptr(param.field.as_ptr()) };
        if name == sys::VIR_DOMAIN_JOB_OPERATION {
            // SAFETY: the operation is an int, as libvirt documents.
            leaves = unsafe { param.value.i } == sys::VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT.cast_signed();
        }
        if let Some(place) = place(&mut progress, name)
            && param.type_ == sys::VIR_TYPED_PARAM_ULLONG.cast_signed()
        {
            // SAFETY: the condition has just checked the type.
            *place = unsafe { param.value.ul };
        }
    }
    // SAFETY: libvirt allocated the list of `count` elements, or the list is null, which the call accepts. Nobody else
    // uses it.
    unsafe { sys::virTypedParamsFree(list, count) };
    Ok((leaves && kind != sys::VIR_DOMAIN_JOB_NONE.cast_signed()).then_some(progress))
}

fn place<'a>(progress: &'a mut MigrationProgress, name: &CStr) -> Option<&'a mut u64> {
    [
        (sys::VIR_DOMAIN_JOB_MEMORY_TOTAL, &mut progress.memory_total),
        (sys::VIR_DOMAIN_JOB_MEMORY_PROCESSED, &mut progress.memory_processed),
        (sys::VIR_DOMAIN_JOB_MEMORY_REMAINING, &mut progress.memory_remaining),
        (sys::VIR_DOMAIN_JOB_DISK_TOTAL, &mut progress.disk_total),
        (sys::VIR_DOMAIN_JOB_DISK_PROCESSED, &mut progress.disk_processed),
        (sys::VIR_DOMAIN_JOB_DISK_REMAINING, &mut progress.disk_remaining),
    ]
    .into_iter()
    .find_map(|(known, place)| (known == name).then_some(place))
}

/// Aborts the migration. Succeeds if there is none.
pub(super) fn abort(domain: &Domain) -> DriverResult<()> {
    if departing(domain).during(CALL)?.is_none() {
        return Ok(());
    }
    // SAFETY: the domain is alive; the call takes no other pointer.
    match unsafe { sys::virDomainAbortJob(domain.as_ptr()) } {
        0 => Ok(()),
        _ => {
            let error = Error::last_error();
            match departing(domain).during(CALL)? {
                Some(_) => Err(translate(CALL, &error)),
                None => Ok(()),
            }
        }
    }
}

pub(super) fn start_post_copy(domain: &Domain) -> DriverResult<()> {
    // SAFETY: the domain is alive; the call takes no other pointer.
    match unsafe { sys::virDomainMigrateStartPostCopy(domain.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(Error::last_error()).during(CALL),
    }
}

fn text(value: &str) -> DriverResult<CString> {
    CString::new(value).map_err(|_| DriverError::Failed { call: CALL, message: "a text contains a NUL".to_owned() })
}

/// Why this host's hypervisor cannot run a guest with this CPU, in libvirt's words; `None` if it can.
///
/// libvirt compares with the CPU that the hypervisor can present. An emulator can present more than the host's CPU has.
pub(super) fn compare_cpu(
    connect: &Connect,
    (arch, virt_type): (&str, &str),
    cpu: &str,
) -> DriverResult<Option<String>> {
    let (arch, kind, cpu) = (text(arch)?, text(virt_type)?, text(cpu)?);
    let flags = sys::VIR_CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE;
    // SAFETY: the connection is alive, the texts end with NUL and outlive the call, emulator and machine may be null.
    let fits = unsafe {
        sys::virConnectCompareHypervisorCPU(
            connect.as_ptr(),
            ptr::null(),
            arch.as_ptr(),
            ptr::null(),
            kind.as_ptr(),
            cpu.as_ptr(),
            flags,
        )
    };
    if fits == sys::VIR_CPU_COMPARE_IDENTICAL || fits == sys::VIR_CPU_COMPARE_SUPERSET {
        return Ok(None);
    }
    if fits == sys::VIR_CPU_COMPARE_INCOMPATIBLE {
        return Ok(Some("the guest's CPU is incompatible with the host's".to_owned()));
    }
    let error = Error::last_error();
    match number(&error) {
        Some(ErrorNumber::CpuIncompatible) => Ok(Some(error.message().to_owned())),
        // Some hypervisors cannot compare CPUs. Such a hypervisor refuses an unsuitable guest when the guest arrives.
        Some(ErrorNumber::NoSupport | ErrorNumber::OperationUnsupported | ErrorNumber::ConfigUnsupported) => Ok(None),
        _ => Err(translate("CPU comparison", &error)),
    }
}
