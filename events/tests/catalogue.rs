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

The envelope can be read without decoding the payload. In the file of SQLite its fields are columns, and the view
`audit_events` shows them as text.

| field | meaning |
|---|---|
| position | place in the whole log: 1, 2, 3, ... |
| stream, revision | the aggregate's stream, and place in that stream: 1, 2, 3, ... |
| id | of the event, a UUID |
| kind, version, codec | type and encoding of the payload |
| recorded at | microseconds since 1970, UTC |
| request id | the request that caused the event, if a request did |
| correlation | a UUID that all events that follow from one request share |
| causation | the id of the event that caused this one, if one did |
| cause | a user (with project, roles, and the address and program of the client), a process, or a part of the system |
| hash | the event's hash in the chain |

## The chain

Each event has a hash over itself and the hash of the event before it in the whole log. One hash (from `chronova audit
head`) proves later, with `chronova audit verify --against`, that no event up to it was changed, left out or put in
between. EventStoreDB orders the events itself, so a log there has no chain. The hash is BLAKE3, 32 bytes. Numbers are
little-endian. A text, a list and the payload are preceded by their length in 8 bytes. A number after a name is its
length in bytes. `?` marks an optional value: one byte (0 absent, 1 present), then, if present, its length in 8 bytes
and the value. Causation has its length, too, although that is always 16.

```text
content = BLAKE3(0x00, id 16, version 2, codec 1, recorded at 8, stream, kind, request id?, correlation 16, causation?,
                 cause, payload)
cause   = 0x01, user, project?, number of roles 8, each role
        | 0x04, the same, address?, agent?
        | 0x02, process 16
        | 0x03, part of the system
hash    = BLAKE3(0x01, hash of the previous event 32, position 8, revision 8, content 32)
```

The first event has 32 zero bytes in the place of the previous hash. An extract of the log can omit events: the
revision and the content hash of an omitted event are enough to follow the chain across it. File format 1 had no chain.
Its events got their hashes when the file was brought to format 2. Those hashes prove what the log held at that moment,
not what it held before. `audit verify` prints the position of the last such event.

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
