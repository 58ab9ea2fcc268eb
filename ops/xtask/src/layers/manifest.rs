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
        let name = line.split(['=', '.', ' ']).next().unwrap_or_default().replace('-', "_");
        let assigns = line.contains('=') && (name.starts_with("chronova_") || name == "chronova");
        if assigns && !allowed.contains(&name.as_str()) {
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
