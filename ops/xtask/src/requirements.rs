//! `cargo xtask requirements`: counts the rows of docs/requirements by status. tests/tests/requirements.rs checks the
//! statuses themselves.

use std::path::Path;

use anyhow::Context as _;

const STATUSES: [&str; 4] = ["done", "partial", "open", "not planned"];

pub(crate) fn count(root: &Path) -> anyhow::Result<bool> {
    println!("{:8} {}", "", STATUSES.map(|status| format!("{status:>12}")).join(""));
    for part in 1..=4 {
        let path = root.join(format!("docs/requirements/part{part}.md"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let counts = STATUSES.map(|status| text.lines().filter(|line| status_of(line) == Some(status)).count());
        println!("part {part}   {}", counts.map(|count| format!("{count:>12}")).join(""));
    }
    Ok(true)
}

/// The status word of a requirement's row; `None` for other lines.
fn status_of(line: &str) -> Option<&'static str> {
    let row = line.strip_prefix("| P")?.trim_end().strip_suffix(" |")?;
    let status = row.rsplit(" | ").next()?;
    STATUSES.into_iter().find(|word| status == *word || status.starts_with(&format!("{word}:")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_requirements_have_a_status() {
        assert_eq!(status_of("| P1-001 | a | b | c | d | open |"), Some("open"));
        assert_eq!(status_of("| P1-001 | a | b | c | d | not planned: no hardware |"), Some("not planned"));
        assert_eq!(status_of("| done | a |"), None);
    }
}
