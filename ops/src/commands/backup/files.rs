//! The files of the data folder that a backup has beside the log.
//!
//! | name | contents |
//! |---|---|
//! | `log.db.keys` | the keys of the personal fields |
//! | `token.key` | the key that signs tokens |
//! | `clouds.yaml` | the credentials of the first administrator |
//! | `log.db.holds` | the legal holds |
//! | `images/` | the content of images; the log has their names |
//! | `secrets/` | the secrets of the embedded key manager |
//!
//! A backup leaves out everything else:
//!
//! * `views/`, `log.db.seals`, `log.db.witness`, `log.db.tree`, `log.db.index` and `log.db.names` are rebuilt from the
//!   log. `views.keys` has only the keys of the checkpoints in `views/`; a server without it makes new keys.
//! * `log.db.lock` and `log.db-wal` belong to a running process.
//! * `archive/` is in the backup of the log. A backup reads archived events through the log, and a restored log has all
//!   events in its file.
//! * `archive.s3/` and `backups.s3/` can be read from an object store again.
//! * `log.db.home` identifies the file of the log, and `sim/` simulates hosts.

use std::collections::BTreeMap;
use std::path::Path;

use chronova_events::envelope::{Position, Revision, StreamId};
use chronova_events::instance::InstanceEvent;
use chronova_events::registry::NounEvent as _;
use chronova_events::store::EventStore;
use uuid::Uuid;

use super::super::log_pages::payload;
use super::super::{CommandFailure, DataDir};
use super::at;
use super::folder::{BackupFolder, BackupWriter, modified, names, store};
use super::manifest::{BackupManifest, StoredFile};

const SINGLE: [&str; 3] = ["token.key", "clouds.yaml", "log.db.holds"];
pub(super) const IMAGES: &str = "images";
pub(super) const SECRETS: &str = "secrets";
/// The name of the keys in a backup and in a data folder.
pub(super) const KEYS: &str = "log.db.keys";
/// Events that are read at once.
const PAGE: usize = 1_024;

/// The copies of this backup so far, by path.
#[derive(Debug, Default)]
pub(super) struct CopiedFiles {
    copies: BTreeMap<String, StoredFile>,
    /// The copies of the newest earlier backup.
    known: BTreeMap<String, StoredFile>,
    /// The sizes of the files that earlier backups have stored, by name.
    stored: BTreeMap<String, u64>,
    pub(super) bytes: u64,
}

impl CopiedFiles {
    /// `newest`: the newest backup, whose copies of unchanged files are used again.
    pub(super) fn after(newest: Option<&BackupManifest>, folder: &BackupFolder) -> Result<Self, CommandFailure> {
        let known = newest.map(|backup| backup.files.iter().map(|file| (file.path.clone(), file.clone())).collect());
        let files = folder.files();
        let stored = files.sizes().map_err(at(Path::new(&files.address().to_string())))?.into_iter().collect();
        Ok(Self { known: known.unwrap_or_default(), stored, ..Self::default() })
    }

    pub(super) fn list(self) -> Vec<StoredFile> {
        self.copies.into_values().collect()
    }

    /// Copies the files that have no copy yet.
    pub(super) fn collect(&mut self, data: &DataDir, writer: &BackupWriter) -> Result<(), CommandFailure> {
        for name in SINGLE {
            self.copy(&data.0, name.to_owned(), writer)?;
        }
        for folder in [IMAGES, SECRETS] {
            // Uploads and secrets that are being written have other names.
            let named = names(&data.0.join(folder))?;
            for name in named.into_iter().filter(|name| name.parse::<Uuid>().is_ok()) {
                self.copy(&data.0, format!("{folder}/{name}"), writer)?;
            }
        }
        Ok(())
    }

    /// Copies one file, unless an earlier copy has its present content. The content of an image or a secret is written
    /// once under its name, so the size and the time of the last change show whether a file was changed.
    fn copy(&mut self, data: &Path, path: String, writer: &BackupWriter) -> Result<(), CommandFailure> {
        let source = data.join(&path);
        let Ok(metadata) = source.metadata() else { return Ok(()) };
        let same = |file: &&StoredFile| file.size == metadata.len() && file.modified == modified(&metadata);
        if self.copies.get(&path).is_some_and(|copied| same(&copied)) {
            return Ok(());
        }
        let is_stored = |file: &&StoredFile| self.stored.get(&file.sha256) == Some(&file.size);
        if let Some(known) = self.known.get(&path).filter(same).filter(is_stored) {
            self.copies.insert(path, known.clone());
        } else if let Some(copied) = store(&source, writer.folder.files(), path.clone())? {
            self.bytes += copied.size;
            self.copies.insert(path, copied);
        }
        Ok(())
    }

    fn has(&self, folder: &str, id: &str) -> bool {
        self.copies.contains_key(&format!("{folder}/{id}"))
    }

    /// Whether the copies have every file that belongs to the log at `head`.
    ///
    /// The server writes a file before it records the event that names the file. It removes the file after it records
    /// the event that ends the file's use. So if a file of the log at `head` is missing, an event after `head` ends the
    /// use of the file. `log` must be opened after the files were copied, so that it has this event.
    pub(super) async fn are_complete(&self, head: Position, log: &dyn EventStore) -> Result<bool, CommandFailure> {
        let mut at = head;
        loop {
            let page = log.read_all(at, PAGE).await?;
            for event in &page {
                let Some((noun, id)) = event.stream.as_str().split_once('-') else { continue };
                let gone = match (noun, &*event.kind) {
                    ("image", "image.deleted") => !self.has(IMAGES, id),
                    ("instance", kind) if kind.ends_with("deleted") || kind.ends_with("delete_requested") => {
                        self.lacks_secret_of(log, &event.stream).await?
                    }
                    _ => false,
                };
                if gone {
                    return Ok(false);
                }
                at = event.position;
            }
            if page.len() < PAGE {
                return Ok(true);
            }
        }
    }

    /// Whether the secret of this server may have been removed before it was copied.
    async fn lacks_secret_of(&self, log: &dyn EventStore, server: &StreamId) -> Result<bool, CommandFailure> {
        let mut after = Revision::NONE;
        loop {
            let page = log.read_stream(server, after, PAGE).await?;
            for event in page.iter().filter(|event| &*event.kind == "instance.tpm_secret_stored") {
                if let Some(InstanceEvent::TpmSecretStored(stored)) = InstanceEvent::of(payload(event)?)
                    && !self.has(SECRETS, &stored.reference)
                {
                    return Ok(true);
                }
            }
            match page.last() {
                Some(last) => after = last.revision,
                None => return Ok(false),
            }
        }
    }
}
