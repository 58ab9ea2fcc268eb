//! Generates docs/events.md from the documentation of the events, and checks that the page is current.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write;

use chronova_events::registry::{Event, catalogue, samples};

const HEAD: &str = "# Events

Made by `cargo xtask gen` from the code; do not edit. Every event that Chronova records is of one of these kinds. Kinds
never change. A changed payload gets a new version; older versions stay readable, and are converted to the newest when
they are read.

## Envelope

Readable without decoding the payload; in the log's file as columns, and as text in its view `audit_events`.

| field | meaning |
|---|---|
| position | place in the whole log: 1, 2, 3, ... |
| stream, revision | the aggregate's stream, and place in that stream: 1, 2, 3, ... |
| id | of the event, a UUID |
| kind, version, codec | type and encoding of the payload |
| recorded at | microseconds since 1970, UTC |
| request id, correlation, causation | the request and the event that caused it |
| cause | a user (with project and roles), a process, or a part of the system |
| hash | its place in the chain |

## The chain

Each event has a hash over itself and the hash of the event before it in the whole log. One hash (from `chronova audit
head`) proves later, with `chronova audit verify --against`, that no event up to it was changed, left out or put in
between. The hash is BLAKE3, 32 bytes. Numbers are little-endian; a text, a list and the payload are preceded by their
length in 8 bytes; an optional value by one byte, 1 if present.

```text
content = BLAKE3(0x00, id 16, version 2, codec 1, recorded at 8, stream, kind, request id?, correlation 16, causation?,
                 cause, payload)
cause   = 0x01, user, project?, number of roles 8, each role
        | 0x02, process 16
        | 0x03, part of the system
hash    = BLAKE3(0x01, hash of the event before 32, position 8, revision 8, content 32)
```

Before the first event stand 32 zero bytes. For an event that is left out of an extract, revision and content are enough to
follow the chain across it. Events that were recorded in file format 1, which had no chain, got their hashes when the file
was brought to format 2: those hashes prove what the log held at that moment, not what it held before; `audit verify` tells
up to where.

";

/// The names of a payload's fields, from its sample.
fn fields(samples: &[Event], kind: &str) -> String {
    let sample = samples.iter().find(|sample| sample.kind() == kind).expect("every kind has a sample").json();
    let Some(fields) = sample.as_object() else { return String::new() };
    fields.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[test]
fn generated_event_catalogue_is_current() {
    let (all, samples) = (catalogue(), samples());
    let mut nouns: BTreeMap<&str, String> = BTreeMap::new();
    for entry in &all {
        let (noun, _) = entry.kind.split_once('.').unwrap();
        let page = nouns.entry(noun).or_insert_with(|| {
            format!("## {noun}\n\n| kind | version | what happened | fields |\n|---|---|---|---|\n")
        });
        let older: Vec<String> = entry.older.iter().map(ToString::to_string).collect();
        let older = if older.is_empty() { String::new() } else { format!(" (reads {})", older.join(", ")) };
        let fields = fields(&samples, entry.kind);
        writeln!(page, "| `{}` | {}{older} | {} | {fields} |", entry.kind, entry.version, entry.doc).unwrap();
    }
    let pages: Vec<String> = nouns.into_values().collect();
    let text = format!("{HEAD}{}", pages.join("\n"));
    expectorate::assert_contents("../docs/events.md", &text);
}
