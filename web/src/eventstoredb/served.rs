//! The log that all calls share, and the signal that the server stops.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::envelope::{Revision, StreamId};
use chronova_events::store::EventStore;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::Status;

use super::access::LogUsers;
use super::status;

/// The number of events that are read at once.
pub(super) const PAGE: usize = 256;

/// The state that all calls share.
pub(super) struct ServedLog {
    pub(super) store: Arc<dyn EventStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) users: LogUsers,
    pub(super) max_append_bytes: usize,
    pub(super) subscriptions: Arc<Semaphore>,
    pub(super) ends: watch::Receiver<bool>,
}

/// Tells when the server stops.
pub(super) struct ShutdownSignal(watch::Receiver<bool>);

impl ShutdownSignal {
    pub(super) async fn wait(&mut self) {
        // An error means that the server was dropped, so it has stopped, too.
        let _ = self.0.wait_for(|ended| *ended).await;
    }
}

impl ServedLog {
    pub(super) fn ending(&self) -> ShutdownSignal {
        ShutdownSignal(self.ends.clone())
    }

    pub(super) fn subscription(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.subscriptions)
            .try_acquire_owned()
            .map_err(|_| Status::resource_exhausted("the limit of subscriptions is reached"))
    }

    /// The newest revision of a stream. The store only reads forwards, so this is a binary search. Revisions have no
    /// gaps.
    pub(super) async fn last_revision(&self, stream: &StreamId) -> Result<Revision, Status> {
        let exists = async |revision: u64| -> Result<bool, Status> {
            let found = self.store.read_stream(stream, Revision(revision - 1), 1).await;
            Ok(!found.map_err(|error| status::of_store(&error))?.is_empty())
        };
        if !exists(1).await? {
            return Ok(Revision::NONE);
        }
        let (mut there, mut step) = (1_u64, 1_u64);
        while exists(there + step).await? {
            there += step;
            step *= 2;
        }
        // Invariant of the search: the newest revision is at least `there` and less than `there + step`.
        while step > 1 {
            step /= 2;
            if exists(there + step).await? {
                there += step;
            }
        }
        Ok(Revision(there))
    }
}
