//! Folds: the meaning of events.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::envelope::Timestamp;
use crate::registry::NounEvent;

/// A state that follows from its events alone. `evolve` never fails, because a fact cannot be refused.
pub trait Fold: Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    type Event: NounEvent + Send + Sync;
    /// Raised when the shape or the meaning of the state changes. Snapshots of other versions are then discarded.
    const STATE_VERSION: u32;
    /// `at` is the time at which the event was recorded.
    fn evolve(&mut self, event: &Self::Event, at: Timestamp);
}
