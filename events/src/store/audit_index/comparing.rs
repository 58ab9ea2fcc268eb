//! Compares the index with the log, because checksums do not find a forged index.
//!
//! A part is a function of the events in its range. So each part is built again from the log, and must be the same.

use super::part::{PartDirectory, StoredPart};
use super::sqlite::{IndexEnd, IndexFile};
use super::{AuditIndexError, IndexedLog, blocking};
use crate::chain::EventHash;
use crate::envelope::Position;

/// The result of [`IndexedLog::compare`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexComparison {
    /// There is no index, or searches of this log do not use the index.
    Unused,
    /// The index agrees with the log for all events up to this position.
    Equal(Position),
    /// A part is damaged or forged.
    Different(String),
}

impl IndexedLog {
    /// Builds each part of the index again from the log, and compares both. Ignores events that were appended after the
    /// log was opened.
    pub async fn compare(&self) -> Result<IndexComparison, AuditIndexError> {
        let mut until = 0;
        loop {
            let (path, options) = (self.path.clone(), self.options);
            // A server may extend the index meanwhile, so each part is read in a transaction of its own.
            let look = move || {
                let file = match IndexFile::read(&path, &options) {
                    Ok(Some(file)) => file,
                    Ok(None) | Err(AuditIndexError::Damaged(_)) => return Ok(None),
                    Err(error) => return Err(error),
                };
                Ok(Some((file.end()?, file.part_after(until)?)))
            };
            let (end, stored) = match blocking(look).await {
                Ok(Some((end, stored))) if self.is_of_log(&end).await? => (end, stored),
                Ok(_) => return Ok(IndexComparison::Unused),
                Err(AuditIndexError::Damaged(reason)) => return Ok(IndexComparison::Different(reason)),
                Err(error) => return Err(error),
            };
            let Some(stored) = stored.filter(|part| part.place.last <= self.log.head().0) else {
                return Ok(IndexComparison::Equal(Position(until)));
            };
            let (first, last) = (stored.place.first, stored.place.last);
            if last - first >= self.options.block || self.rebuilt(&end, first, last).await? != stored {
                let reason = format!("the part from {first} to {last} is not what the log says");
                return Ok(IndexComparison::Different(reason));
            }
            until = last;
        }
    }

    async fn rebuilt(&self, end: &IndexEnd, first: u64, last: u64) -> Result<StoredPart, AuditIndexError> {
        let (index, mut before) = (end.index, EventHash::START);
        if first > 1 {
            let events = self.log.read_at(&[Position(first - 1)]).await?;
            before = events.first().and_then(|event| event.hash).ok_or(AuditIndexError::NoChain)?;
        }
        let part = self.build(&IndexEnd { index, last: first - 1, hash: before }, last).await?;
        blocking(move || {
            let part = part.encode(index)?;
            let directory = PartDirectory::read(&part.place, &part.directory)?;
            Ok(StoredPart { place: part.place, directory, chunks: part.chunks })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::envelope::{Meta, NewEvent, Recorded, StreamId, Timestamp};
    use crate::registry::samples;
    use crate::store::audit_index::IndexOptions;
    use crate::store::audit_index::part::PartBuilder;
    use crate::store::criteria::Criteria;
    use crate::store::memory::MemoryStore;
    use crate::store::{EventStore, Expected};

    const OPTIONS: IndexOptions = IndexOptions { part: 64, block: 128 };

    #[tokio::test]
    async fn a_forged_part_hides_an_event_from_a_search_and_not_from_a_comparison() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db.index");
        let store = MemoryStore::new();
        let meta = Meta::system("test");
        for event in samples().into_iter().cycle().take(64) {
            let new = NewEvent::new(event, Timestamp(1), &meta);
            store.append(&StreamId::new("test", "1"), Expected::Any, vec![new]).await.unwrap();
        }
        let indexed = IndexedLog::new(store.clone(), path.clone(), OPTIONS);
        assert_eq!(indexed.compare().await.unwrap(), IndexComparison::Unused);
        let events = store.read_all(Position::START, 64).await.unwrap();
        let hidden = events[2].kind.to_string();
        let mut part = PartBuilder::new(1, EventHash::START);
        for event in &events {
            let kind: Arc<str> = match event.kind.starts_with(&hidden) {
                true => Arc::from("test.other"),
                false => Arc::clone(&event.kind),
            };
            part.add(&Recorded { kind, ..event.encoded() }, OPTIONS.part).unwrap();
        }
        let file = IndexFile::write(&path, &OPTIONS).unwrap();
        let end = file.end().unwrap();
        file.add(&part.encode(end.index).unwrap(), &end, &OPTIONS).unwrap();
        drop(file);
        let criteria = Criteria { kinds: vec![hidden], ..Criteria::default() };
        assert!(!store.search(Position::START, 9, &criteria).await.unwrap().events.is_empty());
        assert!(indexed.search(Position::START, 9, &criteria).await.unwrap().events.is_empty());
        assert!(matches!(indexed.compare().await.unwrap(), IndexComparison::Different(_)));
        std::fs::remove_file(&path).unwrap();
        indexed.extend().await.unwrap();
        assert_eq!(indexed.compare().await.unwrap(), IndexComparison::Equal(Position(64)));
    }
}
