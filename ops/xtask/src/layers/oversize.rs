//! Finds files that are too long.

use super::tree::{Finding, Text, has_extension};

pub(crate) const NAME: &str = "oversize";
pub(crate) const WHY: &str = "a file of more than 600 lines is about more than one noun; split it by noun";

const LIMIT: usize = 600;

pub(crate) fn check(file: &Text) -> Option<Finding> {
    let lines = file.text.lines().count();
    let is_long = has_extension(&file.path, "rs") && lines > LIMIT;
    is_long.then(|| Finding {
        path: file.path.clone(),
        line: 0,
        rule: NAME,
        message: format!("has {lines} lines (at most {LIMIT}); split it by noun"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_of_rust_are_found() {
        let is_found =
            |path: &str, lines: usize| check(&Text { path: path.to_owned(), text: "x\n".repeat(lines) }).is_some();
        assert!(is_found("web/src/a.rs", 601));
        assert!(!is_found("web/src/b.rs", 600));
        assert!(!is_found("docs/c.md", 900));
    }
}
