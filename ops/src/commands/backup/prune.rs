//! `chronova backup prune`: removes all backups but the newest ones.
//!
//! The log in the folder stays whole, because every backup needs all events from the first one on. Pruning frees the
//! files that only removed backups need: images, secrets.
//!
//! Each manifest describes the segments of the log that its backup added. The oldest kept backup takes over the
//! descriptions of the removed backups, so that `verify` still knows the hash of every file. The command first writes
//! the new manifest of this backup, then removes the manifests that no longer count, then the files that no backup
//! needs. A command that is ended in between leaves every kept backup whole. The next prune removes the rest.

use std::io::Write;

use super::super::{CommandFailure, Exit, LogPlace};
use super::BackupPruneArgs;
use super::folder::{BackupFolder, BackupWriter};

pub(super) fn run(args: &BackupPruneArgs, place: &LogPlace, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let writer = BackupWriter::of(BackupFolder::open(&args.place.completed(place)?, &place.data)?)?;
    let removed = prune(&writer, args.keep)?;
    let left = writer.folder.backups()?.len();
    writeln!(out, "removed {removed} backups, {left} are left")?;
    Ok(Exit::Yes)
}

/// Removes all backups but the newest `keep`. Returns how many it removed.
pub(super) fn prune(writer: &BackupWriter, keep: usize) -> Result<usize, CommandFailure> {
    // A damaged manifest stops the command here, because its backup may be one of those to keep.
    let all = writer.folder.backups()?;
    let old = all.len().saturating_sub(keep);
    let (removed, kept) = all.split_at(old);
    let mut kept = kept.to_vec();
    if let (Some(oldest), false) = (kept.first_mut(), removed.is_empty()) {
        oldest.segments = removed.iter().chain([&*oldest]).flat_map(|backup| backup.segments.clone()).collect();
        writer.complete(oldest)?;
    }
    writer.remove_others(&kept)?;
    writer.remove_unneeded(&kept)?;
    Ok(removed.len())
}
