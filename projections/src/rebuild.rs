//! Rebuilds read models beside the live ones, and then replaces the live ones. Meanwhile the live ones are still folded
//! and read.
//!
//! The rebuild folds the new read models from the first event until they are near the live ones. Then, between two live
//! batches, it folds the remaining events and replaces the live ones. Readers see either the old or the new read model,
//! both at the same position.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::store::EventStore;

use crate::checkpoint;
use crate::progress::{WorkProgress, WorkRegistry};
use crate::replay::{self, ReplayEnd};
use crate::runner::ProjectionError;
use crate::views::Views;

/// The rebuild stops catching up when at most this many events remain.
const NEAR: u64 = 2_048;
/// The number of rounds in which the rebuild catches up with the live read models. After the last round, the live read
/// models stand still until all remaining events are folded.
const ROUNDS: usize = 8;

/// The result of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildReport {
    pub position: Position,
    /// The differences between the old and the new read models, if requested.
    pub differences: Vec<String>,
}

/// Folds absent read models from the log up to the position of `views`. This happens before any reader uses them.
pub async fn fill(
    store: &dyn EventStore,
    views: &Views,
    names: &BTreeSet<&'static str>,
    works: &Arc<WorkRegistry>,
) -> Result<(), ProjectionError> {
    let (beside, progress) = begin(names, views.position());
    let _ongoing = works.begin(&progress);
    replay::replay(store, &beside, ReplayEnd::Position(views.position()), &progress).await?;
    views.adopt(&beside, names);
    Ok(())
}

/// Rebuilds the named read models beside the live ones, and then replaces the live ones. `compare` is the largest
/// number of differences to report; 0 skips the comparison.
pub async fn beside(
    store: &dyn EventStore,
    live: &Arc<Views>,
    names: &BTreeSet<&'static str>,
    works: &Arc<WorkRegistry>,
    compare: usize,
) -> Result<RebuildReport, ProjectionError> {
    let (beside, progress) = begin(names, store.head());
    let _ongoing = works.begin(&progress);
    for _ in 0..ROUNDS {
        let target = live.position();
        progress.expect(target.0);
        if target.0.saturating_sub(beside.position().0) <= NEAR {
            break;
        }
        replay::replay(store, &beside, ReplayEnd::Position(target), &progress).await?;
    }
    // From here on the live read models stand still.
    let turn = live.turn.lock().await;
    let position = live.position();
    replay::replay(store, &beside, ReplayEnd::Position(position), &progress).await?;
    let before = (compare > 0).then(|| live.fork());
    live.adopt(&beside, names);
    drop(turn);
    let mut differences = Vec::new();
    if let Some(before) = before {
        let after = before.fork();
        after.adopt(&beside, names);
        let compared = move || checkpoint::differences(&before, &after, compare);
        let compared = tokio::task::spawn_blocking(compared).await;
        differences = compared.map_err(|error| ProjectionError::Failed(error.to_string()))?;
    }
    Ok(RebuildReport { position, differences })
}

fn begin(names: &BTreeSet<&'static str>, until: Position) -> (Arc<Views>, Arc<WorkProgress>) {
    let title = names.iter().copied().collect::<Vec<_>>().join(", ");
    (Arc::new(Views::only(names.clone())), WorkProgress::new(format!("rebuild of {title}"), until.0))
}

#[cfg(test)]
mod tests;
