//! Snapshots in a folder of this machine: one file per stream.
//!
//! A snapshot names the last event that it includes, because nothing else ties the folder to the log. Another log at
//! the same address has another event at that revision. A file that is damaged or of an unknown format is ignored.

use std::path::PathBuf;

use uuid::Uuid;

use crate::codec;
use crate::envelope::{Revision, StreamId};
use crate::ids::EventId;
use crate::store::{StoreError, StreamSnapshot};

#[derive(Debug)]
pub(super) struct SnapshotFolder(Option<PathBuf>);

/// The content of a file, before the checksum.
type SnapshotFileContent = (StreamId, Revision, u32, Option<EventId>, Vec<u8>);

impl SnapshotFolder {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    fn path(&self, stream: &StreamId) -> Option<PathBuf> {
        let name = Uuid::new_v5(&Uuid::NAMESPACE_OID, stream.as_str().as_bytes());
        Some(self.0.as_ref()?.join(name.simple().to_string()))
    }

    /// The snapshot, and the id of the last event that it includes.
    pub(super) async fn load(&self, stream: &StreamId) -> Option<(StreamSnapshot, Option<EventId>)> {
        let bytes = tokio::fs::read(self.path(stream)?).await.ok()?;
        let (content, sum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (of, revision, state_version, last_event, bytes): SnapshotFileContent =
            codec::decode_snapshot(content).ok()?;
        (of == *stream).then_some((StreamSnapshot { revision, state_version, bytes }, last_event))
    }

    pub(super) async fn save(
        &self,
        stream: &StreamId,
        snapshot: &StreamSnapshot,
        last_event: Option<EventId>,
    ) -> Result<(), StoreError> {
        let (Some(folder), Some(path)) = (&self.0, self.path(stream)) else { return Ok(()) };
        let content: SnapshotFileContent =
            (stream.clone(), snapshot.revision, snapshot.state_version, last_event, snapshot.bytes.clone());
        let failed = |reason: String| StoreError::Io(format!("a snapshot cannot be kept: {reason}"));
        let mut bytes = codec::encode_snapshot(&content).map_err(|error| failed(error.to_string()))?;
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        let temporary = folder.join(Uuid::new_v4().simple().to_string());
        let written = async {
            tokio::fs::create_dir_all(folder).await?;
            tokio::fs::write(&temporary, bytes).await?;
            tokio::fs::rename(&temporary, path).await
        };
        written.await.map_err(|error| failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_damaged_file_is_no_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = SnapshotFolder::new(Some(folder.path().to_owned()));
        let (stream, id) = (StreamId::new("instance", "a"), Some(EventId::random()));
        let snapshot = StreamSnapshot { revision: Revision(3), state_version: 1, bytes: vec![1, 2, 3] };
        snapshots.save(&stream, &snapshot, id).await.unwrap();
        assert_eq!(snapshots.load(&stream).await, Some((snapshot, id)));
        let path = snapshots.path(&stream).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[5] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(snapshots.load(&stream).await, None);
    }
}
