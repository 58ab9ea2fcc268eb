//! `cargo xtask layers`: checks which names each folder may use.
//!
//! The rules about Rust code are data ([`rules::RULES`]): a name, the reason, and a function over one file. They read
//! code as tokens ([`source`]), so that comments and string literals never count. For each of these rules, `tests.rs`
//! has a snippet that breaks the rule, because a rule must be able to fail. A rule cannot be switched off for a line;
//! change the rule here if it is wrong.

mod cycles;
mod debug_names;
mod handlers;
mod homonyms;
mod manifest;
mod oversize;
mod prose;
mod recipes;
mod rules;
mod source;
mod test_programs;
#[cfg(test)]
mod tests;
mod tree;
mod walls;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use source::Source;
use tree::{Finding, Text, has_extension, text};

/// The other rules, each in a file of its own, with their reasons.
const LISTED: [(&str, &str); 11] = [
    (manifest::NAME, manifest::WHY),
    (oversize::NAME, oversize::WHY),
    (words::NAME, words::WHY),
    (debug_names::NAME, debug_names::WHY),
    (cycles::NAME, cycles::WHY),
    (homonyms::NAME, homonyms::WHY),
    (handlers::NAME, handlers::WHY),
    (prose::NAME, prose::WHY),
    (walls::NAME, walls::WHY),
    (recipes::NAME, recipes::WHY),
    (test_programs::NAME, test_programs::WHY),
];

/// Prints every rule with its reason.
pub(crate) fn list() -> bool {
    for rule in rules::RULES {
        println!("{}: {}", rule.name, rule.why);
    }
    for (name, why) in LISTED {
        println!("{name}: {why}");
    }
    true
}

/// Prints every sentence that breaks the rule about prose.
pub(crate) fn prose(root: &Path) -> anyhow::Result<bool> {
    prose::print(&prose::hard(&read_tree(root)?));
    Ok(true)
}

/// Compares the files that differ from `base` with those that a recipe of CONTRIBUTING.md names.
pub(crate) fn recipe(root: &Path, word: &str, base: &str) -> anyhow::Result<bool> {
    recipes::compare(root, word, base)
}

/// The names of the test programs that contain each file, by the file's path.
pub(crate) fn programs_of_tests(root: &Path) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    Ok(test_programs::programs(&read_tree(root)?))
}

/// Checks the whole tree and prints the findings. Returns whether there are none.
pub(crate) fn check(root: &Path) -> anyhow::Result<bool> {
    let files = read_tree(root)?;
    let mut findings = judge(&files);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    let cycles = cycles::largest(&sources(&files));
    let cycles: Vec<String> = cycles.iter().map(|cycle| format!("{} {}", cycle.root, cycle.files.len())).collect();
    println!("layers: largest import cycle, in files: {}", cycles.join(", "));
    println!("layers: {} files, {} broken rules", files.len(), findings.len());
    Ok(findings.is_empty())
}

/// Lowers the numbers in these five lists to their present values. A list with a number that grew is not written, and
/// its findings are printed.
pub(crate) fn lower(root: &Path) -> anyhow::Result<bool> {
    let files = read_tree(root)?;
    let sources = sources(&files);
    let (cycles, names) = (cycles::largest(&sources), homonyms::names(&sources));
    let (handlers, sentences) = (handlers::long(&sources), prose::hard(&files));
    let walls = walls::breaches(&sources);
    let now = [
        (cycles::LIST, cycles::list(&cycles), cycles::check(&cycles, text(&files, cycles::LIST))),
        (homonyms::LIST, homonyms::list(&names), homonyms::check(&names, text(&files, homonyms::LIST))),
        (handlers::LIST, handlers::list(&handlers), handlers::check(&handlers, text(&files, handlers::LIST))),
        (walls::LIST, walls::list(&walls), walls::check(&walls, text(&files, walls::LIST))),
        (prose::LIST, prose::list(&sentences), prose::check(&sentences, text(&files, prose::LIST))),
    ];
    for (path, list, findings) in now {
        let grew: Vec<_> = findings.iter().filter(|finding| !finding.message.contains("--lower")).collect();
        for finding in &grew {
            println!("{finding}");
        }
        if grew.is_empty() {
            std::fs::write(root.join(path), list).with_context(|| format!("{path} cannot be written"))?;
        }
    }
    Ok(true)
}

/// All findings in these files.
fn judge(files: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if has_extension(&file.path, "rs") {
            let source = Source::new(&file.path, &file.text);
            for rule in rules::RULES {
                (rule.check)(&source, &mut |line, message| {
                    findings.push(Finding { path: file.path.clone(), line, rule: rule.name, message });
                });
            }
        }
        findings.extend(manifest::check(file));
        findings.extend(words::check(file));
        findings.extend(debug_names::check(file));
        findings.extend(oversize::check(file));
    }
    findings.extend(recipes::check(files));
    findings.extend(test_programs::check(files));
    let sources = sources(files);
    findings.extend(cycles::check(&cycles::largest(&sources), text(files, cycles::LIST)));
    findings.extend(handlers::check(&handlers::long(&sources), text(files, handlers::LIST)));
    findings.extend(walls::check(&walls::breaches(&sources), text(files, walls::LIST)));
    findings.extend(homonyms::check(&homonyms::names(&sources), text(files, homonyms::LIST)));
    findings.extend(prose::check(&prose::hard(files), text(files, prose::LIST)));
    findings
}

fn sources(files: &[Text]) -> Vec<Source> {
    let code = files.iter().filter(|file| has_extension(&file.path, "rs"));
    code.map(|file| Source::new(&file.path, &file.text)).collect()
}

/// The text files that git tracks or would track. Ignored files are no part of the project.
fn read_tree(root: &Path) -> anyhow::Result<Vec<Text>> {
    let listing = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("git cannot be started")?;
    if !listing.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listing.stderr).trim());
    }
    let paths = String::from_utf8(listing.stdout).context("a path is not UTF-8")?;
    let read = |path: &str| -> Option<Text> {
        // Skips binary files, and files whose deletion is not committed yet.
        let text = std::fs::read_to_string(PathBuf::from(root).join(path)).ok()?;
        Some(Text { path: path.to_owned(), text })
    };
    Ok(paths.split_terminator('\0').filter_map(read).collect())
}
