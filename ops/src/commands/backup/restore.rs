//! `chronova backup restore`: writes the data of a backup to an empty data directory.
//!
//! A file in the directory marks the restore as unfinished until its end. `chronova serve` refuses such a directory,
//! and the same command begins the restore again. The directory is locked meanwhile, so that two restores cannot mix.
//!
//! A damaged image or secret does not stop a restore. A damaged manifest does not stop it if another backup is whole.
//! The rest is restored, and the command reports the damage. A damaged log stops the restore. Damaged keys of the
//! personal fields stop it, because another copy of the backup may have the keys. An option restores without the keys.

use std::fs::{self, DirBuilder, File};
use std::io::{Read as _, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use chronova_events::chain::Anchor;
use chronova_events::envelope::{Recorded, Timestamp};
use chronova_events::installation::CopyOrigin;
use chronova_events::place::FilePlace;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::StoreError;
use chronova_events::store::sqlite::import::LogImport;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use sha2::{Digest as _, Sha256};

use super::super::audit::archive::{begin, manifests, read_segment};
use super::super::locks::taken;
use super::super::moments::AsOf;
use super::super::{CommandFailure, DataDir, Exit, LogPlace, log_home};
use super::files::{IMAGES, KEYS, SECRETS};
use super::folder::{BackupFolder, BackupReader, distinct, names, names_in, remove, sync};
use super::manifest::{BackupManifest, StoredFile, hexadecimal};
use super::{BackupRestoreArgs, at};

/// Events in one transaction of the new log.
const BATCH: usize = 8_192;

/// The end of the restored log.
#[derive(Debug, Clone, Copy)]
enum RestoreBound {
    Position(u64),
    Time(Timestamp),
}

impl RestoreBound {
    fn of(args: &BackupRestoreArgs, newest: &BackupManifest, now: Timestamp) -> Result<Self, CommandFailure> {
        let refused = |told: String| Err(CommandFailure::Usage(told));
        match args.at {
            None => Ok(Self::Position(newest.position)),
            Some(AsOf::Position(0)) => refused("the first position is 1".to_owned()),
            Some(AsOf::Position(position)) if position > newest.position => {
                refused(format!("the newest backup ends at position {}, before {position}", newest.position))
            }
            Some(AsOf::Position(position)) => Ok(Self::Position(position)),
            Some(AsOf::Time(when)) => {
                let time = when.resolve(now);
                if time.0 > newest.made_at {
                    return refused(format!("the newest backup was made at {}, before {time}", newest.made_at()));
                }
                Ok(Self::Time(time))
            }
        }
    }

    fn admits(self, event: &Recorded) -> bool {
        match self {
            Self::Position(last) => event.position.0 <= last,
            Self::Time(last) => event.recorded_at <= last,
        }
    }
}

pub(super) async fn run(
    args: &BackupRestoreArgs,
    place: &LogPlace,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    place.in_file("backup restore")?;
    let reader = BackupReader::open(&args.place.completed(place)?, &place.data)?;
    let folder = &reader.folder;
    let (backups, mut damages) = readable(folder)?;
    let none = || CommandFailure::Usage(format!("there is no backup in {}", folder.address()));
    let newest = backups.last().ok_or_else(none)?;
    let bound = RestoreBound::of(args, newest, now)?;
    let data = &place.data;
    let _locked = begin_in(data)?;
    if args.without_keys {
        writeln!(out, "the keys of personal fields are left out: nobody can read these fields in the restored log")?;
    } else {
        take_keys(folder, data, &backups)?;
    }
    let end = write_log(folder, data, newest, bound)?;
    let files = take_files(folder, data, &backups, end, &mut damages)?;
    finish(data, now).await?;
    let dir = data.0.display();
    writeln!(out, "restored {dir} as of position {}: {files} files beside the log", end.position)?;
    if let Some(oldest) = backups.first().filter(|oldest| oldest.position() > end.position) {
        let position = oldest.position;
        writeln!(out, "files that were removed before position {position}, the oldest backup, are not in the backups")?;
    }
    writeln!(out, "verify it with: chronova audit verify --data-dir {dir}")?;
    writeln!(
        out,
        "hosts that the original log drove refuse this copy until you run: \
         chronova host claim --all --data-dir {dir}"
    )?;
    for damage in &damages {
        writeln!(out, "DAMAGE  {damage}")?;
    }
    Ok(if damages.is_empty() { Exit::Yes } else { Exit::No })
}

/// Copies the keys of the personal fields. If they are damaged, the failure names the option that leaves them out.
fn take_keys(folder: &BackupFolder, data: &DataDir, backups: &[BackupManifest]) -> Result<(), CommandFailure> {
    let Some(keys) = keys(folder, backups)? else { return Ok(()) };
    take(folder.keys(), &data.0, &keys, KEYS).map_err(|failure| match failure {
        damaged if is_damage(&damaged) => CommandFailure::Usage(format!(
            "{damaged}: restore from another copy of the backup; if no copy has whole keys, --without-keys restores \
             everything but the personal fields"
        )),
        other => other,
    })
}

/// Whether the failure shows that a file of the backup is damaged or missing. A full disk, for example, does not.
fn is_damage(failure: &CommandFailure) -> bool {
    match failure {
        CommandFailure::Usage(_) => true,
        CommandFailure::File { error, .. } => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// The newest keys. They have all older ones, except those that an erasure has destroyed since. If the newest manifest
/// is damaged, the folder still has the file of keys that it named. The name of that file is the hash of its content.
fn keys(folder: &BackupFolder, backups: &[BackupManifest]) -> Result<Option<StoredFile>, CommandFailure> {
    let Some(named) = backups.iter().rev().find_map(|backup| backup.keys.clone()) else { return Ok(None) };
    let there = names_in(folder.keys())?;
    if there.contains(&named.sha256) {
        return Ok(Some(named));
    }
    Ok(Some(match there.into_iter().find(|name| !name.contains('.')) {
        Some(sha256) => StoredFile { sha256, ..named },
        None => named,
    }))
}

/// The backups whose manifests are whole, and the damage of the others.
fn readable(folder: &BackupFolder) -> Result<(Vec<BackupManifest>, Vec<String>), CommandFailure> {
    let (mut backups, mut damages) = (Vec::new(), Vec::new());
    for found in folder.manifests()? {
        match found {
            Ok(backup) => backups.push(backup),
            Err((name, problem)) => damages.push(format!("{name}: {problem}: it was not used")),
        }
    }
    Ok((distinct(backups), damages))
}

/// Locks and marks the directory. It must be empty, or have the remains of an earlier restore.
fn begin_in(data: &DataDir) -> Result<File, CommandFailure> {
    let (dir, mark) = (&data.0, data.unfinished_restore());
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at(dir))?;
    let locked = File::open(dir).map_err(at(dir))?;
    taken(locked.try_lock(), dir, "restores to this directory")?;
    let found: Vec<String> = names(dir)?.into_iter().filter(|name| name != "lost+found").collect();
    if !found.is_empty() && !mark.exists() {
        let told = format!("{} is not empty: a backup is restored to an empty directory only", dir.display());
        return Err(CommandFailure::Usage(told));
    }
    for name in found.iter().filter(|name| dir.join(name) != mark) {
        let path = dir.join(name);
        match path.is_dir() {
            true => fs::remove_dir_all(&path).map_err(at(&path))?,
            false => remove(&path)?,
        }
    }
    drop(begin(&mark)?);
    sync(dir)?;
    Ok(locked)
}

fn write_log(
    folder: &BackupFolder,
    data: &DataDir,
    newest: &BackupManifest,
    bound: RestoreBound,
) -> Result<Anchor, CommandFailure> {
    let mut import = LogImport::create(&data.log())?;
    let (mut batch, mut over) = (Vec::with_capacity(BATCH), false);
    for segment in manifests(folder.log())?.iter().filter(|segment| segment.first <= newest.position) {
        if over {
            break;
        }
        read_segment(folder.log(), segment, |entry| {
            if over {
                return Ok(());
            }
            let malformed = || StoreError::Corrupt { position: entry.position, reason: "malformed".to_owned() };
            let event = entry.recorded(None).ok_or_else(malformed)?;
            if !bound.admits(&event) {
                over = true;
                return Ok(());
            }
            batch.push(event);
            if batch.len() == BATCH {
                import.append(batch.iter())?;
                batch.clear();
            }
            Ok(())
        })?;
    }
    import.append(batch.iter())?;
    let end = import.head();
    if end.position.0 == 0 {
        return Err(CommandFailure::Usage("all events in the backups are newer".to_owned()));
    }
    if let RestoreBound::Position(last) = bound
        && end.position.0 != last
    {
        let (folder, end) = (folder.address(), end.position);
        let told = format!("the log in the backup ends at position {end}: chronova backup verify {folder} shows why");
        return Err(CommandFailure::Usage(told));
    }
    let keys = KeyRing::open_read_only(data.keys()).map_err(StoreError::from)?;
    Ok(import.finish(Some(&*keys).filter(|keys| keys.is_there()))?)
}

/// Copies the files that belong to the log up to `end`. Returns the number of whole files. Adds the damaged ones to
/// `damages`.
///
/// These are the files of the first backup that reaches `end`. If `end` is before the end of that backup, the server
/// may have removed a file in between. So the files that only the previous backup has are copied, too.
fn take_files(
    folder: &BackupFolder,
    data: &DataDir,
    backups: &[BackupManifest],
    end: Anchor,
    damages: &mut Vec<String>,
) -> Result<usize, CommandFailure> {
    let reaches = backups.iter().position(|backup| backup.position() >= end.position).unwrap_or(backups.len() - 1);
    let later = &backups[reaches];
    let earlier = reaches.checked_sub(1).filter(|_| later.position() > end.position).map(|before| &backups[before]);
    let has = |path: &str| later.files.iter().any(|file| file.path == path);
    let removed = earlier.iter().flat_map(|backup| &backup.files).filter(|file| !has(&file.path));
    let files: Vec<&StoredFile> = later.files.iter().chain(removed).collect();
    for dir in [IMAGES, SECRETS] {
        let dir = data.0.join(dir);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(at(&dir))?;
    }
    let mut whole = 0;
    for file in files {
        match take(folder.files(), &data.0, file, &file.path) {
            Ok(()) => whole += 1,
            Err(failure) if failure.is_full() => return Err(failure),
            Err(failure) => damages.push(format!("{} was not restored: {failure}", file.path)),
        }
    }
    for dir in [IMAGES, SECRETS] {
        sync(&data.0.join(dir))?;
    }
    Ok(whole)
}

/// Copies one file out of the backup, and compares its hash.
fn take(from: &dyn FilePlace, data: &Path, file: &StoredFile, path: &str) -> Result<(), CommandFailure> {
    let plain = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let damaged =
        |what: &str| CommandFailure::Usage(format!("{}: {path} {what}", from.path_of(&file.sha256).display()));
    if !plain {
        return Err(damaged("is no path in a data directory"));
    }
    let target = data.join(path);
    let copied = copy(from, &file.sha256, &target)
        .and_then(|hash| if hash == file.sha256 { Ok(()) } else { Err(damaged("was changed after it was written")) });
    if copied.is_err() {
        // The control plane must not serve half of an image.
        remove(&target)?;
    }
    copied
}

/// Copies a file. Returns the hash of its content.
fn copy(from: &dyn FilePlace, name: &str, target: &Path) -> Result<String, CommandFailure> {
    let source = &from.path_of(name);
    let mut source_file = from.reader(name).map_err(at(source))?;
    let mut target_file = begin(target)?;
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; 1 << 18]);
    loop {
        let read = source_file.read(&mut chunk).map_err(at(source))?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        target_file.write_all(&chunk[..read]).map_err(at(target))?;
    }
    target_file.sync_all().map_err(at(target))?;
    Ok(hexadecimal(&hash.finalize()))
}

/// Opens the log once for writing, which checks the log and seals its pages. Begins a new generation of the log, so
/// that hosts that the original drives refuse the restored log. Removes the mark of the unfinished restore.
async fn finish(data: &DataDir, now: Timestamp) -> Result<(), CommandFailure> {
    let log = data.log();
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(log, &SqliteOptions::default())).await;
    let store = opened.map_err(|error| StoreError::Io(error.to_string()))??;
    let begun = log_home::begin_generation(&*store, CopyOrigin::Restored, now).await;
    store.close().await;
    begun.map_err(|error| CommandFailure::Usage(format!("{}: {error}", data.log().display())))?;
    log_home::keep(data)?;
    sync(&data.0)?;
    remove(&data.unfinished_restore())?;
    sync(&data.0)
}
