//! Folds a long part of the log as fast as the machine can: one task reads ahead, threads decode, and one task folds in
//! order.
//!
//! Invariants: events are folded in the order of the log, each once. At most [`AHEAD`] batches wait between the reader
//! and the fold. No event after the requested end is folded.

use std::sync::Arc;

use chronova_events::envelope::{Position, Recorded, Timestamp};
use chronova_events::registry::DecodeError;
use chronova_events::store::EventStore;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::progress::WorkProgress;
use crate::runner::ProjectionError;
use crate::views::Views;

/// The number of events that are folded at once.
pub const BATCH: usize = 4_096;
/// The number of batches that are read ahead of the fold.
const AHEAD: usize = 6;

/// The end of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayEnd {
    /// The end of the log when the replay gets there.
    Head,
    /// The last event to fold.
    Position(Position),
    /// The replay ends before the first event that is later than this.
    Time(Timestamp),
}

impl ReplayEnd {
    /// Removes the events beyond the end. Returns whether there were any.
    fn cut(self, batch: &mut Vec<Arc<Recorded>>) -> bool {
        let end = match self {
            Self::Head => None,
            Self::Position(last) => batch.iter().position(|recorded| recorded.position > last),
            Self::Time(last) => batch.iter().position(|recorded| recorded.recorded_at > last),
        };
        if let Some(end) = end {
            batch.truncate(end);
        }
        end.is_some()
    }

    fn is_reached(self, position: Position) -> bool {
        matches!(self, Self::Position(last) if position >= last)
    }
}

/// A batch whose events are being decoded.
type Decoding = JoinHandle<Result<Vec<Arc<Recorded>>, DecodeError>>;

/// Folds the log into `views`, from their position on. `enough` is called before each batch; if it returns `true`, the
/// replay ends with [`ProjectionError::Enough`].
pub async fn replay_while(
    store: &dyn EventStore,
    views: &Arc<Views>,
    until: ReplayEnd,
    progress: &Arc<WorkProgress>,
    enough: impl Fn(&Views) -> bool + Send + 'static,
) -> Result<Position, ProjectionError> {
    let (sender, receiver) = mpsc::channel::<Decoding>(AHEAD);
    let folding = tokio::spawn(fold(receiver, Arc::clone(views), Arc::clone(progress), enough));
    let read = read(store, views, until, &sender).await;
    drop(sender);
    let folded = folding.await.map_err(|error| ProjectionError::Failed(error.to_string()))?;
    // If the fold fails, the reader also ends with an error. The fold's error is the cause, so it is returned first.
    folded?;
    read?;
    Ok(views.position())
}

/// Folds the log into `views`, from their position to the requested end.
pub async fn replay(
    store: &dyn EventStore,
    views: &Arc<Views>,
    until: ReplayEnd,
    progress: &Arc<WorkProgress>,
) -> Result<Position, ProjectionError> {
    replay_while(store, views, until, progress, |_| false).await
}

async fn read(
    store: &dyn EventStore,
    views: &Arc<Views>,
    until: ReplayEnd,
    sender: &mpsc::Sender<Decoding>,
) -> Result<(), ProjectionError> {
    let mut after = views.position();
    while !until.is_reached(after) {
        let mut batch = store.read_all(after, BATCH).await?;
        let Some(last) = batch.last() else { break };
        after = last.position;
        let over = until.cut(&mut batch);
        if !batch.is_empty() {
            let views = Arc::clone(views);
            let decoding = tokio::task::spawn_blocking(move || views.decode(&batch).map(|_| batch));
            if sender.send(decoding).await.is_err() {
                break;
            }
        }
        if over {
            break;
        }
    }
    Ok(())
}

async fn fold(
    mut receiver: mpsc::Receiver<Decoding>,
    views: Arc<Views>,
    progress: Arc<WorkProgress>,
    enough: impl Fn(&Views) -> bool + Send + 'static,
) -> Result<(), ProjectionError> {
    let failed = |error: tokio::task::JoinError| ProjectionError::Failed(error.to_string());
    while let Some(decoding) = receiver.recv().await {
        let batch = decoding.await.map_err(failed)??;
        if enough(&views) {
            return Err(ProjectionError::Enough);
        }
        let (views, progress) = (Arc::clone(&views), Arc::clone(&progress));
        let folding = tokio::task::spawn_blocking(move || {
            let folded = views.apply(&batch);
            progress.add(batch.len() as u64);
            // Dropping a batch takes time, so it happens on this blocking thread and not on a thread of the runtime.
            drop(batch);
            folded
        });
        folding.await.map_err(failed)??;
    }
    Ok(())
}
