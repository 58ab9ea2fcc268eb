//! The system that receives events: a web server, or a collector of syslog.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Recorded;
use chronova_events::registry::DecodeError;
use chronova_web::audit::line::cloud_event;
use chronova_web::audit::syslog::syslog_message;
use chronova_web::secret::Secret;
use serde_json::Value;
use ureq::Agent;

use super::super::super::CommandFailure;
use super::super::super::credentials::agent;
use super::ForwardArgs;

const BATCH: &str = "application/cloudevents-batch+json";
/// How long a collector of syslog may take for a connection or a write.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a batch was not delivered.
#[derive(Debug)]
pub(super) enum Undelivered {
    /// The receiver cannot take it now. It may say when to try again.
    Later { reason: String, after: Option<Duration> },
    /// The receiver will never take it.
    Refused(String),
}

/// The receiver, and whether it gets personal fields.
pub(super) struct Destination {
    receiver: EventReceiver,
    personal: bool,
}

enum EventReceiver {
    Web { agent: Agent, url: String, token: Option<Secret> },
    Syslog { address: String, connection: Option<TcpStream> },
}

impl Destination {
    pub(super) fn open(args: &ForwardArgs) -> Result<Self, CommandFailure> {
        let wrong = |reason: &str| CommandFailure::Usage(format!("{}: {reason}", args.to));
        let receiver = if let Some(address) = args.to.strip_prefix("syslog+tcp://") {
            let address = address.trim_end_matches('/').to_owned();
            // A malformed address is refused here. Later it would look like a failed connection, and the command would
            // retry for ever.
            if address.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
                return Err(wrong("the address of a collector is syslog+tcp://HOST:PORT"));
            }
            EventReceiver::Syslog { address, connection: None }
        } else if args.to.starts_with("https://") && args.cacert.is_none() {
            return Err(wrong("an https server needs --cacert, because no authority is trusted by default"));
        } else if args.to.starts_with("http://") || args.to.starts_with("https://") {
            let token = args.token_file.as_ref().map(|path| {
                let error = |error| CommandFailure::File { path: path.clone(), error };
                std::fs::read_to_string(path).map(|text| Secret::new(text.trim())).map_err(error)
            });
            EventReceiver::Web {
                agent: agent(args.cacert.as_deref(), false)?,
                url: args.to.clone(),
                token: token.transpose()?,
            }
        } else {
            return Err(wrong("the destination begins with http://, https:// or syslog+tcp://"));
        };
        Ok(Self { receiver, personal: args.personal })
    }

    /// Sends the batch once. The outer error means that an event of the log cannot be decoded.
    pub(super) fn send(&mut self, batch: &[Arc<Recorded>]) -> Result<Result<(), Undelivered>, CommandFailure> {
        let personal = self.personal;
        match &mut self.receiver {
            EventReceiver::Web { agent, url, token } => {
                let events: Vec<Value> = rendered(batch, personal, cloud_event)?;
                Ok(post(agent, url, token.as_ref(), &Value::from(events).to_string()))
            }
            EventReceiver::Syslog { address, connection } => {
                // RFC 6587: each message has its length before it.
                let framed = rendered(batch, personal, syslog_message)?
                    .into_iter()
                    .fold(String::new(), |framed, message| framed + &format!("{} {message}", message.len()));
                let sent = write(address, connection, framed.as_bytes());
                Ok(sent.map_err(|error| {
                    *connection = None;
                    Undelivered::Later { reason: format!("{address}: {error}"), after: None }
                }))
            }
        }
    }
}

fn rendered<T>(
    batch: &[Arc<Recorded>],
    personal: bool,
    render: impl Fn(&Recorded) -> Result<T, DecodeError>,
) -> Result<Vec<T>, CommandFailure> {
    let one = |recorded: &Arc<Recorded>| {
        let shown =
            if personal { render(recorded) } else { recorded.without_personal().and_then(|blank| render(&blank)) };
        shown.map_err(|source| CommandFailure::decode(recorded, source))
    };
    batch.iter().map(one).collect()
}

fn post(agent: &Agent, url: &str, token: Option<&Secret>, body: &str) -> Result<(), Undelivered> {
    // A redirection would turn the request into a GET, whose success says nothing about the events.
    let mut request = agent.post(url).config().max_redirects(0).build().header("Content-Type", BATCH);
    if let Some(token) = token {
        request = request.header("Authorization", format!("Bearer {}", token.expose()));
    }
    let later = |reason: String, after| Err(Undelivered::Later { reason, after });
    let answer = match request.send(body) {
        Ok(answer) => answer,
        Err(error) => return later(error.to_string(), None),
    };
    let status = answer.status().as_u16();
    match status {
        200..=299 => Ok(()),
        408 | 429 | 500..=599 => {
            let after = answer.headers().get("Retry-After").and_then(|value| value.to_str().ok()?.trim().parse().ok());
            later(format!("the status is {status}"), after.map(Duration::from_secs))
        }
        _ => Err(Undelivered::Refused(format!("the status is {status}"))),
    }
}

/// Writes over the open connection, or over a new one if it was closed.
fn write(address: &str, connection: &mut Option<TcpStream>, text: &[u8]) -> std::io::Result<()> {
    if connection.as_mut().is_some_and(is_closed) {
        *connection = None;
    }
    let open = match connection {
        Some(open) => open,
        None => connection.insert(connect(address)?),
    };
    open.write_all(text)?;
    open.flush()
}

fn connect(address: &str) -> std::io::Result<TcpStream> {
    let mut failure = std::io::Error::new(ErrorKind::NotFound, "the name has no address");
    for place in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, PATIENCE) {
            Ok(stream) => {
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Whether the collector has closed the connection. A collector sends nothing.
fn is_closed(connection: &mut TcpStream) -> bool {
    let mut nothing = [0; 1];
    if connection.set_nonblocking(true).is_err() {
        return true;
    }
    let closed = match connection.read(&mut nothing) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    closed || connection.set_nonblocking(false).is_err()
}
