//! An object store in memory. It speaks the part of S3 that places of files use, checks each signature with its own
//! implementation of the description, and misbehaves on request.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

pub const BUCKET: &str = "cold";
const KEY: &str = "AKIDTEST";
const SECRET: &str = "not/so+secret";
const REGION: &str = "us-east-1";
/// The number of names in one part of a listing.
const PAGE: usize = 3;

/// How the store treats one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectTrouble {
    /// Without trouble.
    Serves,
    /// It answers with this status and code.
    Status(u16, &'static str),
    /// It does the work, and closes the connection without an answer.
    LosesAnswer,
    /// It closes the connection in the middle of the answer.
    CutsAnswer,
    /// It never answers.
    Hangs,
}

#[derive(Debug, Default)]
struct ServedObjects {
    objects: BTreeMap<String, Vec<u8>>,
    troubles: VecDeque<ObjectTrouble>,
    /// The troubles of uploads alone.
    upload_troubles: VecDeque<ObjectTrouble>,
    /// The parts of uploads that have not ended, by number.
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    /// Method and key of each request.
    requests: Vec<String>,
    /// Connections that never get an answer.
    held: Vec<TcpStream>,
}

#[derive(Debug)]
struct ObjectRequest {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct ObjectServer {
    address: String,
    state: Arc<Mutex<ServedObjects>>,
}

impl ObjectServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { address: listener.local_addr().unwrap().to_string(), state: Arc::default() };
        let served = server.clone();
        // The threads end with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = served.clone();
                std::thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes the file with the store's key.
    pub fn key_file(folder: &Path) -> PathBuf {
        let path = folder.join("s3.key");
        let text = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn state(&self) -> MutexGuard<'_, ServedObjects> {
        self.state.lock().unwrap()
    }

    /// The next requests meet these troubles, one each.
    pub fn next(&self, troubles: &[ObjectTrouble]) {
        self.state().troubles = troubles.iter().copied().collect();
    }

    /// The next uploads meet these troubles, one each. Other requests meet none.
    pub fn next_uploads(&self, troubles: &[ObjectTrouble]) {
        self.state().upload_troubles = troubles.iter().copied().collect();
    }

    /// The troubles that no request has met.
    pub fn left(&self) -> usize {
        let state = self.state();
        state.troubles.len() + state.upload_troubles.len()
    }

    pub fn put(&self, key: &str, content: &[u8]) {
        self.state().objects.insert(key.to_owned(), content.to_vec());
    }

    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.state().objects.get(key).cloned()
    }

    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    /// The number of uploads in parts that have not ended.
    pub fn uploads(&self) -> usize {
        self.state().uploads.len()
    }

    /// The address of a place in the store, with all that a command needs to reach it.
    pub fn address(&self, prefix: &str, folder: &Path) -> String {
        let key_file = Self::key_file(folder);
        format!("s3://{BUCKET}/{prefix}?endpoint={}&key_file={}", self.endpoint(), key_file.display())
    }

    /// The requests since the last call.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().requests)
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some(request) = read(&mut reader) {
            let trouble = {
                let mut state = self.state();
                state.requests.push(format!("{} {}", request.method, request.path));
                let of_upload = if request.method == "PUT" { state.upload_troubles.pop_front() } else { None };
                state.troubles.pop_front().or(of_upload)
            };
            let (status, body) = match trouble {
                Some(ObjectTrouble::Hangs) => {
                    self.state().held.push(stream);
                    return;
                }
                Some(ObjectTrouble::Status(status, code)) => (status, refusal(code)),
                _ => self.answer(&request),
            };
            if trouble == Some(ObjectTrouble::LosesAnswer) {
                return;
            }
            let (tag, length) = (tag(&request.body), body.len());
            let head = format!("HTTP/1.1 {status} told\r\ncontent-length: {length}\r\netag: {tag}\r\n\r\n");
            let end = if trouble == Some(ObjectTrouble::CutsAnswer) { body.len() / 2 } else { body.len() };
            if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..end])).is_err() {
                return;
            }
            if end < body.len() {
                return;
            }
        }
    }

    fn answer(&self, request: &ObjectRequest) -> (u16, Vec<u8>) {
        if let Err(code) = request.check() {
            return (403, refusal(code));
        }
        let Some(key) = request.path.strip_prefix(&format!("/{BUCKET}")) else { return (404, refusal("NoSuchBucket")) };
        let (key, mut state) = (decoded(key.trim_start_matches('/')), self.state());
        match request.method.as_str() {
            "POST" | "DELETE" if request.query.contains("upload") => state.upload(&key, request),
            "PUT" if request.query.contains("uploadId") => state.upload(&key, request),
            "DELETE" => {
                state.objects.remove(&key);
                (204, Vec::new())
            }
            "GET" if key.is_empty() => (200, listing(&state.objects, request)),
            "GET" => match (state.objects.get(&key), request.headers.get("range")) {
                (None, _) => (404, refusal("NoSuchKey")),
                (Some(content), None) => (200, content.clone()),
                (Some(content), Some(range)) => part(content, range),
            },
            "PUT" if request.headers.contains_key("if-none-match") && state.objects.contains_key(&key) => {
                (412, refusal("PreconditionFailed"))
            }
            "PUT" => {
                state.objects.insert(key, request.body.clone());
                (200, Vec::new())
            }
            _ => (405, refusal("MethodNotAllowed")),
        }
    }
}

impl ServedObjects {
    /// Serves a request about an upload in parts.
    fn upload(&mut self, key: &str, request: &ObjectRequest) -> (u16, Vec<u8>) {
        let id = request.value("uploadId");
        if request.query == "uploads=" {
            let id = format!("upload {}", self.requests.len());
            self.uploads.insert(id.clone(), BTreeMap::new());
            let text =
                format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
            return (200, text.into_bytes());
        }
        let Some(parts) = self.uploads.get_mut(&id) else { return (404, refusal("NoSuchUpload")) };
        match request.method.as_str() {
            "PUT" => {
                parts.insert(request.value("partNumber").parse().unwrap(), request.body.clone());
                (200, Vec::new())
            }
            "POST" => {
                let mut text = "<CompleteMultipartUpload>".to_owned();
                for (number, part) in &*parts {
                    write!(text, "<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag></Part>", tag(part)).unwrap();
                }
                if request.body != (text + "</CompleteMultipartUpload>").into_bytes() {
                    return (400, refusal("InvalidPart"));
                }
                let whole = parts.values().flatten().copied().collect();
                self.uploads.remove(&id);
                self.objects.insert(key.to_owned(), whole);
                (200, b"<CompleteMultipartUploadResult/>".to_vec())
            }
            _ => {
                self.uploads.remove(&id);
                (204, Vec::new())
            }
        }
    }
}

impl ObjectRequest {
    /// The value of a name in the query; empty without one.
    fn value(&self, name: &str) -> String {
        let found = self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        decoded(found.unwrap_or_default())
    }

    /// Checks the signature and the hash of the body.
    fn check(&self) -> Result<(), &'static str> {
        let header = |name: &str| self.headers.get(name).map(String::as_str).unwrap_or_default();
        let told = header("authorization").strip_prefix("AWS4-HMAC-SHA256 ").ok_or("AccessDenied")?;
        let value = |name: &str| {
            told.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
        };
        let (time, payload) = (header("x-amz-date"), header("x-amz-content-sha256"));
        let scope = format!("{}/{REGION}/s3/aws4_request", &time[..8]);
        if value("Credential") != format!("{KEY}/{scope}") {
            return Err("InvalidAccessKeyId");
        }
        let names: Vec<&str> = value("SignedHeaders").split(';').collect();
        let must = ["host", "x-amz-date", "x-amz-content-sha256", "range", "if-none-match"];
        let is_unsigned = |name: &&str| self.headers.contains_key(*name) && !names.contains(name);
        let mut pairs: Vec<&str> = self.query.split('&').collect();
        pairs.sort_unstable();
        if must.iter().any(is_unsigned)
            || pairs.join("&") != self.query
            || payload != hexadecimal(&Sha256::digest(&self.body))
        {
            return Err("SignatureDoesNotMatch");
        }
        let lines: Vec<String> = names.iter().map(|name| format!("{name}:{}", header(name))).collect();
        let (Self { method, path, query, .. }, lines, signed) = (self, lines.join("\n"), value("SignedHeaders"));
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n\n{signed}\n{payload}");
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hexadecimal(&Sha256::digest(canonical.as_bytes())));
        let mut key = format!("AWS4{SECRET}").into_bytes();
        for part in [&time[..8], REGION, "s3", "aws4_request", text.as_str()] {
            let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&key).unwrap();
            mac.update(part.as_bytes());
            key = mac.finalize().into_bytes().to_vec();
        }
        if hexadecimal(&key) == value("Signature") { Ok(()) } else { Err("SignatureDoesNotMatch") }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<ObjectRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (path, query, mut headers) = (path.to_owned(), query.to_owned(), BTreeMap::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ObjectRequest { method, path, query, headers, body })
}

fn part(content: &[u8], range: &str) -> (u16, Vec<u8>) {
    let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let first: usize = first.parse().unwrap();
    let end = last.parse().map_or(content.len(), |last: usize| content.len().min(last + 1));
    match content.get(first..end) {
        Some(part) if !part.is_empty() => (206, part.to_vec()),
        _ => (416, refusal("InvalidRange")),
    }
}

fn listing(objects: &BTreeMap<String, Vec<u8>>, request: &ObjectRequest) -> Vec<u8> {
    let (prefix, after) = (request.value("prefix"), request.value("continuation-token"));
    assert_eq!((request.value("list-type").as_str(), request.value("delimiter").as_str()), ("2", "/"));
    let is_there = |key: &&String| {
        key.strip_prefix(&prefix).is_some_and(|name| !name.contains('/')) && (after.is_empty() || **key > after)
    };
    let all: Vec<&String> = objects.keys().filter(is_there).collect();
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult \
                    xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        .to_owned();
    for key in all.iter().take(PAGE) {
        write!(text, "<Contents><Key>{key}</Key><Size>{}</Size></Contents>", objects[*key].len()).unwrap();
    }
    let more = all.len() > PAGE;
    write!(text, "<IsTruncated>{more}</IsTruncated>").unwrap();
    if more {
        write!(text, "<NextContinuationToken>{}</NextContinuationToken>", all[PAGE - 1]).unwrap();
    }
    (text + "</ListBucketResult>").into_bytes()
}

/// The tag of some content.
fn tag(content: &[u8]) -> String {
    format!("\"{}\"", hexadecimal(&Sha256::digest(content)))
}

fn refusal(code: &str) -> Vec<u8> {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>of a test</Message></Error>").into_bytes()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}
