//! The names of places: a path, or `s3://BUCKET/PREFIX`.
//!
//! An object store also needs an endpoint, a region and a key. The address may name them as parameters
//! (`?endpoint=...&key_file=...`); the configuration completes the others. A log notes the complete address of its
//! archive, so that every command that opens the log finds the archive. The note names the key's file, never the key.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const SCHEME: &str = "s3://";

/// The name of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceAddress {
    Folder(PathBuf),
    S3(S3Address),
}

/// A bucket, and the part of it that belongs to the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Address {
    pub bucket: String,
    /// Without slashes at both ends; may be empty.
    pub prefix: String,
    pub access: S3Access,
}

/// How to reach an object store. Each `None` is taken from the configuration, or is the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct S3Access {
    /// `https://HOST[:PORT]`; default: that of Amazon in the region.
    pub endpoint: Option<String>,
    /// Default: `us-east-1`, which stores without regions accept.
    pub region: Option<String>,
    /// The file with the access key.
    pub key_file: Option<PathBuf>,
    /// The certificate authorities of the endpoint, in PEM; default: those of the system.
    pub ca_file: Option<PathBuf>,
}

impl PlaceAddress {
    /// The folder; `None` for an object store.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::S3(_) => None,
        }
    }

    /// The place below this one: a folder in the folder, or a longer prefix.
    pub fn below(&self, name: &str) -> Self {
        match self {
            Self::Folder(folder) => Self::Folder(folder.join(name)),
            Self::S3(s3) if s3.prefix.is_empty() => Self::S3(S3Address { prefix: name.to_owned(), ..s3.clone() }),
            Self::S3(s3) => Self::S3(S3Address { prefix: format!("{}/{name}", s3.prefix), ..s3.clone() }),
        }
    }

    /// Adds the parts of the access that the address does not name.
    ///
    /// # Errors
    /// A part cannot be noted in an address.
    pub fn completed(self, with: &S3Access) -> Result<Self, String> {
        match self {
            Self::Folder(folder) => Ok(Self::Folder(folder)),
            Self::S3(s3) => {
                let access = S3Access {
                    endpoint: s3.access.endpoint.or_else(|| with.endpoint.clone()),
                    region: s3.access.region.or_else(|| with.region.clone()),
                    key_file: s3.access.key_file.or_else(|| with.key_file.clone()),
                    ca_file: s3.access.ca_file.or_else(|| with.ca_file.clone()),
                };
                Ok(Self::S3(S3Address { access: access.checked()?, ..s3 }))
            }
        }
    }

    /// The whole address of a place in an object store, for a note in a log.
    pub fn note(&self) -> String {
        let Self::S3(s3) = self else { return self.to_string() };
        let access = &s3.access;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let parts = [
            ("endpoint", access.endpoint.clone()),
            ("region", access.region.clone()),
            ("key_file", path(&access.key_file)),
            ("ca_file", path(&access.ca_file)),
        ];
        let parts: Vec<String> =
            parts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect();
        if parts.is_empty() { self.to_string() } else { format!("{self}?{}", parts.join("&")) }
    }
}

impl S3Access {
    /// The same access with absolute paths, if an address can note it: its texts must not have the characters that
    /// separate the parts of an address.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn checked(self) -> Result<Self, String> {
        let whole = |path: Option<PathBuf>| match path {
            Some(path) => std::path::absolute(&path).map(Some).map_err(|error| format!("{}: {error}", path.display())),
            None => Ok(None),
        };
        let endpoint = self.endpoint.map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        if let Some(endpoint) = &endpoint {
            let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
            // The endpoint appears in notes and messages, so it must not have a password. This error does not repeat
            // the endpoint.
            if host.is_some_and(|host| host.contains('@')) {
                return Err("an endpoint of S3 cannot have a user or a password: the key is in s3_key_file".to_owned());
            }
            if host.is_none_or(|host| host.is_empty() || host.contains('/')) {
                return Err(format!("`{endpoint}` is no endpoint of S3: give https://HOST or http://HOST:PORT"));
            }
        }
        let access =
            Self { endpoint, region: self.region, key_file: whole(self.key_file)?, ca_file: whole(self.ca_file)? };
        let paths = [&access.key_file, &access.ca_file].into_iter().flatten();
        let paths = paths.map(|path| path.to_str().unwrap_or(" ").to_owned());
        let texts = [&access.endpoint, &access.region].into_iter().flatten().cloned();
        let wrong = paths.chain(texts).find(|text| !is_plain(text));
        match wrong {
            Some(text) => {
                Err(format!("`{text}` has a blank, `&`, `?`, `#` or `%`, which an address of S3 cannot have"))
            }
            None => Ok(access),
        }
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "&?#%".contains(c))
}

impl FromStr for PlaceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return match text.split_once("://") {
                Some((scheme, _)) => Err(format!("{scheme}:// is unknown: give a folder, or s3://BUCKET/PREFIX")),
                None if text.is_empty() => Err("a path cannot be empty".to_owned()),
                None => Ok(Self::Folder(PathBuf::from(text))),
            };
        };
        let (path, parts) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let prefix = prefix.trim_matches('/');
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_name) {
            return Err(format!("`{bucket}` is no name of a bucket: give s3://BUCKET/PREFIX"));
        }
        let is_step = |step: &str| is_plain(step) && step != "." && step != "..";
        if !prefix.is_empty() && !prefix.split('/').all(is_step) {
            return Err(format!("`{prefix}` is no prefix: it has an empty part, or a sign that is not allowed"));
        }
        let mut access = S3Access::default();
        for part in parts.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("endpoint", value)) => access.endpoint = Some(value.to_owned()),
                Some(("region", value)) => access.region = Some(value.to_owned()),
                Some(("key_file", value)) => access.key_file = Some(PathBuf::from(value)),
                Some(("ca_file", value)) => access.ca_file = Some(PathBuf::from(value)),
                _ => return Err(format!("`{part}` is unknown: the parts are endpoint, region, key_file and ca_file")),
            }
        }
        let access = access.checked()?;
        Ok(Self::S3(S3Address { bucket: bucket.to_owned(), prefix: prefix.to_owned(), access }))
    }
}

/// The short name, for people.
impl fmt::Display for PlaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::S3(s3) => s3.fmt(f),
        }
    }
}

impl fmt::Display for S3Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_is_completed_by_the_configuration_and_noted() {
        let with = S3Access {
            endpoint: Some("http://127.0.0.1:7480/".to_owned()),
            region: None,
            key_file: Some("/etc/chronova/s3.key".into()),
            ca_file: None,
        };
        let address: PlaceAddress = "s3://cold/logs/east/?region=default".parse().unwrap();
        let whole = address.completed(&with).unwrap();
        assert_eq!(whole.to_string(), "s3://cold/logs/east");
        let note = "s3://cold/logs/east?endpoint=http://127.0.0.1:7480&region=default&key_file=/etc/chronova/s3.key";
        assert_eq!(whole.note(), note);
        assert_eq!(note.parse::<PlaceAddress>().unwrap(), whole);
        assert_eq!(whole.below("log").to_string(), "s3://cold/logs/east/log");
        assert_eq!("s3://cold".parse::<PlaceAddress>().unwrap().below("log").to_string(), "s3://cold/log");
        assert_eq!("cold".parse::<PlaceAddress>().unwrap().below("log").to_string(), "cold/log");
        // Parts of the address win.
        let again = whole.clone().completed(&S3Access { region: Some("west".to_owned()), ..with }).unwrap();
        assert_eq!(again, whole);
    }

    #[test]
    fn a_path_is_a_folder_and_other_addresses_are_refused() {
        let folder: PlaceAddress = "archive/old".parse().unwrap();
        assert_eq!((folder.folder(), folder.note().as_str()), (Some(Path::new("archive/old")), "archive/old"));
        for (wrong, told) in [
            ("", "empty"),
            ("https://store/bucket", "https:// is unknown"),
            ("s3://", "no name of a bucket"),
            ("s3://a b/c", "no name of a bucket"),
            ("s3://a/../c", "no prefix"),
            ("s3://a/b//c", "no prefix"),
            ("s3://a/b?secret=x", "is unknown"),
            ("s3://a/b?endpoint=store:7480", "no endpoint"),
            ("s3://a/b?endpoint=http://store/x", "no endpoint"),
            ("s3://a/b?endpoint=http://me:secret@store", "cannot have a user"),
            ("s3://a/b?key_file=/a b", "a blank"),
        ] {
            let refused = wrong.parse::<PlaceAddress>().unwrap_err();
            assert!(refused.contains(told) && !refused.contains("me:secret"), "{wrong}: {refused}");
        }
    }
}
