//! The data folder is private to the service: folders 0700, files 0600.
//!
//! Chronova creates files and folders with these modes. Files from an older version, a backup or an administrator may
//! have wider modes. Chronova restricts those modes at start-up. It logs a warning, because other users may have read
//! the files.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

/// The permission bits of the group and of all others.
const OTHERS: u32 = 0o077;

/// Creates the folder if it is missing, and restricts it with everything in it.
pub(super) fn close(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let closed = close_one(folder, &fs::metadata(folder)?)? + close_all(folder)?;
    if closed > 0 {
        tracing::warn!(
            folder = %folder.display(),
            closed,
            "the data folder or entries in it were open to other users of this machine, who may have read them: restricted now"
        );
    }
    Ok(())
}

/// Restricts everything in the folder. Returns how many entries were open. Symbolic links are not followed, because
/// their targets are not in the folder.
fn close_all(folder: &Path) -> io::Result<usize> {
    let mut closed = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Another task may remove the file meanwhile.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_symlink() {
            continue;
        }
        closed += close_one(&path, &metadata)?;
        if metadata.is_dir() {
            closed += close_all(&path)?;
        }
    }
    Ok(closed)
}

fn close_one(path: &Path, metadata: &Metadata) -> io::Result<usize> {
    let mode = metadata.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(0);
    }
    fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OTHERS))?;
    Ok(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_open_folder_and_its_entries_are_restricted_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let (outside, data) = (parent.path().join("outside"), parent.path().join("data"));
        fs::write(&outside, b"").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        close(&data).unwrap();
        assert_eq!(mode(&data), 0o700);
        let (below, file) = (data.join("views"), data.join("views/one"));
        fs::create_dir(&below).unwrap();
        fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
        for (path, open) in [(&data, 0o755), (&below, 0o777), (&file, 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(open)).unwrap();
        }
        close(&data).unwrap();
        assert_eq!([mode(&data), mode(&below), mode(&file), mode(&outside)], [0o700, 0o700, 0o600, 0o644]);
    }
}
