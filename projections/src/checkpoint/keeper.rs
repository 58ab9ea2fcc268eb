//! Writes checkpoints while the server works. A checkpoint is due after a number of events or after a time. A separate
//! thread writes it from a fork of the read models.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chronova_events::envelope::Position;

use super::Checkpoints;
use crate::views::Views;

/// When a checkpoint is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeeperOptions {
    /// A checkpoint is written after this many events.
    pub events: u64,
    /// A checkpoint is written after this time if there was any event.
    pub interval: Duration,
    /// The shortest pause between two checkpoints, so that checkpoints do not occupy the disk all the time.
    pub pause: Duration,
}

impl Default for KeeperOptions {
    fn default() -> Self {
        Self { events: 250_000, interval: Duration::from_mins(10), pause: Duration::from_secs(30) }
    }
}

/// The result of the latest checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    pub position: Position,
    pub bytes: u64,
    pub took: Duration,
    /// Checkpoints written since the process began.
    pub written: u64,
    /// Why the latest attempt failed; `None` if it succeeded.
    pub failure: Option<String>,
}

/// Keeps checkpoints of live read models.
#[derive(Debug)]
pub struct CheckpointKeeper {
    views: Arc<Views>,
    checkpoints: Arc<Checkpoints>,
    options: KeeperOptions,
    kept: Mutex<CheckpointStatus>,
}

impl CheckpointKeeper {
    /// The first checkpoint is due relative to `from`, the position of the newest checkpoint on disk.
    pub fn new(views: Arc<Views>, checkpoints: Arc<Checkpoints>, options: KeeperOptions, from: Position) -> Arc<Self> {
        let kept = Mutex::new(CheckpointStatus { position: from, ..CheckpointStatus::default() });
        Arc::new(Self { views, checkpoints, options, kept })
    }

    pub fn kept(&self) -> CheckpointStatus {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes checkpoints when they are due. Never returns.
    pub async fn keep(self: Arc<Self>) {
        let tick = self.options.pause.min(self.options.interval).min(Duration::from_secs(1));
        let mut latest = Instant::now();
        loop {
            tokio::time::sleep(tick.max(Duration::from_millis(1))).await;
            let behind = self.views.position().0.saturating_sub(self.kept().position.0);
            let waited = latest.elapsed();
            let due = behind >= self.options.events.max(1) || (behind > 0 && waited >= self.options.interval);
            if due && waited >= self.options.pause {
                self.write().await;
                latest = Instant::now();
            }
        }
    }

    /// Writes a checkpoint now. Returns whether it was written.
    pub async fn write(&self) -> bool {
        // The era is read before the fork. If an erasure begins after this line, `save_in` fails, because the fork may
        // still hold the erased data.
        let era = self.checkpoints.era();
        let (fork, checkpoints) = (self.views.fork(), Arc::clone(&self.checkpoints));
        let begun = Instant::now();
        let written = tokio::task::spawn_blocking(move || checkpoints.save_in(era, &fork)).await;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = match written {
            Ok(Ok(found)) => {
                (kept.position, kept.bytes, kept.took) = (found.mark.position, found.bytes, begun.elapsed());
                kept.written += 1;
                kept.failure = None;
                let millis = u64::try_from(kept.took.as_millis()).unwrap_or(u64::MAX);
                tracing::info!(position = %kept.position, bytes = kept.bytes, millis, "wrote a checkpoint");
                return true;
            }
            Ok(Err(error)) => match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        tracing::warn!(failure, "writing a checkpoint failed; the log is complete");
        kept.failure = Some(failure);
        false
    }
}
