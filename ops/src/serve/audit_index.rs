//! Keeps the index of the log up to date, so that audit queries need not search the whole log.
//!
//! The task reads what the log has, so appends never wait for it. After each part it rests several times as long as the
//! part took: the index of a long log that had none is made slowly.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::store::EventStore;
use chronova_events::store::audit_index::{IndexOptions, IndexProgress, IndexedLog};
use tokio::task::JoinHandle;

use crate::commands::DataDir;
use crate::config::Config;

/// How often the task looks for new events.
const LOOK: Duration = Duration::from_secs(5);
/// The pause after a failure, for example on a full disk.
const PAUSE: Duration = Duration::from_mins(10);
/// The rest after a part, in times that the part took.
const REST: u32 = 4;

/// The log with the index beside it.
pub(super) fn indexed(config: &Config, log: &Arc<dyn EventStore>) -> Arc<IndexedLog> {
    let path: PathBuf = DataDir(config.chronova.data_dir.clone()).index();
    IndexedLog::new(Arc::clone(log), path, IndexOptions::default())
}

/// The task that extends the index.
pub(super) struct IndexKeeper(JoinHandle<()>);

impl IndexKeeper {
    pub(super) fn start(index: Arc<IndexedLog>) -> Self {
        Self(tokio::spawn(keep(index)))
    }

    /// Waits for the end of the task. A part that is being written ends by itself.
    pub(super) async fn stop(self) {
        self.0.abort();
        // The task was cancelled, or it panicked and the panic hook has reported it.
        let _ = self.0.await;
    }
}

async fn keep(index: Arc<IndexedLog>) {
    loop {
        let begin = Instant::now();
        let pause = match index.extend().await {
            Ok(IndexProgress::Behind(_)) => begin.elapsed() * REST,
            Ok(IndexProgress::Complete(_)) => LOOK,
            Err(error) => {
                tracing::warn!(%error, "the index for audit queries is not up to date; trying again later");
                PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}
