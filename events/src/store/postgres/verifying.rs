//! Verifies every event of a log in PostgreSQL against the chain. Checksums and pages are the database's own task.

use std::collections::HashMap;

use super::read_only::ReadOnlyPostgres;
use super::{EventStore, StoreError};
use crate::chain::{Anchor, EventContent, EventHash, link};
use crate::codec::BINCODE_2;
use crate::envelope::{Position, Recorded, StreamId};
use crate::sealed::{self, Personal};
use crate::store::sqlite::verify::{LogDamage, Verification, VerifyOptions};

/// The number of events that are read at once.
const PAGE: usize = 4_096;

/// Verifies the log of `store` up to the position of the head row at the opening.
pub async fn verify(store: &ReadOnlyPostgres, options: &VerifyOptions) -> Result<Verification, StoreError> {
    let head = store.head_row();
    options.progress.expect(head.position.0);
    let (mut walk, mut page) = (VerifyingWalk::new(options), PAGE);
    while walk.at < head.position {
        match store.read_all(walk.at, page).await {
            Ok(events) => {
                for event in &events {
                    walk.take(event);
                }
                options.progress.add(events.len() as u64);
            }
            // The damaged event is on this page: read its events one by one.
            Err(StoreError::Corrupt { .. }) if page > 1 => page = 1,
            Err(StoreError::Corrupt { reason, .. }) => {
                walk.damage(Some(Position(walk.at.0 + 1)), None, reason);
                // Without this event the later ones cannot be checked.
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    if walk.at == head.position && walk.hash != head.hash {
        walk.damage(Some(head.position), None, "the head row has another hash than the last event".to_owned());
    }
    Ok(walk.end(head, options))
}

struct VerifyingWalk {
    limit: usize,
    at: Position,
    hash: EventHash,
    revisions: HashMap<StreamId, u64>,
    /// The anchors to find.
    wanted: Vec<Anchor>,
    erased: u64,
    lost: u64,
    found: Verification,
}

impl VerifyingWalk {
    fn new(options: &VerifyOptions) -> Self {
        Self {
            limit: options.limit.max(1),
            at: Position::START,
            hash: EventHash::START,
            revisions: HashMap::new(),
            wanted: options.against.clone(),
            erased: 0,
            lost: 0,
            found: Verification::default(),
        }
    }

    fn damage(&mut self, position: Option<Position>, stream: Option<StreamId>, what: String) {
        match self.found.damages.len() < self.limit {
            true => self.found.damages.push(LogDamage { position, stream, page: None, what }),
            false => self.found.more = true,
        }
    }

    fn take(&mut self, event: &Recorded) {
        let (position, stream) = (event.position, event.stream.clone());
        let revision = self.revisions.entry(stream.clone()).or_default();
        *revision += 1;
        let due = *revision;
        let mut wrong = Vec::new();
        if event.revision.0 != due {
            wrong.push(format!("revision {} instead of {due}", event.revision.0));
        }
        let hash = link(&self.hash, position, event.revision, &EventContent::of(event).hash());
        if event.hash != Some(hash) {
            wrong.push("the event does not match its hash".to_owned());
        }
        match event.event() {
            Ok(payload) if event.codec == BINCODE_2 && event.version == payload.version() => {
                if payload.encode().ok().as_deref() != Some(&event.data[..]) {
                    wrong.push(format!("{} v{} is not encoded as this program encodes it", event.kind, event.version));
                }
            }
            Ok(_) => {}
            Err(error) => {
                let source = std::error::Error::source(&error).map_or(String::new(), |source| format!(": {source}"));
                wrong.push(format!("{error}{source}"));
            }
        }
        match sealed::state(event.keys.as_deref(), event.codec, &event.data) {
            Personal::Clear | Personal::Sealed => {}
            Personal::Erased => self.erased += 1,
            Personal::Lost => self.lost += 1,
        }
        for what in wrong {
            self.damage(Some(position), Some(stream.clone()), what);
        }
        self.at = position;
        // Continue with the stored hash, so that the next event is judged on its own.
        self.hash = event.hash.unwrap_or(hash);
        self.found.events += 1;
        let held: Vec<Anchor> = self.wanted.iter().filter(|anchor| anchor.position == position).copied().collect();
        for anchor in held {
            match anchor.hash == self.hash {
                true => self.found.anchors.push(anchor),
                false => self.damage(Some(position), None, format!("the event does not match the anchor {anchor}")),
            }
        }
    }

    fn end(mut self, head: Anchor, options: &VerifyOptions) -> Verification {
        for anchor in &options.against {
            if anchor.position > head.position {
                self.damage(Some(anchor.position), None, format!("the log ends before the anchor {anchor}"));
            } else if *anchor == Anchor::START {
                self.found.anchors.push(*anchor);
            } else if anchor.position == Position::START {
                self.damage(
                    None,
                    None,
                    format!("the anchor {anchor} is not valid: position 0 has the hash of an empty log"),
                );
            }
        }
        self.found.streams = self.revisions.len() as u64;
        self.found.head = (self.at == head.position).then_some(head);
        if self.erased > 0 {
            self.found.remarks.push(format!("the personal fields of {} events were erased", self.erased));
        }
        if self.lost > 0 {
            self.found.remarks.push(format!("the keys of the personal fields of {} events are missing", self.lost));
        }
        self.found
    }
}
