//! Pauses guests in the host's memory, or suspends them to its disk. The latter is libvirt's "managed save". Every
//! start of the domain restores the saved memory.

use virt::domain::{Domain, DomainState};
use virt::enumutil::Enum;

use super::error::{Context, translate};
use super::{domain, mdevs};
use crate::driver::{DriverError, DriverResult};

fn state(domain: &Domain, call: &'static str) -> DriverResult<Option<DomainState>> {
    Ok(match domain.info().during(call)?.state {
        Enum::Known(state) => Some(state),
        Enum::Unknown(_) => None,
    })
}

/// Pauses a guest. Succeeds if it is already paused.
pub(super) fn pause(domain: &Domain) -> DriverResult<()> {
    const CALL: &str = "pause";
    if state(domain, CALL)? == Some(DomainState::Paused) {
        return Ok(());
    }
    domain.suspend().during(CALL)
}

/// Continues a paused guest. Succeeds if it already runs.
pub(super) fn unpause(domain: &Domain) -> DriverResult<()> {
    const CALL: &str = "unpause";
    match state(domain, CALL)? {
        Some(DomainState::Running | DomainState::Blocked) => Ok(()),
        _ => domain.resume().during(CALL),
    }
}

/// Saves a guest. Succeeds if it is already saved. As in Nova, the guest gives up its mediated devices meanwhile.
pub(super) fn suspend(domain: &Domain) -> DriverResult<()> {
    // A guest that releases only some of the devices also gets those back.
    let saved = mdevs::detach(domain).and_then(|()| save(domain));
    if saved.is_err()
        && let Err(error) = mdevs::attach(domain)
    {
        tracing::warn!(%error, "a guest that could not be suspended did not get its mediated devices back");
    }
    saved
}

fn save(domain: &Domain) -> DriverResult<()> {
    const CALL: &str = "suspend";
    match domain.managed_save(0) {
        Ok(()) => Ok(()),
        Err(error) => match (domain.is_active().during(CALL)?, domain.has_managed_save(0).during(CALL)?) {
            (false, true) => Ok(()),
            (false, false) => Err(DriverError::Failed { call: CALL, message: "the guest is not running".to_owned() }),
            (true, _) => Err(translate(CALL, &error)),
        },
    }
}

/// Continues a saved guest. Succeeds if it already runs. A guest that was saved while it was paused also runs
/// afterwards.
pub(super) fn resume(domain: &Domain) -> DriverResult<()> {
    const CALL: &str = "resume";
    domain::start(domain)?;
    match state(domain, CALL)? {
        Some(DomainState::Paused) => domain.resume().during(CALL)?,
        Some(DomainState::PMSuspended) => domain.pm_wakeup(0).during(CALL)?,
        _ => {}
    }
    mdevs::attach(domain)
}

/// Whether a start of the guest boots it. A guest that is on stays on, and one whose memory is saved continues.
pub(super) fn boots_at_start(domain: &Domain) -> DriverResult<bool> {
    const CALL: &str = "saved memory";
    Ok(domain::is_off(domain).during(CALL)? && !domain.has_managed_save(0).during(CALL)?)
}

/// Deletes the saved memory, so that the next start boots the guest.
pub(super) fn forget(domain: &Domain) -> DriverResult<()> {
    const CALL: &str = "saved memory";
    if domain.has_managed_save(0).during(CALL)? {
        domain.managed_save_remove(0).during(CALL)?;
    }
    Ok(())
}
