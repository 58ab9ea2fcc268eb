//! Resolves a path of the metadata service: versions, their documents, and EC2's tree below those.
//!
//! Source: nova `api/metadata/base.py` (`lookup`, `ec2_md_print`).

use std::fmt::Write as _;

use serde_json::Value;

use super::{GuestMetadata, ec2, openstack, seed};

/// The metadata that a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataEntry {
    Text(Vec<u8>),
    Json(Vec<u8>),
    /// The path at which a guest posts a password for its owner, and reads the posted one.
    Password,
}

impl MetadataEntry {
    fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Text(names.into_iter().collect::<Vec<_>>().join("\n").into_bytes())
    }
}

/// The answer at the root path: the list of EC2's versions. It is the same for every guest.
pub fn root() -> MetadataEntry {
    MetadataEntry::list(ec2::VERSIONS)
}

impl GuestMetadata<'_> {
    /// Resolves `path`; `None` if nothing is there. A path that begins with neither `openstack` nor `ec2` is a path in
    /// EC2's tree. `today` (`2026-01-31`) hides future versions from the list, but a guest can still request one.
    pub fn look_up(&self, path: &[&str], today: &str) -> Result<Option<MetadataEntry>, String> {
        match path {
            ["openstack"] => Ok(Some(MetadataEntry::list(openstack::versions(today)))),
            ["openstack", "content", rest @ ..] => match rest {
                [id] => self.content(id).map(|content| content.map(MetadataEntry::Text)),
                _ => Ok(None),
            },
            ["openstack", version, rest @ ..] => self.openstack(version, rest),
            [] | ["ec2"] => Ok(Some(root())),
            ["ec2", version, rest @ ..] | [version, rest @ ..] => self.ec2(version, rest),
        }
    }

    fn openstack(&self, version: &str, rest: &[&str]) -> Result<Option<MetadataEntry>, String> {
        let Some(names) = openstack::names(version) else { return Ok(None) };
        let (names, user_data) = (names.collect::<Vec<_>>(), self.user_data()?);
        let there = |name: &&str| *name != openstack::USER_DATA || user_data.is_some();
        match rest {
            [] => Ok(Some(MetadataEntry::list(names.into_iter().filter(there)))),
            [wanted] if !names.contains(wanted) => Ok(None),
            [openstack::PASSWORD] => Ok(Some(MetadataEntry::Password)),
            [wanted] => {
                let found = openstack::document(self, version, wanted, user_data.as_deref(), &seed()?);
                // As in Nova, the network data does not have the content type of JSON, although it is JSON.
                let is_json = !matches!(*wanted, openstack::USER_DATA | openstack::NETWORK_DATA);
                Ok(found.map(
                    |document| if is_json { MetadataEntry::Json(document) } else { MetadataEntry::Text(document) },
                ))
            }
            _ => Ok(None),
        }
    }

    fn ec2(&self, version: &str, rest: &[&str]) -> Result<Option<MetadataEntry>, String> {
        if !ec2::VERSIONS.contains(&version) {
            return Ok(None);
        }
        let user_data = self.user_data()?;
        Ok(match rest {
            [] => {
                Some(MetadataEntry::list(["meta-data/"].into_iter().chain(user_data.is_some().then_some("user-data"))))
            }
            ["user-data"] => user_data.map(MetadataEntry::Text),
            ["meta-data", rest @ ..] => {
                let tree = ec2::meta_data(self, version);
                rest.iter()
                    .try_fold(&tree, |node, name| node.get(name))
                    .map(|node| MetadataEntry::Text(print(node).into_bytes()))
            }
            _ => None,
        })
    }
}

/// The names of the children, one per line, or the value of a leaf. A name with children of its own ends with a slash,
/// except the name of a public key (`0=NAME`).
fn print(node: &Value) -> String {
    match node {
        Value::Object(below) => {
            let mut names: Vec<&String> = below.keys().filter(|name| *name != "_name").collect();
            names.sort();
            let mut text = String::new();
            for name in names {
                let _ = match &below[name.as_str()] {
                    Value::Object(further) => match further.get("_name").and_then(Value::as_str) {
                        Some(shown) => writeln!(text, "{shown}"),
                        None => writeln!(text, "{name}/"),
                    },
                    _ => writeln!(text, "{name}"),
                };
            }
            text.pop();
            text
        }
        Value::Array(items) => items.iter().map(print).collect::<Vec<_>>().join("\n"),
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
