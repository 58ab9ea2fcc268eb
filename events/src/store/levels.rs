//! The level of a log says which events a leader may write, so that every member can read them.
//!
//! Members of two versions share a log during an upgrade. The log has a level, a number that never falls. `levels.txt`
//! has the level of each kind and version. A leader writes an event only if the log has reached the event's level. The
//! leader raises the level of the log as soon as all living members know the new level.
//!
//! An event above the level of the log is written in an older version, if that version can express it
//! ([`crate::registry::OlderForm`]). Otherwise the append is refused, and the request gets 503.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::process::ProcessEvent;
use crate::registry::Event;

const TABLE: &str = include_str!("../../levels.txt");

/// The lines of `levels.txt`.
struct LevelTable {
    /// For each kind: the versions with their levels.
    kinds: HashMap<&'static str, Vec<(u16, u16)>>,
    /// The tasks of processes. All tasks are values of one field, so the version of the event does not tell them apart.
    tasks: HashMap<&'static str, u16>,
    newest: u16,
}

/// A line that cannot be parsed is left out, and a test finds it. A leader never writes an event without a line.
static LEVELS: LazyLock<LevelTable> = LazyLock::new(|| {
    let mut table = LevelTable { kinds: HashMap::new(), tasks: HashMap::new(), newest: 1 };
    for (level, kind, last) in lines() {
        table.newest = table.newest.max(level);
        match (kind, last.strip_prefix('v').and_then(|version| version.parse().ok())) {
            ("task", _) => {
                table.tasks.insert(last, level);
            }
            (kind, Some(version)) => table.kinds.entry(kind).or_default().push((version, level)),
            (_, None) => {}
        }
    }
    table
});

/// The level, the kind (or `task`) and the version (or the name of the task) of each line.
pub fn lines() -> impl Iterator<Item = (u16, &'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split(' ');
        let (level, kind, last) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        words.next().is_none().then_some((level, kind, last))
    })
}

/// The events that a process knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLevels {
    newest: u16,
    /// Kinds and versions that are newer than `levels.txt` says. Only a rehearsal has any.
    later: Arc<[(String, u16)]>,
}

impl Default for EventLevels {
    /// The events of this version.
    fn default() -> Self {
        Self { newest: LEVELS.newest, later: Arc::from([]) }
    }
}

impl EventLevels {
    /// The events of the older or the newer member in the rehearsal of an upgrade, for example
    /// `old server_group.created@1`. The named events belong to the level after the newest one, which only a `new`
    /// member knows. `None` if the text has another form.
    pub fn rehearsed(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let newest = match words.next()? {
            "old" => LEVELS.newest,
            "new" => LEVELS.newest.checked_add(1)?,
            _ => return None,
        };
        let later: Option<Vec<(String, u16)>> = words
            .map(|word| {
                let (kind, version) = word.split_once('@')?;
                Some((kind.to_owned(), version.parse().ok()?))
            })
            .collect();
        Some(Self { newest, later: later?.into() })
    }

    /// The newest level that this process knows.
    pub fn newest(&self) -> u16 {
        self.newest
    }

    /// The level of the events of this kind and version. `None` if this process does not know them.
    pub fn of(&self, kind: &str, version: u16) -> Option<u16> {
        let listed = LEVELS.kinds.get(kind)?.iter().find(|(listed, _)| *listed == version)?.1;
        let is_later = self.later.iter().any(|(later, since)| later == kind && *since == version);
        let level = if is_later { LEVELS.newest.saturating_add(1) } else { listed };
        (level <= self.newest).then_some(level)
    }

    /// Whether this process can read events of this kind and version.
    pub fn knows(&self, kind: &str, version: u16) -> bool {
        self.of(kind, version).is_some()
    }

    /// The newest version in which a leader may write the event to a log of this level. `None` if members of this level
    /// cannot read the event in any version.
    pub fn version_to_write(&self, event: &Event, level: u16) -> Option<u16> {
        let (kind, newest) = (event.kind(), event.version());
        if task_level(event) > level {
            return None;
        }
        (1..=newest).rev().find(|version| {
            let is_read = self.of(kind, *version).is_some_and(|needed| needed <= level);
            is_read && (*version == newest || event.encode_as(*version).is_some())
        })
    }
}

/// The level of the task, if the event begins a process.
fn task_level(event: &Event) -> u16 {
    match event {
        Event::ProcessEvent(ProcessEvent::Started(started)) => {
            LEVELS.tasks.get(started.task.name()).copied().unwrap_or(u16::MAX)
        }
        _ => 0,
    }
}
