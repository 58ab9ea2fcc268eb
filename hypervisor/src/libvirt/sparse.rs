//! Streams that report holes. The safe bindings have no such streams. A hole is a part of a disk that uses no space and
//! reads as zeros. A new raw disk consists mostly of holes.

#![allow(unsafe_code)]

use virt::connect::Connect;
use virt::error::Error;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;
use virt_sys as sys;

use super::error::{Context, translate};
use crate::driver::{DriverError, DriverResult};

/// The largest piece of a hole that is passed on at a time, in bytes.
pub(super) const PIECE: usize = 256 * 1024;
/// The bytes of a hole.
pub(super) static ZEROS: [u8; PIECE] = [0; PIECE];

/// The next part of a stream.
pub(super) enum SparsePiece {
    Data(usize),
    Hole(u64),
    End,
}

/// Reads the next piece of a download that reports holes.
pub(super) fn receive(stream: &Stream, buffer: &mut [u8], call: &'static str) -> DriverResult<SparsePiece> {
    const AT_HOLE: i32 = -3;
    let flags = sys::VIR_STREAM_RECV_STOP_AT_HOLE;
    // SAFETY: the stream is alive (we hold a reference), and the buffer has the length that the call is told.
    let got = unsafe { sys::virStreamRecvFlags(stream.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    match (usize::try_from(got), got) {
        (Ok(0), _) => Ok(SparsePiece::End),
        (Ok(received), _) => Ok(SparsePiece::Data(received)),
        (_, AT_HOLE) => {
            let mut length = 0;
            // SAFETY: the stream is alive, and the variable lives until the call returns.
            match unsafe { sys::virStreamRecvHole(stream.as_ptr(), &raw mut length, 0) } {
                0 => Ok(SparsePiece::Hole(u64::try_from(length).unwrap_or(0))),
                _ => Err(Error::last_error()).during(call),
            }
        }
        _ => Err(translate(call, &Error::last_error())),
    }
}

/// Skips this many bytes of an upload that reports holes.
pub(super) fn skip(stream: &Stream, length: usize, call: &'static str) -> DriverResult<()> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    // SAFETY: the stream is alive (we hold a reference).
    match unsafe { sys::virStreamSendHole(stream.as_ptr(), length, 0) } {
        0 => Ok(()),
        _ => Err(Error::last_error()).during(call),
    }
}

/// Whether all bytes are zero.
pub(super) fn is_hole(data: &[u8]) -> bool {
    data.chunks(PIECE).all(|part| *part == ZEROS[..part.len()])
}

/// Writes zeros over the first bytes of a volume.
pub(super) fn write_zeros(connect: &Connect, volume: &StorageVol, size: u64) -> DriverResult<()> {
    const CALL: &str = "clear disk";
    let stream = Stream::new(connect, 0).during(CALL)?;
    volume.upload(&stream, 0, size, 0).during(CALL)?;
    let mut left = size;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        match stream.send(&ZEROS[..part]).map(u64::try_from) {
            Ok(Ok(sent)) if sent > 0 => left = left.saturating_sub(sent),
            Ok(_) => {
                let _ = stream.abort();
                return Err(DriverError::Failed { call: CALL, message: "the stream accepted no bytes".to_owned() });
            }
            Err(error) => {
                let _ = stream.abort();
                return Err(translate(CALL, &error));
            }
        }
    }
    stream.finish().during(CALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zeros_are_a_hole() {
        assert!(is_hole(&[]) && is_hole(&[0; 3]) && is_hole(&vec![0; 2 * PIECE + 5]));
        let mut data = vec![0; 2 * PIECE + 5];
        data[2 * PIECE + 4] = 1;
        assert!(!is_hole(&data));
    }
}
