//! The frames of a WebSocket (RFC 6455) that carry a stream of bytes. A console ignores the boundaries of messages.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

/// The largest payload of a client's frame, in bytes.
pub(super) const LARGEST: usize = 1 << 20;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// The longest payload of a control frame.
const SHORT: usize = 125;

/// Why a WebSocket ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseReason {
    Done,
    GoingAway,
    Protocol,
}

impl CloseReason {
    fn code(self) -> u16 {
        match self {
            Self::Done => 1000,
            Self::GoingAway => 1001,
            Self::Protocol => 1002,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WebSocketFrame {
    Data(Bytes),
    Ping(Bytes),
    Pong,
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum FrameError {
    #[error("a frame of the client is not masked")]
    NotMasked,
    #[error("reserved bits of a frame are set")]
    Reserved,
    #[error("a frame is larger than {LARGEST} bytes")]
    TooLarge,
    #[error("a control frame is fragmented or longer than 125 bytes")]
    Control,
    #[error("frames of kind {0} do not exist")]
    Kind(u8),
}

/// The received bytes of a client that are not parsed yet.
#[derive(Debug, Default)]
pub(super) struct PendingFrames {
    buffer: BytesMut,
}

impl PendingFrames {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, as soon as it is whole.
    pub(super) fn next(&mut self) -> Result<Option<WebSocketFrame>, FrameError> {
        let mut head = &self.buffer[..];
        if head.len() < 2 {
            return Ok(None);
        }
        let (first, second) = (head.get_u8(), head.get_u8());
        if first & 0x70 != 0 {
            return Err(FrameError::Reserved);
        }
        if second & MASKED == 0 {
            return Err(FrameError::NotMasked);
        }
        let length = match second & !MASKED {
            126 if head.len() >= 2 => u64::from(head.get_u16()),
            127 if head.len() >= 8 => head.get_u64(),
            126 | 127 => return Ok(None),
            short => u64::from(short),
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= LARGEST).ok_or(FrameError::TooLarge)?;
        let kind = first & 0x0f;
        if kind >= CLOSE && (length > SHORT || first & FINAL == 0) {
            return Err(FrameError::Control);
        }
        if head.len() < 4 + length {
            return Ok(None);
        }
        let mut mask = [0; 4];
        head.copy_to_slice(&mut mask);
        let before = self.buffer.len() - head.len();
        self.buffer.advance(before);
        let mut payload = self.buffer.split_to(length);
        for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        Ok(Some(match kind {
            CONTINUATION | TEXT | BINARY => WebSocketFrame::Data(payload.freeze()),
            CLOSE => WebSocketFrame::Close,
            PING => WebSocketFrame::Ping(payload.freeze()),
            PONG => WebSocketFrame::Pong,
            other => return Err(FrameError::Kind(other)),
        }))
    }
}

/// A whole frame from the server, unmasked.
fn frame(kind: u8, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(payload.len() + 10);
    bytes.put_u8(FINAL | kind);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if usize::from(length) <= SHORT => bytes.put_u8(length),
        (_, Ok(length)) => {
            bytes.put_u8(126);
            bytes.put_u16(length);
        }
        _ => {
            bytes.put_u8(127);
            bytes.put_u64(payload.len() as u64);
        }
    }
    bytes.put_slice(payload);
    bytes.freeze()
}

pub(super) fn data(payload: &[u8]) -> Bytes {
    frame(BINARY, payload)
}

pub(super) fn ping() -> Bytes {
    frame(PING, &[])
}

pub(super) fn pong(payload: &[u8]) -> Bytes {
    frame(PONG, payload)
}

pub(super) fn close(why: CloseReason) -> Bytes {
    frame(CLOSE, &why.code().to_be_bytes())
}
