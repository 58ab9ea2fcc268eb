//! `cargo xtask gen`: the generated references.
//!
//! Each reference has a test that compares the committed file with what the code says, and rewrites it when
//! `EXPECTORATE=overwrite` is set. So there is one way to produce a page, and ordinary test runs notice stale ones. The
//! tests are found by their names, which begin with `generated_`.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<bool> {
    let mut tests = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tests.current_dir(root).args(["test", "--quiet", "--workspace", "generated_"]);
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
