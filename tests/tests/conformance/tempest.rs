//! Required tempest results: every test that passes on Nova (Zed, with its fake driver) is on one of our lists of
//! passing tests, or excused with a reason.

use std::collections::BTreeSet;
use std::path::Path;

/// The lines of a list.
fn lines(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tempest").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

fn listed() -> Vec<String> {
    [lines("passes.txt"), lines("passes-volumes.txt")].concat()
}

/// The patterns of the excused tests, with the reasons.
fn exceptions() -> Vec<(String, String)> {
    let split = |line: &String| {
        let (pattern, reason) = line.split_once("  # ").expect("PATTERN  # reason");
        (pattern.to_owned(), reason.to_owned())
    };
    lines("exceptions.txt").iter().map(split).collect()
}

/// `CHRONOVA_TEMPEST_ZED` names the record of a tempest run on Nova: `PASS ID`, `FAIL ID` or `SKIP ID` per line.
#[test]
fn every_test_that_passes_on_nova_is_listed_or_excused() {
    let Some(record) = std::env::var_os("CHRONOVA_TEMPEST_ZED") else {
        println!("skipped: CHRONOVA_TEMPEST_ZED names no record of a run on Nova");
        return;
    };
    let record = std::fs::read_to_string(record).unwrap();
    let passed: Vec<&str> = record.lines().filter_map(|line| line.strip_prefix("PASS ")).map(str::trim).collect();
    assert!(passed.len() > 100, "the record lists only {} passed tests", passed.len());
    let listed: BTreeSet<String> = listed().into_iter().collect();
    let exceptions = exceptions();
    let missing: Vec<&str> = passed.iter().copied().filter(|id| !listed.contains(*id)).collect();
    println!("{} of {} tests that pass on Nova are listed", passed.len() - missing.len(), passed.len());
    let reason = |id: &str| exceptions.iter().find(|(pattern, _)| matches(pattern, id)).map(|(_, reason)| reason);
    let (excused, lost): (Vec<&str>, Vec<&str>) = missing.into_iter().partition(|id| reason(id).is_some());
    for id in excused {
        println!("not passed: {id}: {}", reason(id).unwrap());
    }
    assert!(lost.is_empty(), "these pass on Nova, and are neither listed nor excused:\n{}", lost.join("\n"));
}

#[test]
fn a_test_is_listed_once_and_excused_with_a_reason() {
    let all = listed();
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(all.len(), distinct.len(), "a test is listed twice");
    for (pattern, reason) in exceptions() {
        assert!(reason.len() > 20, "{pattern}: no reason");
    }
}

/// Matches a Python pattern. Our patterns use only alternatives, plain text, `\.` and a final `$`.
fn matches(pattern: &str, id: &str) -> bool {
    pattern.split('|').any(|part| {
        let text = part.trim_end_matches('$').replace("\\.", ".");
        if part.ends_with('$') { id.ends_with(&text) } else { id.contains(&text) }
    })
}
