//! Rebuilds read models beside the live ones, which are still folded and read, and then replaces those.
//!
//! The rebuilt ones are folded from the first event until they are near the live ones. Then, between two live batches,
//! the rest is folded and they replace the live ones. Readers see either the old or the new one, both at the same
//! position.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::store::EventStore;

use crate::checkpoint;
use crate::progress::{WorkProgress, WorkRegistry};
use crate::replay::{self, ReplayEnd};
use crate::runner::ProjectionError;
use crate::views::Views;

/// The rest that is folded while the live read models stand still.
const NEAR: u64 = 2_048;
/// Rounds of catching up before the live ones have to wait for whatever the rest is.
const ROUNDS: usize = 8;

/// The result of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildReport {
    pub position: Position,
    /// The differences from the replaced read models; only if requested.
    pub differences: Vec<String>,
}

/// Reads absent read models from the log, up to where `views` are, before anybody looks at them.
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

/// Rebuilds the named read models beside the live ones and puts them in their place. `compare`: how many differences to
/// look for between old and new.
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
    // From here on the live ones stand still.
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
