//! Computing read models again beside the live ones, which go on being followed and read, and putting them in their place.
//!
//! The rebuilt ones are folded from the first event until they are near the live ones; then, between two live batches, the
//! rest is folded and they are exchanged. Nobody sees anything but one or the other, both at the same position.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::store::EventStore;

use crate::checkpoint;
use crate::progress::{Progress, Works};
use crate::replay::{self, Until};
use crate::runner::ProjectionError;
use crate::views::Views;

/// The rest that is folded while the live read models stand still.
const NEAR: u64 = 2_048;
/// Rounds of catching up before the live ones have to wait for whatever the rest is.
const ROUNDS: usize = 8;

/// What a rebuild found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    pub position: Position,
    /// Where the read models that were replaced differed; only when that was asked for.
    pub differences: Vec<String>,
}

/// Reads absent read models from the log, up to where `views` are, before anybody looks at them.
pub async fn fill(
    store: &dyn EventStore,
    views: &Views,
    names: &BTreeSet<&'static str>,
    works: &Arc<Works>,
) -> Result<(), ProjectionError> {
    let (beside, progress) = begin(names, views.position());
    let _ongoing = works.begin(&progress);
    replay::replay(store, &beside, Until::Position(views.position()), &progress).await?;
    views.adopt(&beside, names);
    Ok(())
}

/// Rebuilds the named read models beside the live ones and puts them in their place. `compare`: how many differences to
/// look for between old and new.
pub async fn beside(
    store: &dyn EventStore,
    live: &Arc<Views>,
    names: &BTreeSet<&'static str>,
    works: &Arc<Works>,
    compare: usize,
) -> Result<Rebuilt, ProjectionError> {
    let (beside, progress) = begin(names, store.head());
    let _ongoing = works.begin(&progress);
    for _ in 0..ROUNDS {
        let target = live.position();
        progress.expect(target.0);
        if target.0.saturating_sub(beside.position().0) <= NEAR {
            break;
        }
        replay::replay(store, &beside, Until::Position(target), &progress).await?;
    }
    // From here on the live ones stand still.
    let turn = live.turn.lock().await;
    let position = live.position();
    replay::replay(store, &beside, Until::Position(position), &progress).await?;
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
    Ok(Rebuilt { position, differences })
}

fn begin(names: &BTreeSet<&'static str>, until: Position) -> (Arc<Views>, Arc<Progress>) {
    let title = names.iter().copied().collect::<Vec<_>>().join(", ");
    (Arc::new(Views::only(names.clone())), Progress::new(format!("rebuild of {title}"), until.0))
}

#[cfg(test)]
mod tests;
