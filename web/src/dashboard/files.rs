//! The dashboard's files, which the build embeds into the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Name and content of each file; the build lists them.
static TABLE: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// The page that a browser opens first.
pub(super) const INDEX: &str = "index.html";

/// A file that browsers may load.
#[derive(Debug)]
pub(super) struct DashboardFile {
    pub kind: &'static str,
    pub bytes: Bytes,
    /// `ETag`, in quotes.
    pub tag: String,
}

impl DashboardFile {
    pub(super) fn new(name: &str, bytes: Bytes) -> Self {
        let tag = format!("\"{}\"", hex(&Sha256::digest(&bytes)));
        Self { kind: kind(name), bytes, tag }
    }
}

/// All files of the dashboard.
#[derive(Debug)]
pub(super) struct DashboardFiles {
    by_name: BTreeMap<&'static str, DashboardFile>,
    version: String,
}

pub(super) static FILES: LazyLock<DashboardFiles> = LazyLock::new(|| {
    let by_name: BTreeMap<&'static str, DashboardFile> =
        TABLE.iter().map(|(name, bytes)| (*name, DashboardFile::new(name, Bytes::from_static(bytes)))).collect();
    let mut all = Sha256::new();
    for (name, file) in &by_name {
        all.update(format!("{name} {}\n", file.tag));
    }
    DashboardFiles { version: hex(&all.finalize()).chars().take(16).collect(), by_name }
});

impl DashboardFiles {
    pub(super) fn get(&self, name: &str) -> Option<&DashboardFile> {
        self.by_name.get(name)
    }

    /// A name for this set of files; it changes when any file changes.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &DashboardFile)> {
        self.by_name.iter().map(|(name, file)| (*name, file))
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        // Licences and checksums.
        _ => "text/plain; charset=utf-8",
    }
}
