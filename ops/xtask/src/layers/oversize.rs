//! Finds files that are too long.
//!
//! `oversize.txt` lists the files that are too long today, each with its length: `LINES PATH`. The list may only
//! shrink. A listed file that grew, that is now short enough, or that is gone is a finding too.

use super::tree::{Finding, Text, has_extension};

pub(crate) const NAME: &str = "oversize";
pub(crate) const WHY: &str = "a file of more than 600 lines is about more than one noun; split it by noun";

const LIMIT: usize = 600;
const LIST: &str = "ops/xtask/src/layers/oversize.txt";

pub(crate) fn check(files: &[Text]) -> Vec<Finding> {
    let list = files.iter().find(|file| file.path == LIST).map_or("", |file| file.text.as_str());
    judge(files, list)
}

fn judge(files: &[Text], list: &str) -> Vec<Finding> {
    let allowed: Vec<(usize, &str)> = list.lines().filter_map(entry).collect();
    let length = |path: &str| files.iter().find(|file| file.path == path).map_or(0, |file| file.text.lines().count());
    let finding = |path: &str, message: String| Finding { path: path.to_owned(), line: 0, rule: NAME, message };
    let mut findings = Vec::new();
    for (lines, path) in &allowed {
        match length(path) {
            now if now > *lines => findings.push(finding(path, format!("grew from {lines} to {now} lines; split it"))),
            now if now <= LIMIT => findings.push(finding(path, format!("has {now} lines; take it off {LIST}"))),
            _ => {}
        }
    }
    for file in files.iter().filter(|file| has_extension(&file.path, "rs")) {
        let now = file.text.lines().count();
        if now > LIMIT && !allowed.iter().any(|(_, path)| *path == file.path) {
            findings.push(finding(&file.path, format!("has {now} lines (at most {LIMIT}); split it by noun")));
        }
    }
    findings
}

fn entry(line: &str) -> Option<(usize, &str)> {
    let (lines, path) = line.trim().split_once(' ')?;
    Some((lines.parse().ok()?, path.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: usize) -> Text {
        Text { path: path.to_owned(), text: "x\n".repeat(lines) }
    }

    #[test]
    fn long_files_are_found_unless_listed() {
        let files = [file("web/src/a.rs", 601), file("web/src/b.rs", 600), file("docs/c.md", 900)];
        assert_eq!(judge(&files, "").len(), 1);
        assert_eq!(judge(&files, "601 web/src/a.rs\n"), []);
    }

    #[test]
    fn the_list_only_shrinks() {
        assert_eq!(judge(&[file("web/src/a.rs", 602)], "601 web/src/a.rs\n").len(), 1);
        assert_eq!(judge(&[file("web/src/a.rs", 599)], "601 web/src/a.rs\n").len(), 1);
        assert_eq!(judge(&[], "601 web/src/gone.rs\n").len(), 1);
    }
}
