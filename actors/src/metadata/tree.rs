//! What stands at a path of the metadata service: versions, their documents, and EC2's tree below those.
//!
//! Source: nova `api/metadata/base.py` (`lookup`, `ec2_md_print`).

use std::fmt::Write as _;

use serde_json::Value;

use super::{About, ec2, openstack, seed};

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Text(Vec<u8>),
    Json(Vec<u8>),
    /// What the guest posted for its owner, or may post.
    Password,
}

impl Found {
    fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Text(names.into_iter().collect::<Vec<_>>().join("\n").into_bytes())
    }
}

/// The versions that EC2's tree has, as the root shows them to anybody.
pub fn root() -> Found {
    Found::list(ec2::VERSIONS)
}

impl About<'_> {
    /// What is at `path`, if anything is. A path that names neither tree means EC2's. `today` (`2026-01-31`) hides the
    /// versions of the future from the list; who asks for one gets it.
    pub fn look_up(&self, path: &[&str], today: &str) -> Result<Option<Found>, String> {
        match path {
            ["openstack"] => Ok(Some(Found::list(openstack::versions(today)))),
            ["openstack", "content", rest @ ..] => match rest {
                [id] => self.content(id).map(|content| content.map(Found::Text)),
                _ => Ok(None),
            },
            ["openstack", version, rest @ ..] => self.openstack(version, rest),
            [] | ["ec2"] => Ok(Some(root())),
            ["ec2", version, rest @ ..] | [version, rest @ ..] => self.ec2(version, rest),
        }
    }

    fn openstack(&self, version: &str, rest: &[&str]) -> Result<Option<Found>, String> {
        let Some(names) = openstack::names(version) else { return Ok(None) };
        let (names, user_data) = (names.collect::<Vec<_>>(), self.user_data()?);
        let there = |name: &&str| *name != openstack::USER_DATA || user_data.is_some();
        match rest {
            [] => Ok(Some(Found::list(names.into_iter().filter(there)))),
            [wanted] if !names.contains(wanted) => Ok(None),
            [openstack::PASSWORD] => Ok(Some(Found::Password)),
            [wanted] => {
                let found = openstack::document(self, version, wanted, user_data.as_deref(), &seed()?);
                // Nova forgets to say so of the network's.
                let is_json = !matches!(*wanted, openstack::USER_DATA | openstack::NETWORK_DATA);
                Ok(found.map(|document| if is_json { Found::Json(document) } else { Found::Text(document) }))
            }
            _ => Ok(None),
        }
    }

    fn ec2(&self, version: &str, rest: &[&str]) -> Result<Option<Found>, String> {
        if !ec2::VERSIONS.contains(&version) {
            return Ok(None);
        }
        let user_data = self.user_data()?;
        Ok(match rest {
            [] => Some(Found::list(["meta-data/"].into_iter().chain(user_data.is_some().then_some("user-data")))),
            ["user-data"] => user_data.map(Found::Text),
            ["meta-data", rest @ ..] => {
                let tree = ec2::meta_data(self, version);
                rest.iter()
                    .try_fold(&tree, |node, name| node.get(name))
                    .map(|node| Found::Text(print(node).into_bytes()))
            }
            _ => None,
        })
    }
}

/// Names of what is below, one a line, with a slash where more is below that; or the value.
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
