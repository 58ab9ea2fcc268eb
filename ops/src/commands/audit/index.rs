//! The index of the log for audit queries, and `chronova audit index`, which completes it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::store::EventStore;
use chronova_events::store::audit_index::{AuditIndexError, IndexComparison, IndexOptions, IndexProgress, IndexedLog};

use super::super::progress_line::ProgressLine;
use super::super::{CommandFailure, Exit};
use super::AuditArgs;

/// The most parts that a listing adds to the index before it answers. So a listing waits for at most a million events,
/// and searches the rest of a longer log itself.
const PARTS: usize = 16;

/// The log with the index at `path`. If the filters of `args` use the index, it is extended first.
pub async fn indexed(args: &AuditArgs, log: Arc<dyn EventStore>, path: PathBuf, now: Timestamp) -> Arc<IndexedLog> {
    let finds_names = !args.host.is_empty() || !args.server.is_empty();
    if finds_names || IndexedLog::narrows(&args.criteria(now, Vec::new(), Vec::new())) {
        return extended(log, path).await;
    }
    IndexedLog::new(log, path, IndexOptions::default())
}

/// The log with the index at `path`, which is extended first.
pub async fn extended(log: Arc<dyn EventStore>, path: PathBuf) -> Arc<IndexedLog> {
    let indexed = IndexedLog::new(log, path, IndexOptions::default());
    for _ in 0..PARTS {
        match indexed.extend().await {
            Ok(IndexProgress::Behind(_)) => {}
            Ok(IndexProgress::Complete(_)) => break,
            Err(error) => {
                // An auditor need not have the right to write beside the log.
                tracing::debug!(%error, "the index was not extended");
                break;
            }
        }
    }
    indexed
}

/// Brings the file with the names of servers up to date, with the index at `path`.
pub async fn complete_names(log: Arc<dyn EventStore>, path: PathBuf, names: &Path) -> Result<(), CommandFailure> {
    super::names::keep_servers(&*IndexedLog::new(log, path, IndexOptions::default()), names).await
}

/// Begins the index again if the listing has found damage in it. Later listings extend it.
pub async fn mend(indexed: &IndexedLog) {
    if indexed.is_damaged()
        && let Err(error) = indexed.extend().await
    {
        tracing::debug!(%error, "the damaged index was not emptied");
    }
}

/// Compares the index at `path` with the log. An index that this user cannot read is not compared.
pub async fn compare(log: Arc<dyn EventStore>, path: PathBuf) -> Result<IndexComparison, CommandFailure> {
    match IndexedLog::new(log, path, IndexOptions::default()).compare().await {
        Ok(comparison) => Ok(comparison),
        Err(AuditIndexError::Log(error)) => Err(CommandFailure::Store(error)),
        Err(error) => {
            tracing::debug!(%error, "the index was not compared with the log");
            Ok(IndexComparison::Unused)
        }
    }
}

/// Completes the index at `path`.
pub async fn run(log: Arc<dyn EventStore>, path: &Path, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let indexed = IndexedLog::new(Arc::clone(&log), path.to_path_buf(), IndexOptions::default());
    let mut begun = false;
    let mut progress = ProgressLine::new("extends the index", 0, log.head().0);
    loop {
        match indexed.extend().await.map_err(failure)? {
            IndexProgress::Behind(Position::START) if begun => {
                return Err(CommandFailure::Usage(format!("{} was damaged meanwhile: try again", path.display())));
            }
            IndexProgress::Behind(reached) => {
                begun = true;
                progress.at(reached.0);
            }
            IndexProgress::Complete(end) => {
                drop(progress);
                writeln!(out, "{}: {end} of {} events; the rest is searched in the log", path.display(), log.head())?;
                return Ok(Exit::Yes);
            }
        }
    }
}

fn failure(error: AuditIndexError) -> CommandFailure {
    match error {
        AuditIndexError::Log(error) => CommandFailure::Store(error),
        error => CommandFailure::Usage(error.to_string()),
    }
}
