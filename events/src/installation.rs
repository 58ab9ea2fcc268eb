//! The identity of a log: its installation, and its generation.
//!
//! The id of the first event is the installation. All copies of a log share it. A copy begins a new generation: a
//! restore does so, and `chronova serve` when it finds that the log's file is a copy. Hosts remember the generation that
//! drives them. A log that was never copied has no event here; its generation is its installation.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::envelope::{Meta, NewEvent, Revision, StreamId, Timestamp};
use crate::fold::Fold;
use crate::registry::NounEvent as _;
use crate::store::{AppendError, EventStore, Expected, StoreError};

noun! {
    /// Events of the log itself.
    InstallationEvent = "installation" {
        /// The log is a copy: hosts that another copy drives refuse it until they are claimed.
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

/// The generation of the log, and when it began; `None` if the log was never copied.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LogGeneration {
    pub begun: Option<(Uuid, Timestamp)>,
}

impl LogGeneration {
    fn stream() -> StreamId {
        StreamId::new(InstallationEvent::NOUN, "log")
    }

    /// The present generation of the log in `store`.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn of(store: &dyn EventStore) -> Result<Self, StoreError> {
        const PAGE: usize = 64;
        let (mut state, mut after) = (Self::default(), Revision::NONE);
        loop {
            let page = store.read_stream(&Self::stream(), after, PAGE).await?;
            for recorded in &page {
                let event = recorded.event().map_err(|error| StoreError::Io(error.to_string()))?;
                if let Some(event) = InstallationEvent::of(event) {
                    state.evolve(event, recorded.recorded_at);
                }
                after = recorded.revision;
            }
            if page.len() < PAGE {
                return Ok(state);
            }
        }
    }

    /// Begins a new generation of the log in `store`.
    ///
    /// # Errors
    /// The log cannot be written.
    pub async fn begin(store: &dyn EventStore, origin: CopyOrigin, now: Timestamp) -> Result<Uuid, AppendError> {
        let generation = crate::entropy::uuid();
        let begun = InstallationEvent::from(GenerationBegun { generation, origin });
        let event = NewEvent::new(begun, now, &Meta::system("installation"));
        store.append(&Self::stream(), Expected::Any, vec![event]).await.map(|_| generation)
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
    vec![GenerationBegun { generation: Uuid::from_u128(7), origin: CopyOrigin::Restored }.into()]
}
