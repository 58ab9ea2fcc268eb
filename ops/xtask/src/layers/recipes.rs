//! Checks the recipes of CONTRIBUTING.md against the tree.
//!
//! A recipe is a section `## Add ...`. It ends with a list of the files that an author who follows it touches: `Files
//! touched (N): path, path`. A placeholder (`<name>`) in a path matches a part of a name. `cargo xtask recipe WORD
//! [BASE]` compares such a list with a change, file by file.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::tree::{Finding, Text, text};

pub(crate) const NAME: &str = "recipes";
pub(crate) const WHY: &str = "a recipe that names a file or a table that is gone misleads; each recipe ends with the \
                              files that it touches, and their number";

const PAGE: &str = "CONTRIBUTING.md";
const TOUCHED: &str = "Files touched (";
/// These recipes touch other files in each case, so the check leaves them out. A dependency, for example, belongs to
/// the crate that needs it.
const WITHOUT_FILES: [&str; 1] = ["a dependency"];

/// One section of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Recipe<'a> {
    /// The title without `Add`, as "a filter or a weigher".
    title: &'a str,
    line: usize,
    body: &'a str,
}

/// The list at a recipe's end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TouchedFiles<'a> {
    count: usize,
    paths: Vec<&'a str>,
}

pub(crate) fn check(files: &[Text]) -> Vec<Finding> {
    let page = text(files, PAGE);
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut findings = Vec::new();
    let mut report = |line, message| findings.push(Finding { path: PAGE.to_owned(), line, rule: NAME, message });
    for (line, word) in page.lines().enumerate().flat_map(|(at, line)| links(line).map(move |word| (at + 1, word))) {
        if !paths.contains(&word) {
            report(line, format!("links to {word}, which does not exist"));
        }
    }
    for recipe in recipes(page) {
        let named: Vec<&str> = code_words(recipe.body).filter(|word| is_path(word)).collect();
        for word in named.iter().filter(|word| !paths.iter().any(|path| is_named(word, path))) {
            report(recipe.line, format!("add {}: there is no {word}", recipe.title));
        }
        let sources: Vec<&Text> =
            files.iter().filter(|file| named.iter().any(|word| is_named(word, &file.path))).collect();
        for word in code_words(recipe.body).filter(|word| is_table(word)) {
            if !sources.iter().any(|file| file.path != PAGE && has_word(&file.text, word)) {
                report(recipe.line, format!("add {}: no file that it names has {word}", recipe.title));
            }
        }
        let lists = touched(recipe.body);
        if lists.is_empty() && !WITHOUT_FILES.contains(&recipe.title) {
            report(recipe.line, format!("add {}: no line says which files are touched", recipe.title));
        }
        for list in lists.iter().filter(|list| list.count != list.paths.len()) {
            let message =
                format!("add {}: {} files are promised, {} named", recipe.title, list.count, list.paths.len());
            report(recipe.line, message);
        }
    }
    findings
}

/// Compares the files of a change with the best-fitting list of a recipe, and prints the differences. The change is
/// everything since the branch left `base`, with files that git does not know yet.
pub(crate) fn compare(root: &Path, word: &str, base: &str) -> anyhow::Result<bool> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let known = git(root, &["diff", "--name-only", "--no-renames", "--merge-base", base])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    let changed: Vec<&str> = known.lines().chain(new.lines()).collect();
    let lists: Vec<TouchedFiles<'_>> =
        recipes(&page).into_iter().filter(|recipe| recipe.title.contains(word)).flat_map(|r| touched(r.body)).collect();
    let Some(differences) = lists.iter().map(|list| differences(list, &changed)).min_by_key(Vec::len) else {
        bail!("no recipe has {word:?} in its title");
    };
    for difference in &differences {
        println!("{difference}");
    }
    println!("{} files changed, {} differences from the recipe", changed.len(), differences.len());
    Ok(differences.is_empty())
}

fn git(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let listing = Command::new("git").current_dir(root).args(arguments).output().context("git cannot be started")?;
    ensure!(listing.status.success(), "git: {}", String::from_utf8_lossy(&listing.stderr).trim());
    String::from_utf8(listing.stdout).context("a path is not UTF-8")
}

/// Each path of the list matches one file. Paths without placeholders take their files first.
fn differences(list: &TouchedFiles<'_>, changed: &[&str]) -> Vec<String> {
    let mut unnamed = changed.to_vec();
    let mut unchanged = Vec::new();
    let (open, fixed): (Vec<&str>, Vec<&str>) = list.paths.iter().partition(|pattern| pattern.contains('<'));
    for pattern in fixed.into_iter().chain(open) {
        match unnamed.iter().position(|path| fits(pattern, path)) {
            Some(at) => drop(unnamed.remove(at)),
            None => unchanged.push(format!("promised and not changed: {pattern}")),
        }
    }
    unchanged.into_iter().chain(unnamed.into_iter().map(|path| format!("changed and not promised: {path}"))).collect()
}

fn recipes(page: &str) -> Vec<Recipe<'_>> {
    let mut recipes = Vec::new();
    let mut begin = 0;
    for section in page.split_inclusive("\n## ") {
        let line = page[..begin].lines().count();
        begin += section.len();
        if let Some(rest) = section.strip_prefix("Add ") {
            let (title, body) = rest.split_once('\n').unwrap_or((rest, ""));
            recipes.push(Recipe { title, line, body });
        }
    }
    recipes
}

/// Every list of the section. A recipe for several things has one list for each.
fn touched(body: &str) -> Vec<TouchedFiles<'_>> {
    body.split("\n\n")
        .filter_map(|paragraph| {
            let (_, rest) = paragraph.split_once(TOUCHED)?;
            let (count, rest) = rest.split_once(')')?;
            let count = count.split_whitespace().next()?.parse().ok()?;
            Some(TouchedFiles { count, paths: code_words(rest).collect() })
        })
        .collect()
}

/// The words between back quotes, outside of code blocks.
fn code_words(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// The files that the line's links lead to.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// Whether a word names a file or a folder: `events/src/<noun>`, `decide.rs`.
fn is_path(word: &str) -> bool {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./<>".contains(c));
    let ends = [".rs", ".md", ".txt", ".js", ".toml", ".py"].iter().any(|end| word.ends_with(end));
    // A word such as `/servers` is a path of an API.
    plain && !word.starts_with('/') && (ends || word.contains('/'))
}

/// Whether a word names a table, a registry or a macro: `FILTERS`, `capabilities!`.
fn is_table(word: &str) -> bool {
    // A word that begins with the program's name is an environment variable.
    let constant =
        word.len() > 2 && !word.starts_with("CHRONOVA_") && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let name = word.strip_suffix('!').unwrap_or_default();
    constant || (!name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}

/// Whether `word` of a recipe is this file, a folder above it, or the end of its path.
fn is_named(word: &str, path: &str) -> bool {
    let word = word.trim_end_matches('/');
    let tail = |above: usize| path.match_indices('/').nth(above).map_or("", |(at, _)| &path[at + 1..]);
    let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
    let tails = (0..path.matches('/').count()).map(tail);
    std::iter::once(path).chain(folders).chain(tails).any(|part| fits(word, part) || fits(&format!("{word}.rs"), part))
}

/// Whether a path matches a pattern. A placeholder matches a part of one name.
fn fits(pattern: &str, path: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('<') else { return pattern == path };
    let (Some((_, rest)), Some(tail)) = (rest.split_once('>'), path.strip_prefix(head)) else { return false };
    let most = tail.find('/').unwrap_or(tail.len());
    (1..=most).filter(|end| tail.is_char_boundary(*end)).any(|end| fits(rest, &tail[end..]))
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + word.len()..].chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, others: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| Text { path: (*path).to_owned(), text: (*text).to_owned() };
        let files: Vec<Text> = others.iter().chain(&[(PAGE, page)]).map(file).collect();
        check(&files).into_iter().map(|finding| finding.message).collect()
    }

    const TREE: &[(&str, &str)] = &[
        ("actors/src/scheduler/filters/mod.rs", "pub const FILTERS: &[Filter] = &[];"),
        ("actors/src/scheduler/filters/hosts.rs", ""),
        ("docs/errors.md", ""),
    ];
    const PAGE_THAT_HOLDS: &str = "# C\n\n## Add a filter\n\nA line in `FILTERS` of `filters/mod.rs`, see [e](docs/errors.md).\n\n\
                        Files touched (2): `actors/src/scheduler/filters/<theme>.rs`, `actors/src/scheduler/filters/mod.rs`.\n";

    #[test]
    fn a_correct_page_has_no_finding() {
        assert_eq!(found(PAGE_THAT_HOLDS, TREE), Vec::<String>::new());
    }

    #[test]
    fn missing_files_and_wrong_counts_are_found() {
        for (from, to, words) in [
            ("filters/mod.rs`, see", "filters/table.rs`, see", "there is no filters/table.rs"),
            ("`FILTERS`", "`SIEVES`", "no file that it names has SIEVES"),
            ("(2)", "(3)", "3 files are promised, 2 named"),
            ("Files touched (2)", "Files", "no line says"),
            ("docs/errors.md", "docs/mistakes.md", "links to docs/mistakes.md"),
            ("/<theme>.rs", "/<theme>.js", "there is no actors/src/scheduler/filters/<theme>.js"),
        ] {
            let findings = found(&PAGE_THAT_HOLDS.replace(from, to), TREE);
            assert!(findings.iter().any(|finding| finding.contains(words)), "{words}: {findings:?}");
        }
    }

    #[test]
    fn a_change_is_compared_with_the_list() {
        let list = TouchedFiles { count: 2, paths: vec!["a/<name>.rs", "docs/b.md"] };
        assert_eq!(differences(&list, &["a/new.rs", "docs/b.md"]), Vec::<String>::new());
        assert_eq!(differences(&list, &["a/new.rs", "c.rs"]).len(), 2);
        assert_eq!(
            differences(&list, &["a/new.rs", "a/newer.rs", "docs/b.md"]),
            ["changed and not promised: a/newer.rs"]
        );
        let list = TouchedFiles { count: 2, paths: vec!["a/<name>.rs", "a/mod.rs"] };
        assert_eq!(differences(&list, &["a/mod.rs", "a/new.rs"]), Vec::<String>::new());
        assert!(!fits("a/<name>.rs", "a/b/c.rs") && fits("a/<verb>_<noun>.rs", "a/drain_host.rs"));
    }
}
