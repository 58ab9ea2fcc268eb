//! The description of one backup.

use chronova_events::chain::Anchor;
use chronova_events::envelope::{Position, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub(super) const FORMAT: &str = "chronova-backup";
const VERSION: u32 = 1;
const PREFIX: &str = "backup-";
const SUFFIX: &str = ".json";

/// One backup: the end of the log, and the files beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BackupManifest {
    format: String,
    version: u32,
    /// Microseconds since 1970.
    pub made_at: i64,
    /// The position of the newest event in the backup.
    pub position: u64,
    /// The chain's hash at that event.
    pub hash: String,
    /// When that event was recorded, in microseconds since 1970.
    pub recorded_at: i64,
    /// The descriptions of the segments that this backup added to the archive of the log. After a prune, the oldest
    /// backup also has the descriptions of the removed backups.
    pub segments: Vec<StoredFile>,
    /// The keys of the personal fields.
    pub keys: Option<StoredFile>,
    /// The copies of other files of the data folder.
    pub files: Vec<StoredFile>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredFile {
    /// The path in the data folder; for the description of a segment, its name in the archive of the log.
    pub path: String,
    pub size: u64,
    /// In hexadecimal digits.
    pub sha256: String,
    /// When the source was last changed, in nanoseconds since 1970. The next backup copies the file again if its size
    /// or this time differs. `None` for the description of a segment.
    pub modified: Option<i64>,
}

impl BackupManifest {
    pub(super) fn new(made_at: Timestamp, head: Anchor, recorded_at: Timestamp) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            made_at: made_at.0,
            position: head.position.0,
            hash: head.hash.to_string(),
            recorded_at: recorded_at.0,
            segments: Vec::new(),
            keys: None,
            files: Vec::new(),
        }
    }

    pub(super) fn made_at(&self) -> Timestamp {
        Timestamp(self.made_at)
    }

    /// Whether two manifests describe one backup.
    pub(super) fn is_same_backup(&self, other: &Self) -> bool {
        (self.position, self.made_at) == (other.position, other.made_at)
    }

    pub(super) fn position(&self) -> Position {
        Position(self.position)
    }

    /// The file's name and content. The name has the hash of the content.
    pub(super) fn file(&self) -> Result<(String, Vec<u8>), serde_json::Error> {
        let mut content = serde_json::to_vec_pretty(self)?;
        content.push(b'\n');
        let name = format!("{PREFIX}{:020}-{:016}.{}{SUFFIX}", self.position, self.made_at, sha256_of(&content));
        Ok((name, content))
    }

    /// The manifest in a file, or what is wrong with it.
    pub(super) fn parse(name: &str, content: &[u8]) -> Result<Self, String> {
        let hash = name.strip_suffix(SUFFIX).and_then(|name| name.rsplit_once('.')).map(|(_, hash)| hash);
        if hash != Some(sha256_of(content).as_str()) {
            return Err("the manifest was changed after it was written".to_owned());
        }
        let manifest: Self = serde_json::from_slice(content).map_err(|error| error.to_string())?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            return Err(format!("a backup of version {}, which this program does not know", manifest.version));
        }
        Ok(manifest)
    }

    /// Whether a file with this name is a manifest.
    pub(super) fn is_name(name: &str) -> bool {
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    }
}

fn sha256_of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn any_changed_byte_of_a_manifest_is_noticed() {
        let mut manifest = BackupManifest::new(Timestamp(7), Anchor::START, Timestamp(5));
        manifest.files.push(StoredFile { path: "images/a".into(), size: 3, sha256: "00".into(), modified: Some(1) });
        let (name, content) = manifest.file().unwrap();
        assert!(BackupManifest::is_name(&name));
        assert_eq!(BackupManifest::parse(&name, &content), Ok(manifest));
        for at in 0..content.len() {
            let mut changed = content.clone();
            changed[at] ^= 1;
            assert!(BackupManifest::parse(&name, &changed).is_err(), "byte {at}");
        }
    }
}
