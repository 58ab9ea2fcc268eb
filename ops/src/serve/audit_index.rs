//! Keeps the index of the log up to date, so that audit queries need not search the whole log.
//!
//! The task reads events that are already in the log, so appends never wait for it. After each part the task rests
//! several times as long as the part took. So a new index of a long log grows slowly, and leaves the machine to other
//! work.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::envelope::Position;
use chronova_events::store::EventStore;
use chronova_events::store::audit_index::{AuditIndexError, IndexOptions, IndexProgress, IndexedLog};
use tokio::task::JoinHandle;

use crate::commands::DataDir;
use crate::config::Config;

/// How often the task looks for new events.
const LOOK: Duration = Duration::from_secs(5);
/// The pause after a failure, for example on a full disk.
const PAUSE: Duration = Duration::from_mins(10);
/// After a part, the task rests this many times as long as the part took.
const REST: u32 = 4;

/// The log with the index beside it. Searches and the task share this value, so that the task mends the damage that a
/// search finds.
pub(super) fn indexed(config: &Config, log: &Arc<dyn EventStore>) -> Arc<IndexedLog> {
    let path: PathBuf = DataDir(config.chronova.data_dir.clone()).index();
    IndexedLog::new(Arc::clone(log), path, IndexOptions::default())
}

/// The task that extends the index.
pub(super) struct IndexKeeper {
    index: Arc<IndexedLog>,
    task: JoinHandle<()>,
}

impl IndexKeeper {
    pub(super) fn start(index: Arc<IndexedLog>) -> Self {
        Self { task: tokio::spawn(keep(Arc::clone(&index))), index }
    }

    /// The log whose index the task extends.
    pub(super) fn log(&self) -> Arc<IndexedLog> {
        Arc::clone(&self.index)
    }

    /// Waits for the end of the task. A part that is being written ends by itself.
    pub(super) async fn stop(self) {
        self.task.abort();
        // The task was cancelled, or it panicked and the panic hook has reported it.
        let _ = self.task.await;
    }
}

async fn keep(index: Arc<IndexedLog>) {
    loop {
        let begin = Instant::now();
        let pause = match index.extend().await {
            // The index is made again. On a bad disk this repeats, so the task pauses in between.
            Ok(IndexProgress::Behind(Position::START)) => LOOK,
            Ok(IndexProgress::Behind(_)) => begin.elapsed() * REST,
            // A command extends the index, too.
            Ok(IndexProgress::Complete(_)) | Err(AuditIndexError::Busy) => LOOK,
            Err(error) => {
                tracing::warn!(%error, "the index for audit queries is not up to date; trying again later");
                PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}
