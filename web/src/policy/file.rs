//! `policy.yaml`: the operator's overrides, a mapping from rule names to check strings (or to the older lists).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::PolicyError;
use super::check::{self, Check};

/// Parsed overrides.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub(super) rules: BTreeMap<String, Check>,
    /// As they stand in the file; the older lists in the newer form.
    texts: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Text(String),
    Lists(Vec<Alternative>),
    /// `rule:` without a value allows everybody, as the empty text does.
    Nothing(()),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Alternative {
    One(String),
    All(Vec<String>),
}

impl Overrides {
    /// Reads a file; a file that does not exist overrides nothing.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, &path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(PolicyError::Read { path: path.display().to_string(), source }),
        }
    }

    /// Reads YAML (of which JSON, the older format of these files, is a part); `name` is for messages.
    pub fn parse(text: &str, name: &str) -> Result<Self, PolicyError> {
        // A file of comments only holds no document.
        let blank = text.lines().all(|line| {
            let line = line.trim();
            line.is_empty() || line.starts_with('#') || line == "---"
        });
        if blank {
            return Ok(Self::default());
        }
        let entries: BTreeMap<String, Entry> = serde_saphyr::from_str(text)
            .map_err(|error| PolicyError::Syntax { path: name.to_owned(), reason: error.to_string() })?;
        let (mut rules, mut texts) = (BTreeMap::new(), BTreeMap::new());
        for (rule, entry) in entries {
            let parsed = match entry {
                Entry::Text(text) => {
                    let parsed = check::parse(&text);
                    texts.insert(rule.clone(), text);
                    parsed
                }
                Entry::Nothing(()) => {
                    texts.insert(rule.clone(), "@".to_owned());
                    Ok(Check::Always)
                }
                Entry::Lists(lists) => {
                    let lists: Vec<Vec<String>> = lists
                        .into_iter()
                        .map(|alternative| match alternative {
                            Alternative::One(text) => vec![text],
                            Alternative::All(all) => all,
                        })
                        .collect();
                    let all: Vec<String> = lists.iter().map(|all| format!("({})", all.join(" and "))).collect();
                    texts.insert(rule.clone(), all.join(" or "));
                    check::parse_lists(&lists)
                }
            };
            let check = parsed.map_err(|source| PolicyError::Check { rule: rule.clone(), source })?;
            rules.insert(rule, check);
        }
        Ok(Self { rules, texts })
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The check string of an override.
    pub fn text(&self, rule: &str) -> Option<&str> {
        self.texts.get(rule).map(String::as_str)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn reads_yaml_json_and_lists() {
        let yaml = "# who may\n\"os_compute_api:servers:create\": \"role:builder\"\nopen: \"@\"\nempty: ''\nlist: [[\"role:a\", \"role:b\"], \"role:c\"]\n";
        let overrides = Overrides::parse(yaml, "policy.yaml").unwrap();
        assert_eq!(overrides.rules["os_compute_api:servers:create"], check::parse("role:builder").unwrap());
        assert_eq!(overrides.rules["open"], Check::Always);
        assert_eq!(overrides.rules["empty"], Check::Always);
        assert_eq!(overrides.rules["list"], check::parse("role:a and role:b or role:c").unwrap());
        assert_eq!(Overrides::parse("{\"a\": \"!\"}", "policy.json").unwrap().rules["a"], Check::Never);
        assert!(Overrides::parse("# nothing\n\n", "policy.yaml").unwrap().is_empty());
    }

    #[test]
    fn says_which_rule_is_wrong() {
        let error = Overrides::parse("a: 'role'", "policy.yaml").unwrap_err();
        assert!(error.to_string().contains("\"a\""), "{error}");
        assert!(Overrides::parse("- not\n- a mapping", "policy.yaml").is_err());
    }
}
