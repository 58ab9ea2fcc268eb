//! The file that says up to which position the events have been delivered.
//!
//! The file names the log, by the id of its first event, and the event at the position. So an outbox is not continued
//! on another log, or on a log that was restored to an earlier moment and then got other events.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use chronova_events::envelope::Position;
use chronova_events::store::EventStore;
use serde::{Deserialize, Serialize};

use super::super::super::CommandFailure;
use super::super::super::locks::taken;

const FORMAT: &str = "chronova-outbox";
const VERSION: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct OutboxState {
    format: String,
    version: u32,
    /// The destination.
    to: String,
    /// The id of the log's first event. `None`: the log was empty.
    log: Option<String>,
    position: u64,
    /// The id of the event at the position. `None`: the outbox has delivered nothing.
    event: Option<String>,
}

pub(super) struct Outbox {
    path: PathBuf,
    state: OutboxState,
    /// Locked while this value lives.
    _lock: File,
}

impl Outbox {
    /// Opens the file at `path`. If there is none, begins an outbox whose next event is at `from`.
    pub(super) fn open(path: &Path, to: &str, from: Option<u64>) -> Result<Self, CommandFailure> {
        let beside = with_ending(path, "lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&beside);
        let lock = lock.map_err(at(&beside))?;
        taken(lock.try_lock(), &beside, "delivers from this outbox")?;
        let begin = from.map(|from| from.saturating_sub(1));
        let mut state = match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => OutboxState {
                format: FORMAT.to_owned(),
                version: VERSION,
                to: to.to_owned(),
                log: None,
                position: 0,
                event: None,
            },
            Err(error) => return Err(at(path)(error)),
            Ok(content) => read(path, &content)?,
        };
        if state.to != to {
            return Err(wrong(path, &format!("it belongs to {}", state.to)));
        }
        if from.is_some() && state.event.is_some() {
            return Err(wrong(path, "it has a position already: leave out --from-position, or name a new file"));
        }
        state.position = begin.unwrap_or(state.position);
        Ok(Self { path: path.to_owned(), state, _lock: lock })
    }

    /// Refuses an outbox of another log.
    pub(super) async fn check(&self, store: &dyn EventStore) -> Result<(), CommandFailure> {
        let position = self.position();
        if position > store.head() {
            let told = format!("it is at position {position}, but the log ends at {}", store.head());
            return Err(wrong(&self.path, &told));
        }
        let expected = [(self.state.log.as_ref(), Position(1)), (self.state.event.as_ref(), position)];
        let mut equal = true;
        for (id, position) in expected {
            equal &= id.is_none() || event_at(store, position).await?.as_ref() == id;
        }
        if equal {
            return Ok(());
        }
        Err(wrong(
            &self.path,
            &format!("it belongs to another log, or the log was restored to before position {position}"),
        ))
    }

    pub(super) fn position(&self) -> Position {
        Position(self.state.position)
    }

    /// Records that all events up to `position` are delivered. The new file replaces the old one when it is durable.
    pub(super) async fn save(&mut self, store: &dyn EventStore, position: Position) -> Result<(), CommandFailure> {
        let log = event_at(store, Position(1)).await?;
        let event = event_at(store, position).await?;
        let state = OutboxState { log, event, position: position.0, ..self.state.clone() };
        let temporary = with_ending(&self.path, "new");
        let content = serde_json::to_vec(&state).map_err(std::io::Error::from)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let mut file = file.map_err(at(&temporary))?;
        file.write_all(&content).and_then(|()| file.sync_all()).map_err(at(&temporary))?;
        fs::rename(&temporary, &self.path).map_err(at(&self.path))?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))?;
        self.state = state;
        Ok(())
    }
}

/// The id of the event at `position`, if there is one.
async fn event_at(store: &dyn EventStore, position: Position) -> Result<Option<String>, CommandFailure> {
    let page = store.read_all(Position(position.0.saturating_sub(1)), 1).await?;
    Ok(page.first().filter(|recorded| recorded.position == position).map(|recorded| recorded.id.0.to_string()))
}

fn read(path: &Path, content: &[u8]) -> Result<OutboxState, CommandFailure> {
    let state: OutboxState = serde_json::from_slice(content).map_err(|error| wrong(path, &error.to_string()))?;
    match (state.format.as_str(), state.version) {
        (FORMAT, VERSION) => Ok(state),
        (format, version) => Err(wrong(path, &format!("its format is {format} {version}"))),
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn wrong(path: &Path, why: &str) -> CommandFailure {
    CommandFailure::Usage(format!("the outbox {} cannot be used: {why}", path.display()))
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> CommandFailure {
    let path = path.to_owned();
    move |error| CommandFailure::File { path, error }
}
