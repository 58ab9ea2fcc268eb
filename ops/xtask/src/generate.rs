//! `cargo xtask gen`: writes the generated references.
//!
//! Each reference has a test that compares the committed file with one made from the code. With
//! `EXPECTORATE=overwrite`, the test rewrites the file. So there is one way to produce a page, and ordinary test runs
//! notice stale pages. The names of these tests begin with `generated_`, so that the command finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::layers;

pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<bool> {
    let mut tests = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Builds the whole workspace, as other test runs do. Another choice of packages would have other features, and
    // cargo would build everything again.
    tests.current_dir(root).args(["test", "--quiet", "--workspace"]);
    for target in targets_with_references(root)? {
        match target {
            Target::Libraries => tests.arg("--lib"),
            Target::Integration(name) => tests.args(["--test", &name]),
        };
    }
    tests.arg("generated_");
    if !check {
        tests.env("EXPECTORATE", "overwrite");
    }
    // This program has the variables of its own package, because cargo runs it. Some build scripts read variables of
    // these names. So with other values, cargo would build what depends on these scripts again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            tests.env_remove(name);
        }
    }
    let status = tests.status().context("cargo test cannot be started")?;
    println!(
        "{}",
        if status.success() { "references are current" } else { "references could not be made or are stale" }
    );
    Ok(status.success())
}

/// Tests that cargo builds together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// The unit tests of the libraries.
    Libraries,
    /// The test program of this name.
    Integration(String),
}

/// The targets with tests whose names begin with `generated_`. Building the tests of every target would take minutes,
/// and most have no reference.
fn targets_with_references(root: &Path) -> anyhow::Result<BTreeSet<Target>> {
    let listing = Command::new("git")
        .current_dir(root)
        .args(["grep", "--untracked", "-l", "-E", "fn +generated_", "--", "*.rs", ":!ops/xtask"])
        .output()
        .context("git cannot be started")?;
    let files = String::from_utf8_lossy(&listing.stdout);
    let programs = layers::programs_of_tests(root)?;
    let targets: BTreeSet<Target> = files.lines().filter_map(|path| target_of(path, &programs)).collect();
    if targets.is_empty() {
        bail!("no test that makes a reference was found");
    }
    Ok(targets)
}

/// Files under `src` are tests of a library. `programs` names the test programs of the packages that list them. In
/// other packages, each file is a program: `hypervisor/tests/real_libvirt.rs` is `real_libvirt`.
fn target_of(path: &str, programs: &BTreeMap<String, Vec<String>>) -> Option<Target> {
    let (package, rest) = path.split_once('/')?;
    match rest.strip_prefix("tests/") {
        Some(rest) => {
            let file = rest.split('/').next()?;
            let unlisted = file.strip_suffix(".rs").unwrap_or(file);
            let name = programs.get(path).and_then(|names| names.first()).map_or(unlisted, String::as_str);
            Some(Target::Integration(name.to_owned()))
        }
        None if rest.starts_with("src/") && package != "xtask" => Some(Target::Libraries),
        None => None,
    }
}
