//! Streams of image bytes. A download is inspected before its first byte is passed on. An upload is counted and hashed
//! up to its last byte.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use chronova_hypervisor::driver::ByteStream;
use futures::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256, Sha512};

use crate::services::image_inspection::{InspectError, Inspected, RandomAccess, inspect};

/// How many bytes an inspection reads from the beginning of an image. These bytes hold the headers of all formats, and
/// everything that the inspection of a qcow2 file needs. They do not hold the footer of a fixed VHD.
const HEAD: usize = 2 * 1024 * 1024;

/// The first bytes of a content of known length. All later bytes read as zeros.
struct ContentHead<'a> {
    bytes: &'a [u8],
    length: u64,
}

impl RandomAccess for ContentHead<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (place, byte) in buffer.iter_mut().enumerate() {
            *byte = start.checked_add(place).and_then(|at| self.bytes.get(at)).copied().unwrap_or(0);
        }
        Ok(())
    }
}

/// Reads the first bytes of a stream, and inspects them. The returned stream still gives all bytes.
pub(super) async fn look(
    bytes: ByteStream,
    length: u64,
    format: &str,
) -> io::Result<(Result<Inspected, InspectError>, ByteStream)> {
    // A small image ends in the loop below. The returned stream then polls `bytes` again, so `bytes` must be fused.
    let mut bytes = bytes.fuse();
    let mut head = BytesMut::new();
    while head.len() < HEAD {
        match bytes.next().await {
            Some(chunk) => head.extend_from_slice(&chunk?),
            None => break,
        }
    }
    let head = head.freeze();
    let judged = inspect(&ContentHead { bytes: &head, length }, format);
    let all: ByteStream = Box::pin(stream::iter([Ok(head)]).chain(bytes));
    Ok((judged, all))
}

/// The number of bytes that were sent, and their SHA-512.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentContent {
    pub size: u64,
    pub sha512: String,
}

/// Holds the size and the hash of a stream, after the stream has ended without an error.
#[derive(Debug, Clone, Default)]
pub(super) struct SentReceipt(Arc<Mutex<Option<SentContent>>>);

impl SentReceipt {
    pub(super) fn read(&self) -> Option<SentContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, sent: SentContent) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns a stream of the same bytes, and the receipt that the stream fills at its end.
pub(super) fn counted(bytes: ByteStream) -> (stream::BoxStream<'static, io::Result<Bytes>>, SentReceipt) {
    let receipt = SentReceipt::default();
    let state = Some((bytes, Sha512::new(), 0_u64, receipt.clone()));
    let counted = stream::unfold(state, |state| async move {
        let (mut bytes, mut sum, size, receipt) = state?;
        match bytes.next().await {
            Some(Ok(chunk)) => {
                sum.update(&chunk);
                let size = size.saturating_add(chunk.len() as u64);
                Some((Ok(chunk), Some((bytes, sum, size, receipt))))
            }
            Some(Err(error)) => Some((Err(error), None)),
            None => {
                receipt.write(SentContent { size, sha512: hex(&sum.finalize()) });
                None
            }
        }
    });
    (counted.boxed(), receipt)
}

/// Returns a stream of the same bytes. It ends with an error if the bytes do not have this SHA-512 or SHA-256.
pub(super) fn verified(bytes: ByteStream, checksum: &str) -> ByteStream {
    use sha2::digest::DynDigest;
    let sum: Box<dyn DynDigest + Send> = match checksum.len() {
        64 => Box::new(Sha256::new()),
        _ => Box::new(Sha512::new()),
    };
    let state = Some((bytes, sum, checksum.to_ascii_lowercase()));
    Box::pin(stream::unfold(state, |state| async move {
        let (mut bytes, mut sum, checksum) = state?;
        match bytes.next().await {
            Some(Ok(chunk)) => {
                sum.update(&chunk);
                Some((Ok(chunk), Some((bytes, sum, checksum))))
            }
            Some(Err(error)) => Some((Err(error), None)),
            None => {
                let same = hex(&sum.finalize()) == checksum;
                let refusal = || io::Error::other("its bytes do not have the os_hash_value that Glance shows");
                (!same).then(|| (Err(refusal()), None))
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bytes(text: &'static [u8]) -> ByteStream {
        Box::pin(stream::iter(text.chunks(3).map(|chunk| Ok(Bytes::from_static(chunk)))))
    }

    async fn read(mut bytes: ByteStream) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(chunk) = bytes.next().await {
            all.extend_from_slice(&chunk?);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn a_look_at_the_head_loses_nothing() {
        let (judged, all) = look(bytes(b"content"), 7, "raw").await.unwrap();
        assert_eq!(judged.unwrap().virtual_size, Some(7));
        assert_eq!(read(all).await.unwrap(), b"content");
        let (judged, _) = look(bytes(b"QFI\xfb and so on"), 100, "raw").await.unwrap();
        assert!(judged.is_err(), "a qcow2 file is not raw");
        let (judged, _) = look(bytes(b"content"), 7, "qcow2").await.unwrap();
        assert!(judged.is_err(), "a raw file is not qcow2");
    }

    #[tokio::test]
    async fn bytes_with_another_hash_end_with_an_error() {
        let sums = [hex(&Sha256::digest(b"content")), hex(&Sha512::digest(b"content")).to_uppercase()];
        for sum in sums {
            assert_eq!(read(verified(bytes(b"content"), &sum)).await.unwrap(), b"content");
            let refused = read(verified(bytes(b"Content"), &sum)).await.unwrap_err();
            assert!(refused.to_string().contains("os_hash_value"), "{refused}");
        }
    }

    #[tokio::test]
    async fn only_completed_uploads_are_counted() {
        let (mut sent, receipt) = counted(bytes(b"content"));
        while sent.next().await.is_some() {}
        let sent = receipt.read().unwrap();
        assert_eq!((sent.size, sent.sha512.len()), (7, 128));
        let gone: ByteStream = Box::pin(stream::iter([Ok(Bytes::from_static(b"half")), Err(io::Error::other("gone"))]));
        let (mut sent, receipt) = counted(gone);
        while sent.next().await.is_some() {}
        assert_eq!(receipt.read(), None);
    }
}
