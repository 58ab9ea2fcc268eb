//! Finds types that have the same name.
//!
//! A search for a type's name should find one definition. `homonyms.txt` lists the exceptions, one per line: the number
//! of definitions, and the name. A number may only shrink. The rule leaves out unit tests, the packages `tests`, `fuzz`
//! and `ops/xtask`, and types inside `impl` and `trait` blocks (`type Output = ...`).

use std::collections::BTreeMap;

use super::source::Source;
use super::tree::Finding;

pub(crate) const NAME: &str = "homonyms";
pub(crate) const WHY: &str = "a type's name is defined once in the workspace, so that a search for it finds one thing; \
                              homonyms.txt lists the exceptions, and may only shrink";

pub(crate) const LIST: &str = "ops/xtask/src/layers/homonyms.txt";

/// Every name with more than one definition, and the places of its definitions.
pub(crate) fn names(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        let apart = ["tests", "fuzz", "ops/xtask"].contains(&source.package());
        for (name, line) in types(source).into_iter().filter(|_| !apart) {
            names.entry(name).or_default().push(format!("{}:{line}", source.path));
        }
    }
    names.retain(|_, places| places.len() > 1);
    names
}

/// Compares the names with the list.
pub(crate) fn check(names: &BTreeMap<String, Vec<String>>, list: &str) -> Vec<Finding> {
    let allowed: BTreeMap<&str, usize> = list.lines().filter_map(entry).collect();
    let finding = |message| Finding { path: LIST.to_owned(), line: 0, rule: NAME, message };
    let mut findings = Vec::new();
    for (name, places) in names {
        let limit = allowed.get(name.as_str()).copied().unwrap_or(1);
        if places.len() > limit {
            let places = places.join(", ");
            findings.push(finding(format!("`{name}` is defined in more places than {limit}; rename one: {places}")));
        }
    }
    for (name, limit) in allowed {
        let now = names.get(name).map_or(1, Vec::len);
        if now < limit {
            findings.push(finding(format!(
                "the list says {limit} definitions of `{name}`, but there are fewer; run `layers --lower`"
            )));
        }
    }
    findings
}

fn entry(line: &str) -> Option<(&str, usize)> {
    let (count, name) = line.trim().split_once(' ')?;
    Some((name.trim(), count.parse().ok()?))
}

/// The content that the list should have for these names.
pub(crate) fn list(names: &BTreeMap<String, Vec<String>>) -> String {
    names.iter().map(|(name, places)| format!("{} {name}\n", places.len())).collect::<Vec<_>>().concat()
}

/// The types that a file defines, with their lines.
fn types(source: &Source) -> Vec<(String, usize)> {
    let mut types = Vec::new();
    let mut at = 0;
    while at < source.tokens.len() {
        match source.ident(at) {
            // A `type` in these blocks is part of a trait.
            Some("impl" | "trait") if begins_item(source, at) => {
                if source.ident(at) == Some("trait") {
                    types.extend(name(source, at));
                }
                let open = (at..source.tokens.len())
                    .find(|inside| source.is_punct(*inside, '{') || source.is_punct(*inside, ';'));
                at = open.map_or(source.tokens.len(), |open| source.after_group(open).max(open + 1));
                continue;
            }
            Some("struct" | "enum" | "union" | "type") if begins_item(source, at) => types.extend(name(source, at)),
            _ => {}
        }
        at += 1;
    }
    types
}

/// Whether the keyword at `at` begins an item: it is the first token, or follows a `{`, a closing bracket, a `;`,
/// `pub` or `unsafe`. An `impl` after `(` is the type of an argument, so it begins no item.
fn begins_item(source: &Source, at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    let ends = [';', '}', '{', ']', ')'].iter().any(|punct| source.is_punct(before, *punct));
    ends || matches!(source.ident(before), Some("pub" | "unsafe"))
}

fn name(source: &Source, at: usize) -> Option<(String, usize)> {
    let name = source.ident(at + 1).filter(|name| name.starts_with(char::is_uppercase))?;
    (!source.is_test(at)).then(|| (name.to_owned(), source.line(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        names(&sources).into_keys().collect()
    }

    #[test]
    fn two_types_of_one_name_are_found() {
        let a = ("web/src/a.rs", "pub struct Found { a: u8 } enum Place { A } trait Doer { type Output; }");
        let b = ("actors/src/b.rs", "type Found = u8; pub(crate) trait Doer {} #[derive(Debug)] struct Place;");
        assert_eq!(found(&[a, b]), ["Doer", "Found", "Place"]);
    }

    #[test]
    fn tests_and_types_of_traits_do_not_count() {
        let a = ("web/src/a.rs", "impl X for Y { type Output = u8; } struct A; impl<T> Z for Y { type Output = T; }");
        let b = ("actors/src/b.rs", "#[cfg(test)] mod tests { struct A; }");
        assert_eq!(found(&[a, b, ("tests/src/c.rs", "struct A;")]), [""; 0]);
    }

    #[test]
    fn numbers_only_shrink() {
        let names = |count: usize| BTreeMap::from([("Found".to_owned(), vec!["x".to_owned(); count])]);
        assert_eq!(check(&names(3), "3 Found\n"), []);
        assert_eq!(check(&names(4), "3 Found\n").len(), 1);
        assert_eq!(check(&names(2), "3 Found\n").len(), 1);
        assert_eq!(check(&BTreeMap::new(), "3 Found\n").len(), 1);
        assert_eq!(check(&names(2), "").len(), 1);
        assert_eq!(list(&names(4)), "4 Found\n");
    }
}
