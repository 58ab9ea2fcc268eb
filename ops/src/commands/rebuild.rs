//! `chronova rebuild`: rebuilds the read models from the first event, and compares them with the checkpoint.
//!
//! The checkpoint is a cache, and this command verifies it. The comparison reads events only up to the checkpoint, so a
//! server may write meanwhile.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use chronova_events::envelope::{Position, Recorded};
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::{self, CheckpointFile, Checkpoints, OpenedViews};
use chronova_projections::views::Views;

use super::log_pages::walk;
use super::{CommandFailure, Exit};

#[derive(Debug, Clone, clap::Args)]
pub struct RebuildArgs {
    /// Write the rebuilt read models as the new checkpoint; the server must not be running
    #[arg(long)]
    pub replace: bool,
    /// Number of differences to show
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
}

/// Compares the newest checkpoint with the log. With `--replace`, also writes a new checkpoint.
pub async fn run(
    args: &RebuildArgs,
    store: &dyn EventStore,
    checkpoints: &Checkpoints,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let opened = checkpoints.load(|_| true);
    for remark in opened.remarks() {
        writeln!(out, "{remark}")?;
    }
    let exit = match &opened.from {
        Some(found) => compare(args, store, &opened, found, out).await?,
        None => {
            writeln!(out, "no checkpoint in {}: nothing to compare", checkpoints.folder().display())?;
            // A young log has no checkpoint. The rebuild still proves that every event can be read and folded.
            let position = fold(store, Position(u64::MAX)).await?.position();
            writeln!(out, "the log rebuilds {} read models at position {position}", checkpoint::count())?;
            Exit::Yes
        }
    };
    let exit = if opened.refused.is_empty() { exit } else { Exit::No };
    if args.replace {
        let whole = fold(store, Position(u64::MAX)).await?;
        checkpoints.save(&whole).map_err(|error| CommandFailure::Usage(format!("{error}")))?;
        writeln!(out, "replaced by the read models as of position {}", whole.position())?;
        return Ok(Exit::Yes);
    }
    if exit == Exit::No {
        writeln!(out, "`chronova rebuild --replace` writes a new one while the server is stopped")?;
    }
    Ok(exit)
}

/// Compares a checkpoint with the log.
pub(super) async fn compare(
    args: &RebuildArgs,
    store: &dyn EventStore,
    opened: &OpenedViews,
    found: &CheckpointFile,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let (live, position) = (&opened.views, found.mark.position);
    let rebuilt = fold(store, position).await?;
    if rebuilt.position() < position {
        writeln!(out, "different: the checkpoint is at position {position}, the log ends at {}", rebuilt.position())?;
        return Ok(Exit::No);
    }
    // A read model of another version cannot be compared.
    live.adopt(&rebuilt, &opened.absent);
    live.adopt(&rebuilt, &opened.provisional);
    let compared = checkpoint::count() - opened.absent.len() - opened.provisional.len();
    // One difference more than the limit shows whether there are more.
    let mut found = checkpoint::differences(live, &rebuilt, args.limit.saturating_add(1));
    if found.is_empty() {
        writeln!(out, "equal: {compared} read models at position {position}")?;
        return Ok(Exit::Yes);
    }
    let more = found.len() > args.limit;
    found.truncate(args.limit);
    writeln!(out, "different at position {position} (checkpoint | rebuilt):")?;
    for difference in found {
        writeln!(out, "  {difference}")?;
    }
    if more {
        writeln!(out, "  ... and more: raise --limit to see them")?;
    }
    Ok(Exit::No)
}

/// Folds the events up to and including `until` into read models.
pub(super) async fn fold(store: &dyn EventStore, until: Position) -> Result<Views, CommandFailure> {
    const BATCH: usize = 1_024;
    let views = Views::new();
    let mut batch: Vec<Arc<Recorded>> = Vec::with_capacity(BATCH);
    let apply = |batch: &mut Vec<Arc<Recorded>>| {
        let position = batch.first().map_or(0, |first| first.position.0);
        views.apply(batch).map_err(|source| CommandFailure::Decode { position, source })?;
        batch.clear();
        Ok::<(), CommandFailure>(())
    };
    walk(store, Position::START, until, |recorded| {
        // The event is decoded here first, so that an error names it.
        super::log_pages::payload(recorded)?;
        batch.push(Arc::clone(recorded));
        if batch.len() >= BATCH {
            apply(&mut batch)?;
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    apply(&mut batch)?;
    Ok(views)
}
