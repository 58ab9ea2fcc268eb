//! Checks that texts of the project describe its function and reasons, not how or where it was written.

use super::tree::{Finding, Text, has_extension};

pub(crate) const NAME: &str = "words";
pub(crate) const WHY: &str = "code and pages are read anywhere, and names of the workplace mean nothing to their \
                              readers";

/// Each word is written in two halves, because otherwise this file would break the rule.
const WORDS: [(&str, &str); 10] = [
    ("cla", "ude"),
    ("anth", "ropic"),
    ("l", "lm"),
    ("ai ag", "ent"),
    ("developer ses", "sion"),
    ("steering re", "po"),
    ("C", "EO"),
    ("../sha", "red"),
    ("/wo", "rk/"),
    ("/fa", "rm/"),
];

/// Tests and the scripts that run the checks may name the machine they run on. Licences are texts of others. The list
/// of handlers has paths, and a path may have such a word in it.
const EXEMPT: [&str; 4] = [".ci/", "tests/", "LICENSE", super::handlers::LIST];

pub(crate) fn check(file: &Text) -> Vec<Finding> {
    if EXEMPT.iter().any(|place| file.path.starts_with(place)) || has_extension(&file.path, "lock") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for word in WORDS.iter().map(|(head, tail)| format!("{head}{tail}")).filter(|word| holds(line, word)) {
            findings.push(Finding {
                path: file.path.clone(),
                line: number + 1,
                rule: NAME,
                message: format!("`{word}` does not belong in the project"),
            });
        }
    }
    findings
}

/// Whether the line has the word. A word that begins or ends with a letter must not be part of a longer word there. The
/// case matters only if the word is in capitals.
fn holds(line: &str, word: &str) -> bool {
    let capitals = word.chars().all(|c| c.is_ascii_uppercase());
    let line = if capitals { line.to_owned() } else { line.to_ascii_lowercase() };
    let word = if capitals { word.to_owned() } else { word.to_ascii_lowercase() };
    line.match_indices(&word).any(|(at, found)| {
        let before = line[..at].chars().next_back();
        let after = line[at + found.len()..].chars().next();
        let joins = |outer: Option<char>, inner: Option<char>| {
            outer.is_some_and(|c| c.is_alphanumeric() || c == '_') && inner.is_some_and(char::is_alphanumeric)
        };
        !joins(before, found.chars().next()) && !joins(after, found.chars().next_back())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Text { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn forbidden_words_are_found_as_whole_words() {
        for (head, tail) in WORDS {
            assert_eq!(found("docs/a.md", &format!("see {head}{tail} here")), 1, "{head}{tail}");
        }
        assert_eq!(found("docs/a.md", "a bel\u{6c}m of networks"), 0);
    }

    #[test]
    fn scripts_and_lock_files_are_exempt() {
        let text = format!("{}{}", WORDS[7].0, WORDS[7].1);
        assert_eq!(found(".ci/run", &text), 0);
        assert_eq!(found("Cargo.lock", &text), 0);
        assert_eq!(found("ops/test.sh", &text), 1);
    }
}
