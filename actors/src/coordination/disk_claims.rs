//! The servers with a task on their disks now. If two members ran such tasks, a step of one could set a server's disks
//! aside while the other searches them for leftovers.
//!
//! The claims are in memory only, because no task works on a disk after a crash.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chronova_events::ids::InstanceId;

/// The servers with a task on their disks. A step sets the disks aside, or a reconciler searches them for leftovers,
/// but never both at once.
#[derive(Debug, Default)]
pub struct DiskClaims(Mutex<BTreeSet<InstanceId>>);

/// The claim on a server's disks; dropping it ends the claim.
#[derive(Debug)]
pub struct DiskClaimGuard<'a> {
    claims: &'a DiskClaims,
    instance: InstanceId,
}

impl DiskClaims {
    /// Claims the server's disks; `None` if another task has the claim.
    pub fn enter(&self, instance: InstanceId) -> Option<DiskClaimGuard<'_>> {
        let mine = self.lock().insert(instance);
        // Only a task with the claim gets a guard, because dropping a guard ends the claim.
        mine.then(|| DiskClaimGuard { claims: self, instance })
    }

    /// Locks the set. A panic elsewhere cannot leave it inconsistent, because every change is a single operation.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<InstanceId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DiskClaimGuard<'_> {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.instance);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_second_claim_on_a_servers_disks_is_refused() {
        let (claims, instance) = (DiskClaims::default(), InstanceId(Uuid::from_u128(1)));
        let alone = claims.enter(instance);
        assert!(alone.is_some() && claims.enter(instance).is_none());
        assert!(claims.enter(InstanceId(Uuid::from_u128(2))).is_some(), "a claim is for the disks of one server");
        drop(alone);
        assert!(claims.enter(instance).is_some());
    }
}
