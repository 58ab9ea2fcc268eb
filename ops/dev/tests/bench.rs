#![allow(clippy::unwrap_used)]
//! Runs the benchmarks in their short form. The tests check that they run, report their figures and clean up, but not
//! how fast the machine is.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The report of `chronova-dev ARGS --short --json`, with its disk work in `folder`.
fn bench(folder: &Path, args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_chronova-dev"))
        .args(args)
        .args(["--short", "--json", "--dir"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check(report: &Value, runs: usize) {
    for key in ["version", "profile", "processor", "kernel", "data_file_system"] {
        assert!(report["machine"][key].as_str().is_some_and(|value| !value.is_empty()), "{key}");
    }
    let lines = report["lines"].as_array().unwrap();
    assert!(!lines.is_empty());
    for line in lines {
        let name = line["name"].as_str().unwrap();
        assert_eq!(line["runs"].as_array().map(Vec::len), Some(runs), "{name}");
        for key in ["per_second", "p50_us", "p95_us", "p99_us", "max_us", "cpu_us_per_operation", "peak_mib"] {
            assert!(line[key].as_f64().is_some_and(|value| value > 0.0), "{name}: {key} is {}", line[key]);
        }
        assert!(line["p50_us"].as_f64() <= line["max_us"].as_f64(), "{name}");
    }
}

#[test]
fn the_disk() {
    let folder = tempfile::tempdir().unwrap();
    check(&bench(folder.path(), &["disk", "--runs", "2"]), 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files are left behind");
}

#[test]
fn placement() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["placement", "--runs", "1"]);
    check(&report, 1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files are left behind");
    let lines = report["lines"].as_array().unwrap();
    let refused = |name: &str| {
        let line = lines.iter().find(|line| line["name"].as_str().is_some_and(|line| line.ends_with(name))).unwrap();
        line["figures"]["refused for want of room"].as_f64().unwrap()
    };
    // Exactly half of the claims fit.
    assert_eq!((refused("at once, one host"), refused("at once, 1,000 hosts")), (100.0, 0.0));
}

#[test]
fn log() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["log", "--runs", "2", "--writers", "1,64", "--events", "4000"]);
    check(&report, 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files are left behind");
    let lines = report["lines"].as_array().unwrap();
    let names: Vec<&str> = lines.iter().filter_map(|line| line["name"].as_str()).collect();
    let expected = [
        ["append.1", "append.1.sqlite", "append.1.disk"].as_slice(),
        &["append.64", "append.64.sqlite", "append.64.disk"],
        &["replay.fold", "replay.projections", "replay.sqlite"],
        &[
            "rebuild.4000",
            "rebuild.4000.sqlite",
            "restart.4000",
            "restart.4000.disk",
            "restart.4000.killed",
            "as-of.4000",
        ],
    ];
    assert_eq!(names, expected.concat());
    for name in ["append.1", "append.64", "replay.fold", "replay.projections", "rebuild.4000", "restart.4000"] {
        let ratio = &report["ratios"][format!("{name}.ratio_to_raw")];
        assert!(ratio.as_f64().is_some_and(|ratio| ratio > 0.0), "{name}: {ratio}");
    }
    let figure = |name: &str, figure: &str| {
        let line = lines.iter().find(|line| line["name"] == name).unwrap();
        line["figures"][figure].as_f64().unwrap()
    };
    assert!(figure("append.64", "bytes per event") > 50.0 && figure("rebuild.4000", "bytes per event") > 50.0);
    assert!((figure("restart.4000.killed", "events since the checkpoint") - 1_000.0).abs() < 0.5);
}

#[test]
fn schedule() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["schedule", "--runs", "1"]);
    check(&report, 1);
    let names: Vec<&str> =
        report["lines"].as_array().unwrap().iter().filter_map(|line| line["name"].as_str()).collect();
    let all = ["decide, 20 hosts, default filters", "place, 20 hosts, default filters"]
        .into_iter()
        .chain(["decide, 20 hosts, all filters", "place, 20 hosts, all filters"]);
    assert_eq!(names, all.collect::<Vec<_>>());
}

/// This benchmark starts the program `chronova` from the folder of `chronova-dev`. Build the workspace, or the tests of
/// `chronova`, before this test.
#[test]
fn api() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["api", "--runs", "1"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files are left behind");
    let lines = report["lines"].as_array().unwrap();
    // The kernel counts another process's CPU in steps of 10 ms. A run this short may use less.
    assert!(lines.iter().all(|line| line["per_second"].as_f64().is_some_and(|value| value > 0.0)));
    let has = |name: &str| lines.iter().any(|line| line["name"] == name);
    assert!(has("own 20 of 50 servers in detail, 1 client") && has("20 of 50 servers of all projects, 1 client"));
}

#[test]
fn a_folder_that_cannot_be_written_to_is_reported_at_once() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_chronova-dev")).args(["disk", "--dir", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nothing can be written to /nowhere/at/all"), "{said}");
}
