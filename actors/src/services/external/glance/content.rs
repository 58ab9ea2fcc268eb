//! An image's bytes on their way: looked at before the first byte is passed on, and counted and summed up to the last.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use chronova_hypervisor::driver::ByteStream;
use futures::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256, Sha512};

use crate::services::embedded::image::inspect::{InspectError, Inspected, RandomAccess, inspect};

/// The part of an image that says what it is: the first cluster of a qcow2 file is no longer.
const HEAD: usize = 2 * 1024 * 1024;

/// The beginning of a file of known length. What comes after it reads as zeros: nothing that counts is there.
struct StreamHead<'a> {
    bytes: &'a [u8],
    length: u64,
}

impl RandomAccess for StreamHead<'_> {
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

/// Reads the beginning, and judges it. The stream that comes back gives all bytes.
pub(super) async fn look(
    mut bytes: ByteStream,
    length: u64,
    format: &str,
) -> io::Result<(Result<Inspected, InspectError>, ByteStream)> {
    let mut head = BytesMut::new();
    while head.len() < HEAD {
        match bytes.next().await {
            Some(chunk) => head.extend_from_slice(&chunk?),
            None => break,
        }
    }
    let head = head.freeze();
    let judged = inspect(&StreamHead { bytes: &head, length }, format);
    let all: ByteStream = Box::pin(stream::iter([Ok(head)]).chain(bytes));
    Ok((judged, all))
}

/// SHA-512 or SHA-256, by the length of what it is compared with.
enum Sum {
    Sha512(Box<Sha512>),
    Sha256(Box<Sha256>),
}

impl Sum {
    fn like(checksum: &str) -> Self {
        if checksum.len() == 64 { Self::Sha256(Box::default()) } else { Self::Sha512(Box::default()) }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha512(sum) => sum.update(bytes),
            Self::Sha256(sum) => sum.update(bytes),
        }
    }

    fn hex(self) -> String {
        let bytes = match self {
            Self::Sha512(sum) => sum.finalize().to_vec(),
            Self::Sha256(sum) => sum.finalize().to_vec(),
        };
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The same bytes; the stream ends with an error unless they are as many, and have the checksum.
pub(super) fn checked(bytes: ByteStream, size: u64, checksum: &str) -> ByteStream {
    let state = (Some((bytes, Sum::like(checksum), 0_u64)), checksum.to_owned());
    Box::pin(stream::unfold(state, move |(reading, checksum)| async move {
        let (mut bytes, mut sum, read) = reading?;
        match bytes.next().await {
            Some(Ok(chunk)) => {
                sum.update(&chunk);
                let read = read.saturating_add(chunk.len() as u64);
                Some((Ok(chunk), (Some((bytes, sum, read)), checksum)))
            }
            Some(Err(error)) => Some((Err(error), (None, checksum))),
            None if read == size && sum.hex() == checksum.to_ascii_lowercase() => None,
            None => Some((Err(io::Error::other("the bytes do not have the image's checksum")), (None, checksum))),
        }
    }))
}

/// How many bytes went by, and their SHA-512.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub size: u64,
    pub sha512: String,
}

/// Tells what a stream held, once it has ended well.
pub(super) type SentReceipt = Arc<Mutex<Option<Sent>>>;

/// The same bytes, with a receipt at their end.
pub(super) fn counted(bytes: ByteStream) -> (stream::BoxStream<'static, io::Result<Bytes>>, SentReceipt) {
    let receipt = SentReceipt::default();
    let state = Some((bytes, Sha512::new(), 0_u64, Arc::clone(&receipt)));
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
                let sent = Sent { size, sha512: Sum::Sha512(Box::new(sum)).hex() };
                *receipt.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
                None
            }
        }
    });
    (counted.boxed(), receipt)
}

pub(super) fn read_receipt(receipt: &SentReceipt) -> Option<Sent> {
    receipt.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    async fn bytes_with_another_checksum_end_in_an_error() {
        let sum = Sum::like("");
        let mut sum = sum;
        sum.update(b"content");
        let right = sum.hex();
        assert_eq!(read(checked(bytes(b"content"), 7, &right)).await.unwrap(), b"content");
        assert!(read(checked(bytes(b"Content"), 7, &right)).await.is_err());
        assert!(read(checked(bytes(b"conten"), 7, &right)).await.is_err());
        assert!(read(checked(bytes(b"content"), 8, &right)).await.is_err());
    }

    #[tokio::test]
    async fn a_look_at_the_head_loses_nothing() {
        let (judged, all) = look(bytes(b"content"), 7, "raw").await.unwrap();
        assert_eq!(judged.unwrap().virtual_size, Some(7));
        assert_eq!(read(all).await.unwrap(), b"content");
        let (judged, _) = look(bytes(b"QFI\xfb and so on"), 100, "raw").await.unwrap();
        assert!(judged.is_err(), "a qcow2 file that is called raw");
        let (judged, _) = look(bytes(b"content"), 7, "qcow2").await.unwrap();
        assert!(judged.is_err(), "a raw file that is called qcow2");
    }

    #[tokio::test]
    async fn what_was_sent_is_counted_if_it_came_to_its_end() {
        let (mut sent, receipt) = counted(bytes(b"content"));
        while sent.next().await.is_some() {}
        assert_eq!(read_receipt(&receipt).unwrap().size, 7);
        let gone: ByteStream = Box::pin(stream::iter([Ok(Bytes::from_static(b"half")), Err(io::Error::other("gone"))]));
        let (mut sent, receipt) = counted(gone);
        while sent.next().await.is_some() {}
        assert_eq!(read_receipt(&receipt), None);
    }
}
