//! `policy.yaml`: the operator's overrides, a mapping from rule names to check strings (or to the older lists).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::check::{self, PolicyCheck};
use super::error::PolicyError;
use crate::config::PolicyConfig;

/// Parsed overrides.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub(super) rules: BTreeMap<String, PolicyCheck>,
    /// The check strings as written in the file; lists of the older form are converted.
    texts: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PolicyFileEntry {
    Text(String),
    Lists(Vec<RuleAlternative>),
    /// `rule:` without a value allows everybody, as the empty text does.
    Nothing(()),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RuleAlternative {
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

    /// Reads the file and the directories that the configuration names.
    pub fn configured(config: &PolicyConfig) -> Result<Self, PolicyError> {
        let file = config.policy_file.as_deref().map_or_else(|| Ok(Self::default()), Self::load)?;
        file.load_directories(&config.policy_dirs)
    }

    /// Reads the files of each directory in the order of their names. A later file overrides an earlier one. Missing
    /// directories, hidden files and subdirectories are skipped, as oslo.policy does.
    fn load_directories(mut self, directories: &[PathBuf]) -> Result<Self, PolicyError> {
        for directory in directories {
            for path in files(directory)? {
                let later = Self::load(&path)?;
                self.rules.extend(later.rules);
                self.texts.extend(later.texts);
            }
        }
        Ok(self)
    }

    /// Reads YAML. JSON, the older format of these files, is valid YAML. Error messages show `name` as the file's name.
    pub fn parse(text: &str, name: &str) -> Result<Self, PolicyError> {
        // A file that has only comments holds no document.
        let blank = text.lines().all(|line| {
            let line = line.trim();
            line.is_empty() || line.starts_with('#') || line == "---"
        });
        if blank {
            return Ok(Self::default());
        }
        let entries: BTreeMap<String, PolicyFileEntry> = serde_saphyr::from_str(text)
            .map_err(|error| PolicyError::Syntax { path: name.to_owned(), reason: error.to_string() })?;
        let (mut rules, mut texts) = (BTreeMap::new(), BTreeMap::new());
        for (rule, entry) in entries {
            let parsed = match entry {
                PolicyFileEntry::Text(text) => {
                    let parsed = check::parse(&text);
                    texts.insert(rule.clone(), text);
                    parsed
                }
                PolicyFileEntry::Nothing(()) => {
                    texts.insert(rule.clone(), "@".to_owned());
                    Ok(PolicyCheck::Always)
                }
                PolicyFileEntry::Lists(lists) => {
                    let lists: Vec<Vec<String>> = lists
                        .into_iter()
                        .map(|alternative| match alternative {
                            RuleAlternative::One(text) => vec![text],
                            RuleAlternative::All(all) => all,
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

fn files(directory: &Path) -> Result<Vec<PathBuf>, PolicyError> {
    let unreadable = |source| PolicyError::Read { path: directory.display().to_string(), source };
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let mut paths: Vec<PathBuf> = paths.map_err(unreadable)?;
    paths.retain(|path| path.is_file() && !hidden(path));
    paths.sort();
    Ok(paths)
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
        assert_eq!(overrides.rules["open"], PolicyCheck::Always);
        assert_eq!(overrides.rules["empty"], PolicyCheck::Always);
        assert_eq!(overrides.rules["list"], check::parse("role:a and role:b or role:c").unwrap());
        assert_eq!(Overrides::parse("{\"a\": \"!\"}", "policy.json").unwrap().rules["a"], PolicyCheck::Never);
        assert!(Overrides::parse("# nothing\n\n", "policy.yaml").unwrap().is_empty());
    }

    #[test]
    fn files_of_directories_are_read_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("policy.d");
        std::fs::create_dir_all(directory.join("below")).unwrap();
        for (name, text) in [
            ("20-last.yaml", "a: 'role:last'"),
            ("10-first.yaml", "a: 'role:first'\nb: 'role:first'"),
            (".hidden.yaml", "a: '!'"),
            ("below/30.yaml", "a: '!'"),
        ] {
            std::fs::write(directory.join(name), text).unwrap();
        }
        let file = Overrides::parse("b: '!'\nc: 'role:file'", "policy.yaml").unwrap();
        let absent = folder.path().join("absent");
        let all = file.load_directories(&[absent, directory.clone()]).unwrap();
        let texts: Vec<_> = all.names().map(|name| (name, all.text(name).unwrap())).collect();
        assert_eq!(texts, [("a", "role:last"), ("b", "role:first"), ("c", "role:file")]);
        std::fs::write(directory.join("30-wrong.yaml"), "a: 'role'").unwrap();
        assert!(Overrides::default().load_directories(&[directory]).is_err());
    }

    #[test]
    fn says_which_rule_is_wrong() {
        let error = Overrides::parse("a: 'role'", "policy.yaml").unwrap_err();
        assert!(error.to_string().contains("\"a\""), "{error}");
        assert!(Overrides::parse("- not\n- a mapping", "policy.yaml").is_err());
    }
}
