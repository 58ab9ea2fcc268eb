//! The folder of backups, or their place in an object store.
//!
//! | name | contents |
//! |---|---|
//! | `backup-POSITION-TIME.HASH.json` | the manifest of one backup |
//! | `log/` | the log, as an archive that `chronova audit --archive DIR/log` reads |
//! | `files/HASH` | the content of a file of the data folder |
//! | `keys/HASH` | the keys of the personal fields, from the newest backup: all keys that were not destroyed by then |
//! | `lock` | held by the command that writes, and shared by commands that restore |
//!
//! The names of incomplete files end in `.tmp`. An interrupted command leaves such files, and the next command removes
//! them.
//!
//! In an object store, each folder is a prefix. Incomplete files and the lock are in a folder of the data directory. So
//! the commands of one machine exclude each other, and only one machine may write to a place in an object store.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_events::place::{self, FilePlace, PlaceAddress};
use sha2::{Digest as _, Sha256};

use super::super::locks::taken;
use super::super::{CommandFailure, DataDir};
use super::at;
use super::manifest::{BackupManifest, StoredFile, hexadecimal};

const TEMPORARY: &str = "tmp";
const LOCK: &str = "lock";
const CHUNK: usize = 1 << 18;

/// A manifest, or the name of a damaged manifest and its damage.
pub(super) type ReadManifest = Result<BackupManifest, (String, String)>;

/// The folder of backups.
#[derive(Debug)]
pub(super) struct BackupFolder {
    root: Arc<dyn FilePlace>,
    log: Arc<dyn FilePlace>,
    files: Arc<dyn FilePlace>,
    keys: Arc<dyn FilePlace>,
}

/// The right to write to the folder.
#[derive(Debug)]
pub(super) struct BackupWriter {
    pub(super) folder: BackupFolder,
    _lock: File,
}

/// The right to read the folder while nobody writes to it. A writer removes files that no kept backup needs.
#[derive(Debug)]
pub(super) struct BackupReader {
    pub(super) folder: BackupFolder,
    /// `None`: the folder is a copy without a lock, which nobody writes to, or it is in an object store.
    _lock: Option<File>,
}

impl BackupFolder {
    /// A folder that may not exist yet. `data`: the data directory, for what an object store needs on this machine.
    fn at(address: &PlaceAddress, data: &DataDir) -> Result<Self, CommandFailure> {
        let open = |address: &PlaceAddress| {
            let opened = place::open(address, &data.backups_in_s3());
            opened.map_err(|error| CommandFailure::Usage(format!("{address}: {error}")))
        };
        Ok(Self {
            root: open(address)?,
            log: open(&address.below("log"))?,
            files: open(&address.below("files"))?,
            keys: open(&address.below("keys"))?,
        })
    }

    /// A folder that exists.
    pub(super) fn open(address: &PlaceAddress, data: &DataDir) -> Result<Self, CommandFailure> {
        if let Some(dir) = address.folder()
            && !fs::metadata(dir).map_err(at(dir))?.is_dir()
        {
            return Err(CommandFailure::Usage(format!("{} is not a folder", dir.display())));
        }
        Self::at(address, data)
    }

    /// The log, as an archive.
    pub(super) fn log(&self) -> &dyn FilePlace {
        &*self.log
    }

    pub(super) fn files(&self) -> &dyn FilePlace {
        &*self.files
    }

    pub(super) fn keys(&self) -> &dyn FilePlace {
        &*self.keys
    }

    pub(super) fn address(&self) -> &PlaceAddress {
        self.root.address()
    }

    /// The backups from the oldest to the newest.
    pub(super) fn backups(&self) -> Result<Vec<BackupManifest>, CommandFailure> {
        let damaged = |(name, problem): (String, String)| {
            let dir = self.address();
            CommandFailure::Usage(format!("{dir}/{name}: {problem}; `chronova backup verify {dir}` shows all damage"))
        };
        let all: Vec<BackupManifest> =
            self.manifests()?.into_iter().map(|found| found.map_err(damaged)).collect::<Result<_, _>>()?;
        Ok(distinct(all))
    }

    /// The manifests from the oldest to the newest.
    pub(super) fn manifests(&self) -> Result<Vec<ReadManifest>, CommandFailure> {
        let mut names: Vec<String> =
            names_in(&*self.root)?.into_iter().filter(|name| BackupManifest::is_name(name)).collect();
        names.sort();
        let read = |name: String| {
            let content = self.root.get(&name).map_err(at(&self.root.path_of(&name)))?;
            Ok(BackupManifest::parse(&name, &content).map_err(|problem| (name, problem)))
        };
        names.into_iter().map(read).collect()
    }
}

impl BackupReader {
    pub(super) fn open(address: &PlaceAddress, data: &DataDir) -> Result<Self, CommandFailure> {
        let folder = BackupFolder::open(address, data)?;
        // A reader of an object store has no lock: it fails if another machine removes a file that it needs.
        let Some(dir) = address.folder() else { return Ok(Self { folder, _lock: None }) };
        let path = dir.join(LOCK);
        let lock = match File::open(&path) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(at(&path)(error)),
        };
        if let Some(lock) = &lock {
            taken(lock.try_lock_shared(), &path, "writes to the backups")?;
        }
        Ok(Self { folder, _lock: lock })
    }
}

impl BackupWriter {
    /// Opens the folder for writing; creates the folder if it does not exist.
    pub(super) fn open(address: &PlaceAddress, data: &DataDir) -> Result<Self, CommandFailure> {
        let folder = BackupFolder::at(address, data)?;
        for place in [&*folder.root, folder.log(), folder.files(), folder.keys()] {
            place.prepare().map_err(at(&shown(place)))?;
        }
        Self::of(folder)
    }

    /// Takes the right to write to a folder that exists. Removes what an ended command left half written.
    pub(super) fn of(folder: BackupFolder) -> Result<Self, CommandFailure> {
        let path = folder.root.prepare().map_err(at(&shown(&*folder.root)))?.join(LOCK);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(at(&path))?;
        taken(lock.try_lock(), &path, "works on the backups")?;
        let writer = Self { folder, _lock: lock };
        writer.remove_unfinished()?;
        Ok(writer)
    }

    /// Removes the files that are not complete.
    pub(super) fn remove_unfinished(&self) -> Result<(), CommandFailure> {
        let folder = &self.folder;
        for place in [&*folder.root, folder.log(), folder.files(), folder.keys()] {
            for name in names_in(place)?.iter().filter(|name| name.ends_with(&format!(".{TEMPORARY}"))) {
                remove_in(place, name)?;
            }
        }
        Ok(())
    }

    /// Removes the manifests that are not in `kept`.
    pub(super) fn remove_others(&self, kept: &[BackupManifest]) -> Result<(), CommandFailure> {
        let kept: Result<std::collections::BTreeSet<String>, serde_json::Error> =
            kept.iter().map(|manifest| manifest.file().map(|(name, _)| name)).collect();
        let kept = kept.map_err(io::Error::other)?;
        let root = &*self.folder.root;
        for name in names_in(root)?.iter().filter(|name| BackupManifest::is_name(name) && !kept.contains(*name)) {
            remove_in(root, name)?;
        }
        root.make_durable(&[]).map_err(at(&shown(root)))
    }

    /// Writes the manifest, which completes the backup.
    pub(super) fn complete(&self, manifest: &BackupManifest) -> Result<(), CommandFailure> {
        let folder = &self.folder;
        // The manifest must not be durable before the files that it names.
        for place in [folder.log(), folder.files(), folder.keys()] {
            place.make_durable(&[]).map_err(at(&shown(place)))?;
        }
        let (name, content) = manifest.file().map_err(io::Error::other)?;
        folder.root.create(&name, &content).map_err(at(&folder.root.path_of(&name)))
    }

    /// Removes copies that no backup needs: those of a backup that was never completed, and older files of keys.
    ///
    /// An erasure destroys keys. The newest file of keys has all keys that still exist, so an older one would only keep
    /// what was erased.
    pub(super) fn remove_unneeded(&self, backups: &[BackupManifest]) -> Result<(), CommandFailure> {
        let files = |backup: &BackupManifest| backup.files.iter().map(|file| file.sha256.clone()).collect::<Vec<_>>();
        let needed: std::collections::BTreeSet<String> = backups.iter().flat_map(files).collect();
        let keys = backups.iter().rev().find_map(|backup| backup.keys.as_ref());
        let (files, kept) = (self.folder.files(), self.folder.keys());
        for name in names_in(files)?.iter().filter(|name| !needed.contains(*name)) {
            remove_in(files, name)?;
        }
        for name in names_in(kept)?.iter().filter(|name| keys.is_none_or(|keys| keys.sha256 != **name)) {
            remove_in(kept, name)?;
        }
        Ok(())
    }
}

/// One manifest for each backup. A killed prune can leave two manifests of one backup. Then only the manifest with more
/// segments counts.
pub(super) fn distinct(all: Vec<BackupManifest>) -> Vec<BackupManifest> {
    let mut kept: Vec<BackupManifest> = Vec::with_capacity(all.len());
    for manifest in all {
        match kept.last_mut() {
            Some(last) if last.is_same_backup(&manifest) => {
                if manifest.segments.len() > last.segments.len() {
                    *last = manifest;
                }
            }
            _ => kept.push(manifest),
        }
    }
    kept
}

/// Copies `source` to `place` under the hash of its content. Returns `None` if the file is gone.
pub(super) fn store(source: &Path, place: &dyn FilePlace, path: String) -> Result<Option<StoredFile>, CommandFailure> {
    let mut file = match File::open(source) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(source)(error)),
    };
    let modified = modified(&file.metadata().map_err(at(source))?);
    let mut draft = place.draft("copy").map_err(at(&shown(place)))?;
    let (mut hash, mut size, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let read = file.read(&mut chunk).map_err(at(source))?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        draft.file.write_all(&chunk[..read]).map_err(at(&draft.path))?;
        size += read as u64;
    }
    let sha256 = hexadecimal(&hash.finalize());
    draft.name.clone_from(&sha256);
    place.finish(draft, &sha256).map_err(at(&place.path_of(&sha256)))?;
    Ok(Some(StoredFile { path, size, sha256, modified }))
}

/// When the file was last changed, in nanoseconds since 1970.
pub(super) fn modified(metadata: &fs::Metadata) -> Option<i64> {
    let since = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

/// A place, for messages.
fn shown(place: &dyn FilePlace) -> PathBuf {
    PathBuf::from(place.address().to_string())
}

/// The names in a place; none if there is no such place.
pub(super) fn names_in(place: &dyn FilePlace) -> Result<Vec<String>, CommandFailure> {
    match place.names() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(at(&shown(place))),
    }
}

fn remove_in(place: &dyn FilePlace, name: &str) -> Result<(), CommandFailure> {
    place.remove(name).map_err(at(&place.path_of(name)))
}

/// The names in a folder; none if there is no folder.
pub(super) fn names(dir: &Path) -> Result<Vec<String>, CommandFailure> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(dir)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        // All names that Chronova gives are UTF-8.
        if let Ok(name) = entry.map_err(at(dir))?.file_name().into_string() {
            names.push(name);
        }
    }
    Ok(names)
}

pub(super) fn remove(path: &Path) -> Result<(), CommandFailure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

pub(super) fn sync(dir: &Path) -> Result<(), CommandFailure> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir))
}
