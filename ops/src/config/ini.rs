//! The file format: oslo.config's dialect of INI.
//!
//! The dialect differs from other INI dialects in ways that operators' existing files rely on. `:` and `=` both assign;
//! the first of them in a line is the separator. A line that begins with a blank continues the value above it. A
//! comment is a whole line: `#` and `;` inside a value belong to the value. A value loses one pair of equal quotes
//! around it. A repeated key makes a list for options that take several values; for all other options the last value is
//! used.
//!
//! A bad line does not stop the parser. The parser collects all problems, so that an operator can fix a file in one go.

use std::fmt;
use std::path::{Path, PathBuf};

/// The file and the line of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigLine {
    pub file: PathBuf,
    /// Counted from 1; 0 is the file as a whole.
    pub line: u32,
}

impl fmt::Display for ConfigLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file.display()),
            line => write!(f, "{}:{line}", self.file.display()),
        }
    }
}

/// One assignment of a file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IniAssignment {
    pub section: String,
    pub key: String,
    /// The text of the value. Line feeds join continuation lines, as in oslo.
    pub value: String,
    pub place: ConfigLine,
}

/// A line that is no assignment, section or comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    pub place: ConfigLine,
    pub reason: &'static str,
}

/// The assignments of a file, and the lines that could not be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ParsedIni {
    pub entries: Vec<IniAssignment>,
    /// Every section header, also that of an empty section.
    pub sections: Vec<(String, ConfigLine)>,
    pub bad: Vec<BadLine>,
}

/// Reads the text of one file; `file` only names it in messages.
pub fn parse(text: &str, file: &Path) -> ParsedIni {
    let mut reader = IniReader { parsed: ParsedIni::default(), section: "DEFAULT".to_owned(), open: None };
    for (line, number) in text.lines().zip(1..) {
        reader.line(line.trim_end(), ConfigLine { file: file.to_owned(), line: number });
    }
    reader.flush();
    reader.parsed
}

struct IniReader {
    parsed: ParsedIni,
    section: String,
    /// The assignment that a continuation line would extend.
    open: Option<IniAssignment>,
}

impl IniReader {
    fn line(&mut self, line: &str, place: ConfigLine) {
        if line.is_empty() {
            return self.flush();
        }
        if line.starts_with([' ', '\t']) {
            return self.continuation(line.trim_start(), place);
        }
        self.flush();
        match line.as_bytes()[0] {
            b'[' => self.header(line, place),
            b'#' | b';' => {}
            _ => self.assignment(line, place),
        }
    }

    fn flush(&mut self) {
        self.parsed.entries.extend(self.open.take());
    }

    fn bad(&mut self, place: ConfigLine, reason: &'static str) {
        self.parsed.bad.push(BadLine { place, reason });
    }

    fn continuation(&mut self, text: &str, place: ConfigLine) {
        match &mut self.open {
            Some(entry) => {
                entry.value.push('\n');
                entry.value.push_str(text);
            }
            None => self.bad(place, "an indented line continues a value, and there is none above it"),
        }
    }

    fn header(&mut self, line: &str, place: ConfigLine) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            None => self.bad(place, "a section header must end with `]`"),
            Some("") => self.bad(place, "a section needs a name"),
            Some(name) => {
                name.clone_into(&mut self.section);
                self.parsed.sections.push((name.to_owned(), place));
            }
        }
    }

    fn assignment(&mut self, line: &str, place: ConfigLine) {
        let Some(at) = line.find(['=', ':']) else {
            return self.bad(place, "neither a section, a comment nor an assignment (no `=` or `:`)");
        };
        let key = line[..at].trim();
        if key.is_empty() {
            return self.bad(place, "an assignment needs a name before `=`");
        }
        let value = unquote(line[at + 1..].trim()).to_owned();
        self.open = Some(IniAssignment { section: self.section.clone(), key: key.to_owned(), value, place });
    }
}

fn unquote(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String, String, u32)> {
        let parsed = parse(text, Path::new("a.conf"));
        assert_eq!(parsed.bad, []);
        parsed.entries.into_iter().map(|e| (e.section, e.key, e.value, e.place.line)).collect()
    }

    fn entry(section: &str, key: &str, value: &str, line: u32) -> (String, String, String, u32) {
        (section.to_owned(), key.to_owned(), value.to_owned(), line)
    }

    #[test]
    fn assignments_before_the_first_section_belong_to_default() {
        assert_eq!(
            values("debug = true\n[api]\nmax_limit: 10\n"),
            [entry("DEFAULT", "debug", "true", 1), entry("api", "max_limit", "10", 3)]
        );
    }

    #[test]
    fn the_first_of_colon_and_equals_assigns() {
        assert_eq!(
            values("url = http://a:1/?b=c\nother: x=y\n"),
            [entry("DEFAULT", "url", "http://a:1/?b=c", 1), entry("DEFAULT", "other", "x=y", 2)]
        );
    }

    #[test]
    fn indented_lines_continue_and_blank_lines_end() {
        assert_eq!(
            values("a = one\n  two\n\tthree\n\nb = 1\n"),
            [entry("DEFAULT", "a", "one\ntwo\nthree", 1), entry("DEFAULT", "b", "1", 5)]
        );
        let parsed = parse("a = 1\n\n  stray\n", Path::new("a.conf"));
        assert_eq!(parsed.bad.len(), 1);
        assert_eq!(parsed.bad[0].place.line, 3);
    }

    #[test]
    fn comments_are_whole_lines_only() {
        assert_eq!(
            values("# c\n; d\na = b # not a comment ; nor this\n"),
            [entry("DEFAULT", "a", "b # not a comment ; nor this", 3)]
        );
    }

    #[test]
    fn one_pair_of_quotes_is_taken_off() {
        assert_eq!(
            values("a = \" x \"\nb = 'y'\nc = 'z\"\nd = \"\n"),
            [
                entry("DEFAULT", "a", " x ", 1),
                entry("DEFAULT", "b", "y", 2),
                entry("DEFAULT", "c", "'z\"", 3),
                entry("DEFAULT", "d", "\"", 4)
            ]
        );
    }

    #[test]
    fn repeated_keys_are_kept_in_order() {
        assert_eq!(values("a = 1\na = 2\n"), [entry("DEFAULT", "a", "1", 1), entry("DEFAULT", "a", "2", 2)]);
    }

    #[test]
    fn every_bad_line_is_reported() {
        let parsed = parse("[open\n[]\nnothing\n= 1\nok = 1\n", Path::new("a.conf"));
        assert_eq!(parsed.bad.iter().map(|b| b.place.line).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(parsed.entries.len(), 1);
        assert_eq!(parsed.bad[0].place.to_string(), "a.conf:1");
    }
}
