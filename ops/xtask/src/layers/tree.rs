//! A file of the repository, and a finding in it.

use std::fmt;
use std::path::Path;

/// Something found against a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// The line, from 1; 0 means the whole file.
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.message, self.rule)
    }
}

/// A file of the repository, by its path from the top.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The text of the file at this path; empty if there is no such file.
pub(crate) fn text<'a>(files: &'a [Text], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str())
}

pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}
