//! `chronova log copy`: copies a log in SQLite to the database that the configuration names.
//!
//! The copy has the same positions, hashes and times, so earlier anchors and exports stay valid. The command locks the
//! source, and does not change its events.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chronova_events::store::EventStore as _;
use chronova_events::store::StoreError;
use chronova_events::store::postgres::PostgresOptions;
use chronova_events::store::postgres::copying::{CopyStage, copy};
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};

/// The interval between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, clap::Args)]
pub struct LogCopyArgs {
    /// The log in SQLite (log.db), or the data folder that holds it
    #[arg(value_name = "SQLITE")]
    pub source: PathBuf,
}

pub async fn run(
    args: &LogCopyArgs,
    database: &PostgresOptions,
    new_keys: &Path,
    out: &mut dyn Write,
) -> Result<(), StoreError> {
    let path = if args.source.is_dir() { args.source.join("log.db") } else { args.source.clone() };
    // Opening the log for writing would create a missing log, so the log is first opened for reading.
    drop(ReadOnlyLog::open(&path)?);
    let opened = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || SqliteStore::open(path, &SqliteOptions::default())).await
    };
    let source = opened.map_err(|error| StoreError::Io(error.to_string()))??;
    // A log in PostgreSQL has no holds. A copy would silently lose them, and an erasure could destroy held data.
    if let Some(hold) = source.holds()?.0.first() {
        source.close().await;
        return Err(StoreError::Io(format!(
            "a legal hold keeps {} ({}), and a log in PostgreSQL has no holds: `chronova log hold remove {}` first",
            hold.of, hold.reason, hold.id
        )));
    }
    let keys = with_suffix(&path, ".keys");
    copy_keys(&keys, new_keys)?;
    let (begun, whole) = (Instant::now(), source.head());
    let (mut told, mut first, mut failure) = (None::<Instant>, 0, None);
    let mut tell = |stage: CopyStage| {
        let (what, at) = match stage {
            CopyStage::Begins(at) => {
                first = at.0;
                ("already there", at)
            }
            CopyStage::Copies(at) => ("copied", at),
            CopyStage::Verifies(at) => ("verified", at),
        };
        let due = at == whole
            || matches!(stage, CopyStage::Begins(_))
            || told.is_none_or(|told| told.elapsed() >= PROGRESS_EVERY);
        if due {
            told = Some(Instant::now());
            let rate = u128::from(at.0.saturating_sub(first)) * 1_000 / begun.elapsed().as_millis().max(1);
            let percent = (at.0 * 100).checked_div(whole.0).unwrap_or(100);
            let line = match stage {
                CopyStage::Copies(_) => {
                    let left = u128::from(whole.0.saturating_sub(at.0)).checked_div(rate);
                    let left = left.map_or_else(String::new, |seconds| format!(", done in {seconds} s"));
                    format!("{what} {at} of {whole} ({percent} %), {rate} events/s{left}")
                }
                _ => format!("{what} {at} of {whole} ({percent} %)"),
            };
            failure = writeln!(out, "{line}").and_then(|()| out.flush()).err();
        }
        if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let copied = copy(database, &*source, &mut tell).await;
    source.close().await;
    if let Some(failure) = failure {
        return Err(unwritten(&failure));
    }
    let end = copied?;
    let told = "`chronova serve` refuses a data folder with log.db: move it away";
    writeln!(out, "the database holds the log up to {end}; {told}").map_err(|failure| unwritten(&failure))
}

fn unwritten(failure: &std::io::Error) -> StoreError {
    StoreError::Io(format!("cannot write the report of the copy: {failure}"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Copies the keys of the personal fields, which cannot be read without them. Refuses to replace a file that holds
/// other keys.
fn copy_keys(from: &Path, to: &Path) -> Result<(), StoreError> {
    if !from.exists() || from == to {
        return Ok(());
    }
    let failed = |path: &Path, error: std::io::Error| StoreError::Io(format!("{}: {error}", path.display()));
    let bytes = std::fs::read(from).map_err(|error| failed(from, error))?;
    if !to.exists() {
        return write_private(to, &bytes).map_err(|error| failed(to, error));
    }
    if std::fs::read(to).map_err(|error| failed(to, error))? == bytes {
        return Ok(());
    }
    let what = format!("{} holds other keys than {}: name another data_dir", to.display(), from.display());
    Err(StoreError::Io(what))
}

fn write_private(to: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(folder) = to.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = with_suffix(to, ".new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(new, to)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_failure_names_the_file_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("old.keys"), folder.path().join("new.keys"));
        // A folder cannot be read as a file.
        std::fs::create_dir(&from).unwrap();
        let failure = copy_keys(&from, &to).unwrap_err().to_string();
        assert!(failure.contains("old.keys") && !failure.contains("new.keys"), "{failure}");
    }
}
