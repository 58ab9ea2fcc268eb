//! A fake HTTP service on this machine, which answers calls as a test specifies.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::keystone::account::DomainChoice;
use super::keystone::{AccountScope, Credentials, NamedInDomain, ServiceAccount};
use crate::ports::UserToken;

/// The first line of a log-in at Keystone.
pub(super) const LOGIN: &str = "POST /v3/auth/tokens";

/// A call that the service received.
#[derive(Debug, Clone)]
pub(super) struct StubCall {
    /// The method and the path: `GET /v3/auth/tokens?nocatalog`.
    pub line: String,
    pub body: String,
    headers: Vec<(String, String)>,
}

impl StubCall {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The service's answer to a call.
#[derive(Debug, Clone)]
pub(super) enum StubAnswer {
    Says(u16, String),
    /// The answer to a login, with the token in its header.
    Gives(u16, &'static str, String),
    /// No answer, as from a stopped process.
    Silence,
}

type Answering = dyn Fn(&StubCall, usize) -> StubAnswer + Send + Sync;

pub(super) struct StubService {
    pub url: String,
    calls: Arc<Mutex<Vec<StubCall>>>,
}

impl StubService {
    /// Starts a service that answers each call with `answer`. The function also gets the number of earlier calls.
    pub(super) async fn start(answer: impl Fn(&StubCall, usize) -> StubAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&calls), Arc::new(answer) as Arc<Answering>);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&kept), Arc::clone(&answer)));
            }
        });
        Self { url, calls }
    }

    /// Starts a service that answers with `answer`, and a Keystone on the same address. The Keystone gives the token
    /// `own`.
    pub(super) async fn beside_keystone(answer: impl Fn(&StubCall) -> StubAnswer + Send + Sync + 'static) -> Self {
        Self::start(move |call, _| match call.line.starts_with(LOGIN) {
            true => {
                let user = json!({"id": "u1", "name": "nova"});
                let body = json!({"token": {"user": user, "expires_at": "2999-01-01T00:00:00.000000Z"}});
                StubAnswer::Gives(201, "own", body.to_string())
            }
            false => answer(call),
        })
        .await
    }

    /// Chronova's own account in this service's Keystone.
    pub(super) fn account(&self) -> ServiceAccount {
        let named =
            |name: &str| NamedInDomain::Name { name: name.to_owned(), domain: DomainChoice::Id("default".to_owned()) };
        ServiceAccount {
            auth_url: self.url.clone(),
            credentials: Credentials::Password { user: named("nova"), password: UserToken::new("s3cret") },
            scope: AccountScope::Project(named("service")),
        }
    }

    pub(super) fn calls(&self) -> Vec<StubCall> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of calls that begin with `line`.
    pub(super) fn count(&self, line: &str) -> usize {
        self.calls().iter().filter(|call| call.line.starts_with(line)).count()
    }
}

async fn serve(mut stream: TcpStream, calls: Arc<Mutex<Vec<StubCall>>>, answer: Arc<Answering>) {
    let call = read(&mut stream).await;
    let before = {
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(call.clone());
        calls.len() - 1
    };
    let (status, token, body) = match answer(&call, before) {
        StubAnswer::Says(status, body) => (status, String::new(), body),
        StubAnswer::Gives(status, token, body) => (status, format!("X-Subject-Token: {token}\r\n"), body),
        StubAnswer::Silence => return std::future::pending().await,
    };
    let head = format!("HTTP/1.1 {status} -\r\n{token}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await;
}

/// Reads a call with its whole body. A chunked body is read, but not kept.
async fn read(stream: &mut TcpStream) -> StubCall {
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let head = text.windows(4).position(|four| four == b"\r\n\r\n").map(|end| end + 4);
        if let Some(end) = head {
            let mut call = parse(&String::from_utf8_lossy(&text[..end]));
            if call.header("transfer-encoding").is_some() && !text.ends_with(b"\r\n0\r\n\r\n") {
                let length = stream.read(&mut piece).await.unwrap();
                assert!(length > 0, "the call must not end before its last byte");
                text.extend_from_slice(&piece[..length]);
                continue;
            }
            let length: usize = call.header("content-length").map_or(0, |length| length.parse().unwrap());
            if text.len() >= end + length {
                call.body = String::from_utf8_lossy(&text[end..end + length]).into_owned();
                return call;
            }
        }
        let length = stream.read(&mut piece).await.unwrap();
        assert!(length > 0, "the call must not end before its last byte");
        text.extend_from_slice(&piece[..length]);
    }
}

fn parse(head: &str) -> StubCall {
    let mut lines = head.lines();
    let line = lines.next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    StubCall { line, body: String::new(), headers: lines.filter_map(header).collect() }
}
