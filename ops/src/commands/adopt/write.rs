//! Puts the complete log into the data folder, or leaves the data folder unchanged.
//!
//! The command writes the log into a folder beside the data folder, and renames that folder over the empty data folder.
//! A kill before the rename leaves the data folder unchanged. The next run removes the unfinished folder.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use chronova_events::store::StoreError;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};

use super::history::AdoptionHistory;
use crate::commands::{CommandFailure, DataDir};

/// Refuses a data folder that is not empty.
pub(super) fn is_free(data: &DataDir) -> Result<(), CommandFailure> {
    let folder = &data.0;
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(CommandFailure::Usage(format!(
                "{} is not empty: adopt writes a new log and changes no other",
                folder.display()
            ))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(CommandFailure::Usage(format!("{}: {error}", folder.display()))),
    }
}

/// The folder in which the command writes the log.
fn beside(folder: &Path) -> Result<PathBuf, CommandFailure> {
    let Some(name) = folder.file_name() else {
        return Err(CommandFailure::Usage(format!("{} has no name: use another data folder", folder.display())));
    };
    let mut name = name.to_owned();
    name.push(".adopting");
    Ok(folder.with_file_name(name))
}

pub(super) async fn log(data: &DataDir, history: AdoptionHistory) -> Result<(), CommandFailure> {
    is_free(data)?;
    let folder = std::path::absolute(&data.0)?;
    let making = beside(&folder)?;
    // A run that was killed left this folder.
    if making.exists() {
        fs::remove_dir_all(&making)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&making)?;
    let written = write(&making, history).await;
    let placed = match written {
        Ok(()) => place(&making, &folder),
        Err(error) => Err(error),
    };
    if placed.is_err() {
        // The error that is returned matters more than an error of this clean-up.
        let _ = fs::remove_dir_all(&making);
    }
    placed
}

async fn write(folder: &Path, history: AdoptionHistory) -> Result<(), CommandFailure> {
    let path = DataDir(folder.to_owned()).log();
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(path, &SqliteOptions::default())).await;
    let store = opened.map_err(|error| StoreError::Io(error.to_string()))??;
    let appended = history.write(&*store).await;
    store.close().await;
    appended.map_err(|error| CommandFailure::Usage(format!("the log cannot be written: {error}")))
}

/// A rename replaces an empty folder atomically.
fn place(making: &Path, folder: &Path) -> Result<(), CommandFailure> {
    sync(making)?;
    fs::rename(making, folder).map_err(|error| {
        let hint = "if it is a mount point, name a folder in it";
        CommandFailure::Usage(format!("{} cannot be put in place ({hint}): {error}", folder.display()))
    })?;
    if let Some(parent) = folder.parent() {
        sync(parent)?;
    }
    Ok(())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
