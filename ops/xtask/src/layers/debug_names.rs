//! Checks that a hand-written `Debug` prints the name of its type. The compiler does not see the name in a literal, so
//! a rename of the type leaves the old name there.

use super::tree::{Finding, Text, has_extension};

pub(crate) const NAME: &str = "debug-names";
pub(crate) const WHY: &str = "Debug prints the name of the type, so that a log line leads to the type";

/// The calls that print a name.
const PRINTS: [&str; 3] = ["debug_struct(\"", "debug_tuple(\"", "write_str(\""];

pub(crate) fn check(file: &Text) -> Vec<Finding> {
    if !has_extension(&file.path, "rs") {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some((head, rest)) = line.split_once("Debug for ") else { continue };
        if !head.trim_start().starts_with("impl") {
            continue;
        }
        let name = word(rest);
        let end = &line[..line.len() - line.trim_start().len()];
        let block = lines[number + 1..].iter().take_while(|line| line.strip_prefix(end) != Some("}"));
        // An enum prints the name of its variant.
        let block: Vec<&&str> = block.collect();
        if block.iter().any(|line| line.contains("match self")) {
            continue;
        }
        let printed = block.iter().find_map(|line| PRINTS.iter().find_map(|call| line.split_once(call)));
        if let Some(printed) =
            printed.map(|(_, rest)| word(rest)).filter(|printed| !printed.is_empty() && *printed != name)
        {
            let message = format!("Debug prints `{printed}`, and the type is `{name}`");
            findings.push(Finding { path: file.path.clone(), line: number + 1, rule: NAME, message });
        }
    }
    findings
}

/// The identifier at the beginning of `text`.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, body: &str) -> Vec<String> {
        let method = "fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result";
        let text = format!("impl<A> fmt::Debug for {name}<A> {{\n    {method} {{\n        {body}\n    }}\n}}\n");
        let file = Text { path: "actors/src/a.rs".to_owned(), text };
        check(&file).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_name_that_is_not_the_types_is_found() {
        for body in ["f.debug_struct(\"Old\").finish()", "f.write_str(\"Old(...)\")", "f.debug_tuple(\"Old\").finish()"]
        {
            assert_eq!(found("New", body), ["Debug prints `Old`, and the type is `New`"], "{body}");
            assert!(found("Old", body).is_empty(), "{body}");
        }
        assert!(found("New", "match self { Self::Old => f.write_str(\"Old\") }").is_empty());
        assert!(found("New", "fmt::Display::fmt(self, f)").is_empty());
    }
}
