//! What tempest must show: every test that passes on Nova (Zed, with its fake driver) is on one of our lists of what passes.

use std::collections::BTreeSet;
use std::path::Path;

fn listed() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tempest");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let all = [read("passes.txt"), read("passes-volumes.txt")].concat();
    all.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// `CHRONOVA_TEMPEST_ZED` names the record of such a run: `PASS ID`, `FAIL ID` or `SKIP ID` per line.
#[test]
fn whatever_passes_on_nova_passes_here() {
    let Some(record) = std::env::var_os("CHRONOVA_TEMPEST_ZED") else {
        println!("skipped: CHRONOVA_TEMPEST_ZED does not name what Nova passed");
        return;
    };
    let record = std::fs::read_to_string(record).unwrap();
    let passed: Vec<&str> = record.lines().filter_map(|line| line.strip_prefix("PASS ")).map(str::trim).collect();
    assert!(passed.len() > 100, "the record says of {} tests that they passed", passed.len());
    let listed = listed();
    let missing: Vec<&str> = passed.iter().copied().filter(|id| !listed.contains(*id)).collect();
    println!("{} of {} tests that pass on Nova are listed", passed.len() - missing.len(), passed.len());
    assert!(missing.is_empty(), "these pass on Nova and are not listed:\n{}", missing.join("\n"));
}

/// A test is on one list once; what is excused is on none.
#[test]
fn no_test_is_listed_twice_or_excused_as_well() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tempest");
    let lines = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let both = [lines("passes.txt"), lines("passes-volumes.txt")].concat();
    let count = both.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    let listed = listed();
    assert_eq!(count, listed.len(), "a test is listed twice");
    for line in lines("exceptions.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (pattern, reason) = line.split_once("  # ").expect("PATTERN  # reason");
        assert!(reason.len() > 20, "{pattern}: no reason");
        let pattern = regex_of(pattern);
        let both: Vec<&String> = listed.iter().filter(|id| pattern(id)).collect();
        assert!(both.is_empty(), "{both:?} are listed, and excused by {line}");
    }
}

/// The patterns are Python's; what is used of them is alternatives of plain text, `\.` and a `$` at the end.
fn regex_of(pattern: &str) -> impl Fn(&str) -> bool {
    let parts: Vec<(String, bool)> =
        pattern.split('|').map(|part| (part.trim_end_matches('$').replace("\\.", "."), part.ends_with('$'))).collect();
    move |id| parts.iter().any(|(text, end)| if *end { id.ends_with(text) } else { id.contains(text) })
}
