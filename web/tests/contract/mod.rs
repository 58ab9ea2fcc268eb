//! Compares the web layer with the machine-readable contract of the Compute and Placement APIs.
//!
//! The contract is in the folder `CHRONOVA_CONTRACT`, or in `shared/contract` below a folder above this one. Without a
//! contract, the tests that need it print a message and pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, unreachable_pub)]

use std::path::PathBuf;

use serde_json::Value;

mod answers;
mod limits;
mod policies;
mod routes;
mod schemas;

/// The contract's folder, or a printed reason.
fn contract() -> Option<PathBuf> {
    let named = std::env::var_os("CHRONOVA_CONTRACT").map(PathBuf::from);
    let beside = || {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().map(|folder| folder.join("shared/contract")).find(|folder| folder.is_dir())
    };
    let found = named.or_else(beside).filter(|folder| folder.is_dir());
    if found.is_none() {
        eprintln!("skipped: no contract (set CHRONOVA_CONTRACT to its folder)");
    }
    found
}

fn read(path: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `2.10` as a version.
fn version(text: &str) -> chronova_web::Microversion {
    let (major, minor) = text.split_once('.').unwrap();
    chronova_web::Microversion::new(major.parse().unwrap(), minor.parse().unwrap())
}
