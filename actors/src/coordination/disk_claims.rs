//! Which servers have their disks set aside or looked through at this moment: two members must not do both for one server.
//!
//! In memory only: after a crash nobody is at any disk.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chronova_events::ids::InstanceId;

/// Whose disks are being set aside, or looked through for what was: never both at once.
#[derive(Debug, Default)]
pub struct DiskClaims(Mutex<BTreeSet<InstanceId>>);

/// Nobody else is at the server's disks until this is dropped.
#[derive(Debug)]
pub struct Alone<'a> {
    claims: &'a DiskClaims,
    instance: InstanceId,
}

impl DiskClaims {
    /// `None`: somebody else is.
    pub fn enter(&self, instance: InstanceId) -> Option<Alone<'_>> {
        let mine = self.lock().insert(instance);
        // Made only then: who has it and lets go of it gives it back.
        mine.then(|| Alone { claims: self, instance })
    }

    /// Every change is whole.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<InstanceId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.instance);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn nobody_tidies_up_while_disks_are_set_aside() {
        let (claims, instance) = (DiskClaims::default(), InstanceId(Uuid::from_u128(1)));
        let alone = claims.enter(instance);
        assert!(alone.is_some() && claims.enter(instance).is_none());
        assert!(claims.enter(InstanceId(Uuid::from_u128(2))).is_some(), "of another server");
        drop(alone);
        assert!(claims.enter(instance).is_some());
    }
}
