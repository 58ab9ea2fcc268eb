//! Runs the contract suite on the back ends that need no server. `postgres.rs` and `eventstoredb.rs` run it on the
//! others.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use chronova_events::event_store_conformance;
use chronova_events::store::EventStore;
use chronova_events::store::conformance::{Backend, MemoryFixture};
use chronova_events::store::faulty::FuseStore;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

struct Sqlite {
    folder: TempDir,
    options: SqliteOptions,
}

impl Sqlite {
    fn new(options: SqliteOptions) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), options }
    }
}

impl Backend for Sqlite {
    fn open(&self) -> Arc<dyn EventStore> {
        SqliteStore::open(self.folder.path().join("log.db"), &self.options).unwrap()
    }

    fn reopen(&self, store: Arc<dyn EventStore>) -> Arc<dyn EventStore> {
        drop(store);
        self.open()
    }
}

/// Limits so small that the suite reaches each of them often.
fn narrow() -> SqliteOptions {
    SqliteOptions {
        queue: 1,
        batch_requests: 2,
        batch_bytes: 100,
        readers: 1,
        checkpoint_pages: 1,
        ..SqliteOptions::default()
    }
}

/// A log with a fuse that never blows. It must behave like the log inside.
struct Fused(MemoryFixture);

impl Backend for Fused {
    fn open(&self) -> Arc<dyn EventStore> {
        FuseStore::new(self.0.open(), None)
    }

    fn reopen(&self, store: Arc<dyn EventStore>) -> Arc<dyn EventStore> {
        drop(store);
        self.open()
    }
}

event_store_conformance!(memory, MemoryFixture::default());
event_store_conformance!(sqlite, Sqlite::new(SqliteOptions::default()));
event_store_conformance!(sqlite_with_narrow_bounds, Sqlite::new(narrow()));
event_store_conformance!(fuse, Fused(MemoryFixture::default()));
