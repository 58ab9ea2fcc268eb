//! Sends requests to an object store.
//!
//! Each wait has a limit. A request whose answer was lost, or that the store could not serve, is sent again after a
//! pause that doubles. So every request must be one that may arrive twice.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::crypto::ring;
use ureq::http::Response;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::keys::AccessKey;
use super::listing::refusal;
use super::signature::{SignedParts, authorization, encoded, query, sha256_of};
use crate::authorities;
use crate::clock::{Clock as _, SystemClock};
use crate::place::address::S3Address;

/// The region of stores without regions.
const REGION: &str = "us-east-1";
/// The most bytes of an answer that is not the content of an object: a listing of 1,000 names, or a refusal.
const LONGEST: u64 = 4 << 20;

/// How long a request may take, how often it is sent, and how large it may be.
#[derive(Debug, Clone, Copy)]
pub struct S3Limits {
    /// The longest time to open a connection.
    pub connect: Duration,
    /// The longest time without a byte of the answer, or without progress of a transfer.
    pub silence: Duration,
    /// The number of times that a request is sent.
    pub tries: u32,
    /// The pause before the second try; each later pause is twice as long as the one before.
    pub pause: Duration,
    /// After this time a GET is not sent again, because readers of the log wait for its answer.
    pub total: Duration,
    /// A larger file is uploaded in parts of at least this number of bytes. Each part is in memory once.
    pub part: u64,
}

impl Default for S3Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(20),
            tries: 6,
            pause: Duration::from_millis(200),
            total: Duration::from_secs(30),
            part: 64 << 20,
        }
    }
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum S3Body<'a> {
    None,
    Bytes(&'a [u8]),
    /// A file, and the SHA-256 of its bytes in hexadecimal digits.
    File(&'a Path, &'a str),
}

/// A request about the bucket or about one object.
#[derive(Debug, Clone, Copy)]
pub(super) struct S3Request<'a> {
    pub(super) method: &'a str,
    /// The key of the object; empty for the bucket.
    pub(super) key: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: S3Body<'a>,
    /// The most bytes of the content that is asked for.
    pub(super) longest: u64,
}

impl<'a> S3Request<'a> {
    pub(super) fn new(method: &'a str, key: &'a str) -> Self {
        Self { method, key, query: &[], headers: &[], body: S3Body::None, longest: LONGEST }
    }
}

/// An answer: success, or one of the statuses that tell something about an object.
#[derive(Debug)]
pub(super) struct S3Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// The header `etag`.
    pub(super) tag: Option<String>,
}

/// Why a request has no answer.
enum S3Failure {
    /// The request may succeed later.
    Passing(String),
    Lasting(io::Error),
}

/// A client of one bucket.
#[derive(Debug)]
pub(super) struct S3Client {
    agent: Agent,
    endpoint: String,
    /// The value of the header `host`.
    host: String,
    region: String,
    bucket: String,
    key_file: PathBuf,
    limits: S3Limits,
}

impl S3Client {
    pub(super) fn open(address: &S3Address, limits: S3Limits) -> io::Result<Self> {
        let access = &address.access;
        let key_file = access.key_file.clone().ok_or_else(|| {
            let told =
                format!("{address} needs a key: set [chronova] s3_key_file, or add ?key_file=FILE to the address");
            io::Error::new(io::ErrorKind::InvalidInput, told)
        })?;
        let region = access.region.clone().unwrap_or_else(|| REGION.to_owned());
        let amazon = || format!("https://s3.{region}.amazonaws.com");
        let endpoint = access.endpoint.clone().unwrap_or_else(amazon);
        let host = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, host)| host).to_owned();
        let mut tls = TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
        if endpoint.starts_with("https://") {
            let file = access.ca_file.clone().or_else(authorities::system_file).ok_or_else(|| {
                let told =
                    "this system has no file of certificate authorities in the usual places: set [chronova] s3_ca_file";
                io::Error::new(io::ErrorKind::NotFound, told)
            })?;
            tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates(&file)?)));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_recv_response(Some(limits.silence))
            .timeout_per_read(Some(limits.silence))
            .timeout_per_write(Some(limits.silence))
            .user_agent("chronova")
            .tls_config(tls.build())
            .build()
            .into();
        Ok(Self { agent, endpoint, host, region, bucket: address.bucket.clone(), key_file, limits })
    }

    /// Sends a request, and repeats it within the limits until there is an answer.
    ///
    /// # Errors
    /// The store refuses the request, or does not answer. The text tells an operator what to change.
    pub(super) fn send(&self, request: &S3Request<'_>) -> io::Result<S3Answer> {
        let (begun, mut pause, mut tries) = (Instant::now(), self.limits.pause, 1);
        loop {
            let reason = match self.send_once(request) {
                Ok(answer) => return Ok(answer),
                Err(S3Failure::Lasting(error)) => return Err(error),
                Err(S3Failure::Passing(reason)) => reason,
            };
            let is_late = request.method == "GET" && begun.elapsed() + pause > self.limits.total;
            if tries >= self.limits.tries || is_late {
                let told = format!(
                    "{}: {reason} (asked {tries} times): check that the object store runs, and [chronova] s3_endpoint",
                    self.endpoint
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, told));
            }
            tracing::debug!(method = request.method, key = request.key, %reason, "the object store is asked again");
            wait(pause);
            pause *= 2;
            tries += 1;
        }
    }

    fn send_once(&self, request: &S3Request<'_>) -> Result<S3Answer, S3Failure> {
        let answer = self.answer(request)?;
        let (status, length) = (answer.status().as_u16(), answer.body().content_length());
        let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let body = answer.into_body().into_with_config().limit(request.longest.max(LONGEST) + 1).read_to_vec();
        let (body, code, message) = if status < 300 {
            let body = body.map_err(|error| S3Failure::Passing(format!("the answer broke off: {error}")))?;
            if length.is_some_and(|length| length != body.len() as u64) {
                return Err(S3Failure::Passing("the answer broke off".to_owned()));
            }
            (body, String::new(), String::new())
        } else {
            // The status alone is a refusal, even if the rest of the answer is lost.
            let body = body.unwrap_or_default();
            let (code, message) = refusal(&body);
            (body, code, message)
        };
        match (status, code.as_str()) {
            (404, "NoSuchBucket") => Err(self.refused(status, &code, &message)),
            (200..=299 | 404 | 412 | 416, _) => Ok(S3Answer { status, body, tag }),
            (408 | 409 | 429 | 500 | 502..=504, _) | (_, "RequestTimeout" | "SlowDown") => {
                Err(S3Failure::Passing(format!("it answers {status} {code} {message}").trim_end().to_owned()))
            }
            _ => Err(self.refused(status, &code, &message)),
        }
    }

    fn answer(&self, request: &S3Request<'_>) -> Result<Response<Body>, S3Failure> {
        let key = AccessKey::read(&self.key_file).map_err(S3Failure::Lasting)?;
        let at = stamp();
        let payload = match request.body {
            S3Body::None => sha256_of(b""),
            S3Body::Bytes(bytes) => sha256_of(bytes),
            S3Body::File(_, sha256) => sha256.to_owned(),
        };
        let mut headers =
            vec![("host", self.host.clone()), ("x-amz-content-sha256", payload.clone()), ("x-amz-date", at.clone())];
        headers.extend(request.headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
        headers.sort();
        let (path, query) = (encoded(&format!("/{}/{}", self.bucket, request.key), true), query(request.query));
        let path = if request.key.is_empty() { path.trim_end_matches('/').to_owned() } else { path };
        let parts =
            SignedParts { method: request.method, path: &path, query: &query, headers: &headers, payload: &payload };
        let signed = authorization(&parts, &key, &self.region, &at);
        let mark = if query.is_empty() { "" } else { "?" };
        let mut sent = ureq::http::Request::builder()
            .method(request.method)
            .uri(format!("{}{path}{mark}{query}", self.endpoint))
            .header("authorization", signed);
        for (name, value) in headers {
            sent = sent.header(name, value);
        }
        let wrong = |error: ureq::http::Error| S3Failure::Lasting(io::Error::other(error));
        let answer = match request.body {
            S3Body::None => self.agent.run(sent.body(()).map_err(wrong)?),
            S3Body::Bytes(bytes) => self.agent.run(sent.body(bytes).map_err(wrong)?),
            S3Body::File(path, _) => {
                let file = File::open(path).map_err(|error| S3Failure::Lasting(at_file(path, &error)))?;
                self.agent.run(sent.body(file).map_err(wrong)?)
            }
        };
        answer.map_err(|error| match error {
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::BadUri(_) => S3Failure::Lasting(
                io::Error::other(format!("{}: {error}: check [chronova] s3_endpoint and s3_ca_file", self.endpoint)),
            ),
            error => S3Failure::Passing(format!("it does not answer: {error}")),
        })
    }

    /// The error for a refusal, with the option that an operator may have to change.
    fn refused(&self, status: u16, code: &str, message: &str) -> S3Failure {
        let Self { bucket, region, key_file, .. } = self;
        let key_file = key_file.display();
        let advice = match (status, code) {
            (_, "NoSuchBucket") => format!("create the bucket {bucket}, or name another one"),
            (_, "RequestTimeTooSkewed") => {
                "set the clock of this machine: it differs from that of the store".to_owned()
            }
            (_, "AuthorizationHeaderMalformed" | "PermanentRedirect") | (300..=399, _) => {
                format!("the bucket {bucket} is not in the region {region}: set [chronova] s3_region and s3_endpoint")
            }
            (_, "QuotaExceeded") | (507, _) => format!("raise the quota of the bucket {bucket}"),
            (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch") => {
                format!("check the access key in {key_file} and [chronova] s3_region")
            }
            (401 | 403, _) => {
                format!("the key in {key_file} needs the right to list, read, write and delete in {bucket}")
            }
            _ => "check [chronova] s3_endpoint: it may be no object store that speaks S3".to_owned(),
        };
        let kind = match (status, code) {
            (_, "QuotaExceeded") | (507, _) => io::ErrorKind::QuotaExceeded,
            (401 | 403, _) => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        let told = format!("{} answers {status} {code}", self.endpoint);
        let told = if message.is_empty() { told } else { format!("{told} ({message})") };
        S3Failure::Lasting(io::Error::new(kind, format!("{told}: {advice}")))
    }
}

/// The time as signatures name it.
fn stamp() -> String {
    let now = chrono::DateTime::from_timestamp_micros(SystemClock.now().0).unwrap_or_default();
    now.format("%Y%m%dT%H%M%SZ").to_string()
}

fn at_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> io::Result<Vec<Certificate<'static>>> {
    let text = std::fs::read(path).map_err(|error| at_file(path, &error))?;
    let mut all = Vec::new();
    for item in ureq::tls::parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(io::Error::other)? {
            all.push(certificate);
        }
    }
    if all.is_empty() {
        let told = format!("{}: there is no certificate in it", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, told));
    }
    Ok(all)
}

#[expect(clippy::disallowed_methods, reason = "all calls of a place block a thread that may block")]
fn wait(pause: Duration) {
    std::thread::sleep(pause);
}
