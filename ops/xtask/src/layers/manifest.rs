//! Checks that the packages' manifests keep to the import table. The other rules do not see a forbidden import that is
//! made by a macro or a glob. This rule catches it, because a crate can import only from its dependencies.

use super::rules::may_import;
use super::source::package_of;
use super::tree::{Finding, Text};

pub(crate) const NAME: &str = "manifests";
pub(crate) const WHY: &str =
    "a crate depends only on those crates of the workspace that its row of ARCHITECTURE.md section 2 allows";

pub(crate) fn check(file: &Text) -> Vec<Finding> {
    let is_package = file.path.ends_with("/Cargo.toml");
    if !is_package {
        return Vec::new();
    }
    let package = package_of(&file.path);
    let allowed = may_import(package);
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let name = dependency(line).unwrap_or_default();
        let is_ours = name.starts_with("chronova_") || name == "chronova";
        if is_ours && !allowed.contains(&name.as_str()) {
            findings.push(Finding {
                path: file.path.clone(),
                line: number + 1,
                rule: NAME,
                message: format!("{package} may not depend on {name}"),
            });
        }
    }
    findings
}

/// The dependency that a line of a manifest names: `x = { ... }`, `x.workspace = true`, `[dependencies.x]`, or `y = {
/// package = "x" }`. Other lines give their key, which is no crate of ours.
fn dependency(line: &str) -> Option<String> {
    let line = line.trim();
    let name = |text: &str| text.trim().trim_matches(['"', '\'']).replace('-', "_");
    if let Some(header) = line.strip_prefix('[') {
        let (_, rest) = header.split_once("dependencies.")?;
        return rest.split(']').next().map(name);
    }
    if let Some(package) = line.split_once("package").and_then(|(_, rest)| rest.trim_start().strip_prefix('=')) {
        return package.split(['"', '\'']).nth(1).map(name);
    }
    let (key, _) = line.split_once('=')?;
    key.split('.').find(|part| !part.ends_with("dependencies")).map(name)
}
