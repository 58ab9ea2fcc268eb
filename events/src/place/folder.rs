//! A folder as a place of files.
//!
//! A draft is a file beside the others, `NAME.tmp`. A draft is synced before it gets its name. The folder is synced
//! when [`FilePlace::create`] has written the last file, which names the others.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::{FilePlace, PlaceAddress, PlaceDraft};

/// A folder.
#[derive(Debug)]
pub struct FolderPlace {
    folder: PathBuf,
    address: PlaceAddress,
}

impl FolderPlace {
    pub fn new(folder: PathBuf) -> Self {
        Self { address: PlaceAddress::Folder(folder.clone()), folder }
    }
}

impl FilePlace for FolderPlace {
    fn address(&self) -> &PlaceAddress {
        &self.address
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn sizes(&self) -> io::Result<Vec<(String, u64)>> {
        let mut sizes = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // All names that Chronova gives are UTF-8.
            let Ok(name) = entry.file_name().into_string() else { continue };
            match entry.path().metadata() {
                Ok(metadata) if metadata.is_file() => sizes.push((name, metadata.len())),
                Ok(_) => {}
                // The file was removed meanwhile. But a link to a missing file is an error, because a file that others
                // need is lost.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !entry.file_type()?.is_symlink() => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
            }
        }
        Ok(sizes)
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path_of(name))
    }

    fn range(&self, name: &str, from: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path_of(name))?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn reader(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(File::open(self.path_of(name))?))
    }

    fn prepare(&self) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        Ok(self.folder.clone())
    }

    fn draft(&self, name: &str) -> io::Result<PlaceDraft> {
        begin(&self.folder, name)
    }

    fn finish(&self, draft: PlaceDraft, _sha256: &str) -> io::Result<()> {
        draft.file.sync_all()?;
        fs::rename(&draft.path, self.path_of(&draft.name))
    }

    /// The caller's lock of the folder keeps other writers away while this function looks and writes.
    fn create(&self, name: &str, content: &[u8]) -> io::Result<()> {
        match self.get(name) {
            // A command wrote the file and was killed right afterwards.
            Ok(there) if there == content => {}
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another command has written it")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut draft = begin(&self.folder, name)?;
                draft.file.write_all(content)?;
                self.finish(draft, "")?;
            }
            Err(error) => return Err(error),
        }
        File::open(&self.folder)?.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path_of(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn make_durable(&self, names: &[String]) -> io::Result<()> {
        for name in names {
            let path = self.path_of(name);
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        }
        File::open(&self.folder)?.sync_all()?;
        // The folder and the folders above it may be new. A folder that this process may not open is not new.
        for above in std::path::absolute(&self.folder)?.ancestors().skip(1) {
            let Ok(opened) = File::open(above) else { break };
            opened.sync_all()?;
        }
        Ok(())
    }
}

/// Begins a draft in a folder: a file that only its owner may read, like the log itself. Replaces a draft that a crash
/// left.
pub(super) fn begin(folder: &Path, name: &str) -> io::Result<PlaceDraft> {
    let path = folder.join(format!("{name}.tmp"));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok(PlaceDraft { file, path, name: name.to_owned() })
}
