//! Connections to other members: HTTP/1.1 over mutual TLS, kept open.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chronova_events::envelope::Position;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::headers::{EPOCH, HEAD, POSITION, PROTOCOL};
use super::protocol::PeerProtocol;

/// The status of a leader's answer, if it refuses the protocol of the asking member: 426 Upgrade Required.
const REFUSED: u16 = 426;
/// The time limit of connecting. Members are near each other.
const CONNECTS: Duration = Duration::from_secs(2);
/// The time limit of a question for the acknowledged position.
const ANSWERS: Duration = Duration::from_secs(2);
/// The number of idle connections that are kept to one member.
const IDLE: usize = 64;
/// If a peer's machine acknowledges nothing for this long, the connection ends, and a request under way is lost.
const SILENT: Duration = Duration::from_secs(8);
const PROBES: Duration = Duration::from_secs(2);

/// The body of a forwarded request.
pub(super) enum PeerBody {
    Whole(Option<Bytes>),
    /// An upload; it can be sent once.
    Chunks(mpsc::Receiver<io::Result<Bytes>>),
}

impl Body for PeerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Chunks(chunks) => chunks.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Chunks(_) => SizeHint::default(),
        }
    }
}

/// Why a request has no answer.
pub(super) enum PeerFailure {
    /// Nothing of the request has left this member.
    NotSent { reason: String, request: Option<Box<Request<PeerBody>>> },
    /// Nobody knows whether the leader performed the request.
    Unknown { reason: String },
    /// The members' versions do not understand each other. The leader has not performed the request.
    OtherProtocol { reason: String },
}

/// The answer to a question for the acknowledged position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadAnswer {
    /// The end of the acknowledged part of the log, as the leader of this epoch confirms it.
    At { position: Position, epoch: i64 },
    /// The member does not lead, or the database has not confirmed that it does.
    NotLeading,
    /// No usable answer came, for this reason.
    Silent(String),
    /// The member's version and this version do not understand each other, for this reason.
    OtherProtocol(String),
}

/// Connects to other members.
pub struct PeerClient {
    tls: Arc<ClientConfig>,
    idle: Mutex<HashMap<String, Vec<SendRequest<PeerBody>>>>,
    /// The runtime of the connections, which outlive the HTTP worker that opened them.
    runtime: Handle,
}

impl std::fmt::Debug for PeerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerClient")
    }
}

impl PeerClient {
    /// Needs a running tokio runtime, which drives the connections. `tls` shows this member's certificate.
    pub fn new(tls: ClientConfig) -> Self {
        Self { tls: Arc::new(tls), idle: Mutex::default(), runtime: Handle::current() }
    }

    /// Asks the member at `address` for the acknowledged position. With `after`, the member waits a little for a
    /// position later than `after`.
    pub async fn head(&self, address: &str, after: Option<Position>) -> HeadAnswer {
        let path = after.map_or_else(|| HEAD.to_owned(), |after| format!("{HEAD}?after={after}"));
        let request = Request::get(path).header("host", address).header(PROTOCOL, PeerProtocol::OWN.to_string());
        let Ok(request) = request.body(PeerBody::Whole(None)) else {
            return HeadAnswer::Silent("the address is no host".to_owned());
        };
        let mut sender = match self.sender(address).await {
            Ok(sender) => sender,
            Err(error) => return HeadAnswer::Silent(error.to_string()),
        };
        let asked = async {
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            if let Some(reason) = mismatch(&response) {
                return Ok(HeadAnswer::OtherProtocol(reason));
            }
            let number = |name: &str| response.headers().get(name)?.to_str().ok();
            let position = number(POSITION).and_then(|position| position.parse().ok());
            let epoch = number(EPOCH).and_then(|epoch| epoch.parse().ok());
            match (status, position, epoch) {
                (200, Some(position), Some(epoch)) => Ok(HeadAnswer::At { position: Position(position), epoch }),
                (421, ..) => Ok(HeadAnswer::NotLeading),
                _ => Err(format!("the member answers {status}")),
            }
        };
        match tokio::time::timeout(ANSWERS, asked).await {
            Ok(Ok(answer)) => {
                self.keep(address, sender);
                answer
            }
            Ok(Err(reason)) => HeadAnswer::Silent(reason),
            Err(_) => HeadAnswer::Silent("no answer in time".to_owned()),
        }
    }

    /// Sends a request once.
    pub(super) async fn send(
        &self,
        address: &str,
        request: Request<PeerBody>,
    ) -> Result<Response<Incoming>, PeerFailure> {
        let mut request = request;
        loop {
            let kept = self.take(address);
            let was_kept = kept.is_some();
            let sender = match kept {
                Some(sender) => Ok(sender),
                None => self.connect(address).await,
            };
            let mut sender = match sender {
                Ok(sender) => sender,
                Err(error) => {
                    let reason = error.to_string();
                    return Err(PeerFailure::NotSent { reason, request: Some(Box::new(request)) });
                }
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(address, sender);
                    return match mismatch(&response) {
                        None => Ok(response),
                        Some(reason) if response.status().as_u16() == REFUSED => {
                            Err(PeerFailure::OtherProtocol { reason })
                        }
                        // A leader that does not check the protocol may have performed the request.
                        Some(reason) => Err(PeerFailure::Unknown { reason }),
                    };
                }
                Err(mut failed) => match failed.take_message() {
                    // The peer has closed this idle connection, so nothing was sent. The next round of the loop takes
                    // another connection.
                    Some(unsent) if was_kept => request = unsent,
                    Some(unsent) => {
                        let reason = failed.into_error().to_string();
                        return Err(PeerFailure::NotSent { reason, request: Some(Box::new(unsent)) });
                    }
                    None => return Err(PeerFailure::Unknown { reason: failed.into_error().to_string() }),
                },
            }
        }
    }

    async fn sender(&self, address: &str) -> io::Result<SendRequest<PeerBody>> {
        match self.take(address) {
            Some(sender) => Ok(sender),
            None => self.connect(address).await,
        }
    }

    fn take(&self, address: &str) -> Option<SendRequest<PeerBody>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(address)?;
        kept.retain(|sender| !sender.is_closed());
        let ready = kept.iter().position(SendRequest::is_ready)?;
        Some(kept.swap_remove(ready))
    }

    /// Keeps a connection for later requests. hyper reports it as ready when the answer has been read.
    fn keep(&self, address: &str, sender: SendRequest<PeerBody>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(address.to_owned()).or_default();
        if kept.len() < IDLE {
            kept.push(sender);
        }
    }

    async fn connect(&self, address: &str) -> io::Result<SendRequest<PeerBody>> {
        let (address, tls) = (address.to_owned(), Arc::clone(&self.tls));
        let connecting = self.runtime.spawn(async move {
            tokio::time::timeout(CONNECTS, connect(&address, tls))
                .await
                .unwrap_or_else(|_| Err(io::Error::other("no connection in time")))
        });
        connecting.await.map_err(io::Error::other)?
    }
}

/// Why this member and the member that answered cannot work together.
fn mismatch(response: &Response<Incoming>) -> Option<String> {
    let theirs = response.headers().get(PROTOCOL).map(|value| value.to_str().unwrap_or_default());
    PeerProtocol::mismatch(theirs)
}

async fn connect(address: &str, tls: Arc<ClientConfig>) -> io::Result<SendRequest<PeerBody>> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    // Without these options a request would wait for ever for a machine that lost its power.
    let options = SockRef::from(&socket);
    options.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBES).with_interval(PROBES).with_retries(3))?;
    options.set_tcp_user_timeout(Some(SILENT))?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let secure = TlsConnector::from(tls).connect(name, socket).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(secure)).await.map_err(io::Error::other)?;
    // The result is dropped, because the request under way gets the same error.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
