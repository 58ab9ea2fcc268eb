//! `chronova backup list`.

use std::io::Write;

use serde_json::json;

use super::super::audit::archive::manifests;
use super::super::{CommandFailure, Exit, LogPlace};
use super::BackupListArgs;
use super::folder::BackupFolder;
use super::manifest::BackupManifest;

pub(super) fn run(args: &BackupListArgs, place: &LogPlace, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let folder = BackupFolder::open(&args.place.completed(place)?, &place.data)?;
    let backups = folder.backups()?;
    let all: Vec<_> = backups.iter().map(as_json).collect();
    if args.form.write(&json!({"backups": all}), out)? {
        return Ok(Exit::Yes);
    }
    writeln!(out, "{:<28} {:>12}  {:<28} {:>6} {:>14}", "MADE AT", "POSITION", "LAST EVENT AT", "FILES", "BYTES")?;
    for backup in &backups {
        writeln!(
            out,
            "{:<28} {:>12}  {:<28} {:>6} {:>14}",
            backup.made_at().to_string(),
            backup.position,
            chronova_events::envelope::Timestamp(backup.recorded_at).to_string(),
            backup.files.len(),
            bytes(backup)
        )?;
    }
    let end = backups.last().map_or(0, |newest| newest.position);
    if let Some(left) = manifests(folder.log())?.last().filter(|newest| newest.last > end) {
        let told = "an unfinished backup has copied the log up to position";
        writeln!(out, "{told} {}: the next `chronova backup create` continues it", left.last)?;
    }
    Ok(Exit::Yes)
}

fn as_json(backup: &BackupManifest) -> serde_json::Value {
    json!({
        "made_at": backup.made_at().to_string(),
        "position": backup.position,
        "hash": backup.hash,
        "recorded_at": chronova_events::envelope::Timestamp(backup.recorded_at).to_string(),
        "files": backup.files.len(),
        "bytes": bytes(backup),
    })
}

/// The size of the files beside the log.
fn bytes(backup: &BackupManifest) -> u64 {
    backup.files.iter().chain(&backup.keys).map(|file| file.size).sum()
}
