//! Connections to other members: HTTP/1.1, kept open, over mutual TLS where there are certificates.

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
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{ClusterSecret, HEAD, PASS};
use crate::secret::Secret;

/// How long a connection may take to be made. Members are near each other.
const CONNECTS: Duration = Duration::from_secs(2);
/// How long the leader may take to say where its log is.
const ANSWERS: Duration = Duration::from_secs(2);
/// Idle connections kept to one member.
const IDLE: usize = 64;

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

/// What became of a request that has no answer.
pub(super) enum PeerFailure {
    /// Nothing of it has left this member.
    NotSent { reason: String, request: Option<Box<Request<PeerBody>>> },
    /// Nobody knows whether it was done.
    Unknown { reason: String },
}

/// What the leader answers to the question where its log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadAnswer {
    /// Everything up to there is acknowledged.
    At(Position),
    /// It is there, but it does not lead, or is not certain that it does.
    NotLeading,
    /// Nobody listens there: the process is gone.
    Refused,
    /// No answer.
    Silent(String),
}

/// The way to other members.
pub struct PeerClient {
    tls: Option<Arc<ClientConfig>>,
    pass: Secret,
    idle: Mutex<HashMap<String, Vec<SendRequest<PeerBody>>>>,
    /// Connections outlive the worker that opened them.
    runtime: Handle,
}

impl std::fmt::Debug for PeerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerClient").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl PeerClient {
    /// Needs a running tokio runtime, which the connections live on.
    pub fn new(secret: &ClusterSecret, tls: Option<ClientConfig>) -> Self {
        let (tls, idle, runtime) = (tls.map(Arc::new), Mutex::default(), Handle::current());
        Self { tls, pass: secret.pass(), idle, runtime }
    }

    pub(super) fn pass(&self) -> &Secret {
        &self.pass
    }

    /// Asks the member at `address` where its log is; waits until that is beyond `after`, but not for long.
    pub async fn head(&self, address: &str, after: Option<Position>) -> HeadAnswer {
        let path = after.map_or_else(|| HEAD.to_owned(), |after| format!("{HEAD}?after={after}"));
        let request = Request::get(path).header("host", address).header(PASS, self.pass.expose());
        let Ok(request) = request.body(PeerBody::Whole(None)) else {
            return HeadAnswer::Silent("the address is no host".to_owned());
        };
        let mut sender = match self.sender(address).await {
            Ok(sender) => sender,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return HeadAnswer::Refused,
            Err(error) => return HeadAnswer::Silent(error.to_string()),
        };
        let asked = async {
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            let position = response.headers().get(super::POSITION).and_then(|value| value.to_str().ok()?.parse().ok());
            match (status, position) {
                (200, Some(position)) => Ok(HeadAnswer::At(Position(position))),
                (421, _) => Ok(HeadAnswer::NotLeading),
                (403, _) => Err("the member has another secret".to_owned()),
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
                    return Ok(response);
                }
                Err(mut failed) => match failed.take_message() {
                    // A kept connection that the other side has closed meanwhile.
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

    /// It is ready again when the answer was read.
    fn keep(&self, address: &str, sender: SendRequest<PeerBody>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(address.to_owned()).or_default();
        if kept.len() < IDLE {
            kept.push(sender);
        }
    }

    async fn connect(&self, address: &str) -> io::Result<SendRequest<PeerBody>> {
        let (address, tls) = (address.to_owned(), self.tls.clone());
        let connecting = self.runtime.spawn(async move {
            tokio::time::timeout(CONNECTS, connect(&address, tls))
                .await
                .unwrap_or_else(|_| Err(io::Error::other("no connection in time")))
        });
        connecting.await.map_err(io::Error::other)?
    }
}

async fn connect(address: &str, tls: Option<Arc<ClientConfig>>) -> io::Result<SendRequest<PeerBody>> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let Some(tls) = tls else {
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
        // Whoever waits for an answer learns why the connection ended.
        tokio::spawn(async move { drop(connection.await) });
        return Ok(sender);
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let secure = TlsConnector::from(tls).connect(name, socket).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(secure)).await.map_err(io::Error::other)?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
