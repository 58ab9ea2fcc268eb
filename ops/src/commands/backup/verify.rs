//! `chronova backup verify`: reads every byte of the backups in a folder, and names each damaged file.

use std::collections::BTreeMap;
use std::io::Write;

use chronova_events::archive::sha256_in;
use chronova_events::place::FilePlace;

use super::super::audit::archive::{check, manifests};
use super::super::{CommandFailure, Exit, LogPlace};
use super::BackupPlace;
use super::folder::{BackupFolder, ReadManifest, distinct};
use super::manifest::StoredFile;

pub(super) fn run(args: &BackupPlace, place: &LogPlace, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let folder = BackupFolder::open(&args.completed(place)?, &place.data)?;
    loop {
        let before = folder.manifests()?;
        let seen = survey(&folder, &before)?;
        // Another command may have removed a file before this command read it.
        if seen.damages.is_empty() || before == folder.manifests()? {
            return tell(&folder, &seen, out);
        }
    }
}

/// The contents of a folder, and their damage.
#[derive(Debug)]
struct BackupSurvey {
    backups: usize,
    /// The chain's hash at the end of each segment of the log.
    ends: BTreeMap<u64, String>,
    files: usize,
    damages: Vec<String>,
}

fn survey(folder: &BackupFolder, manifests: &[ReadManifest]) -> Result<BackupSurvey, CommandFailure> {
    let mut damages = Vec::new();
    let mut backups = Vec::new();
    for found in manifests {
        match found {
            Ok(backup) => backups.push(backup.clone()),
            Err((name, problem)) => damages.push(format!("{name}: {problem}")),
        }
    }
    let backups = distinct(backups);
    let log = folder.log();
    let described: Vec<&StoredFile> = backups.iter().flat_map(|backup| &backup.segments).collect();
    damages.extend(described.iter().filter_map(|file| damage(log, &file.path, file, "log")));
    let ends = check_log(log, &mut damages)?;
    for backup in &backups {
        if backup.position > 0 && ends.get(&backup.position) != Some(&backup.hash) {
            let position = backup.position;
            damages.push(format!("log: no segment ends at position {position} with the hash that its backup names"));
        }
    }
    let files: BTreeMap<&str, &StoredFile> =
        backups.iter().flat_map(|backup| &backup.files).map(|file| (file.sha256.as_str(), file)).collect();
    damages.extend(files.values().filter_map(|file| damage(folder.files(), &file.sha256, file, "files")));
    if let Some(keys) = backups.iter().rev().find_map(|backup| backup.keys.as_ref()) {
        damages.extend(damage(folder.keys(), &keys.sha256, keys, "keys"));
    }
    damages.sort();
    Ok(BackupSurvey { backups: backups.len(), files: files.len(), ends, damages })
}

fn tell(folder: &BackupFolder, seen: &BackupSurvey, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let BackupSurvey { backups: count, ends, files, damages } = seen;
    for damage in damages {
        writeln!(out, "DAMAGE  {damage}")?;
    }
    let end = ends.keys().next_back().copied().unwrap_or_default();
    let dir = folder.address();
    writeln!(out, "{count} backups in {dir}: the log up to position {end}, {files} files")?;
    if damages.is_empty() && *count > 0 {
        writeln!(out, "the backups are whole")?;
        return Ok(Exit::Yes);
    }
    writeln!(out, "{}", if *count == 0 { "there is NO backup" } else { "the backups are NOT whole" })?;
    Ok(Exit::No)
}

/// The damage of a copy, if it has any.
fn damage(place: &dyn FilePlace, name: &str, file: &StoredFile, shown: &str) -> Option<String> {
    let what = match sha256_in(place, name) {
        Ok(found) if found == file.sha256 => return None,
        Ok(_) => "it was changed after it was written".to_owned(),
        Err(fault) => fault.to_string(),
    };
    Some(match name == file.path {
        true => format!("{shown}/{name}: {what}"),
        false => format!("{shown}/{name} ({}): {what}", file.path),
    })
}

/// Checks the segments of the log, and returns the chain's hash at the end of each.
fn check_log(log: &dyn FilePlace, damages: &mut Vec<String>) -> Result<BTreeMap<u64, String>, CommandFailure> {
    let segments = match manifests(log) {
        Ok(segments) => segments,
        Err(failure @ CommandFailure::Usage(_)) => {
            // The description of a segment cannot be parsed. If a backup needs this description, the check of hashes
            // has already reported the file's name.
            damages.push(format!("log: {failure}"));
            return Ok(BTreeMap::new());
        }
        Err(failure) => return Err(failure),
    };
    let (mut ends, mut next) = (BTreeMap::new(), 1);
    let mut chain = segments.first().map_or_else(String::new, |first| first.before.clone());
    for segment in &segments {
        let problem = match check(log, segment, &chain, next) {
            Ok(problem) => problem,
            Err(failure) => Some(failure.to_string()),
        };
        if let Some(problem) = problem {
            let (first, last) = (segment.first, segment.last);
            damages.push(format!("log/{} (positions {first} to {last}): {problem}", segment.file));
        }
        ends.insert(segment.last, segment.end.clone());
        chain.clone_from(&segment.end);
        next = segment.last + 1;
    }
    Ok(ends)
}
