//! A part of a bucket as a place of files, in any object store that speaks S3: Amazon's, Ceph's gateway, MinIO.
//!
//! | file | contents |
//! |---|---|
//! | [`client`] | sends requests, again if needed |
//! | [`signature`] | signs them |
//! | [`keys`] | the file with the access key |
//! | [`listing`] | parses answers |
//! | [`upload`] | uploads files, large ones in parts |
//! | [`cache`] | parts that were read, on the local disk |
//!
//! The name of the bucket is in the path of each request, because gateways often have one host name alone. A file is
//! one object, `PREFIX/NAME`. The store shows an object only when it has all its bytes and has compared them with the
//! hash in the request. So an upload that breaks off leaves nothing, and is repeated as a whole.

mod cache;
mod client;
mod keys;
mod listing;
mod signature;
mod upload;

use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

pub use client::S3Limits;

use self::cache::PartCache;
use self::client::{S3Answer, S3Body, S3Client, S3Request};
use super::folder::begin;
use super::{FilePlace, PlaceAddress, PlaceDraft, S3Address};

/// The largest file that is read as a whole: a manifest.
const SMALL: u64 = 64 << 20;
/// The largest part that one request reads.
const LARGEST: u64 = 1 << 30;
/// The number of bytes that a reader asks for at once.
const CHUNK: u64 = 4 << 20;

/// A part of a bucket.
#[derive(Debug)]
pub struct S3Place {
    address: PlaceAddress,
    /// `s3://BUCKET/PREFIX`.
    shown: String,
    /// The beginning of all keys: empty, or with a slash at its end.
    prefix: String,
    client: S3Client,
    /// A larger file is uploaded in parts.
    part: u64,
    local: PathBuf,
    cache: PartCache,
}

impl S3Place {
    /// `local`: the folder on the local disk for drafts and cache.
    ///
    /// # Errors
    /// The address names no key file, or the certificate authorities cannot be read.
    pub fn open(address: &S3Address, local: &Path) -> io::Result<Self> {
        Self::with_limits(address, local, S3Limits::default())
    }

    /// Like [`S3Place::open`], with other limits.
    ///
    /// # Errors
    /// As for [`S3Place::open`].
    pub fn with_limits(address: &S3Address, local: &Path, limits: S3Limits) -> io::Result<Self> {
        let prefix = if address.prefix.is_empty() { String::new() } else { format!("{}/", address.prefix) };
        Ok(Self {
            address: PlaceAddress::S3(address.clone()),
            shown: address.to_string(),
            prefix,
            client: S3Client::open(address, limits)?,
            part: limits.part,
            local: local.to_owned(),
            cache: PartCache::new(local.to_owned()),
        })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The name of a part in the cache.
    fn part_name(&self, name: &str, from: u64, length: u64) -> String {
        format!("{}\n{name}\n{from}\n{length}", self.address.note())
    }

    /// The whole object, or the bytes that `range` names.
    fn read(&self, name: &str, range: Option<&str>, longest: u64) -> io::Result<Vec<u8>> {
        let (key, headers) = (self.key(name), range.map(|range| ("range", range)));
        let request = S3Request { headers: headers.as_slice(), longest, ..S3Request::new("GET", &key) };
        let S3Answer { status, body, .. } = self.client.send(&request)?;
        match status {
            206 if body.len() as u64 <= longest => Ok(body),
            200 if range.is_none() => Ok(body),
            // The part begins behind the end of the object.
            416 => Ok(Vec::new()),
            404 => Err(io::Error::new(io::ErrorKind::NotFound, "the bucket has no such object")),
            _ => Err(io::Error::other(format!("the object store answers {status} to a request for a part"))),
        }
    }

    fn part(&self, name: &str, from: u64, length: u64) -> io::Result<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let longest = length.min(LARGEST);
        let range = match from.checked_add(length - 1) {
            Some(last) if length <= LARGEST => format!("bytes={from}-{last}"),
            _ => format!("bytes={from}-"),
        };
        self.read(name, Some(&range), longest)
    }
}

impl FilePlace for S3Place {
    fn address(&self) -> &PlaceAddress {
        &self.address
    }

    fn path_of(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}/{name}", self.shown))
    }

    fn sizes(&self) -> io::Result<Vec<(String, u64)>> {
        let (mut files, mut next) = (Vec::new(), None::<String>);
        loop {
            let mut query = vec![("list-type", "2"), ("delimiter", "/")];
            if !self.prefix.is_empty() {
                query.push(("prefix", self.prefix.as_str()));
            }
            if let Some(next) = &next {
                query.push(("continuation-token", next.as_str()));
            }
            let S3Answer { status, body, .. } =
                self.client.send(&S3Request { query: &query, ..S3Request::new("GET", "") })?;
            let wrong = |reason: String| io::Error::new(io::ErrorKind::InvalidData, format!("the listing: {reason}"));
            if status != 200 {
                return Err(wrong(format!("the object store answers {status}")));
            }
            let part = listing::listing(&body, &self.prefix).map_err(wrong)?;
            files.extend(part.files);
            match part.next {
                Some(token) if next.as_ref() == Some(&token) => return Err(wrong("it has no end".to_owned())),
                Some(token) => next = Some(token),
                None => return Ok(files),
            }
        }
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.read(name, None, SMALL)
    }

    fn range(&self, name: &str, from: u64, length: u64) -> io::Result<Vec<u8>> {
        let part = self.part_name(name, from, length);
        if let Some(bytes) = self.cache.get(&part) {
            return Ok(bytes);
        }
        let bytes = self.part(name, from, length)?;
        self.cache.put(&part, &bytes);
        Ok(bytes)
    }

    fn forget(&self, name: &str, from: u64, length: u64) {
        self.cache.remove(&self.part_name(name, from, length));
    }

    fn reader(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(S3Reader { place: self, name: name.to_owned(), at: 0, chunk: Vec::new(), used: 0, ended: false }))
    }

    fn prepare(&self) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.local)?;
        Ok(self.local.clone())
    }

    fn draft(&self, name: &str) -> io::Result<PlaceDraft> {
        // A writer has one draft at a time, so the others are of writers that were killed.
        for entry in fs::read_dir(&self.local)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                fs::remove_file(path)?;
            }
        }
        begin(&self.local, name)
    }

    fn finish(&self, draft: PlaceDraft, sha256: &str) -> io::Result<()> {
        let (key, size) = (self.key(&draft.name), draft.file.metadata()?.len());
        if size > self.part {
            upload::in_parts(&self.client, &key, &draft.path, (size, self.part))?;
        } else {
            let body = S3Body::File(&draft.path, sha256);
            stored(&self.client.send(&S3Request { body, ..S3Request::new("PUT", &key) })?)?;
        }
        fs::remove_file(&draft.path)
    }

    /// If two writers create the file, the store refuses the second one.
    fn create(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (key, body) = (self.key(name), S3Body::Bytes(content));
        let headers = [("if-none-match", "*")];
        let answer = self.client.send(&S3Request { headers: &headers, body, ..S3Request::new("PUT", &key) })?;
        if answer.status != 412 {
            return stored(&answer);
        }
        // The object may be our own: the answer to the first request was lost, so the request was sent again.
        if self.get(name)? == content {
            return Ok(());
        }
        let told = "another command has written it: let only one machine write there";
        Err(io::Error::new(io::ErrorKind::AlreadyExists, told))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let key = self.key(name);
        match self.client.send(&S3Request::new("DELETE", &key))?.status {
            404 => Ok(()),
            status if status < 300 => Ok(()),
            status => Err(io::Error::other(format!("the object store answers {status} to a removal"))),
        }
    }

    /// An object is durable when the store has acknowledged it.
    fn make_durable(&self, names: &[String]) -> io::Result<()> {
        let there = self.names()?;
        match names.iter().find(|name| !there.contains(name)) {
            Some(lost) => Err(io::Error::new(io::ErrorKind::NotFound, format!("the bucket has no object {lost}"))),
            None => Ok(()),
        }
    }
}

fn stored(answer: &S3Answer) -> io::Result<()> {
    match answer.status {
        200..=299 => Ok(()),
        status => Err(io::Error::other(format!("the object store answers {status} to an upload"))),
    }
}

/// Reads an object in chunks, each with a request of its own. So a broken connection costs one chunk.
#[derive(Debug)]
struct S3Reader<'a> {
    place: &'a S3Place,
    name: String,
    /// The number of bytes that were asked for.
    at: u64,
    chunk: Vec<u8>,
    used: usize,
    ended: bool,
}

impl Read for S3Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.chunk.len() && !self.ended {
            self.chunk = self.place.part(&self.name, self.at, CHUNK)?;
            self.used = 0;
            self.at += self.chunk.len() as u64;
            self.ended = (self.chunk.len() as u64) < CHUNK;
        }
        let left = self.chunk.get(self.used..).unwrap_or_default();
        let count = left.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(left) {
            *to = *from;
        }
        self.used += count;
        Ok(count)
    }
}
