//! `cargo xtask gen`: the generated references.
//!
//! Each reference has a test that compares the committed file with what the code says, and rewrites it when
//! `EXPECTORATE=overwrite` is set. So there is one way to produce a page, and ordinary test runs notice stale ones. The
//! tests are found by their names, which begin with `generated_`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<bool> {
    let packages = packages_with_references(root)?;
    let mut tests = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tests.current_dir(root).args(["test", "--quiet"]);
    for package in &packages {
        tests.args(["--package", package]);
    }
    tests.arg("generated_");
    if !check {
        tests.env("EXPECTORATE", "overwrite");
    }
    let status = tests.status().context("cargo test cannot be started")?;
    println!(
        "{}",
        if status.success() { "references are current" } else { "references could not be made or are stale" }
    );
    Ok(status.success())
}

/// Building the tests of every package takes minutes; most have no reference.
fn packages_with_references(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let listing = Command::new("git")
        .current_dir(root)
        .args(["grep", "--untracked", "-l", "-E", "fn +generated_", "--", "*.rs", ":!ops/xtask"])
        .output()
        .context("git cannot be started")?;
    let files = String::from_utf8_lossy(&listing.stdout);
    let packages: BTreeSet<String> = files.lines().filter_map(|path| package_of(path).map(str::to_owned)).collect();
    if packages.is_empty() {
        bail!("no test that makes a reference was found");
    }
    Ok(packages)
}

fn package_of(path: &str) -> Option<&'static str> {
    match path.split('/').next()? {
        "events" => Some("chronova-events"),
        "hypervisor" => Some("chronova-hypervisor"),
        "projections" => Some("chronova-projections"),
        "actors" => Some("chronova-actors"),
        "web" => Some("chronova-web"),
        "ops" => Some("chronova"),
        "tests" => Some("chronova-tests"),
        _ => None,
    }
}
