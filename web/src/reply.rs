//! The answer of a handler: status, headers, and a body that is JSON, bytes, a stream or nothing.
//!
//! JSON objects keep the order in which the handler put the keys. Clients that print bodies expect this order.

use std::fmt;
use std::io;

use bytes::Bytes;
use futures::stream::LocalBoxStream;
use serde::Serialize;
use serde_json::Value;

use crate::fault::Fault;

/// An answer that is no [`Fault`].
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Names and values. Clients see the names in lower case.
    pub headers: Vec<(&'static str, String)>,
    pub body: ReplyBody,
}

/// The body of a reply.
pub enum ReplyBody {
    Empty,
    Json(Value),
    Bytes {
        content_type: &'static str,
        bytes: Bytes,
    },
    /// A download; `length` becomes `Content-Length` where it is known.
    Stream {
        content_type: &'static str,
        length: Option<u64>,
        stream: LocalBoxStream<'static, io::Result<Bytes>>,
    },
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Json(value) => f.debug_tuple("Json").field(value).finish(),
            Self::Bytes { content_type, bytes } => write!(f, "Bytes({content_type}, {})", bytes.len()),
            Self::Stream { content_type, length, .. } => write!(f, "Stream({content_type}, {length:?})"),
        }
    }
}

impl Reply {
    /// 200 with a JSON body.
    pub fn ok(body: Value) -> Self {
        Self::json(200, body)
    }

    pub fn json(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body: ReplyBody::Json(body) }
    }

    /// JSON that is text already.
    pub fn json_text(status: u16, text: Vec<u8>) -> Self {
        Self::bytes(status, "application/json", text)
    }

    /// JSON from anything that serialises.
    pub fn serialize<T: Serialize>(status: u16, body: &T) -> Result<Self, Fault> {
        serde_json::to_value(body).map(|value| Self::json(status, value)).map_err(Fault::internal)
    }

    /// A status without a body: 202, 204...
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: ReplyBody::Empty }
    }

    pub fn bytes(status: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), body: ReplyBody::Bytes { content_type, bytes: bytes.into() } }
    }

    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self::bytes(status, "text/plain; charset=UTF-8", text.into())
    }

    pub fn stream(
        content_type: &'static str,
        length: Option<u64>,
        stream: LocalBoxStream<'static, io::Result<Bytes>>,
    ) -> Self {
        Self { status: 200, headers: Vec::new(), body: ReplyBody::Stream { content_type, length, stream } }
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}
