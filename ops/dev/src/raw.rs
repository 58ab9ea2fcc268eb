//! Measures the bare machine, as the reference for a figure.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use super::meter::{Run, measure};

/// Repeats `operations` times: appends `size` bytes to a file in `folder`, and waits until they are on the disk.
pub fn append_and_sync(folder: &Path, size: usize, operations: usize) -> io::Result<Run> {
    let mut file = tempfile::tempfile_in(folder)?;
    let block = vec![0x5a_u8; size];
    measure(operations, |_| {
        file.write_all(&block)?;
        file.sync_data()
    })
}

/// Measures the mean time of one durable append.
pub fn sync_time(folder: &Path) -> io::Result<Duration> {
    const TIMES: u32 = 64;
    let run = append_and_sync(folder, 4096, TIMES as usize)?;
    Ok(run.elapsed / TIMES)
}

/// Fails early if `folder` is not writable.
pub fn check_writable(folder: &Path) -> io::Result<File> {
    tempfile::tempfile_in(folder)
}
