//! The identity of a log: its installation, and its generation.
//!
//! The id of the first event identifies the installation. All copies of a log share this id. Each copy has a generation
//! of its own. A restore begins a new generation, and so does `chronova serve` if the log's file is a copy. Hosts
//! remember the generation that drives them. A log that is not a copy has no event here; its generation is its
//! installation.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::envelope::{StreamId, Timestamp};
use crate::fold::Fold;
use crate::registry::NounEvent as _;

noun! {
    /// Events of the log itself.
    InstallationEvent = "installation" {
        /// The log is a copy. A host that another copy drives refuses this copy until an operator claims the host.
        GenerationBegun = "generation_begun" @ 1,
    }
}

/// Why a log is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyOrigin {
    /// It was restored from a backup.
    Restored,
    /// Its file was copied.
    Copied,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerationBegun {
    pub generation: Uuid,
    pub origin: CopyOrigin,
}

/// The generation of the log, and when it began; `None` if the log is not a copy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LogGeneration {
    pub begun: Option<(Uuid, Timestamp)>,
}

impl LogGeneration {
    /// The stream of the log's own events.
    pub fn stream() -> StreamId {
        StreamId::new(InstallationEvent::NOUN, "log")
    }
}

impl Fold for LogGeneration {
    type Event = InstallationEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &InstallationEvent, at: Timestamp) {
        let InstallationEvent::GenerationBegun(begun) = event;
        self.begun = Some((begun.generation, at));
    }
}

/// One example of each event.
pub fn samples() -> Vec<InstallationEvent> {
    vec![
        // `CopyOrigin::Copied` has the same shape.
        GenerationBegun { generation: Uuid::from_u128(7), origin: CopyOrigin::Restored }.into(),
    ]
}
