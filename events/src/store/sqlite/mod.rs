//! The log in one SQLite file. This back end needs no other service.
//!
//! SQLite has decades of crash testing, and every auditor can open its file. This module adds:
//!
//! * **One writer** ([`writer`]): a thread that owns the only writing connection and commits all waiting requests as
//!   one transaction (WAL). A second thread ([`sync`]) makes this transaction durable with one fdatasync, while the
//!   writer fills the next transaction. Before the sync no append is acknowledged or visible to readers of this
//!   process.
//! * **Readers** ([`reader`]): a few read-only connections on blocking threads. They never wait for the writer.
//! * **Distrust of the disk**: every event has a checksum over envelope and payload ([`row`]) and a link in the chain
//!   ([`crate::chain`]). Every read checks positions and revisions for gaps. A [`witness`] beside the file records how
//!   far the log once reached, because SQLite cannot detect a truncated write-ahead log. [`seals`] protect all other
//!   bits, and [`verify`] checks everything.
//! * **No unencrypted copies**: personal fields are sealed, and [`snapshots`], which repeat them, are encrypted.
//! * **Retention** ([`retention`]): the first events may leave the file if an archive has them. All reads go on in the
//!   archive ([`floor`]), so users of the log notice only that such reads take longer.
//! * **One writing process** ([`lock`]); other processes use [`read_only`]. Other programs may read the file with a
//!   SQLite client while it is written. This process opens the file without SQLite only through [`data_file`]. If
//!   another program removes or replaces the file, acknowledgements stop ([`watch`]).
//!
//! The file's layout and its version are in [`schema`].

mod by_stream;
mod data_file;
mod error;
mod floor;
pub mod import;
mod keys;
mod lock;
mod migrate;
mod places;
pub mod probe;
mod read_only;
mod reader;
pub mod retention;
mod row;
mod schema;
mod seals;
mod search;
mod snapshots;
mod sync;
pub mod verify;
mod wal;
mod watch;
mod witness;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::criteria::{Criteria, EventSearchResult};
use super::tail::{Subscription, Tail};
use super::{AppendError, AppendRight, Appended, EventStore, Expected, StoreError, StreamSnapshot, sealed_snapshots};
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::holds::LegalHolds;
use crate::ids::EventId;
use crate::sealed::keys::KeyRing;
use by_stream::UnindexedEvents;
use reader::Readers;
use watch::LogWatch;
use writer::{AppendJob, EncodedEvent, WriteJob, Writer};

pub use by_stream::PartStream;
pub use read_only::ReadOnlyLog;
pub use reader::Verified;
pub use schema::FORMAT;
pub use snapshots::KeptSnapshot;

/// The number of searches, and of reads of single positions, at the same time.
const SEARCHERS: usize = 2;
/// The file of the legal holds is named `log.db.holds`.
const HOLDS: &str = "holds";

/// The options of a log. The defaults suit nearly every deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The number of requests that may wait for the writer. Further callers wait until the queue has space.
    pub queue: usize,
    /// The largest number of requests in one transaction.
    pub batch_requests: usize,
    /// The largest number of payload bytes in one transaction.
    pub batch_bytes: usize,
    /// The number of connections that read at the same time.
    pub readers: usize,
    /// The approximate number of pages between two checkpoints of SQLite's write-ahead log.
    pub checkpoint_pages: usize,
    /// The limit of the file's size, in pages of 4 KiB.
    pub max_pages: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            queue: 1_024,
            batch_requests: 1_024,
            batch_bytes: 8 << 20,
            readers: 4,
            checkpoint_pages: 16_000,
            max_pages: None,
        }
    }
}

/// The log in one SQLite file.
pub struct SqliteStore {
    jobs: Option<mpsc::Sender<WriteJob>>,
    readers: Arc<Readers>,
    /// The connections of searches. An auditor's page must not wait until thousands of actors are loaded.
    searchers: Arc<Readers>,
    keys: Arc<KeyRing>,
    pending: Arc<UnindexedEvents>,
    tail: Arc<Tail>,
    watch: Arc<LogWatch>,
    thread: Mutex<Option<JoinHandle<()>>>,
    path: PathBuf,
    this: Weak<Self>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).field("head", &self.tail.head()).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the log at `path`, or creates one there. Blocks while it checks the file.
    pub fn open(path: impl AsRef<Path>, options: &SqliteOptions) -> Result<Arc<Self>, StoreError> {
        let mut opened = schema::open(path.as_ref(), options)?;
        let path = opened.path.clone();
        let tail = Tail::new(opened.head.position);
        let keys = keys::open(&opened.connection, &path)?;
        let share = || opened.data.share().map_err(|e| StoreError::Io(format!("{}: {e}", path.display())));
        let readers = Readers::new(&path, share()?, options.readers, &keys);
        let searchers = Readers::new(&path, share()?, SEARCHERS, &keys);
        let beside = |suffix: &str| schema::beside(&path, suffix);
        let files = [path.clone(), wal::path_of(&path), beside("lock"), beside(keys::SUFFIX)];
        let watch = Arc::new(LogWatch::over(files, beside("probe"))?);
        let (jobs, queue) = mpsc::channel(options.queue.max(1));
        let pending = Arc::new(std::mem::take(&mut opened.pending));
        let writer = Writer::new(opened, Arc::clone(&tail), Arc::clone(&pending), &watch, options)?;
        let thread = std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(|e| StoreError::Io(format!("cannot start the log's writer: {e}")))?;
        Ok(Arc::new_cyclic(|this| Self {
            jobs: Some(jobs),
            readers,
            searchers,
            keys,
            pending,
            tail,
            watch,
            thread: Mutex::new(Some(thread)),
            path,
            this: this.clone(),
        }))
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether appends can be acknowledged: there was no failure, the files are still the opened ones, and the disk has
    /// space. Sometimes writes a few pages, without waiting for the disk.
    pub fn health(&self) -> Result<(), StoreError> {
        self.watch.check()?;
        self.watch.room()
    }

    /// Writes the waiting requests, closes the file and releases the lock. Later calls fail with
    /// [`StoreError::Closed`].
    pub async fn close(&self) {
        self.readers.close().await;
        self.searchers.close().await;
        if let Some(jobs) = &self.jobs {
            // The send fails only if the writer has already ended.
            let _ = jobs.send(WriteJob::Close).await;
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Both failures mean a panic, which the panic hook has reported.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    /// Verifies SQLite's own structures, and every event: checksum, chain, position, revision. The time is proportional
    /// to the size of the log. Readers and the writer continue meanwhile.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        self.readers.run(reader::verify).await
    }

    async fn submit<T>(&self, job: WriteJob, reply: oneshot::Receiver<T>) -> Result<T, StoreError> {
        self.jobs.as_ref().ok_or(StoreError::Closed)?.send(job).await.map_err(|_| StoreError::Closed)?;
        reply.await.map_err(|_| StoreError::Closed)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // A failure means a panic, which the panic hook has reported.
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl EventStore for SqliteStore {
    fn append_right(&self) -> Option<AppendRight> {
        Some(AppendRight(()))
    }

    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        super::make_keys(Some(&self.keys), stream, &events).await?;
        // The caller's thread encodes, seals and hashes, because the writer is the bottleneck.
        let (mut encoded, mut scratch) = (Vec::with_capacity(events.len()), Vec::with_capacity(512));
        for new in events {
            encoded.push(EncodedEvent::new(&self.keys, stream, new, &mut scratch)?);
        }
        let (reply, answer) = oneshot::channel();
        let append = AppendJob { stream: stream.clone(), expected, events: encoded, reply };
        self.submit(WriteJob::Append(append), answer).await?
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        // The head is read before the list. So each event up to the head is either in the list or in the index.
        let durable = self.tail.head();
        let pending = self.pending.after(stream, after);
        let stream = stream.clone();
        let read = move |connection: &_, kinds: &_| {
            reader::read_stream(connection, kinds, &stream, after, limit, Some((pending, durable)))
        };
        self.readers.run(read).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let durable = self.tail.head();
        self.readers.run(move |connection, kinds| reader::read_all(connection, kinds, after, limit, durable)).await
    }

    async fn read_at(&self, positions: &[Position]) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let positions = positions.to_vec();
        self.searchers.run(move |connection, kinds| reader::read_at(connection, kinds, &positions)).await
    }

    async fn first_event(&self) -> Result<Option<EventId>, StoreError> {
        let durable = self.tail.head();
        self.readers.run(move |connection, kinds| reader::first_event(connection, kinds, durable)).await
    }

    async fn search(
        &self,
        after: Position,
        limit: usize,
        criteria: &Criteria,
    ) -> Result<EventSearchResult, StoreError> {
        let (criteria, durable) = (criteria.clone(), self.tail.head());
        let search =
            move |connection: &_, kinds: &_| search::search(connection, kinds, after, limit, &criteria, durable);
        self.searchers.run(search).await
    }

    fn subscribe(&self, after: Position) -> Subscription {
        let store: Weak<dyn EventStore> = self.this.clone();
        Subscription::new(store, &self.tail, after)
    }

    fn head(&self) -> Position {
        self.tail.head()
    }

    fn keys(&self) -> Option<&Arc<KeyRing>> {
        Some(&self.keys)
    }

    fn holds(&self) -> Result<LegalHolds, StoreError> {
        LegalHolds::read(&schema::beside(&self.path, HOLDS))
    }

    async fn forget(&self, streams: &[StreamId]) -> Result<(), StoreError> {
        self.tail.forget();
        let (reply, answer) = oneshot::channel();
        self.submit(WriteJob::Forget { streams: streams.to_vec(), for_ever: false, reply }, answer).await?
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        let (stream, keys) = (stream.clone(), Arc::clone(&self.keys));
        self.readers.run(move |connection, _| snapshots::load(connection, &keys, &stream)).await
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
        let (stream, keys) = (stream.clone(), Arc::clone(&self.keys));
        let seal = move || sealed_snapshots::seal(&keys, &stream, &snapshot).map(|sealed| (stream, sealed));
        let sealed = tokio::task::spawn_blocking(seal).await.map_err(|error| StoreError::Io(error.to_string()))?;
        let (stream, snapshot) = sealed?;
        let (reply, answer) = oneshot::channel();
        self.submit(WriteJob::Snapshot { stream, snapshot, reply }, answer).await?
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_search_does_not_wait_for_loads_of_actors() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { readers: 1, ..SqliteOptions::default() };
        let store = SqliteStore::open(folder.path().join("log.db"), &options).unwrap();
        let ((begin, begun), (end, ended)) = (oneshot::channel(), std::sync::mpsc::sync_channel::<()>(1));
        let readers = Arc::clone(&store.readers);
        let load = tokio::spawn(async move {
            let occupy = move |_: &_, _: &_| {
                let _ = begin.send(());
                let _ = ended.recv();
                Ok(())
            };
            readers.run(occupy).await
        });
        begun.await.unwrap();
        let criteria = Criteria::default();
        // Without the limit, a search that waits for the occupied reader would never end.
        let search = tokio::time::timeout(Duration::from_mins(1), store.search(Position::START, 1, &criteria));
        let found = search.await;
        drop(end);
        load.await.unwrap().unwrap();
        assert!(found.unwrap().unwrap().events.is_empty());
        store.close().await;
    }
}
