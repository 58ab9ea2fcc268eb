//! `personal.txt` lists each text field that the log stores. It says that the field is sealed, or why it is not
//! personal.
//!
//! The fields are read from the source, so that fields without a sample value are listed, too. A new field fails this
//! test until it is in the list.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chronova_events::sealed::fields::PERSONAL;

/// Types that are or contain texts.
const TEXT: [&str; 5] = ["String", "SortedPairs", "ExtraAttributes", "VolumeMetadata", "PasswordHash"];

/// Reads every file under `folder`, without comments and tests. The store and the sealing hold no payloads and are left
/// out.
fn sources(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if !["store", "sealed"].contains(&name.as_str()) {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod").next().unwrap();
            let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap()).collect();
            let place = path.strip_prefix(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
            found.insert(place.with_extension("").display().to_string(), lines.join("\n"));
        }
    }
}

/// The text up to the bracket that closes the bracket before `text`.
fn inside(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c: char| {
        depth += i32::from("({".contains(c)) - i32::from(")}".contains(c));
        depth == 0
    });
    &text[..end.expect("a closing bracket")]
}

/// Splits the text at the commas outside of brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut all) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        depth += i32::from("(<[{".contains(c)) - i32::from(")>]}".contains(c));
        if c == ',' && depth == 0 {
            all.push(&text[from..at]);
            from = at + 1;
        }
    }
    all.push(&text[from..]);
    all.into_iter().map(without_attributes).filter(|part| !part.is_empty()).collect()
}

fn without_attributes(part: &str) -> &str {
    let part = part.trim();
    match part.strip_prefix("#[").and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => without_attributes(rest),
        None => part.strip_prefix("pub ").unwrap_or(part),
    }
}

fn is_text(declared: &str) -> bool {
    declared.split(|c: char| !c.is_alphanumeric()).any(|word| TEXT.contains(&word))
}

/// The names of the text fields in a struct or a variant.
fn fields(bracket: char, body: &str) -> Vec<String> {
    let all = parts(body).into_iter().enumerate().filter_map(|(number, part)| {
        let (name, declared) = match bracket {
            '{' => part.split_once(':').map(|(name, declared)| (name.trim().to_owned(), declared))?,
            _ => (number.to_string(), part),
        };
        is_text(declared).then_some(name)
    });
    all.collect()
}

/// `Type.field`, or `Type.Variant.field`, of each serializable type in `text`.
fn declared(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, is_enum) in [("\npub struct ", false), ("\npub enum ", true)] {
        for (at, _) in text.match_indices(keyword) {
            let attributes = text[..=at].rsplit("\n\n").next().unwrap();
            let attributes = attributes.rsplit(['}', ';']).next().unwrap();
            let rest = &text[at + keyword.len()..];
            let end = rest.find(['{', '(', ';']).unwrap();
            let (name, bracket) = (rest[..end].trim(), rest[end..].chars().next().unwrap());
            if !attributes.contains("Serialize") || bracket == ';' {
                continue;
            }
            let body = inside(&rest[end + 1..]);
            if !is_enum {
                found.extend(fields(bracket, body).into_iter().map(|field| format!("{name}.{field}")));
                continue;
            }
            for variant in parts(body) {
                let Some(end) = variant.find(['{', '(']) else { continue };
                let bracket = variant[end..].chars().next().unwrap();
                let of = variant[..end].trim();
                let all = fields(bracket, inside(&variant[end + 1..]));
                found.extend(all.into_iter().map(|field| format!("{name}.{of}.{field}")));
            }
        }
    }
    found
}

#[test]
fn every_text_field_of_every_payload_is_sealed_or_not_personal_for_a_reason() {
    let mut sources_by_place = BTreeMap::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut sources_by_place);
    let there: BTreeSet<String> = sources_by_place
        .iter()
        .flat_map(|(place, text)| declared(text).into_iter().map(move |field| format!("{place} {field}")))
        .collect();
    assert!(there.len() > 250, "the source has too few text fields: {}", there.len());
    let table = include_str!("../personal.txt");
    let (mut groups, mut used, mut listed) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((group, reason)) = line.strip_prefix("group ").and_then(|group| group.split_once(": ")) {
            assert!(reason.len() > 20 && groups.insert(group), "{line}");
            continue;
        }
        let (field, group) = line.rsplit_once(' ').unwrap();
        assert!(groups.contains(group), "no such group: {line}");
        assert!(listed.insert(field.to_owned(), group).is_none(), "twice: {line}");
        used.insert(group);
    }
    assert_eq!(groups, used, "a group without fields");
    let known: BTreeSet<String> = listed.keys().cloned().collect();
    let undecided: Vec<&String> = there.difference(&known).collect();
    assert!(undecided.is_empty(), "decide in events/personal.txt about {undecided:#?}");
    let gone: Vec<&String> = known.difference(&there).collect();
    assert!(gone.is_empty(), "no such fields any more: {gone:#?}");
    // The sealed fields must be those that the table calls sealed, compared by their last word.
    let last = |name: &str| name.rsplit('.').next().unwrap().to_owned();
    let sealed: BTreeSet<String> =
        listed.iter().filter(|(_, group)| **group == "sealed").map(|(field, _)| last(field)).collect();
    let by_the_code: BTreeSet<String> =
        PERSONAL.iter().flat_map(|(_, fields)| fields.iter().map(|name| last(name))).collect();
    assert_eq!(sealed, by_the_code);
}
