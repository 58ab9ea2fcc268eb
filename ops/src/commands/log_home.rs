//! Recognises a copy of a log in SQLite.
//!
//! A small file beside the log notes the identity of the log's file: its inode, and when the file was created. A copied
//! file has another identity. So a copy of the data directory begins a new generation of the log
//! ([`chronova_events::installation`]) at its first start. Hosts that the original drives then refuse the copy. A copy
//! of a whole disk, or of a database, cannot be recognised.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::{Meta, NewEvent, Position, Timestamp};
use chronova_events::installation::{CopyOrigin, GenerationBegun, InstallationEvent, LogGeneration};
use chronova_events::store::{AppendError, EventStore, Expected};
use uuid::Uuid;

use super::audit::archive::begin;
use super::{CommandFailure, DataDir};

/// Begins a new generation if the file of the open log is a copy. The first start on a log only notes the file.
pub async fn settle(data: &DataDir, log: &dyn EventStore) -> Result<()> {
    let (noted, present) = notes(data)?;
    if noted.as_ref() == Some(&present) {
        return Ok(());
    }
    if noted.is_some_and(|noted| !is_same(&noted, &present)) && log.head() != Position::START {
        let generation = begin_generation(log, CopyOrigin::Copied, SystemClock.now()).await?;
        tracing::warn!(
            %generation,
            "this log is a copy, and the hosts of the original refuse it; if the original is gone, run chronova host \
             claim --all"
        );
    }
    Ok(keep(data)?)
}

/// Whether the log's file is a copy whose generation has not begun.
pub(super) fn is_copy(data: &DataDir) -> Result<bool, CommandFailure> {
    let (noted, present) = notes(data)?;
    Ok(noted.is_some_and(|noted| !is_same(&noted, &present)))
}

/// The noted identity of the log's file, and the present one.
fn notes(data: &DataDir) -> Result<(Option<String>, String), CommandFailure> {
    let at = |path: PathBuf| move |error| CommandFailure::File { path, error };
    let noted = match fs::read_to_string(data.home()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.map_err(at(data.home()))?),
    };
    Ok((noted, identity(&data.log()).map_err(at(data.log()))?))
}

/// Whether two notes name the same file. A system that did not tell when the file was created may tell it later.
fn is_same(noted: &str, present: &str) -> bool {
    let parts =
        |note: &str| note.trim().split_once(" created ").map(|(inode, time)| (inode.to_owned(), time.to_owned()));
    match (parts(noted), parts(present)) {
        (Some((a, made)), Some((b, now))) => a == b && (made == now || made == "unknown" || now == "unknown"),
        _ => noted == present,
    }
}

/// Begins a new generation of the log in `store`. Hosts that another copy drives refuse this log from now on.
pub async fn begin_generation(store: &dyn EventStore, origin: CopyOrigin, now: Timestamp) -> Result<Uuid, AppendError> {
    let generation = chronova_events::entropy::uuid();
    let begun = InstallationEvent::from(GenerationBegun { generation, origin });
    let event = NewEvent::new(begun, now, &Meta::system("installation"));
    store.append(&LogGeneration::stream(), Expected::Any, vec![event]).await.map(|_| generation)
}

/// Notes the identity of the log's file.
pub fn keep(data: &DataDir) -> Result<(), CommandFailure> {
    let path = data.home();
    let temporary = path.with_extension("home.tmp");
    let at = |error| CommandFailure::File { path: path.clone(), error };
    let present = identity(&data.log()).map_err(at)?;
    let mut file = begin(&temporary)?;
    file.write_all(present.as_bytes()).and_then(|()| file.sync_all()).map_err(at)?;
    fs::rename(&temporary, &path).map_err(at)?;
    fs::File::open(&data.0).and_then(|folder| folder.sync_all()).map_err(at)
}

/// The identity of a file. Some file systems do not keep the time of the creation.
fn identity(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    let created = metadata.created().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let created = created.map_or_else(|| "unknown".to_owned(), |time| time.as_nanos().to_string());
    Ok(format!("inode {} created {created}\n", metadata.ino()))
}
