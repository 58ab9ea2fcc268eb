//! Finds files of tests that no test program compiles.
//!
//! A package with `autotests = false` lists its test programs in its manifest, each with its file. This file declares
//! other files as modules (`mod servers;`), and those can declare more. The check follows these lines.

use std::collections::BTreeMap;

use super::tree::{Finding, Text, has_extension};

pub(crate) const NAME: &str = "test-programs";
pub(crate) const WHY: &str = "each test program links the whole project, so the manifests list few of them; the tests \
                              of a file that no program declares never run, and those of a file that two declare run \
                              twice";

pub(crate) fn check(files: &[Text]) -> Vec<Finding> {
    let programs = programs(files);
    let folders: Vec<String> = files.iter().filter_map(listing_package).map(|name| format!("{name}/tests/")).collect();
    let is_listed = |path: &str| folders.iter().any(|folder| path.starts_with(folder.as_str()));
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| has_extension(&file.path, "rs") && is_listed(&file.path)) {
        let names = programs.get(&file.path).map(Vec::as_slice).unwrap_or_default();
        let message = match names {
            [] => "no test program contains this file: declare it with `mod` in a program of its package".to_owned(),
            [_, _, ..] if has_tests(&file.text) => format!("its tests run more than once: {}", names.join(", ")),
            _ => continue,
        };
        findings.push(Finding { path: file.path.clone(), line: 0, rule: NAME, message });
    }
    findings
}

/// The names of the test programs that contain each file, by the file's path. A program that declares a file twice is
/// there twice.
pub(crate) fn programs(files: &[Text]) -> BTreeMap<String, Vec<String>> {
    let texts: BTreeMap<&str, &str> = files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let mut programs = BTreeMap::<String, Vec<String>>::new();
    for (name, root) in files.iter().flat_map(listed) {
        let mut waiting = vec![ModuleFile { path: root, holds_folder: true }];
        while let Some(file) = waiting.pop() {
            let Some(text) = texts.get(file.path.as_str()) else { continue };
            let names = programs.entry(file.path.clone()).or_default();
            if !names.contains(&name) {
                waiting.extend(modules(&file, text, &texts));
            }
            names.push(name.clone());
        }
    }
    programs
}

/// A file of a program.
struct ModuleFile {
    path: String,
    /// Whether the modules of the file are beside it: true for a program's own file, for `mod.rs`, and for a file that
    /// `#[path]` names. The modules of another file are in the folder of its name.
    holds_folder: bool,
}

/// The package of a manifest that lists its test programs.
fn listing_package(manifest: &Text) -> Option<&str> {
    let package = manifest.path.strip_suffix("/Cargo.toml")?;
    manifest.text.lines().any(|line| line == "autotests = false").then_some(package)
}

/// Name and file of each test program that the manifest lists.
fn listed(manifest: &Text) -> Vec<(String, String)> {
    let Some(package) = listing_package(manifest) else { return Vec::new() };
    let program = |section: &str| {
        let lines: Vec<&str> = section.lines().take_while(|line| !line.starts_with('[')).collect();
        let value = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_suffix('"'));
        Some((value("name = \"")?.to_owned(), format!("{package}/{}", value("path = \"")?)))
    };
    manifest.text.split("[[test]]").skip(1).filter_map(program).collect()
}

/// The files of the modules that a file declares.
fn modules(file: &ModuleFile, text: &str, texts: &BTreeMap<&str, &str>) -> Vec<ModuleFile> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let below = if file.holds_folder { folder } else { file.path.trim_end_matches(".rs") };
    let mut modules = Vec::new();
    let mut named = None;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            named = Some(joined(folder, path));
        } else if let Some(module) = declared(line) {
            let plain = format!("{below}/{module}.rs");
            modules.push(match named.take() {
                Some(path) => ModuleFile { path, holds_folder: true },
                None if texts.contains_key(plain.as_str()) => ModuleFile { path: plain, holds_folder: false },
                None => ModuleFile { path: format!("{below}/{module}/mod.rs"), holds_folder: true },
            });
        }
    }
    modules
}

/// `servers` of `mod servers;` or `pub(crate) mod servers;`.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

/// The path of a file, as `relative` names it from a folder.
fn joined(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in relative.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Whether the file has a function below `#[test]`, `#[tokio::test]` or the like.
fn has_tests(text: &str) -> bool {
    let mut attributes = text.lines().map(str::trim).filter(|line| line.starts_with("#["));
    attributes.any(|line| line == "#[test]" || line.contains("::test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = (
        "a/Cargo.toml",
        "[package]\nautotests = false\n\n[[test]]\nname = \"one\"\npath = \"tests/one.rs\"\n\n\
         [[test]]\nname = \"two\"\npath = \"tests/two/main.rs\"\n\n[dependencies]\n",
    );

    fn found(more: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![MANIFEST];
        files.extend_from_slice(more);
        let text = |(path, text): (&str, &str)| Text { path: path.to_owned(), text: text.to_owned() };
        let files: Vec<Text> = files.into_iter().map(text).collect();
        check(&files).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_file_that_no_program_declares_is_found() {
        let root = ("a/tests/one.rs", "mod b;\n#[path = \"d/e.rs\"]\nmod e;\n");
        let declared = [
            root,
            ("a/tests/two/main.rs", "mod g;\n"),
            ("a/tests/two/g.rs", ""),
            ("a/tests/b.rs", "mod c;\n"),
            ("a/tests/b/c.rs", "pub(crate) mod h;\n"),
            ("a/tests/b/c/h/mod.rs", "mod i;\n"),
            ("a/tests/b/c/h/i.rs", ""),
            ("a/tests/d/e.rs", "mod f;\n"),
            ("a/tests/d/f.rs", ""),
        ];
        assert_eq!(found(&declared), [""; 0]);
        let lost = ["a/tests/three.rs", "a/tests/c.rs", "a/tests/b/f.rs", "a/tests/three/main.rs", "a/tests/d/e/f.rs"];
        for path in lost {
            let mut files = declared.to_vec();
            files.push((path, "#[test]\nfn f() {}\n"));
            assert_eq!(found(&files), [path]);
        }
        assert_eq!(found(&[("b/Cargo.toml", "[package]\n"), ("b/tests/x.rs", "")]), [""; 0], "cargo finds its files");
    }

    #[test]
    fn tests_that_two_programs_contain_are_found() {
        let other = ("a/tests/two/main.rs", "#[path = \"../b.rs\"]\nmod b;\n");
        let shared = |text: &'static str| found(&[("a/tests/one.rs", "mod b;\n"), other, ("a/tests/b.rs", text)]);
        assert_eq!(shared("pub fn helps() {}\n"), [""; 0]);
        assert_eq!(shared("#[test]\nfn a() {}\n"), ["a/tests/b.rs"]);
        assert_eq!(shared("#[tokio::test]\nasync fn a() {}\n"), ["a/tests/b.rs"]);
    }
}
