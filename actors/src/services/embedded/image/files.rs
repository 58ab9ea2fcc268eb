//! The files with the data of images.
//!
//! A file `DIR/<image>` is always complete and inspected. The data first goes to `DIR/.<upload>.part`, and is hashed,
//! fsynced and inspected before the rename. The events say which complete files belong to images; [`ImageFiles::sweep`]
//! removes all others at start-up.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use chronova_events::ids::{ImageId, UploadId};
use chronova_events::image::ContentStored;
use chronova_hypervisor::driver::ByteStream;
use futures::{Stream, StreamExt};
use md5::Md5;
use sha2::{Digest, Sha512};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc;

use crate::services::image_inspection::{InspectError, OpenFile, inspect};

/// The upload fails if the sender sends nothing for this time.
const PATIENCE: Duration = Duration::from_mins(1);
/// The most chunks that wait in the channel to the writer, and the most that it writes at once.
const DEPTH: usize = 16;
/// Bytes read at once when an image is sent.
const CHUNK: usize = 256 * 1024;

#[derive(Debug, Error)]
pub enum ReceiveError {
    /// The data is larger than an image may be.
    #[error("the image is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the disk of the image store is full")]
    Full,
    /// The size differs from the one that the sender announced.
    #[error("the client announced {announced} bytes and sent {received}")]
    Length { announced: u64, received: u64 },
    #[error("the client stopped sending: {0}")]
    Sender(String),
    #[error(transparent)]
    Content(#[from] InspectError),
    #[error("the image cannot be stored")]
    Io(#[source] io::Error),
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(error),
        }
    }
}

/// An upload to receive.
#[derive(Debug, Clone)]
pub struct IncomingUpload {
    pub image: ImageId,
    pub upload: UploadId,
    /// The declared `disk_format`.
    pub format: String,
    /// The number of bytes that the sender announced, if it did.
    pub announced: Option<u64>,
}

/// The folder of images.
#[derive(Debug, Clone)]
pub struct ImageFiles {
    folder: PathBuf,
    /// Glance's `[DEFAULT] image_size_cap`.
    limit: u64,
}

impl ImageFiles {
    /// The images of `data_dir`. A missing folder is created, readable by its owner only.
    pub fn open(data_dir: &Path, limit: u64) -> io::Result<Self> {
        let folder = data_dir.join("images");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self { folder, limit })
    }

    fn path(&self, image: ImageId) -> PathBuf {
        self.folder.join(image.to_string())
    }

    /// Receives the data, checks it and moves the file into place. After an error, the unfinished file is removed.
    pub async fn receive(
        &self,
        incoming: IncomingUpload,
        bytes: impl Stream<Item = io::Result<Bytes>> + Unpin,
    ) -> Result<ContentStored, ReceiveError> {
        let limit = self.limit;
        if incoming.announced.is_some_and(|announced| announced > limit) {
            return Err(ReceiveError::TooLarge(limit));
        }
        let (sender, receiver) = mpsc::channel(DEPTH);
        let (written, fed) = tokio::join!(self.write(incoming, receiver), feed(bytes, sender));
        // The writer's error is the cause, because `feed` fails with `Io` only if the writer has stopped.
        match (written, fed) {
            (Err(error), Ok(()) | Err(ReceiveError::Io(_))) => Err(error),
            (_, Err(error)) => Err(error),
            (Ok(stored), Ok(())) => Ok(stored),
        }
    }

    /// Writes the parts as they come. A blocking thread works only while there are bytes to write. Otherwise senders
    /// that send little would take all blocking threads of the process.
    async fn write(
        &self,
        wanted: IncomingUpload,
        mut parts: mpsc::Receiver<UploadPart>,
    ) -> Result<ContentStored, ReceiveError> {
        let (path, limit) = (self.folder.join(format!(".{}.part", wanted.upload)), self.limit);
        let mut content = blocking(move || IncomingContent::create(path, limit)).await?;
        loop {
            let mut arrived = Vec::with_capacity(DEPTH);
            if parts.recv_many(&mut arrived, DEPTH).await == 0 {
                // The removal of a large file takes long.
                blocking(move || {
                    drop(content);
                    Ok(())
                })
                .await?;
                return Err(ReceiveError::Sender("the connection ended before the last byte".to_owned()));
            }
            let ended = matches!(arrived.last(), Some(UploadPart::End));
            content = blocking(move || content.take(arrived)).await?;
            if ended {
                break;
            }
        }
        let files = self.clone();
        blocking(move || files.store(content, &wanted)).await
    }

    /// Checks the complete data and moves the file into place.
    fn store(&self, content: IncomingContent, wanted: &IncomingUpload) -> Result<ContentStored, ReceiveError> {
        let IncomingContent { mut draft, md5, sha512, size, .. } = content;
        if let Some(announced) = wanted.announced.filter(|announced| *announced != size) {
            return Err(ReceiveError::Length { announced, received: size });
        }
        draft.file.sync_all()?;
        let source = OpenFile { file: File::open(&draft.path)?, length: size };
        let inspected = inspect(&source, &wanted.format)?;
        draft.keep_as(&self.path(wanted.image), &self.folder)?;
        Ok(ContentStored {
            image: wanted.image,
            upload: wanted.upload,
            size,
            virtual_size: inspected.virtual_size,
            checksum: hex(&md5.finalize()),
            sha512: hex(&sha512.finalize()),
        })
    }

    /// The data of an image from `offset` on, at most `length` bytes.
    pub async fn read(&self, image: ImageId, offset: u64, length: Option<u64>) -> io::Result<ByteStream> {
        let mut file = tokio::fs::File::open(self.path(image)).await?;
        file.seek(io::SeekFrom::Start(offset)).await?;
        let left = length.unwrap_or(u64::MAX);
        let stream = futures::stream::try_unfold((file, left), |(mut file, left)| async move {
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK);
            let mut chunk = bytes::BytesMut::with_capacity(wanted);
            if wanted == 0 || (&mut file).take(wanted as u64).read_buf(&mut chunk).await? == 0 {
                return Ok(None);
            }
            let left = left - chunk.len() as u64;
            Ok(Some((chunk.freeze(), (file, left))))
        });
        Ok(Box::pin(stream))
    }

    /// Removes an image's file. Succeeds if the file is missing.
    pub async fn remove(&self, image: ImageId) -> io::Result<()> {
        match tokio::fs::remove_file(self.path(image)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes all files except those of the images in `kept`. Returns the images in `kept` without a file.
    pub fn sweep(&self, kept: &BTreeSet<ImageId>) -> io::Result<Vec<ImageId>> {
        let mut missing = kept.clone();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let image = entry.file_name().to_str().and_then(|name| name.parse::<ImageId>().ok());
            if !image.is_some_and(|image| missing.remove(&image)) && entry.file_type()?.is_file() {
                tracing::info!(file = %entry.path().display(), "removed a file that belongs to no image");
                fs::remove_file(entry.path())?;
            }
        }
        Ok(missing.into_iter().collect())
    }
}

/// A message from the sender to the writer. The end is an explicit message, so that a dropped sender does not count as
/// complete.
enum UploadPart {
    Bytes(Bytes),
    End,
}

async fn feed(
    mut bytes: impl Stream<Item = io::Result<Bytes>> + Unpin,
    writer: mpsc::Sender<UploadPart>,
) -> Result<(), ReceiveError> {
    let stopped = || ReceiveError::Io(io::Error::other("the writer stopped"));
    loop {
        match tokio::time::timeout(PATIENCE, bytes.next()).await {
            Ok(Some(Ok(chunk))) => writer.send(UploadPart::Bytes(chunk)).await.map_err(|_| stopped())?,
            Ok(Some(Err(error))) => return Err(ReceiveError::Sender(error.to_string())),
            Ok(None) => return writer.send(UploadPart::End).await.map_err(|_| stopped()),
            Err(_) => return Err(ReceiveError::Sender("no bytes arrived for a minute".to_owned())),
        }
    }
}

/// Runs work on files on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReceiveError> + Send + 'static,
) -> Result<T, ReceiveError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ReceiveError::Io(io::Error::other(error)))?
}

/// The data of an upload that has arrived so far.
struct IncomingContent {
    draft: DraftFile,
    md5: Md5,
    sha512: Sha512,
    size: u64,
    /// The largest size.
    limit: u64,
}

impl IncomingContent {
    fn create(path: PathBuf, limit: u64) -> Result<Self, ReceiveError> {
        Ok(Self { draft: DraftFile::create(path)?, md5: Md5::new(), sha512: Sha512::new(), size: 0, limit })
    }

    fn take(mut self, parts: Vec<UploadPart>) -> Result<Self, ReceiveError> {
        for part in parts {
            let UploadPart::Bytes(chunk) = part else { break };
            self.size += chunk.len() as u64;
            if self.size > self.limit {
                return Err(ReceiveError::TooLarge(self.limit));
            }
            self.draft.file.write_all(&chunk)?;
            self.md5.update(&chunk);
            self.sha512.update(&chunk);
        }
        Ok(self)
    }
}

/// A file that is removed on drop unless it is kept.
struct DraftFile {
    file: File,
    path: PathBuf,
    kept: bool,
}

impl DraftFile {
    fn create(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, kept: false })
    }

    /// Moves the file to its place in the folder. If the folder cannot be synced, the drop removes the moved file.
    fn keep_as(&mut self, place: &Path, folder: &Path) -> io::Result<()> {
        fs::rename(&self.path, place)?;
        place.clone_into(&mut self.path);
        File::open(folder)?.sync_all()?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "removing an unfinished upload failed");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use futures::stream;
    use uuid::Uuid;

    use super::*;

    fn incoming(format: &str) -> IncomingUpload {
        IncomingUpload {
            image: ImageId(Uuid::from_u128(1)),
            upload: UploadId(Uuid::from_u128(2)),
            format: format.to_owned(),
            announced: None,
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder.join("images")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    async fn receive(
        files: &ImageFiles,
        wanted: IncomingUpload,
        parts: &[&str],
    ) -> Result<ContentStored, ReceiveError> {
        let parts: Vec<io::Result<Bytes>> = parts
            .iter()
            .map(|part| match *part {
                "!" => Err(io::Error::other("reset")),
                text => Ok(Bytes::copy_from_slice(text.as_bytes())),
            })
            .collect();
        files.receive(wanted, stream::iter(parts)).await
    }

    #[tokio::test]
    async fn data_is_stored_completely_and_read_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let files = ImageFiles::open(folder.path(), 1_000).unwrap();
        let stored = receive(&files, incoming("raw"), &["hello ", "world"]).await.unwrap();
        assert_eq!((stored.size, stored.virtual_size), (11, Some(11)));
        assert_eq!(stored.checksum, "5eb63bbbe01eeed093cb22bb8f5acdc3");
        assert!(stored.sha512.starts_with("309ecc489c12d6eb4cc40f50c902f2b4"));
        assert_eq!(names(folder.path()), [stored.image.to_string()]);
        let read = |offset, length| {
            let files = files.clone();
            async move {
                let chunks: Vec<_> = files.read(stored.image, offset, length).await.unwrap().collect().await;
                chunks.into_iter().flat_map(|chunk| chunk.unwrap().to_vec()).collect::<Vec<u8>>()
            }
        };
        assert_eq!(read(0, None).await, b"hello world");
        assert_eq!(read(6, Some(3)).await, b"wor");
        files.remove(stored.image).await.unwrap();
        files.remove(stored.image).await.unwrap();
        assert!(names(folder.path()).is_empty());
    }

    #[tokio::test]
    async fn a_failed_upload_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = ImageFiles::open(folder.path(), 10).unwrap();
        let too_long = receive(&files, incoming("raw"), &["hello ", "world"]).await;
        assert!(matches!(too_long, Err(ReceiveError::TooLarge(10))), "{too_long:?}");
        let announced = IncomingUpload { announced: Some(11), ..incoming("raw") };
        assert!(matches!(receive(&files, announced, &["x"]).await, Err(ReceiveError::TooLarge(10))));
        let short = IncomingUpload { announced: Some(5), ..incoming("raw") };
        let short = receive(&files, short, &["abc"]).await;
        assert!(matches!(short, Err(ReceiveError::Length { announced: 5, received: 3 })), "{short:?}");
        let broken = receive(&files, incoming("raw"), &["abc", "!"]).await;
        assert!(matches!(broken, Err(ReceiveError::Sender(_))), "{broken:?}");
        let disguised = receive(&files, incoming("qcow2"), &["abc"]).await;
        assert!(matches!(disguised, Err(ReceiveError::Content(InspectError::Mismatch { .. }))), "{disguised:?}");
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_sender_that_sends_nothing_holds_no_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let files = ImageFiles::open(folder.path(), 1_000).unwrap();
            let slow = files.clone();
            let slow = tokio::spawn(async move { slow.receive(incoming("raw"), stream::pending()).await });
            while names(folder.path()).is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let (image, upload) = (ImageId(Uuid::from_u128(3)), UploadId(Uuid::from_u128(4)));
            let other = receive(&files, IncomingUpload { image, upload, ..incoming("raw") }, &["x"]);
            let stored = tokio::time::timeout(Duration::from_secs(30), other).await.expect("it waits for a thread");
            assert_eq!(stored.unwrap().size, 1);
            slow.abort();
        });
    }

    #[test]
    fn a_file_whose_folder_cannot_be_synced_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("image");
        let mut draft = DraftFile::create(folder.path().join(".upload.part")).unwrap();
        assert!(draft.keep_as(&place, &folder.path().join("missing")).is_err());
        assert!(place.exists(), "the file was not moved, so the test proves nothing");
        drop(draft);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the failed upload leaves no file");
        let mut draft = DraftFile::create(folder.path().join(".upload.part")).unwrap();
        draft.keep_as(&place, folder.path()).unwrap();
        drop(draft);
        assert!(place.exists(), "a kept file stays");
    }

    #[test]
    fn the_sweep_keeps_files_of_images_and_names_missing_ones() {
        let folder = tempfile::tempdir().unwrap();
        let files = ImageFiles::open(folder.path(), 10).unwrap();
        let [kept, lost, stray] = [1, 2, 3].map(|n| ImageId(Uuid::from_u128(n)));
        for name in [kept.to_string(), stray.to_string(), ".x.part".to_owned()] {
            fs::write(folder.path().join("images").join(name), b"x").unwrap();
        }
        assert_eq!(files.sweep(&BTreeSet::from([kept, lost])).unwrap(), [lost]);
        assert_eq!(names(folder.path()), [kept.to_string()]);
    }
}
