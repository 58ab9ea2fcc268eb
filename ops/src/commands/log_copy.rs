//! `chronova log copy`: copies a log in SQLite to the database that the configuration names.
//!
//! Positions, hashes and times stay, so anchors and exports that were made before still hold. The source is locked while it
//! is copied, and unchanged.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chronova_events::store::EventStore as _;
use chronova_events::store::StoreError;
use chronova_events::store::postgres::PostgresOptions;
use chronova_events::store::postgres::copying::{CopyStage, copy};
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};

use super::{CommandFailure, DataDir, Exit};

/// How often the progress is shown.
const TELLS: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, clap::Subcommand)]
pub enum LogCommand {
    /// Copy a log in SQLite to the PostgreSQL database that [chronova] event_store names.
    Copy {
        #[command(flatten)]
        place: crate::cli::ConfigPaths,
        #[command(flatten)]
        args: LogCopyArgs,
    },
}

#[derive(Debug, Clone, clap::Args)]
pub struct LogCopyArgs {
    /// The log in SQLite (log.db), or the data folder that holds it
    #[arg(value_name = "SQLITE")]
    pub source: PathBuf,
    /// The database; by default that of [chronova] event_store. A password in it can be seen by other users of this machine
    #[arg(value_name = "POSTGRES")]
    pub target: Option<String>,
}

pub async fn run(
    args: &LogCopyArgs,
    database: &PostgresOptions,
    data: &DataDir,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let path = if args.source.is_dir() { args.source.join("log.db") } else { args.source.clone() };
    // Opening for writing would create a missing log.
    drop(ReadOnlyLog::open(&path)?);
    let opened = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || SqliteStore::open(path, &SqliteOptions::default())).await
    };
    let source = opened.map_err(|error| StoreError::Io(error.to_string()))??;
    let keys = with_suffix(&path, ".keys");
    copy_keys(&keys, &data.keys())?;
    let mut options = PostgresOptions { keys: Some(keys), ..database.clone() };
    if let Some(url) = &args.target {
        options.url.clone_from(url);
    }
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
        let due =
            at == whole || matches!(stage, CopyStage::Begins(_)) || told.is_none_or(|told| told.elapsed() >= TELLS);
        if due {
            told = Some(Instant::now());
            let rate = u128::from(at.0.saturating_sub(first)) * 1_000 / begun.elapsed().as_millis().max(1);
            let percent = if whole.0 == 0 { 100 } else { at.0 * 100 / whole.0 };
            let line = match stage {
                CopyStage::Copies(_) => format!("{what} {at} of {whole} ({percent} %), {rate} events/s"),
                _ => format!("{what} {at} of {whole} ({percent} %)"),
            };
            failure = writeln!(out, "{line}").and_then(|()| out.flush()).err();
        }
        if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let copied = copy(&options, &*source, &mut tell).await;
    source.close().await;
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    let end = copied?;
    writeln!(
        out,
        "the database holds the log up to {end}; `chronova serve` refuses a data folder with log.db: move it away"
    )?;
    Ok(Exit::Yes)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The personal fields are of no use without their keys. A file of other keys is never replaced.
fn copy_keys(from: &Path, to: &Path) -> Result<(), CommandFailure> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if !from.exists() || from == to {
        return Ok(());
    }
    let bytes = std::fs::read(from)?;
    if to.exists() {
        if std::fs::read(to)? == bytes {
            return Ok(());
        }
        let what = format!("{} holds other keys than {}: name another data_dir", to.display(), from.display());
        return Err(CommandFailure::Usage(what));
    }
    if let Some(folder) = to.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = with_suffix(to, ".new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    std::fs::rename(new, to)?;
    Ok(())
}
