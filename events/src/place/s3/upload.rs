//! Uploads large files in parts.
//!
//! The object appears when the store has put the parts together. So an upload that breaks off leaves no object. Its
//! parts are removed here, and after a crash by the bucket's rule for unfinished uploads, if it has one.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::client::{S3Answer, S3Body, S3Client, S3Request};
use super::listing::{refusal, value};
use super::stored;

/// The largest number of parts that stores accept.
const PARTS: u64 = 10_000;

/// Uploads the file at `path` as the object `key`. `size`: that of the file; `least`: that of a part.
pub(super) fn in_parts(client: &S3Client, key: &str, path: &Path, (size, least): (u64, u64)) -> io::Result<()> {
    let begun = client.send(&S3Request {
        query: &[("uploads", "")],
        body: S3Body::Bytes(b""),
        ..S3Request::new("POST", key)
    })?;
    stored(&begun)?;
    let id = value(&begun.body, "UploadId").ok_or_else(|| io::Error::other("the object store began no upload"))?;
    let whole = parts(client, key, &id, path, (size, least.max(size.div_ceil(PARTS))))
        .and_then(|tags| put_together(client, key, &id, &tags));
    if whole.is_err() {
        // The upload has failed, and its error is the one to report.
        let _ = client.send(&S3Request { query: &[("uploadId", id.as_str())], ..S3Request::new("DELETE", key) });
    }
    whole
}

/// Uploads the parts. Returns their tags.
fn parts(client: &S3Client, key: &str, id: &str, path: &Path, (size, part): (u64, u64)) -> io::Result<Vec<String>> {
    let (mut file, mut tags, mut at) = (File::open(path)?, Vec::new(), 0);
    while at < size {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(at))?;
        (&mut file).take(part).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        let number = (tags.len() + 1).to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", id)];
        let sent =
            client.send(&S3Request { query: &query, body: S3Body::Bytes(&bytes), ..S3Request::new("PUT", key) })?;
        stored(&sent)?;
        tags.push(sent.tag.ok_or_else(|| io::Error::other("the object store gave a part no tag"))?);
        at += bytes.len() as u64;
    }
    Ok(tags)
}

fn put_together(client: &S3Client, key: &str, id: &str, tags: &[String]) -> io::Result<()> {
    let mut text = "<CompleteMultipartUpload>".to_owned();
    for (number, tag) in (1..).zip(tags) {
        let tag = tag.replace('&', "&amp;").replace('<', "&lt;");
        // Writing to a `String` cannot fail.
        let _ = write!(text, "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
    }
    text.push_str("</CompleteMultipartUpload>");
    let S3Answer { status, body, .. } = client.send(&S3Request {
        query: &[("uploadId", id)],
        body: S3Body::Bytes(text.as_bytes()),
        ..S3Request::new("POST", key)
    })?;
    // A store may notice an error only after it has begun to answer with status 200.
    let (code, message) = refusal(&body);
    match (status, code.as_str()) {
        (200, "") => Ok(()),
        // The answer to an earlier request was lost. That request completed the upload, so the object is there.
        (404, "NoSuchUpload") if exists(client, key)? => Ok(()),
        _ => Err(io::Error::other(format!("the object store answers {status} {code} {message} to an upload"))),
    }
}

fn exists(client: &S3Client, key: &str) -> io::Result<bool> {
    let first = [("range", "bytes=0-0")];
    Ok(client.send(&S3Request { headers: &first, ..S3Request::new("GET", key) })?.status == 206)
}
