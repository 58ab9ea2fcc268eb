//! `db archive_deleted_rows`: moves old events of the log into its archive, as `chronova log prune` does.
//!
//! Nova's shadow tables keep deleted rows, and Chronova's archive keeps old events. Automation repeats the command while
//! its code is 1, and stops at 0. With `--until-complete`, one run proves the read models and writes the archive once.
//! Then the events leave the file in batches of `--max_rows`, with pauses between them. While a server runs, nothing is
//! moved, because only one process may write the log. The server moves old events by itself.

use chrono::NaiveDateTime;
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::Timestamp;
use chronova_events::store::sqlite::retention::MovePace;

use super::super::retention::prune::{LogPrune, PruneEnd, RetentionPolicy, in_file, lock};
use super::super::{CommandFailure, LogPlace};
use crate::config::Config;
use crate::output::complain;

/// The events that the command line names.
#[derive(Debug)]
pub(super) struct ArchiveRequest {
    /// Only events recorded before this time, in UTC.
    pub before: Option<NaiveDateTime>,
    /// The largest number of events.
    pub most: Option<u64>,
    pub pace: MovePace,
    pub verbose: bool,
}

/// Moves the events.
pub(super) fn run(request: &ArchiveRequest, config: &Config) -> Result<PruneEnd, CommandFailure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(archive(request, config))
}

async fn archive(request: &ArchiveRequest, config: &Config) -> Result<PruneEnd, CommandFailure> {
    let place = LogPlace::of(config).map_err(CommandFailure::Usage)?;
    let log = match in_file(&place) {
        Ok(()) if !place.data.log().exists() => {
            complain("Nothing was archived: there is no log yet.\n");
            return Ok(PruneEnd::Nothing);
        }
        Ok(()) => lock(&place).await,
        Err(refused) => Err(refused),
    };
    let log = match log {
        Ok(log) => log,
        // The log is in a database, or a server runs. In both cases the command archives nothing, and this is no
        // failure.
        Err(CommandFailure::Usage(reason)) => {
            complain(&format!("Nothing was archived: {reason}.\n"));
            return Ok(PruneEnd::Nothing);
        }
        Err(failure) => return Err(failure),
    };
    let before = request.before.map_or(Timestamp(i64::MAX), |before| Timestamp(before.and_utc().timestamp_micros()));
    let policy = RetentionPolicy { before: Some(before), keep_bytes: None, at_most: request.most };
    let archives = place.retention_archive.clone().map(|address| address.completed(&place.s3)).transpose();
    let run = LogPrune {
        log: &log,
        data: &place.data,
        archives: archives.map_err(CommandFailure::Usage)?,
        sign_key: place.retention_key.as_deref(),
        policy,
        least: 1,
        pace: request.pace,
    };
    let mut told = Vec::new();
    let done = run.run(SystemClock.now(), &mut told).await;
    log.close().await;
    if request.verbose {
        complain(&String::from_utf8_lossy(&told));
    }
    done
}
