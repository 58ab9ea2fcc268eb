//! Checkpoints keep read models across restarts. A comparison proves that the kept read models equal rebuilt ones.
//!
//! A checkpoint is one file with every read model and the mark: the position up to which the read models are folded
//! ([`file`] has the format). A checkpoint is written from a fork of the live read models, so nobody waits for it. It
//! is written atomically, by a temporary file, fsync, rename, and fsync of the folder.
//!
//! The read models in the file are sealed under a key that is stored beside the log. An erasure destroys that key.
//! Afterwards neither the file nor a copy of it reveals personal data.
//!
//! Two kinds of checkpoints are kept ([`retention`]). Several of the newest are kept in case one is damaged. The older
//! ones are thinned out to a history. Queries about the past begin at a checkpoint of this history. The log remains the
//! truth. If a checkpoint is unusable, an older checkpoint or the log itself replaces it, and a message tells operators
//! so.

mod compare;
mod file;
mod keeper;
mod retention;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::sealed::keys::KeyRing;
use chronova_events::sealed::whole::WholeSeal;
use chronova_events::sealed::{DataSubject, SealError};
use chronova_events::store::{EventStore, StoreError};
use thiserror::Error;

use crate::views::{Mark, RestoreOutcome, Views};

pub use compare::differences;
pub use file::{CheckpointWriteStep, relabel};
pub use keeper::{CheckpointKeeper, CheckpointStatus, KeeperOptions};

const EXTENSION: &str = "checkpoint";
/// A file that an earlier version left behind.
const FORMER: &str = "views.checkpoint.json";

#[derive(Debug, Error)]
pub enum CheckpointError {
    #[error("the checkpoint cannot be written or read")]
    Io(#[from] io::Error),
    #[error("a read model cannot be encoded: {0}")]
    Encode(String),
    #[error("{0}")]
    Unusable(String),
    #[error(transparent)]
    Keys(#[from] SealError),
    #[error("personal data was erased while the checkpoint was written; the next checkpoint leaves the data out")]
    Overtaken,
    #[error("the log cannot be read")]
    Store(#[from] StoreError),
}

/// How many checkpoints are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// The number of the newest checkpoints. They are kept even if they are close together.
    pub newest: usize,
    /// The largest number of older checkpoints, which are evenly spread over the log.
    pub history: usize,
    /// The least number of events between two checkpoints of the history.
    pub spacing: u64,
    /// The limit on the total bytes of all checkpoints. The newest are kept even beyond the limit.
    pub disk: u64,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self { newest: 2, history: 64, spacing: 250_000, disk: 8 << 30 }
    }
}

/// A checkpoint on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFile {
    pub path: PathBuf,
    pub mark: Mark,
    pub bytes: u64,
    /// Whether an earlier version wrote the file, with read models that are not encrypted.
    pub clear: bool,
}

/// A checkpoint that exists but is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedCheckpoint {
    pub path: PathBuf,
    pub reason: String,
}

/// Read models that were loaded from a checkpoint.
#[derive(Debug)]
pub struct OpenedViews {
    pub views: Views,
    /// The checkpoint that the read models come from; `None`: they are empty.
    pub from: Option<CheckpointFile>,
    /// Checkpoints that could not be used, newest first.
    pub refused: Vec<RejectedCheckpoint>,
    /// Read models of an older version, which are shown until they are rebuilt.
    pub provisional: BTreeSet<&'static str>,
    /// Read models that the checkpoint lacks or holds in an unusable form.
    pub absent: BTreeSet<&'static str>,
}

impl OpenedViews {
    fn empty() -> Self {
        Self {
            views: Views::new(),
            from: None,
            refused: Vec::new(),
            provisional: BTreeSet::new(),
            absent: BTreeSet::new(),
        }
    }

    /// Messages for operators, one line each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self
            .refused
            .iter()
            .map(|refused| format!("the checkpoint {} is not used: {}", refused.path.display(), refused.reason))
            .collect();
        if let Some(clear) = self.from.as_ref().filter(|found| found.clear) {
            remarks.push(format!(
                "the checkpoint {} was written by a version that did not encrypt checkpoints: the next one replaces it",
                clear.path.display()
            ));
        }
        let names = |set: &BTreeSet<&'static str>| set.iter().copied().collect::<Vec<_>>().join(", ");
        if !self.provisional.is_empty() {
            remarks.push(format!(
                "read models of another version are shown as they are while they are rebuilt: {}",
                names(&self.provisional)
            ));
        }
        if !self.absent.is_empty() {
            remarks.push(format!("read models of another version are rebuilt first: {}", names(&self.absent)));
        }
        remarks
    }
}

/// The folder of the checkpoints. A process has one object per folder, so only one task at a time writes or deletes
/// checkpoints.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    options: CheckpointOptions,
    keys: Arc<KeyRing>,
    /// The number of the current era. [`Checkpoints::discard_all`] raises it under the lock.
    era: AtomicU64,
    writing: Mutex<()>,
}

/// A period between two erasures. Read models forked in an earlier era may still hold data that was erased since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Era(u64);

impl Checkpoints {
    /// The checkpoints in `folder`, sealed with `keys`.
    pub fn new(folder: impl Into<PathBuf>, options: CheckpointOptions, keys: Arc<KeyRing>) -> Arc<Self> {
        Arc::new(Self { folder: folder.into(), options, keys, era: AtomicU64::default(), writing: Mutex::default() })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn options(&self) -> &CheckpointOptions {
        &self.options
    }

    /// The current era. Callers ask for it before they fork the read models.
    pub fn era(&self) -> Era {
        Era(self.era.load(Ordering::SeqCst))
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a checkpoint of `views` and removes the checkpoints that need not be kept. `views` is a fork, so nobody
    /// folds it meanwhile. Blocks.
    pub fn save(&self, views: &Views) -> Result<CheckpointFile, CheckpointError> {
        self.write(None, views, &mut |_| Ok(()))
    }

    /// Like [`Checkpoints::save`], but fails if an erasure has begun another era since.
    pub fn save_in(&self, era: Era, views: &Views) -> Result<CheckpointFile, CheckpointError> {
        self.write(Some(era), views, &mut |_| Ok(()))
    }

    /// Like [`Checkpoints::save`], but calls `before` ahead of each step. Tests return an error there to end the
    /// writing.
    pub fn save_by_steps(
        &self,
        views: &Views,
        before: &mut dyn FnMut(CheckpointWriteStep) -> io::Result<()>,
    ) -> Result<CheckpointFile, CheckpointError> {
        self.write(None, views, before)
    }

    fn write(
        &self,
        era: Option<Era>,
        views: &Views,
        before: &mut dyn FnMut(CheckpointWriteStep) -> io::Result<()>,
    ) -> Result<CheckpointFile, CheckpointError> {
        let _lock = self.lock();
        if era.is_some_and(|era| era != self.era()) {
            return Err(CheckpointError::Overtaken);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mark = views.marked();
        let path = self.folder.join(format!("views-{:020}.{EXTENSION}", mark.position.0));
        let bytes = file::write(views, &path, &self.keys, before)?;
        before(CheckpointWriteStep::Thin)?;
        self.thin()?;
        Ok(CheckpointFile { path, mark, bytes, clear: false })
    }

    fn thin(&self) -> io::Result<()> {
        let (found, _) = self.list();
        let (clear, sealed): (Vec<CheckpointFile>, Vec<CheckpointFile>) =
            found.into_iter().partition(|found| found.clear);
        for gone in clear.iter().chain(&retention::superfluous(&sealed, &self.options)) {
            fs::remove_file(&gone.path)?;
        }
        for leftover in self.files("tmp") {
            fs::remove_file(leftover)?;
        }
        match fs::remove_file(self.folder.join(FORMER)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Begins a new era without any checkpoint. Destroys the keys of the old checkpoints, so that copies of them cannot
    /// be opened either. Removes every file of the folder. This includes half-written files, so that no such file
    /// becomes a checkpoint later. Waits for a checkpoint that is being written.
    pub fn discard_all(&self) -> io::Result<()> {
        let _lock = self.lock();
        self.era.fetch_add(1, Ordering::SeqCst);
        self.keys.destroy(&DataSubject::Caches, self.keys.next()).map_err(io::Error::other)?;
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut paths: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
        paths.sort();
        paths
    }

    /// The checkpoints in the folder, oldest first, and those with an unreadable table. Reads only their tables.
    pub fn list(&self) -> (Vec<CheckpointFile>, Vec<RejectedCheckpoint>) {
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for path in self.files(EXTENSION) {
            match file::outline(&path) {
                Ok(outline) => {
                    let (mark, bytes) = (outline.table.mark, outline.length);
                    found.push(CheckpointFile { path, mark, bytes, clear: outline.seal.is_none() });
                }
                Err(error) => refused.push(RejectedCheckpoint { path, reason: error.to_string() }),
            }
        }
        found.sort_by_key(|found| found.mark.position);
        (found, refused)
    }

    /// Loads the newest usable checkpoint that `fits`; empty read models if there is none. Blocks.
    pub fn load(&self, fits: impl Fn(&Mark) -> bool) -> OpenedViews {
        let (found, refused) = self.list();
        let mut opened = OpenedViews::empty();
        opened.refused = refused.into_iter().rev().collect();
        for candidate in found.into_iter().rev().filter(|found| fits(&found.mark)) {
            match read(&candidate, &self.keys) {
                Ok(read) => return OpenedViews { refused: opened.refused, from: Some(candidate), ..read },
                Err(error) => {
                    opened.refused.push(RejectedCheckpoint { path: candidate.path, reason: error.to_string() });
                }
            }
        }
        opened
    }

    /// Like [`Checkpoints::load`], for checkpoints of this log only. A log that was truncated or replaced counts as
    /// another log. Checkpoints that are older than the loaded one are not looked at, because the events at their
    /// positions may be in an archive that cannot be read.
    pub async fn open(self: &Arc<Self>, store: &dyn EventStore) -> Result<OpenedViews, CheckpointError> {
        let (found, unreadable) = self.list();
        let mut refused: Vec<RejectedCheckpoint> = unreadable.into_iter().rev().collect();
        for candidate in found.into_iter().rev() {
            let reason = match belongs(store, &candidate.mark).await? {
                Err(reason) => reason,
                Ok(()) => {
                    let (this, file) = (Arc::clone(self), candidate.clone());
                    let opened = tokio::task::spawn_blocking(move || read(&file, &this.keys)).await;
                    match opened.map_err(io::Error::other)? {
                        Ok(opened) => return Ok(OpenedViews { refused, from: Some(candidate), ..opened }),
                        Err(error) => error.to_string(),
                    }
                }
            };
            refused.push(RejectedCheckpoint { path: candidate.path, reason });
        }
        Ok(OpenedViews { refused, ..OpenedViews::empty() })
    }

    /// Loads the newest usable checkpoint that `fits` and has all read models in their current version.
    pub(crate) fn nearest(&self, fits: impl Fn(&Mark) -> bool) -> Option<Views> {
        let (found, _) = self.list();
        found.iter().rev().filter(|found| fits(&found.mark)).find_map(|candidate| {
            let opened = read(candidate, &self.keys).ok()?;
            (opened.provisional.is_empty() && opened.absent.is_empty()).then_some(opened.views)
        })
    }

    /// Like [`Checkpoints::nearest`], for checkpoints of this log only.
    pub(crate) async fn nearest_of(
        self: &Arc<Self>,
        store: &dyn EventStore,
        fits: impl Fn(&Mark) -> bool,
    ) -> Result<Option<Views>, CheckpointError> {
        let (found, _) = self.list();
        for candidate in found.iter().rev().filter(|found| fits(&found.mark)) {
            if belongs(store, &candidate.mark).await?.is_err() {
                continue;
            }
            let (this, position) = (Arc::clone(self), candidate.mark.position);
            let nearest = move || this.nearest(|mark| mark.position == position);
            let nearest = tokio::task::spawn_blocking(nearest).await.map_err(io::Error::other)?;
            if nearest.is_some() {
                return Ok(nearest);
            }
        }
        Ok(None)
    }

    /// Like [`Checkpoints::nearest_of`], but loads only the read models `names`.
    pub(crate) async fn nearest_part(
        self: &Arc<Self>,
        store: &dyn EventStore,
        fits: impl Fn(&Mark) -> bool,
        names: &BTreeSet<&'static str>,
    ) -> Result<Option<Views>, CheckpointError> {
        let (found, _) = self.list();
        for candidate in found.into_iter().rev().filter(|found| fits(&found.mark)) {
            if belongs(store, &candidate.mark).await?.is_err() {
                continue;
            }
            let (this, names) = (Arc::clone(self), names.clone());
            let part = tokio::task::spawn_blocking(move || read_part(&candidate, &this.keys, names)).await;
            if let Ok(views) = part.map_err(io::Error::other)? {
                return Ok(Some(views));
            }
        }
        Ok(None)
    }
}

/// Reads the read models `names`, and no other part of the file.
fn read_part(
    candidate: &CheckpointFile,
    keys: &KeyRing,
    names: BTreeSet<&'static str>,
) -> Result<Views, CheckpointError> {
    let (outline, file) = (file::outline(&candidate.path)?, fs::File::open(&candidate.path)?);
    let seal = outline.seal.map(|mark| WholeSeal::of(keys, mark)).transpose();
    let seal = seal.map_err(|unopened| CheckpointError::Unusable(unopened.to_string()))?;
    let (views, mut left) = (Views::only(names.clone()), names);
    for (part, (section, range)) in outline.ranges().enumerate() {
        if !left.remove(section.name.as_str()) {
            continue;
        }
        let mut bytes = vec![0; range.len()];
        file.read_exact_at(&mut bytes, range.start as u64)?;
        let restored = clear(&outline, seal.as_ref(), (part, section), &bytes)
            .map(|bytes| views.restore(&section.name, section.version, &bytes));
        if restored != Some(RestoreOutcome::Current) {
            return Err(CheckpointError::Unusable(format!("read model {} cannot be used", section.name)));
        }
    }
    match left.first() {
        Some(absent) => Err(CheckpointError::Unusable(format!("it has no read model {absent}"))),
        None => {
            views.set_mark(outline.table.mark);
            Ok(views)
        }
    }
}

/// The decrypted bytes of a read model; `None` if they are damaged.
fn clear<'a>(
    outline: &file::Outline,
    seal: Option<&WholeSeal>,
    (part, section): (usize, &file::Section),
    bytes: &'a [u8],
) -> Option<Cow<'a, [u8]>> {
    if crc32fast::hash(bytes) != section.checksum {
        return None;
    }
    let Some(seal) = seal else { return Some(Cow::Borrowed(bytes)) };
    let bound = outline.bound(&section.name).ok()?;
    seal.open(u32::try_from(part).ok()?, &bound, bytes).map(Cow::Owned)
}

/// Whether the log still has the mark's event at the mark's position.
async fn belongs(store: &dyn EventStore, mark: &Mark) -> Result<Result<(), String>, StoreError> {
    let (position, Some(event)) = (mark.position, mark.event) else { return Ok(Ok(())) };
    let head = store.head();
    if position > head {
        return Ok(Err(format!("it is at position {position}, the log ends at {head}")));
    }
    let there = match store.read_all(Position(position.0.saturating_sub(1)), 1).await {
        // An older checkpoint may be of a damaged part of the log.
        Err(damaged @ StoreError::Corrupt { .. }) => return Ok(Err(damaged.to_string())),
        read => read?,
    };
    let same = there.first().is_some_and(|there| there.position == position && there.id == event);
    Ok(if same { Ok(()) } else { Err(format!("the log has another event at position {position}")) })
}

/// Reads every read model on a thread of its own, because decoding takes most of the time.
fn read(candidate: &CheckpointFile, keys: &KeyRing) -> Result<OpenedViews, CheckpointError> {
    let (outline, bytes) = file::read(&candidate.path)?;
    let seal = outline.seal.map(|mark| WholeSeal::of(keys, mark)).transpose();
    let seal = seal.map_err(|unopened| CheckpointError::Unusable(unopened.to_string()))?;
    let mut opened = OpenedViews::empty();
    let views = &opened.views;
    let work = |part: usize, section: &file::Section, range: std::ops::Range<usize>| {
        let bytes = bytes.get(range).and_then(|bytes| clear(&outline, seal.as_ref(), (part, section), bytes));
        bytes.map_or(RestoreOutcome::Damaged, |bytes| views.restore(&section.name, section.version, &bytes))
    };
    let work = &work;
    let restored: Vec<(&str, RestoreOutcome)> = std::thread::scope(|scope| {
        let threads: Vec<_> = outline
            .ranges()
            .enumerate()
            .map(|(part, (section, range))| (section.name.as_str(), scope.spawn(move || work(part, section, range))))
            .collect();
        threads.into_iter().map(|(name, thread)| (name, thread.join().unwrap_or(RestoreOutcome::Damaged))).collect()
    });
    if let Some((name, _)) = restored.iter().find(|(_, restored)| *restored == RestoreOutcome::Damaged) {
        return Err(CheckpointError::Unusable(format!("read model {name} is damaged")));
    }
    for name in Views::NAMES {
        match restored.iter().find(|(found, _)| found == name).map(|(_, restored)| restored) {
            Some(RestoreOutcome::Current) => {}
            Some(RestoreOutcome::Provisional) => {
                opened.provisional.insert(*name);
            }
            _ => {
                opened.absent.insert(*name);
            }
        }
    }
    opened.views.set_mark(outline.table.mark);
    Ok(opened)
}

/// The number of read models in a checkpoint.
pub fn count() -> usize {
    Views::NAMES.len()
}

/// Whether a mark lies at or before `time`.
pub(crate) fn is_by(mark: &Mark, time: Timestamp) -> bool {
    mark.moment <= time
}

#[cfg(test)]
pub(crate) mod tests;
