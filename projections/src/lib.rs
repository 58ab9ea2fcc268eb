//! Read models: folds of the log that the API shows.
//!
//! A projection is a fold over the whole log. It has no ports: `apply` changes memory and nothing else.
//! [`views::Views`] holds all read models behind locks. Each lock is held only to copy `Arc`s out; rendering happens
//! outside. [`replay`] and [`runner`] feed the read models from the log. [`checkpoint`] keeps the read models across
//! restarts, and proves that they equal rebuilt ones. [`rebuild`] computes some of them again beside the live ones.
//! [`history`] shows them as of a past moment.

pub mod checkpoint;
pub mod history;
pub mod progress;
pub mod rebuild;
pub mod replay;
pub mod runner;
pub mod synthetic_log;
pub mod views;
pub mod volumes;

pub mod consoles;
pub mod erasures;
pub mod flavors;
pub mod fleet;
pub mod host_aggregates;
pub mod hosts;
pub mod identities;
pub mod images;
pub mod keypairs;
pub mod migrations;
pub mod networks;
pub mod placement;
pub mod processes;
pub mod quotas;
pub mod security_groups;
pub mod server_groups;
pub mod servers;
mod servers_ever;
mod sharing;
pub mod slots;
#[cfg(test)]
mod test_events;

use chronova_events::envelope::Recorded;
use chronova_events::registry::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A read model. `Clone` must be cheap (rows in `Arc`s), because the first change after a fork copies the read model.
pub trait Projection: Default + Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The read model's name in checkpoints. It never changes.
    const NAME: &'static str;
    /// Raised when shape or meaning changes. The read model is then rebuilt from the log instead of read from an older
    /// checkpoint.
    const VERSION: u32;
    /// The nouns of the events that `apply` reads, for example `instance`. Empty: all nouns. A test compares `apply`
    /// with this list.
    const NOUNS: &'static [&'static str] = &[];

    /// Folds one event. `apply` is total, deterministic and without effects.
    fn apply(&mut self, recorded: &Recorded, event: &Event);

    /// Reads the bytes of an older version from a checkpoint. The result is shown while the rebuild goes on. Without
    /// this function, requests wait for the rebuild when a server of the new version starts.
    fn older(_version: u32, _bytes: &[u8]) -> Option<Self> {
        None
    }

    /// The approximate size in memory, in bytes. Only large read models need to implement it.
    fn weight(&self) -> u64 {
        0
    }
}
