//! Processes hold the cached images that they need, and the reconciler removes only images that no process holds. A
//! second member would not see the holds, and could remove an image that is needed.
//!
//! A process finds an image in a host's cache, and creates a disk on top of it later. In between, the host does not
//! know that the image is needed. So a process takes a hold before it searches the cache, and keeps the hold until the
//! process ends. To remove an image, the reconciler needs an exclusive hold on every host with that storage, and keeps
//! it until the image is gone.
//!
//! The holds are in memory only. A process from before the start-up may already use an image, but has no hold on it.
//! The log names these processes (see [`crate::reconcile::image_cache`]).

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chronova_events::ids::{HostId, ProcessId};
use tokio::sync::Notify;

/// An image on a host, by its checksum.
type HostImage = (HostId, String);

#[derive(Debug, Default)]
pub struct ImageHolds {
    books: Mutex<ImageHoldTable>,
    /// Wakes the waiting processes when the removal of an image has ended.
    opened: Notify,
}

#[derive(Debug, Default)]
struct ImageHoldTable {
    held: BTreeMap<HostImage, BTreeSet<ProcessId>>,
    closed: BTreeSet<HostImage>,
}

/// The holds of one process. Dropping this value releases them.
#[derive(Debug)]
pub struct ImageHold<'a> {
    images: &'a ImageHolds,
    process: ProcessId,
}

/// An exclusive hold. No process can hold the image until this value is dropped.
#[derive(Debug)]
pub struct ExclusiveImageHold<'a> {
    images: &'a ImageHolds,
    places: Vec<HostImage>,
}

impl ImageHolds {
    /// A guard for the holds that the process will take. Dropping the guard releases them all.
    pub fn of(&self, process: ProcessId) -> ImageHold<'_> {
        ImageHold { images: self, process }
    }

    /// Holds the image on the host for the process. Waits while the image is being removed.
    pub async fn hold(&self, process: ProcessId, host: HostId, checksum: &str) {
        let place = (host, checksum.to_owned());
        loop {
            let mut opened = pin!(self.opened.notified());
            // From here on, this task misses no notification.
            opened.as_mut().enable();
            {
                let mut books = self.lock();
                if !books.closed.contains(&place) {
                    books.held.entry(place).or_default().insert(process);
                    return;
                }
            }
            opened.await;
        }
    }

    /// Takes an exclusive hold on the image; `None` if another task holds or removes it on one of the hosts.
    pub fn close(&self, hosts: &BTreeSet<HostId>, checksum: &str) -> Option<ExclusiveImageHold<'_>> {
        let places: Vec<HostImage> = hosts.iter().map(|host| (*host, checksum.to_owned())).collect();
        let mut books = self.lock();
        if places.iter().any(|place| books.held.contains_key(place) || books.closed.contains(place)) {
            return None;
        }
        books.closed.extend(places.iter().cloned());
        Some(ExclusiveImageHold { images: self, places })
    }

    /// Locks the table. A panic elsewhere cannot leave it inconsistent, because no change can panic halfway.
    fn lock(&self) -> MutexGuard<'_, ImageHoldTable> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ImageHold<'_> {
    fn drop(&mut self) {
        self.images.lock().held.retain(|_, holders| {
            holders.remove(&self.process);
            !holders.is_empty()
        });
    }
}

impl Drop for ExclusiveImageHold<'_> {
    fn drop(&mut self) {
        let mut books = self.images.lock();
        for place in &self.places {
            books.closed.remove(place);
        }
        drop(books);
        self.images.opened.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    const HERE: HostId = HostId(Uuid::from_u128(1));
    const BESIDE: HostId = HostId(Uuid::from_u128(2));
    const FIRST: ProcessId = ProcessId(Uuid::from_u128(3));
    const SECOND: ProcessId = ProcessId(Uuid::from_u128(4));

    #[tokio::test]
    async fn a_held_image_is_not_removed() {
        let images = ImageHolds::default();
        let here = BTreeSet::from([HERE]);
        let (first, second) = (images.of(FIRST), images.of(SECOND));
        images.hold(FIRST, HERE, "a").await;
        images.hold(FIRST, HERE, "a").await;
        images.hold(SECOND, HERE, "a").await;
        assert!(images.close(&here, "a").is_none());
        assert!(
            images.close(&BTreeSet::from([HERE, BESIDE]), "a").is_none(),
            "an image that a process holds on the shared storage stays"
        );
        assert!(images.close(&here, "b").is_some(), "another image can be removed");
        assert!(
            images.close(&BTreeSet::from([BESIDE]), "a").is_some(),
            "the image can be removed from another storage"
        );
        drop(first);
        assert!(images.close(&here, "a").is_none(), "an image that one process still holds stays");
        drop(second);
        assert!(images.close(&here, "a").is_some());
    }

    #[tokio::test]
    async fn a_hold_waits_until_the_removal_has_ended() {
        let images = ImageHolds::default();
        let closed = images.close(&BTreeSet::from([HERE, BESIDE]), "a").unwrap();
        assert!(images.close(&BTreeSet::from([BESIDE]), "a").is_none(), "no second removal begins during the first");
        let mut comes = Box::pin(images.hold(FIRST, BESIDE, "a"));
        assert!(comes.as_mut().now_or_never().is_none());
        assert!(images.hold(FIRST, HERE, "b").now_or_never().is_some(), "another image can be held");
        drop(closed);
        assert!(comes.as_mut().now_or_never().is_some());
        assert!(images.close(&BTreeSet::from([BESIDE]), "a").is_none());
    }
}
