//! Finds import cycles between the files of a crate.
//!
//! A file in a cycle cannot be understood, tested or moved without the other files in it. An import leads to the file
//! that defines the name. The check follows names that a module re-exports (`pub use`, or a `use` that its children
//! read by `super::`). Code under `#[cfg(test)]` is left out. `cycles.txt` holds the largest cycle per crate, `FILES
//! CRATE`; a number may only shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Token};
use super::tree::Finding;

pub(crate) const NAME: &str = "cycles";
pub(crate) const WHY: &str = "files that import each other in a circle are one file in pieces; cycles.txt holds the largest \
                              circle per crate, and its numbers may only shrink";

pub(crate) const LIST: &str = "ops/xtask/src/layers/cycles.txt";

/// The largest cycle of one crate: its source folder (`actors/src`) and the files, sorted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    pub(crate) root: String,
    pub(crate) files: Vec<String>,
}

/// The largest cycle of each crate that has one.
pub(crate) fn largest(sources: &[Source]) -> Vec<Cycle> {
    let mut crates: BTreeMap<&str, BTreeMap<Vec<String>, Module>> = BTreeMap::new();
    for source in sources {
        if let Some((root, path)) = module_path(&source.path) {
            crates.entry(root).or_default().insert(path, Module::of(source));
        }
    }
    let cycle = |(root, modules): (&str, BTreeMap<Vec<String>, Module>)| {
        let files = Crate { modules }.largest_cycle();
        (!files.is_empty()).then(|| Cycle { root: root.to_owned(), files })
    };
    crates.into_iter().filter_map(cycle).collect()
}

/// Compares the cycles with the list.
pub(crate) fn check(cycles: &[Cycle], list: &str) -> Vec<Finding> {
    let allowed: BTreeMap<&str, usize> = list.lines().filter_map(entry).collect();
    let finding = |message| Finding { path: LIST.to_owned(), line: 0, rule: NAME, message };
    let mut findings = Vec::new();
    for cycle in cycles {
        let (now, limit) = (cycle.files.len(), allowed.get(cycle.root.as_str()).copied().unwrap_or(0));
        if now > limit {
            let files = cycle.files.join(", ");
            findings.push(finding(format!("{}: a cycle of {now} files, {limit} are allowed: {files}", cycle.root)));
        }
    }
    for (root, limit) in allowed {
        let now = cycles.iter().find(|cycle| cycle.root == root).map_or(0, |cycle| cycle.files.len());
        if now < limit {
            findings.push(finding(format!(
                "{root}: the list allows a cycle of {limit} files, but the largest has {now}; run `layers --lower`"
            )));
        }
    }
    findings
}

fn entry(line: &str) -> Option<(&str, usize)> {
    let (files, root) = line.trim().split_once(' ')?;
    Some((root.trim(), files.parse().ok()?))
}

/// The present content of the list.
pub(crate) fn list(cycles: &[Cycle]) -> String {
    cycles.iter().map(|cycle| format!("{} {}\n", cycle.files.len(), cycle.root)).collect::<Vec<_>>().concat()
}

/// `("actors/src", ["instance", "decide"])` of `actors/src/instance/decide.rs`. Tests and fuzz targets have no such
/// path.
fn module_path(path: &str) -> Option<(&str, Vec<String>)> {
    let at = path.find("/src/")?;
    let (root, rest) = (&path[..at + 4], path[at + 5..].strip_suffix(".rs")?);
    if root.starts_with("tests") || root.starts_with("fuzz") {
        return None;
    }
    let mut segments: Vec<String> = rest.split('/').map(str::to_owned).collect();
    if matches!(segments.last().map(String::as_str), Some("mod" | "lib")) {
        segments.pop();
    }
    Some((root, segments))
}

/// One file: what it defines and what it imports.
struct Module {
    path: String,
    defines: BTreeSet<String>,
    imports: Vec<Import>,
}

struct Import {
    segments: Vec<String>,
    /// The local name of the import; `None` for a path outside of `use`. The name of a glob is not used.
    name: Option<String>,
    glob: bool,
}

impl Module {
    fn of(source: &Source) -> Self {
        let mut imports = Vec::new();
        for path in source.paths().iter().filter(|path| !path.test && (path.import || path.segments.len() > 1)) {
            let name = path.import.then(|| path.alias.clone().or_else(|| path.segments.last().cloned())).flatten();
            imports.push(Import { segments: path.segments.clone(), name, glob: path.glob });
        }
        Self { path: source.path.clone(), defines: definitions(source), imports }
    }
}

fn definitions(source: &Source) -> BTreeSet<String> {
    let keywords = ["struct", "enum", "trait", "type", "fn", "const", "static", "union"];
    (1..source.tokens.len())
        .filter(|at| source.ident(at - 1).is_some_and(|word| keywords.contains(&word)))
        .filter_map(|at| match &source.tokens[at].token {
            Token::Ident(name) => Some(name.clone()),
            _ => None,
        })
        .collect()
}

struct Crate {
    modules: BTreeMap<Vec<String>, Module>,
}

impl Crate {
    /// The module in which the path's item is defined.
    fn target(&self, from: &[String], import: &[String], depth: usize) -> Option<&Vec<String>> {
        let absolute = self.absolute(from, import)?;
        let (module, module_path) = (0..=absolute.len())
            .rev()
            .find_map(|length| self.modules.get_key_value(&absolute[..length]).map(|(path, module)| (module, path)))?;
        let Some(item) = absolute.get(module_path.len()) else { return Some(module_path) };
        if depth == 0 || module.defines.contains(item) {
            return Some(module_path);
        }
        let handed_on = module.imports.iter().find(|import| import.name.as_ref() == Some(item) && !import.glob);
        if let Some(next) = handed_on {
            // If the module re-exports an item of another crate, there is no target here, and the import is ignored.
            return self.target(module_path, &next.segments, depth - 1);
        }
        let globbed = module.imports.iter().filter(|import| import.glob).find_map(|import| {
            let path = self.target(module_path, &import.segments, depth - 1)?;
            self.modules[path].defines.contains(item).then_some(path)
        });
        Some(globbed.unwrap_or(module_path))
    }

    /// The path from the crate's root; `None` for other crates and for names that the file itself defines.
    fn absolute(&self, from: &[String], import: &[String]) -> Option<Vec<String>> {
        let mut base: Vec<String> = match import.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => from.to_vec(),
            first => {
                let child: Vec<String> = from.iter().cloned().chain([first.to_owned()]).collect();
                return self.modules.contains_key(&child).then(|| from.iter().chain(import).cloned().collect());
            }
        };
        let mut rest = import;
        while let Some(word) = rest.first() {
            match word.as_str() {
                "crate" | "self" => {}
                "super" => {
                    base.pop();
                }
                _ => break,
            }
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    fn largest_cycle(&self) -> Vec<String> {
        let index: BTreeMap<&Vec<String>, usize> =
            self.modules.keys().enumerate().map(|(at, path)| (path, at)).collect();
        let edges: Vec<BTreeSet<usize>> = self
            .modules
            .iter()
            .map(|(path, module)| {
                let targets = module.imports.iter().filter_map(|import| self.target(path, &import.segments, 8));
                targets.filter(|target| *target != path).map(|target| index[target]).collect()
            })
            .collect();
        let component = components(&edges).into_iter().max_by_key(Vec::len).filter(|files| files.len() > 1);
        let name = |at: usize| self.modules.values().nth(at).map(|module| module.path.clone());
        let mut files: Vec<String> = component.unwrap_or_default().into_iter().filter_map(name).collect();
        files.sort();
        files
    }
}

/// Strongly connected components, by Kosaraju's algorithm: a search in post-order, then a search along reversed edges
/// in the reverse of that order.
fn components(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut reversed = vec![BTreeSet::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for to in targets {
            reversed[*to].insert(from);
        }
    }
    let mut seen = vec![false; edges.len()];
    let mut order = Vec::new();
    for start in 0..edges.len() {
        leave(edges, start, &mut seen, &mut order);
    }
    let mut seen = vec![false; edges.len()];
    let mut components = Vec::new();
    for start in order.into_iter().rev() {
        let mut component = Vec::new();
        leave(&reversed, start, &mut seen, &mut component);
        components.push(component);
    }
    components
}

/// Appends, in post-order, all unseen nodes that can be reached from `start`. There is no recursion, because a cycle
/// may be as long as the crate.
fn leave(edges: &[BTreeSet<usize>], start: usize, seen: &mut [bool], left: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    let mut stack = vec![(start, edges[start].iter())];
    while let Some((node, targets)) = stack.last_mut() {
        match targets.find(|target| !seen[**target]) {
            Some(next) => {
                seen[*next] = true;
                stack.push((*next, edges[*next].iter()));
            }
            None => {
                left.push(*node);
                stack.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle_of(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        largest(&sources).into_iter().flat_map(|cycle| cycle.files).collect()
    }

    #[test]
    fn a_cycle_is_found() {
        let files = [
            ("actors/src/lib.rs", "mod a; mod b; mod c;"),
            ("actors/src/a.rs", "use crate::b::B; struct A;"),
            ("actors/src/b/mod.rs", "use super::c::C; struct B;"),
            ("actors/src/c.rs", "fn f() { crate::a::A }"),
            ("actors/src/d.rs", "use crate::a::A;"),
        ];
        assert_eq!(cycle_of(&files), ["actors/src/a.rs", "actors/src/b/mod.rs", "actors/src/c.rs"]);
    }

    #[test]
    fn re_exported_names_are_followed() {
        let files = [
            ("web/src/a/mod.rs", "pub use leaf::Leaf as Other; pub use all::*; mod leaf; mod all; mod user;"),
            ("web/src/a/leaf.rs", "pub struct Leaf;"),
            ("web/src/a/all.rs", "pub struct All;"),
            ("web/src/a/user.rs", "use super::{Other, All};"),
        ];
        assert_eq!(cycle_of(&files), [""; 0]);
    }

    #[test]
    fn tests_and_other_crates_make_no_cycle() {
        let files = [
            ("web/src/a.rs", "use crate::b::B; use std::b; struct A;"),
            ("web/src/b.rs", "struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
            ("actors/src/b.rs", "use crate::a::A;"),
        ];
        assert_eq!(cycle_of(&files), [""; 0]);
    }

    #[test]
    fn numbers_only_shrink() {
        let cycle = |files: usize| [Cycle { root: "web/src".to_owned(), files: vec!["x".to_owned(); files] }];
        assert_eq!(check(&cycle(3), "3 web/src\n"), []);
        assert_eq!(check(&cycle(4), "3 web/src\n").len(), 1);
        assert_eq!(check(&cycle(2), "3 web/src\n").len(), 1);
        assert_eq!(check(&[], "3 web/src\n").len(), 1);
        assert_eq!(check(&cycle(2), "").len(), 1);
        assert_eq!(list(&cycle(4)), "4 web/src\n");
    }
}
