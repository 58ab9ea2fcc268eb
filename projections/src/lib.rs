//! Read models: what the API shows, folded from the log.
//!
//! A projection is a fold over the whole log. It has no ports: `apply` changes memory and nothing else. [`views::Views`]
//! holds all of them behind locks that are held only to copy `Arc`s out; rendering happens outside. [`runner`] feeds them
//! from a subscription; [`checkpoint`] keeps them across restarts and proves them equal to a rebuild.

pub mod checkpoint;
pub mod runner;
pub mod views;

pub mod erasures;
pub mod flavors;
pub mod fleet;
pub mod host_aggregates;
pub mod hosts;
pub mod identities;
pub mod images;
pub mod keypairs;
pub mod networks;
pub mod placement;
pub mod processes;
pub mod quotas;
pub mod security_groups;
pub mod server_groups;
pub mod servers;

use chronova_events::envelope::Recorded;
use chronova_events::registry::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A read model.
pub trait Projection: Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Stable for ever: the checkpoint's name.
    const NAME: &'static str;
    /// Raised when shape or meaning changes: older checkpoints are then thrown away and the view rebuilt.
    const VERSION: u32;
    /// Takes one event in. Total, deterministic, without effects.
    fn apply(&mut self, recorded: &Recorded, event: &Event);
}
