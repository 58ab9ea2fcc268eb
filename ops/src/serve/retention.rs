//! Moves old events out of the log's file while the server runs, by the policy of the configuration.
//!
//! Only a log in SQLite has a file, and its server always leads. A move works on a thread of its own: it reads the whole
//! log to prove the checkpoint, and requests must not wait for that.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::Timestamp;
use chronova_events::error_chain::ErrorChain;
use chronova_events::place::{PlaceAddress, S3Access};
use chronova_events::sealed::keys::KeySlot;
use chronova_events::store::sqlite::SqliteStore;
use chronova_events::store::sqlite::retention::MovePace;
use tokio::task::JoinHandle;

use super::event_log::EventLog;
use crate::commands::retention::prune::{LogPrune, PruneEnd, RetentionPolicy};
use crate::commands::retention::states;
use crate::commands::{CommandFailure, DataDir, s3_access};
use crate::config::Config;

/// The first move comes this long after the start, when the start's own work is done. This is also the interval between
/// two searches for lost snapshots.
const FIRST: Duration = Duration::from_mins(10);
/// Fewer events than this wait for the next move, so that the archive has no tiny segments.
const LEAST: u64 = 10_000;
const HOUR: Duration = Duration::from_hours(1);
const DAY: i64 = 86_400_000_000;

/// The policy of the configuration.
#[derive(Debug, Clone)]
struct RetentionRules {
    days: i64,
    keep_bytes: Option<u64>,
    archives: Option<PlaceAddress>,
    s3: S3Access,
    sign_key: Option<PathBuf>,
    data: DataDir,
    every: Duration,
}

impl RetentionRules {
    /// `None` if all events stay in the file.
    fn of(config: &Config) -> Option<Self> {
        let own = &config.chronova;
        let keep_bytes = (own.retention_size > 0).then(|| own.retention_size.saturating_mul(1 << 20));
        (own.retention_days > 0 || keep_bytes.is_some()).then(|| Self {
            days: i64::from(own.retention_days),
            keep_bytes,
            archives: own.retention_archive.clone(),
            s3: s3_access(config),
            sign_key: own.retention_sign_key.clone(),
            data: DataDir(own.data_dir.clone()),
            every: HOUR * own.retention_interval,
        })
    }

    fn policy(&self, now: Timestamp) -> RetentionPolicy {
        let before = (self.days > 0).then(|| Timestamp(now.0.saturating_sub(self.days.saturating_mul(DAY))));
        RetentionPolicy { before, keep_bytes: self.keep_bytes, at_most: None }
    }

    /// Moves what the policy names now.
    async fn keep(&self, log: &Arc<SqliteStore>) -> Result<PruneEnd, CommandFailure> {
        let now = SystemClock.now();
        let archives = self.archives.clone().map(|address| address.completed(&self.s3)).transpose();
        let (archives, sign_key) = (archives.map_err(CommandFailure::Usage)?, self.sign_key.as_deref());
        let (policy, pace) = (self.policy(now), MovePace::default());
        let run = LogPrune { log, data: &self.data, archives, sign_key, policy, least: LEAST, pace };
        let mut told = Vec::new();
        let mut done = run.run(now, &mut told).await;
        if let Ok(PruneEnd::Different) = done {
            // An erasure during the proof changes what the log says. Then a second proof finds no difference.
            done = run.run(now, &mut told).await;
        }
        for line in String::from_utf8_lossy(&told).lines() {
            tracing::info!("retention: {line}");
        }
        done
    }
}

/// The task that moves events, and keeps the states of their streams in the file.
pub(super) struct RetentionKeeper(JoinHandle<()>);

impl RetentionKeeper {
    /// Starts the task. Without a policy in the configuration it moves no events.
    pub(super) fn start(config: &Config, log: &EventLog) -> Option<Self> {
        let rules = RetentionRules::of(config);
        match log {
            EventLog::Sqlite(log) => Some(Self(tokio::spawn(keep(rules, Arc::clone(log))))),
            EventLog::Postgres(_) => {
                if rules.is_some() {
                    tracing::warn!(
                        "[chronova] retention_days and retention_size do nothing: the log in PostgreSQL keeps all events"
                    );
                }
                None
            }
        }
    }

    /// Ends the task. A move that is under way ends when the log is closed; the next one goes on from there.
    pub(super) async fn stop(self) {
        self.0.abort();
        // The task was cancelled, or it panicked and the panic hook has reported it.
        let _ = self.0.await;
    }
}

async fn keep(rules: Option<RetentionRules>, log: Arc<SqliteStore>) {
    let every = rules.as_ref().map_or(HOUR, |rules| rules.every);
    let pause = FIRST.min(every);
    let (mut waited, mut seen) = (every.saturating_sub(pause), None);
    loop {
        tokio::time::sleep(pause).await;
        waited += pause;
        renew_states(&log, &mut seen).await;
        if let Some(rules) = rules.as_ref().filter(|_| waited >= every) {
            move_events(rules.clone(), &log).await;
            waited = Duration::ZERO;
        }
    }
}

/// If an erasure or another version of the program has made snapshots of streams unusable, writes them again. `seen` is
/// the key of the snapshots at the last call.
async fn renew_states(log: &Arc<SqliteStore>, seen: &mut Option<KeySlot>) {
    let (handle, file, mut key) = (tokio::runtime::Handle::current(), Arc::clone(log), *seen);
    let renew = move || handle.block_on(states::renew_since(&file, &mut key)).map(|renewed| (renewed, key));
    match tokio::task::spawn_blocking(renew).await {
        Ok(Ok((renewed, key))) => {
            *seen = key;
            if renewed > 0 {
                tracing::info!(renewed, "retention: wrote the states of streams into the file again");
            }
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the states of some streams are only in the archive, so a start needs it; trying again later");
        }
        Err(error) => tracing::error!(%error, "keeping the states of streams failed; trying again later"),
    }
}

async fn move_events(rules: RetentionRules, log: &Arc<SqliteStore>) {
    let (handle, file) = (tokio::runtime::Handle::current(), Arc::clone(log));
    match tokio::task::spawn_blocking(move || handle.block_on(rules.keep(&file))).await {
        Ok(Ok(PruneEnd::Different)) => {
            tracing::error!("the newest checkpoint differs from the log, so no event was moved into the archive");
        }
        Ok(Ok(PruneEnd::Nothing | PruneEnd::Moved(_))) => {}
        Ok(Err(failure)) => {
            tracing::error!(error = %ErrorChain(&failure), "old events were not moved into the archive; trying again later");
        }
        Err(error) => tracing::error!(%error, "the move of old events into the archive failed; trying again later"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_policy_comes_from_the_configuration() {
        let with = |lines: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("chronova.conf");
            std::fs::write(&path, format!("[chronova]\n{lines}")).unwrap();
            RetentionRules::of(&crate::config::load(&[path]).unwrap().config)
        };
        assert!(with("").is_none());
        let rules = with("retention_days = 90\nretention_interval = 6\nretention_archive = /srv/archive\n").unwrap();
        assert_eq!(
            (rules.every, rules.archives.clone()),
            (HOUR * 6, Some(PlaceAddress::Folder("/srv/archive".into())))
        );
        let policy = rules.policy(Timestamp(100 * DAY));
        assert_eq!(policy, RetentionPolicy { before: Some(Timestamp(10 * DAY)), keep_bytes: None, at_most: None });
        let policy = with("retention_size = 10\n").unwrap().policy(Timestamp(0));
        assert_eq!(policy, RetentionPolicy { before: None, keep_bytes: Some(10 << 20), at_most: None });
    }
}
