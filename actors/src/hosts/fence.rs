//! Refuses a host that a copy of this log drives.
//!
//! A log that was copied or restored ([`chronova_events::installation`]) must not drive hosts beside the original. Each
//! of the two logs would delete guests that only the other log knows. So each host remembers the generation that drives
//! it. A host that no generation has driven yet accepts the first generation that connects. `chronova host claim` makes
//! a host accept another generation. The generation that drove the host before notices this at its next heartbeat, and
//! stops driving the host.

use chronova_events::envelope::Timestamp;
use chronova_events::installation::LogGeneration;
use chronova_events::store::{EventStore, StoreError};
use chronova_hypervisor::capability::OwnerMark;
use chronova_hypervisor::capability::owner_mark::HostOwner;
use chronova_hypervisor::driver::{Driver, DriverError, DriverResult};

use crate::shell::folding::state_of;

/// Whether this control plane may drive a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FenceVerdict {
    /// This control plane may drive the host. `taken_at`: when it took the host over from another generation.
    Admitted { taken_at: Option<Timestamp> },
    /// The reason and the remedy, as a text for operators.
    Refused(String),
    /// The host did not say who drives it; the text has the reason.
    Unknown(String),
}

/// Distinguishes a log from its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogIdentity {
    /// The mark that the hosts of this log remember.
    pub owner: HostOwner,
    /// When the log was copied or restored; `None` for an original. The log has no events from between the backup and
    /// this time.
    pub copied_at: Option<Timestamp>,
}

impl LogIdentity {
    /// The identity of the log in `store`; `None` while the log is empty.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn of(store: &dyn EventStore) -> Result<Option<Self>, StoreError> {
        let Some(first) = store.first_event().await? else { return Ok(None) };
        let installation = first.0;
        let begun = state_of::<LogGeneration>(store, &LogGeneration::stream()).await?.begun;
        let generation = begun.map_or(installation, |(generation, _)| generation);
        let owner = HostOwner { installation, generation, taken_at: None };
        Ok(Some(Self { owner, copied_at: begun.map(|(_, at)| at) }))
    }
}

/// Makes the host accept the generation in `owner`. If another generation has driven the host, the mark says when that
/// ended.
///
/// # Errors
/// The mark cannot be read or written.
pub async fn claim(mark: &dyn OwnerMark, owner: HostOwner, now: Timestamp) -> DriverResult<()> {
    let taken_at = match mark.owner_of(owner.installation).await? {
        Some(known) if known.generation == owner.generation => known.taken_at,
        Some(_) => Some(now),
        None => None,
    };
    mark.remember(HostOwner { taken_at, ..owner }).await
}

/// Asks the host who drives it, and marks a host that nobody has driven.
pub(super) async fn judge(driver: &dyn Driver, owner: HostOwner) -> FenceVerdict {
    // A host that cannot keep a mark is always admitted.
    let Some(mark) = driver.owner_mark() else { return FenceVerdict::Admitted { taken_at: None } };
    let seen = match mark.owner_of(owner.installation).await {
        Ok(None) => match mark.remember(owner).await {
            // Another copy may have marked the host at the same time, so the mark is read again.
            Ok(()) => mark.owner_of(owner.installation).await,
            Err(error) => Err(error),
        },
        seen => seen,
    };
    match seen {
        Ok(Some(known)) if known.generation == owner.generation => FenceVerdict::Admitted { taken_at: known.taken_at },
        Ok(Some(HostOwner { generation, .. })) => FenceVerdict::Refused(format!(
            "another copy of this log drives the host (generation {generation}; this log is generation {}): if that \
             copy will never run again, take the host with: chronova host claim {}",
            owner.generation,
            driver.uri()
        )),
        Ok(None) => FenceVerdict::Unknown("the host did not keep the mark of this log".to_owned()),
        Err(DriverError::Unsupported(_)) => FenceVerdict::Admitted { taken_at: None },
        Err(error) => FenceVerdict::Unknown(format!(
            "the mark of this log in libvirt's secrets cannot be read or written: {error}"
        )),
    }
}
