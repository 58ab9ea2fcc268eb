//! Golden bytes: every released version stays readable.
//!
//! `events/golden/<noun>.txt` has one line per kind, version and sample: `instance.renamed v1 0a6e65772d6e616d65`. The
//! lines of a kind have the order of its samples.
//!
//! * **A new event, noun or sample:** run `CHRONOVA_BLESS=1 cargo test -p chronova-events --test golden` and commit the
//!   added lines. Add new samples of a kind only after its other samples.
//! * **A changed payload** is a new version. Raise the version in the noun's list, keep the old struct as `...V1` in
//!   the `from` clause, and bless. This adds lines of the new version. The old lines stay and must still decode.
//! * **Never** edit or delete a line of a kind or version that any installation may have written. Blessing adds lines
//!   and never rewrites one. Delete a wrong line by hand, and only before its first release.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use chronova_events::codec::BINCODE_2;
use chronova_events::registry::{Event, EventCatalogueEntry, catalogue, samples};

/// A kind and its version.
type Key = (String, u16);

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn noun(kind: &str) -> &str {
    kind.split_once('.').expect("a kind is noun.event").0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Parses `kind vN hex`. An event without fields has no hex.
fn parse(line: &str) -> Option<(Key, Vec<u8>)> {
    let mut words = line.split_whitespace();
    let (kind, version) = (words.next()?, words.next()?.strip_prefix('v')?.parse().ok()?);
    let bytes = unhex(words.next().unwrap_or(""))?;
    words.next().is_none().then(|| ((kind.to_owned(), version), bytes))
}

fn encoded(samples: &[Event]) -> BTreeMap<Key, Vec<Vec<u8>>> {
    let mut all: BTreeMap<Key, Vec<Vec<u8>>> = BTreeMap::new();
    for sample in samples {
        let bytes = sample.encode().expect("a sample encodes");
        all.entry((sample.kind().to_owned(), sample.version())).or_default().push(bytes);
    }
    all
}

fn recorded(lines: &[String]) -> (BTreeMap<Key, Vec<Vec<u8>>>, Vec<String>) {
    let (mut all, mut problems) = (BTreeMap::<Key, Vec<Vec<u8>>>::new(), Vec::new());
    for line in lines {
        match parse(line) {
            Some((key, bytes)) => all.entry(key).or_default().push(bytes),
            None => problems.push(format!("not a golden line: {line}")),
        }
    }
    (all, problems)
}

/// The lines that a new kind, version or sample adds.
fn missing(lines: &[String], samples: &[Event]) -> Vec<String> {
    let (golden, _) = recorded(lines);
    let fresh = encoded(samples).into_iter().flat_map(|(key, all)| {
        let known = golden.get(&key).map_or(0, Vec::len);
        all.into_iter()
            .skip(known)
            .map(move |bytes| format!("{} v{} {}", key.0, key.1, hex(&bytes)).trim_end().to_owned())
    });
    fresh.collect()
}

/// The differences between the committed bytes and the bytes that this version writes and reads.
fn problems(lines: &[String], catalogue: &[EventCatalogueEntry], samples: &[Event]) -> Vec<String> {
    let (golden, mut problems) = recorded(lines);
    let now = encoded(samples);
    for ((kind, version), all) in &golden {
        for (n, bytes) in all.iter().enumerate() {
            match Event::decode(kind, *version, BINCODE_2, bytes) {
                Err(error) => problems.push(format!("{kind} v{version} does not decode any more: {error}")),
                Ok(event) if event.kind() != kind => {
                    problems.push(format!("{kind} v{version} became {}", event.kind()));
                }
                Ok(event) if event.version() == *version => {
                    let is_now = now.get(&(kind.clone(), *version)).and_then(|all| all.get(n));
                    if is_now != Some(bytes) {
                        problems.push(format!(
                            "{kind} v{version} is written as {} and was written as {}: make a new version",
                            is_now.map_or("nothing".to_owned(), |bytes| hex(bytes)),
                            hex(bytes)
                        ));
                    }
                }
                Ok(_) => {}
            }
        }
    }
    for entry in catalogue {
        for version in entry.older.iter().chain([&entry.version]) {
            if !golden.contains_key(&(entry.kind.to_owned(), *version)) {
                problems.push(format!("{} v{version} has no golden line", entry.kind));
            }
        }
    }
    problems.extend(missing(lines, samples).into_iter().map(|line| format!("a sample has no golden line: {line}")));
    problems
}

fn read_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder()).expect("events/golden exists") {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            assert_eq!(noun(line), name, "{} holds a line of another noun: {line}", path.display());
            lines.push(line.to_owned());
        }
    }
    lines
}

/// Appends the missing lines, each to the file of its noun.
fn bless(samples: &[Event]) {
    std::fs::create_dir_all(folder()).unwrap();
    let added = missing(&read_lines(), samples);
    for noun in added.iter().map(|line| noun(line)).collect::<BTreeSet<_>>() {
        let path = folder().join(format!("{noun}.txt"));
        let mut text = std::fs::read_to_string(&path).unwrap_or_default();
        for line in added.iter().filter(|line| line.starts_with(&format!("{noun}."))) {
            text.push_str(line);
            text.push('\n');
        }
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn golden_bytes_are_written_and_read_unchanged() {
    let samples = samples();
    if std::env::var_os("CHRONOVA_BLESS").is_some_and(|value| value == "1") {
        bless(&samples);
    }
    let problems = problems(&read_lines(), &catalogue(), &samples);
    assert!(problems.is_empty(), "{}\n(events/tests/golden.rs says what to do)", problems.join("\n"));
}

#[test]
fn every_kind_has_a_sample_and_every_sample_round_trips() {
    let mut seen = BTreeSet::new();
    for sample in samples() {
        let bytes = sample.encode().unwrap();
        let back = Event::decode(sample.kind(), sample.version(), BINCODE_2, &bytes);
        assert_eq!(back.as_ref(), Ok(&sample), "{}", sample.kind());
        assert!(sample.json().is_object() || sample.json().is_null(), "{} has no JSON", sample.kind());
        seen.insert(sample.kind());
    }
    let mut kinds = BTreeSet::new();
    for entry in catalogue() {
        assert!(kinds.insert(entry.kind), "{} is in the catalogue twice", entry.kind);
        assert!(!entry.doc.is_empty(), "{} does not say what it means", entry.kind);
        assert!(!entry.older.contains(&entry.version), "{} v{} is old and new", entry.kind, entry.version);
    }
    assert_eq!(kinds, seen);
}

/// Tests the comparison with unchanged lines, and with one forbidden change at a time.
mod drift {
    use super::*;

    fn good() -> (Vec<String>, Vec<EventCatalogueEntry>, Vec<Event>) {
        let samples: Vec<Event> = samples().into_iter().filter(|event| noun(event.kind()) == "process").collect();
        let catalogue = catalogue().into_iter().filter(|entry| noun(entry.kind) == "process").collect();
        (missing(&[], &samples), catalogue, samples)
    }

    fn only(lines: &[String], catalogue: &[EventCatalogueEntry], samples: &[Event]) -> String {
        let found = problems(lines, catalogue, samples);
        assert!(!found.is_empty(), "nobody noticed");
        found.join("\n")
    }

    #[test]
    fn unchanged_lines_give_no_finding() {
        let (lines, catalogue, samples) = good();
        assert_eq!(problems(&lines, &catalogue, &samples), Vec::<String>::new());
        assert_eq!(missing(&lines, &samples), Vec::<String>::new());
    }

    #[test]
    fn changed_bytes_are_found_and_not_blessed() {
        let (mut lines, catalogue, samples) = good();
        // These are other bytes of a text field. They decode, but to another value.
        let at = lines.iter().position(|line| line.starts_with("process.step_undone ")).unwrap();
        lines[at] = "process.step_undone v1 0161".to_owned();
        assert!(only(&lines, &catalogue, &samples).contains("make a new version"));
        assert_eq!(missing(&lines, &samples), Vec::<String>::new());
    }

    #[test]
    fn a_field_added_or_removed_is_found() {
        let (good_lines, catalogue, samples) = good();
        let at = good_lines.iter().position(|line| line.starts_with("process.step_undone ")).unwrap();
        let mut longer = good_lines.clone();
        longer[at].push_str("00");
        assert!(only(&longer, &catalogue, &samples).contains("does not decode any more"));
        let mut shorter = good_lines;
        let length = shorter[at].len() - 2;
        shorter[at].truncate(length);
        assert!(only(&shorter, &catalogue, &samples).contains("does not decode any more"));
    }

    #[test]
    fn a_kind_removed_is_found() {
        let (mut lines, catalogue, samples) = good();
        lines.push("process.forgotten v1 00".to_owned());
        assert!(only(&lines, &catalogue, &samples).contains("process.forgotten v1 does not decode"));
    }

    #[test]
    fn a_version_forgotten_is_found() {
        let (mut lines, mut catalogue, samples) = good();
        lines.push("process.started v9 00".to_owned());
        assert!(only(&lines, &catalogue, &samples).contains("process.started v9 does not decode"));
        lines.pop();
        catalogue[0].older = &[7];
        assert!(only(&lines, &catalogue, &samples).contains("v7 has no golden line"));
    }

    #[test]
    fn a_sample_removed_or_added_is_found() {
        let (lines, catalogue, mut samples) = good();
        let first = samples.remove(0);
        assert!(only(&lines, &catalogue, &samples).contains("is written as nothing"));
        samples.insert(0, first.clone());
        samples.push(first);
        assert!(only(&lines, &catalogue, &samples).contains("a sample has no golden line"));
        assert_eq!(missing(&lines, &samples).len(), 1);
    }

    #[test]
    fn a_malformed_line_is_found() {
        let (mut lines, catalogue, samples) = good();
        lines.push("process.started one 00".to_owned());
        assert!(only(&lines, &catalogue, &samples).contains("not a golden line"));
        assert_eq!(parse("process.started v1 0"), None);
        assert_eq!(parse("process.started v1 zz"), None);
    }
}
