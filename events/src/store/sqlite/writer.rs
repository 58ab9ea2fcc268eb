//! The single writer: it takes all waiting requests and commits them as one transaction. [`super::sync`] makes the
//! transaction durable while the writer fills the next one. Callers get their answers after that.
//!
//! Each request is checked against the revision of its own stream. This revision includes earlier requests that are not
//! durable yet. That is safe, because no event becomes durable before the events that it was checked against. A
//! conflict refuses only its own request. Requests are checked before their events are written, so no part of a
//! transaction has to be undone. If the transaction fails, all its requests get an error. Then either nothing of the
//! transaction was written, or the content of the log is unknown and the writer stops.
//!
//! The writer commits as soon as no request waits and the disk is idle. Otherwise it fills the transaction for as long
//! as a sync takes, and then commits. So neither the disk nor the writer waits for the other. Slow syncs give few and
//! large transactions, fast syncs give many small ones.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::by_stream::{self, UnindexedEvents};
use super::data_file::DataFile;
use super::floor::{self, FloorStep};
use super::places::{StreamPlace, StreamPlaces};
use super::row::{INSERT, finish_checksum, insert, signed};
use super::schema::OpenedLog;
use super::seals::Seals;
use super::sync::{CommittedBatch, DiskActivity, PendingReply, Syncer};
use super::watch::LogWatch;
use super::{SqliteOptions, error, reader, retention, schema, snapshots, wal};
use crate::chain::{self, Anchor, EventContent, EventHash};
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::sealed::StoredPayload;
use crate::sealed::keys::KeyRing;
use crate::store::encode_payload;
use crate::store::tail::Tail;
use crate::store::{AppendError, Appended, Expected, StoreError, StreamSnapshot, check_expected};

const PAGE: usize = 4_096;
/// The number of pages that a transaction changes in addition to those of its payloads: head, streams, interior pages.
const PAGES_PER_COMMIT: usize = 6;
/// The approximate number of pages that an index update changes.
const INDEX_PAGES: usize = by_stream::STEP / 8;
/// The shortest time for which the writer collects requests. Each transaction has a fixed cost, even on a fast disk.
const SHORTEST: Duration = Duration::from_micros(100);

/// An event that is encoded and hashed as far as possible without its position in the log.
pub(super) struct EncodedEvent {
    pub(super) new: NewEvent,
    pub(super) codec: u8,
    pub(super) data: Bytes,
    /// The keys of a sealed payload.
    pub(super) keys: Option<Arc<KeyRing>>,
    /// The hash of the content; `sum` is its checksum.
    pub(super) content: EventHash,
    pub(super) sum: u32,
}

impl EncodedEvent {
    /// Encodes an event for an append to `stream`. `scratch` is reused between events.
    pub(super) fn new(
        keys: &Arc<KeyRing>,
        stream: &StreamId,
        new: NewEvent,
        scratch: &mut Vec<u8>,
    ) -> Result<Self, AppendError> {
        let StoredPayload { codec, data } = encode_payload(Some(keys), stream, &new)?;
        let keys = (codec == crate::codec::SEALED).then(|| Arc::clone(keys));
        EventContent::of_new(stream, &new, codec, &data).bytes(scratch);
        let (content, sum) = (chain::hash(scratch), crc32fast::hash(scratch));
        Ok(Self { new, codec, data: data.into(), keys, content, sum })
    }
}

pub(super) struct AppendJob {
    pub(super) stream: StreamId,
    pub(super) expected: Expected,
    pub(super) events: Vec<EncodedEvent>,
    pub(super) reply: oneshot::Sender<Result<Appended, AppendError>>,
}

pub(super) enum WriteJob {
    Append(AppendJob),
    /// Stores a snapshot with sealed bytes.
    Snapshot {
        stream: StreamId,
        snapshot: StreamSnapshot,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Drops the snapshots of streams. A reader can delay their removal from the files until a later checkpoint.
    Forget {
        streams: Vec<StreamId>,
        /// Whether nobody will need a snapshot of these streams again.
        for_ever: bool,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Removes events that are in the archive.
    Archived {
        step: FloorStep,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Ends the writer after all queued requests.
    Close,
}

impl WriteJob {
    fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.events.iter().map(|event| event.data.len() + 256).sum(),
            Self::Snapshot { snapshot, .. } => snapshot.bytes.len(),
            // Each page that loses events is written once.
            Self::Archived { .. } => retention::STEP_BYTES,
            Self::Forget { .. } | Self::Close => 0,
        }
    }

    /// Refuses the request, because the log accepts no more writes.
    fn refuse(self, failure: &StoreError, queue: &mut mpsc::Receiver<Self>) {
        match self {
            Self::Append(append) => drop(append.reply.send(Err(failure.clone().into()))),
            Self::Snapshot { reply, .. } | Self::Forget { reply, .. } | Self::Archived { reply, .. } => {
                drop(reply.send(Err(failure.clone())));
            }
            Self::Close => queue.close(),
        }
    }
}

/// Tells subscribers that no more events follow, even if the thread panics.
struct CloseTail(Arc<Tail>);

impl Drop for CloseTail {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A transaction that is being written.
struct OpenTransaction {
    batch: CommittedBatch,
    /// The number of requests in the transaction.
    requests: usize,
    bytes: usize,
    /// Whether SQLite's transaction has begun. The first write begins it. A refused append writes nothing, so it does
    /// not begin it.
    begun: bool,
    /// The newest event of the log if the transaction is committed.
    end: Anchor,
    /// Whether the transaction drops content that must not stay in the write-ahead log.
    forgets: bool,
    begun_at: Instant,
}

impl OpenTransaction {
    fn after(end: Anchor) -> Self {
        Self {
            batch: CommittedBatch::default(),
            requests: 0,
            bytes: 0,
            begun: false,
            end,
            forgets: false,
            begun_at: Instant::now(),
        }
    }
}

pub(super) struct Writer {
    connection: Connection,
    syncer: Syncer,
    /// Lets the writer wait for requests and for the disk at the same time.
    runtime: Runtime,
    seals: Seals,
    /// The newest committed event, and its hash.
    head: Anchor,
    path: std::path::PathBuf,
    tail: Arc<Tail>,
    pending: Arc<UnindexedEvents>,
    options: SqliteOptions,
    places: StreamPlaces,
    kinds: HashMap<&'static str, (i64, Arc<str>)>,
    /// The approximate number of pages that were written since the last checkpoint.
    pages: usize,
    /// The number of requests that were recently under way at the same time.
    recent_requests: usize,
    /// Whether the log has a note of the keys that it needs.
    keys_noted: bool,
    /// Why the log accepts no more writes.
    failed: Option<StoreError>,
    watch: Arc<LogWatch>,
    // The last two fields, so that both are released after the connection is closed.
    _data: DataFile,
    lock: super::lock::LogLock,
}

impl Writer {
    pub(super) fn new(
        opened: OpenedLog,
        tail: Arc<Tail>,
        pending: Arc<UnindexedEvents>,
        watch: &Arc<LogWatch>,
        options: &SqliteOptions,
    ) -> Result<Self, StoreError> {
        // From here on the syncer makes commits durable. SQLite itself syncs only around its checkpoints.
        opened
            .connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(|e| error::explain(&e, opened.head.position.0))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|e| StoreError::Io(format!("the log's writer cannot wait: {e}")))?;
        let syncer = Syncer::start(&wal::path_of(&opened.path), watch, (opened.witness, opened.note), &tail)?;
        Ok(Self {
            connection: opened.connection,
            syncer,
            runtime,
            seals: opened.seals,
            head: opened.head,
            path: opened.path,
            tail,
            pending,
            options: options.clone(),
            places: StreamPlaces::default(),
            kinds: HashMap::new(),
            pages: 0,
            recent_requests: 1,
            keys_noted: false,
            failed: None,
            watch: Arc::clone(watch),
            _data: opened.data,
            lock: opened.lock,
        })
    }

    pub(super) fn run(mut self, mut queue: mpsc::Receiver<WriteJob>) {
        let _close = CloseTail(Arc::clone(&self.tail));
        while let Some(first) = queue.blocking_recv() {
            match self.failure() {
                Some(failure) => first.refuse(&failure, &mut queue),
                None => self.transact(first, &mut queue),
            }
            if self.pages >= self.options.checkpoint_pages {
                self.checkpoint(false);
            }
        }
        self.syncer.close();
        // After a failure, or after a file of the log was removed, the writer changes the files no more. So an operator
        // who puts a file back finds the log as it was at the failure.
        if self.failure().is_none() && self.watch.check().is_ok() {
            self.index();
            if self.checkpoint(true) {
                self.lock.leave();
            }
        }
    }

    /// Stops all writes and records the reason.
    fn fail(&mut self, failure: &StoreError) {
        self.watch.fail(failure);
        self.failed = Some(failure.clone());
    }

    fn failure(&self) -> Option<StoreError> {
        self.failed.clone().or_else(|| self.syncer.failure())
    }

    /// Fills and commits one transaction, which begins with the request `first`.
    fn transact(&mut self, first: WriteJob, queue: &mut mpsc::Receiver<WriteJob>) {
        let mut open = OpenTransaction::after(self.head);
        let outcome = self.fill(&mut open, first, queue).and_then(|()| self.commit(&mut open));
        if let Err(failure) = outcome.or_else(|error| self.give_up(&error, &open)) {
            open.batch.answers.into_iter().for_each(|answer| answer.fail(&failure));
            return;
        }
        if open.begun {
            self.head = open.end;
        }
        let pending = self.pending.add(open.batch.written.iter().map(|event| &**event));
        if open.forgets {
            // The dropped content stays in the write-ahead log until that log is truncated.
            self.checkpoint(true);
        }
        self.hand_over(open, queue.len());
        if pending >= by_stream::STEP {
            self.index();
        }
    }

    fn hand_over(&mut self, open: OpenTransaction, queued: usize) {
        let disk = self.syncer.disk();
        let ahead = match disk {
            DiskActivity::Idle => 0,
            DiskActivity::Busy(requests) | DiskActivity::Full(requests) => requests,
        };
        // The number falls slowly, because requests that come slightly later still belong to the same group.
        self.recent_requests =
            (ahead + open.requests + queued).max(self.recent_requests - self.recent_requests.div_ceil(8));
        if ahead == 0 && !open.begun {
            open.batch.answers.into_iter().for_each(PendingReply::give);
        } else if disk == DiskActivity::Idle && open.requests >= self.recent_requests {
            self.syncer.take_here(open.batch);
        } else {
            self.syncer.take(open.batch);
        }
    }

    /// Writes requests until the transaction is full or overdue, or until no request waits and the disk is idle.
    fn fill(
        &mut self,
        open: &mut OpenTransaction,
        first: WriteJob,
        queue: &mut mpsc::Receiver<WriteJob>,
    ) -> rusqlite::Result<()> {
        let mut next = Some(first);
        loop {
            match next.take().map_or_else(|| queue.try_recv(), Ok) {
                Ok(WriteJob::Close) => queue.close(),
                Ok(job) => {
                    self.write(open, job)?;
                    if self.is_full(open) || self.is_overdue(open) {
                        return Ok(());
                    }
                }
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) if open.requests == 0 || self.syncer.disk() == DiskActivity::Idle => {
                    return Ok(());
                }
                Err(TryRecvError::Empty) => next = self.wait(queue),
            }
        }
    }

    fn is_full(&self, open: &OpenTransaction) -> bool {
        open.requests >= self.options.batch_requests || open.bytes >= self.options.batch_bytes
    }

    /// Whether the transaction has taken as long as a sync, and no other transaction waits for the disk.
    fn is_overdue(&self, open: &OpenTransaction) -> bool {
        open.begun_at.elapsed() >= self.syncer.usual().max(SHORTEST)
            && !matches!(self.syncer.disk(), DiskActivity::Full(_))
    }

    /// Waits until a request comes or the disk is less busy.
    fn wait(&self, queue: &mut mpsc::Receiver<WriteJob>) -> Option<WriteJob> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                job = queue.recv() => job,
                () = self.syncer.room() => None,
            }
        })
    }

    /// Handles an error. `Ok`: the transaction is in the log nevertheless. `Err`: the requests get this failure. If the
    /// content of the log is unknown, the writer also stops.
    fn give_up(&mut self, error: &rusqlite::Error, open: &OpenTransaction) -> Result<(), StoreError> {
        let position = self.head.position.0 + 1;
        let failure = match error::explain(error, position) {
            StoreError::Io(_) if error::is_quota(error, &self.path) => StoreError::Full,
            failure => failure,
        };
        tracing::error!(%error, position, "the log cannot be written");
        if !self.connection.is_autocommit() && self.connection.execute_batch("ROLLBACK").is_err() {
            self.fail(&failure);
        }
        // The caches may contain streams and kinds that were rolled back.
        self.places.clear();
        self.kinds.clear();
        self.keys_noted = false;
        if error::is_fatal(error) {
            self.fail(&failure);
        }
        if failure == StoreError::Full {
            // After a checkpoint, SQLite can reuse the write-ahead log instead of enlarging it.
            self.checkpoint(false);
        }
        match reader::head(&self.connection) {
            // The commit succeeded and a later step failed: all requests of the transaction are in the log.
            Ok(head) if open.begun && head == open.end.position && head != self.head.position => {
                if self.failed.is_none() {
                    return Ok(());
                }
            }
            Ok(head) if head == self.head.position => {}
            // The content of the log is unknown until it is reopened.
            _ => self.fail(&failure),
        }
        Err(failure)
    }

    /// Writes one request into the transaction.
    fn write(&mut self, open: &mut OpenTransaction, job: WriteJob) -> rusqlite::Result<()> {
        open.requests += 1;
        open.bytes += job.bytes();
        match job {
            WriteJob::Append(AppendJob { stream, expected, events, reply }) => {
                let place = match self.place(&stream) {
                    Ok(place) => place,
                    Err(error) => {
                        open.batch.answers.push(PendingReply::Append(reply, Err(StoreError::Closed.into())));
                        return Err(error);
                    }
                };
                let actual = Revision(place.map_or(0, |(_, revision)| revision));
                let answer = check_expected(&stream, expected, actual).map(|()| Appended {
                    revision: Revision(actual.0 + events.len() as u64),
                    position: Position(open.end.position.0 + events.len() as u64),
                });
                let writes = answer.is_ok() && !events.is_empty();
                // The reply is stored before any step can fail, because every caller must get an answer.
                open.batch.answers.push(PendingReply::Append(reply, answer));
                if writes {
                    self.begin(open)?;
                    self.append(&stream, place, events, open)?;
                }
            }
            WriteJob::Snapshot { stream, snapshot, reply } => {
                open.batch.answers.push(PendingReply::Done(reply));
                self.begin(open)?;
                snapshots::save(&self.connection, &stream, &snapshot)?;
            }
            WriteJob::Forget { streams, for_ever, reply } => {
                open.batch.answers.push(PendingReply::Done(reply));
                self.begin(open)?;
                for stream in streams {
                    snapshots::forget(&self.connection, &stream, for_ever)?;
                }
                open.forgets = true;
            }
            WriteJob::Archived { step, reply } => {
                open.batch.answers.push(PendingReply::Done(reply));
                self.begin(open)?;
                floor::raise(&self.connection, &step)?;
            }
            WriteJob::Close => {}
        }
        Ok(())
    }

    fn begin(&self, open: &mut OpenTransaction) -> rusqlite::Result<()> {
        if !open.begun {
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            open.begun = true;
        }
        Ok(())
    }

    fn commit(&mut self, open: &mut OpenTransaction) -> rusqlite::Result<()> {
        if !open.begun {
            return Ok(());
        }
        if open.end.position != self.head.position {
            let sql = "UPDATE head SET position = ?1";
            self.connection.prepare_cached(sql)?.execute([signed(open.end.position.0)])?;
        }
        self.pages += open.bytes / PAGE + PAGES_PER_COMMIT;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// The stream's number and revision, if it exists.
    fn place(&mut self, stream: &StreamId) -> rusqlite::Result<Option<StreamPlace>> {
        if let Some(place) = self.places.get(stream) {
            return Ok(Some(place));
        }
        let number: Option<i64> = self
            .connection
            .prepare_cached("SELECT id FROM streams WHERE name = ?1")?
            .query_row([stream.as_str()], |row| row.get(0))
            .optional()?;
        let Some(number) = number else {
            return Ok(None);
        };
        let revision = match self.pending.last(stream) {
            Some(revision) => revision.0,
            None => by_stream::last(&self.connection, number)?,
        };
        self.places.put(stream, (number, revision));
        Ok(Some((number, revision)))
    }

    fn append(
        &mut self,
        stream: &StreamId,
        place: Option<StreamPlace>,
        events: Vec<EncodedEvent>,
        open: &mut OpenTransaction,
    ) -> rusqlite::Result<()> {
        let (number, mut revision) = if let Some(place) = place {
            place
        } else {
            let sql = "INSERT INTO streams (name) VALUES (?1)";
            (self.connection.prepare_cached(sql)?.insert([stream.as_str()])?, 0)
        };
        for EncodedEvent { new, codec, data, keys, content, sum } in events {
            revision += 1;
            if let Some(keys) = keys.as_ref().filter(|_| !self.keys_noted) {
                super::keys::note(&self.connection, keys)?;
                self.keys_noted = true;
            }
            let end = &mut open.end;
            end.position.0 += 1;
            end.hash = chain::link(&end.hash, end.position, Revision(revision), &content);
            let (kind_number, kind) = self.kind(new.event.kind())?;
            let recorded = Recorded {
                position: open.end.position,
                stream: stream.clone(),
                revision: Revision(revision),
                id: new.id,
                kind,
                version: new.event.version(),
                codec,
                recorded_at: new.recorded_at,
                meta: new.meta,
                data,
                hash: Some(open.end.hash),
                keys,
                decoded: OnceLock::from(new.event),
            };
            let mut statement = self.connection.prepare_cached(INSERT)?;
            insert(&mut statement, &recorded, number, kind_number, finish_checksum(sum, &recorded))?;
            open.batch.written.push(Arc::new(recorded));
        }
        self.places.put(stream, (number, revision));
        Ok(())
    }

    fn kind(&mut self, kind: &'static str) -> rusqlite::Result<(i64, Arc<str>)> {
        if let Some((number, name)) = self.kinds.get(kind) {
            return Ok((*number, Arc::clone(name)));
        }
        let found = self
            .connection
            .prepare_cached("SELECT id FROM kinds WHERE name = ?1")?
            .query_row([kind], |row| row.get(0))
            .optional()?;
        let number = match found {
            Some(number) => number,
            None => self.connection.prepare_cached("INSERT INTO kinds (name) VALUES (?1)")?.insert([kind])?,
        };
        let name: Arc<str> = Arc::from(kind);
        self.kinds.insert(kind, (number, Arc::clone(&name)));
        Ok((number, name))
    }

    /// Updates the index. Most failures only delay the update. After a failure that leaves the state of the file
    /// unknown, the log accepts no more writes.
    fn index(&mut self) {
        match by_stream::extend(&self.connection, self.head.position) {
            Ok(()) => {
                self.pending.clear();
                self.pages += INDEX_PAGES;
            }
            Err(error) => {
                tracing::warn!(%error, "updating the log's index by stream failed; retrying later");
                if error::is_fatal(&error) {
                    self.fail(&error::explain(&error, self.head.position.0));
                }
            }
        }
    }

    /// Moves the write-ahead log into the data file. Returns whether it moved all of it. A failure does not affect the
    /// log. The next checkpoint tries again.
    fn checkpoint(&mut self, truncate: bool) -> bool {
        self.pages = 0;
        match schema::checkpoint(&self.connection, &self.path, &mut self.seals, truncate) {
            Ok(Some(size)) => {
                self.syncer.note_file(size);
                return true;
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "moving the write-ahead log into the data file failed; retrying later");
            }
        }
        false
    }
}
