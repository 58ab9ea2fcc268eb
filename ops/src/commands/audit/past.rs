//! The read models as of a moment, for the commands that show states instead of events.

use std::fmt;
use std::sync::Arc;

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::Checkpoints;
use chronova_projections::history::{HistoryError, PastMoment, PastPart};
use chronova_projections::views::{Mark, Views};
use serde::Serialize;

use super::super::CommandFailure;
use super::super::moments::AsOf;

/// A log, and the checkpoints that shorten the fold to a moment of it.
#[derive(Clone, Copy)]
pub struct PastReader<'a> {
    pub store: &'a dyn EventStore,
    pub checkpoints: &'a Arc<Checkpoints>,
    pub now: Timestamp,
}

impl fmt::Debug for PastReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PastReader").field("now", &self.now).finish_non_exhaustive()
    }
}

impl PastReader<'_> {
    /// The read models as of `when`; of the whole log if `when` is missing.
    pub(in crate::commands) async fn at(self, when: Option<AsOf>) -> Result<Arc<Views>, CommandFailure> {
        self.moment(when).views(self.store, self.checkpoints, self.now).await.map_err(failure)
    }

    /// Like [`Self::at`], but only a part of the read models.
    pub(super) async fn part(self, when: Option<AsOf>, part: &PastPart) -> Result<Arc<Views>, CommandFailure> {
        self.moment(when).part(self.store, self.checkpoints, self.now, part).await.map_err(failure)
    }

    fn moment(self, when: Option<AsOf>) -> PastMoment {
        match when {
            None => PastMoment::Position(self.store.head()),
            Some(AsOf::Position(position)) => PastMoment::Position(Position(position)),
            Some(AsOf::Time(when)) => PastMoment::Time(when.resolve(self.now)),
        }
    }
}

fn failure(error: HistoryError) -> CommandFailure {
    match error {
        HistoryError::Projection(error) => CommandFailure::ReadModels(error),
        wrong => CommandFailure::Usage(wrong.to_string()),
    }
}

/// The moment that read models show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ShownMoment {
    pub position: u64,
    /// The time of the last event.
    pub time: String,
}

impl ShownMoment {
    pub(super) fn of(views: &Views) -> Self {
        let Mark { position, moment, .. } = views.marked();
        Self { position: position.0, time: moment.to_string() }
    }
}

impl fmt::Display for ShownMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {}, {}", self.position, self.time)
    }
}
