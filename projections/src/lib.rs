//! Read models: folds of the log that the API shows.
//!
//! A projection is a fold over the whole log. It has no ports: `apply` changes memory and nothing else.
//! [`views::Views`] holds all of them behind locks that are held only to copy `Arc`s out; rendering happens outside.
//! [`replay`] and [`runner`] feed them from the log. [`checkpoint`] keeps them across restarts and proves them equal to
//! a rebuild. [`rebuild`] computes some of them again beside the live ones. [`history`] shows them as of a past moment.

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
mod sharing;
pub mod slots;

use chronova_events::envelope::Recorded;
use chronova_events::registry::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A read model. `Clone` must be cheap for its size (rows in `Arc`s): a checkpoint under way makes the next change copy it.
pub trait Projection: Default + Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Stable for ever: the checkpoint's name.
    const NAME: &'static str;
    /// Raised when shape or meaning changes: what a checkpoint holds of older versions is then rebuilt from the log.
    const VERSION: u32;
    /// The nouns of the events that `apply` reads (`instance`, `process`); empty: all of them. A test checks `apply`
    /// against it.
    const NOUNS: &'static [&'static str] = &[];

    /// Folds one event. Total, deterministic, without effects.
    fn apply(&mut self, recorded: &Recorded, event: &Event);

    /// Reads a checkpoint of an older version, to be shown while the rebuild beside it goes on. Without it, requests
    /// wait for the rebuild when a server of the new version starts.
    fn older(_version: u32, _bytes: &[u8]) -> Option<Self> {
        None
    }

    /// Its approximate size in memory. Only large read models need it.
    fn weight(&self) -> u64 {
        0
    }
}
