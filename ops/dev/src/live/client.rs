//! A plain HTTP/1.1 client on one persistent connection. It needs so little CPU that a benchmark measures the server.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The microversions that every request names.
pub(crate) const VERSIONS: &str = "compute 2.96, placement 1.39";
/// The longest time to wait for a byte.
const PATIENCE: Duration = Duration::from_mins(10);

/// The server and the credentials of a connection.
#[derive(Debug, Clone)]
pub(crate) struct LoadTarget {
    pub(crate) address: SocketAddr,
    /// The token; empty for requests without one.
    pub(crate) token: String,
    pub(crate) versions: &'static str,
}

#[derive(Debug)]
pub(crate) struct LoadClient {
    target: LoadTarget,
    stream: Option<TcpStream>,
    request: Vec<u8>,
    buffer: Vec<u8>,
    /// The `X-Subject-Token` of the newest answer that had one.
    subject: String,
}

/// The status and the body of an answer. The body is in the client's buffer until the next request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawResponse<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    /// The request line, for errors.
    what: &'a [u8],
}

impl RawResponse<'_> {
    pub(crate) fn expect(self, status: u16) -> Result<Self> {
        if self.status == status {
            return Ok(self);
        }
        let line = self.what.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let (line, body) = (String::from_utf8_lossy(line), String::from_utf8_lossy(self.body));
        bail!("{line}: {} {}", self.status, body.chars().take(400).collect::<String>())
    }

    pub(crate) fn json(self) -> Result<Value> {
        serde_json::from_slice(self.body).context("the answer is not JSON")
    }

    /// The text at a JSON pointer.
    pub(crate) fn text(self, pointer: &str) -> Result<String> {
        let value = self.json()?;
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.map(str::to_owned).with_context(|| format!("no {pointer} in {value}"))
    }
}

impl LoadClient {
    pub(crate) fn new(target: &LoadTarget) -> Self {
        Self { target: target.clone(), stream: None, request: Vec::new(), buffer: Vec::new(), subject: String::new() }
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<RawResponse<'_>> {
        self.send("GET", path, "application/json", None)
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Result<RawResponse<'_>> {
        self.send("POST", path, "application/json", Some(body.to_string().as_bytes()))
    }

    pub(crate) fn put(&mut self, path: &str, body: &Value) -> Result<RawResponse<'_>> {
        self.send("PUT", path, "application/json", Some(body.to_string().as_bytes()))
    }

    pub(crate) fn delete(&mut self, path: &str) -> Result<RawResponse<'_>> {
        self.send("DELETE", path, "application/json", None)
    }

    /// Logs in with `body`; returns the token.
    pub(crate) fn login(&mut self, body: &Value) -> Result<String> {
        self.post("/identity/v3/auth/tokens", body)?.expect(201)?;
        anyhow::ensure!(!self.subject.is_empty(), "the identity service gave out no token");
        Ok(self.subject.clone())
    }

    /// Sends one request. If the server has closed the connection meanwhile, the client reconnects once.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        content: &str,
        body: Option<&[u8]>,
    ) -> Result<RawResponse<'_>> {
        self.write_head(method, path, content, body)?;
        let kept = self.stream.is_some();
        let answered = match self.exchange() {
            Err(_) if kept => {
                self.stream = None;
                self.exchange()
            }
            other => other,
        };
        if answered.is_err() {
            self.stream = None;
        }
        let (status, from, to) = answered.with_context(|| format!("{method} {path}"))?;
        Ok(RawResponse { status, body: &self.buffer[from..to], what: &self.request })
    }

    fn write_head(&mut self, method: &str, path: &str, content: &str, body: Option<&[u8]>) -> Result<()> {
        let LoadTarget { address, token, versions } = &self.target;
        self.request.clear();
        let request = &mut self.request;
        write!(request, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n")?;
        write!(request, "User-Agent: chronova-bench\r\nOpenStack-API-Version: {versions}\r\n")?;
        if !token.is_empty() {
            write!(request, "X-Auth-Token: {token}\r\n")?;
        }
        if let Some(body) = body {
            write!(request, "Content-Type: {content}\r\nContent-Length: {}\r\n", body.len())?;
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body.unwrap_or_default());
        Ok(())
    }

    fn exchange(&mut self) -> Result<(u16, usize, usize)> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.target.address, Duration::from_secs(10))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            self.stream = Some(stream);
        }
        let Some(stream) = &mut self.stream else { bail!("there is no connection") };
        stream.write_all(&self.request)?;
        let buffer = &mut self.buffer;
        buffer.clear();
        let head = loop {
            if let Some(end) = find(buffer, b"\r\n\r\n") {
                break end + 4;
            }
            more(stream, buffer)?;
        };
        let ResponseHead { status, length, close, subject } = read_head(&buffer[..head])?;
        if let Some(subject) = subject {
            self.subject = subject;
        }
        let end = head + length;
        while buffer.len() < end {
            more(stream, buffer)?;
        }
        if close {
            self.stream = None;
        }
        Ok((status, head, end))
    }
}

fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<()> {
    const ROOM: usize = 64 * 1024;
    let from = buffer.len();
    buffer.resize(from + ROOM, 0);
    let read = loop {
        match stream.read(&mut buffer[from..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    buffer.truncate(from + *read.as_ref().unwrap_or(&0));
    match read? {
        0 => bail!("the server closed the connection"),
        _ => Ok(()),
    }
}

struct ResponseHead {
    status: u16,
    length: usize,
    /// Whether the server closes the connection after this answer.
    close: bool,
    subject: Option<String>,
}

/// Parses the head of an answer. An answer without a length has no body. An answer in chunks is an error.
fn read_head(head: &[u8]) -> Result<ResponseHead> {
    let text = std::str::from_utf8(head).context("the head of the answer is no text")?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status: u16 = first.split(' ').nth(1).and_then(|word| word.parse().ok()).context("no status")?;
    let (mut length, mut close, mut subject) = (None, false, None);
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        } else if name.eq_ignore_ascii_case("connection") {
            close = value.trim().eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("x-subject-token") {
            subject = Some(value.trim().to_owned());
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("an answer in pieces, which is not measured here");
        }
    }
    Ok(ResponseHead { status, length: length.unwrap_or(0), close, subject })
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn heads_of_answers_are_parsed() {
        let of = |text: &str| {
            let head = read_head(text.as_bytes()).unwrap();
            (head.status, head.length, head.close)
        };
        assert_eq!(of("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"), (200, 12, false));
        assert_eq!(of("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"), (204, 0, true));
        assert!(read_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(read_head(b"nonsense").is_err());
        assert_eq!(find(b"abcabd", b"abd"), Some(3));
    }
}
