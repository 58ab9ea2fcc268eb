//! The one writer: takes everything that waits, commits it as one transaction with one fsync, then answers.
//!
//! Each request is held against the revision of its own stream, the requests before it in the same transaction included;
//! a conflict refuses that request only. Requests are checked before anything of theirs is written, so a transaction
//! holds nothing that has to be taken back, unless it fails as a whole: then nothing of it was written, and everybody
//! in it is told so.
//!
//! Whoever was just answered usually comes back at once. So the writer waits for as many requests as were lately there,
//! though never longer than a quarter of what the last commit took: without this, two halves of the callers take turns and
//! each fsync serves one half.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::{mpsc, oneshot};

use super::row::{INSERT, finish_checksum, insert, signed, unsigned};
use super::schema::Opened;
use super::seals::Seals;
use super::witness::{Note, Witness};
use super::{SqliteOptions, error, reader, schema};
use crate::chain::{self, Anchor, Content, EventHash};
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::sealed::Stored;
use crate::sealed::keys::KeyRing;
use crate::store::encode_payload;
use crate::store::tail::Tail;
use crate::store::{AppendError, Appended, Expected, Snapshot, StoreError, check_expected};

/// Streams whose revision is remembered, at most twice this many.
const REMEMBERED: usize = 65_536;
const PAGE: usize = 4_096;
/// Pages that a transaction touches besides those for its payloads: head, index, interior pages.
const PAGES_PER_COMMIT: usize = 6;

/// A stalled disk is no reason to stall those who come after.
const LONGEST_WAIT: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_micros(20);

/// An event for which everything is computed that does not need its place in the log.
pub(super) struct Encoded {
    pub(super) new: NewEvent,
    pub(super) codec: u8,
    pub(super) data: Bytes,
    /// What opens it again, where it is sealed.
    pub(super) keys: Option<Arc<KeyRing>>,
    /// The hash and the checksum of its content.
    pub(super) content: EventHash,
    pub(super) sum: u32,
}

impl Encoded {
    /// For an append to `stream`; `scratch` is reused between events.
    pub(super) fn new(
        keys: &Arc<KeyRing>,
        stream: &StreamId,
        new: NewEvent,
        scratch: &mut Vec<u8>,
    ) -> Result<Self, AppendError> {
        let Stored { codec, data } = encode_payload(Some(keys), stream, &new)?;
        let keys = (codec == crate::codec::SEALED).then(|| Arc::clone(keys));
        Content::of_new(stream, &new, codec, &data).bytes(scratch);
        let (content, sum) = (chain::hash(scratch), crc32fast::hash(scratch));
        Ok(Self { new, codec, data: data.into(), keys, content, sum })
    }
}

pub(super) struct Append {
    pub(super) stream: StreamId,
    pub(super) expected: Expected,
    pub(super) events: Vec<Encoded>,
    pub(super) reply: oneshot::Sender<Result<Appended, AppendError>>,
}

pub(super) enum Job {
    Append(Append),
    Snapshot {
        stream: StreamId,
        snapshot: Snapshot,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Drops the snapshots of streams, so that no page and no log of pages has them any more.
    Forget {
        streams: Vec<StreamId>,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// What is queued is still done.
    Close,
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.events.iter().map(|event| event.data.len() + 256).sum(),
            Self::Snapshot { snapshot, .. } => snapshot.bytes.len(),
            Self::Forget { .. } | Self::Close => 0,
        }
    }
}

/// An answer that waits for the fsync.
enum Answer {
    Append(oneshot::Sender<Result<Appended, AppendError>>, Result<Appended, AppendError>),
    Snapshot(oneshot::Sender<Result<(), StoreError>>),
}

impl Answer {
    /// Whoever does not wait any more does not want to know.
    fn give(self) {
        match self {
            Self::Append(reply, answer) => drop(reply.send(answer)),
            Self::Snapshot(reply) => drop(reply.send(Ok(()))),
        }
    }

    fn fail(self, failure: &StoreError) {
        match self {
            // What was to be encoded or was too large failed before it came here; a conflict may be one with an event that
            // was not written after all.
            Self::Append(reply, _) => drop(reply.send(Err(failure.clone().into()))),
            Self::Snapshot(reply) => drop(reply.send(Err(failure.clone()))),
        }
    }
}

/// Tells subscribers that nothing follows, however the thread ends.
struct CloseTail(Arc<Tail>);

impl Drop for CloseTail {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A stream's number in the file and its revision.
type Place = (i64, u64);

/// Revisions of the streams written to lately; the older half is forgotten when there are too many.
#[derive(Default)]
struct Revisions {
    young: HashMap<StreamId, Place>,
    old: HashMap<StreamId, Place>,
}

impl Revisions {
    fn get(&mut self, stream: &StreamId) -> Option<Place> {
        if let Some(place) = self.young.get(stream) {
            return Some(*place);
        }
        let place = self.old.remove(stream)?;
        self.put(stream, place);
        Some(place)
    }

    fn put(&mut self, stream: &StreamId, place: Place) {
        if let Some(known) = self.young.get_mut(stream) {
            *known = place;
            return;
        }
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(stream.clone(), place);
    }

    fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

pub(super) struct Writer {
    connection: Connection,
    witness: Witness,
    seals: Seals,
    note: Note,
    /// The newest event, and its hash.
    head: Anchor,
    path: std::path::PathBuf,
    tail: Arc<Tail>,
    options: SqliteOptions,
    revisions: Revisions,
    kinds: HashMap<&'static str, (i64, Arc<str>)>,
    /// Pages written since the last checkpoint, about.
    pages: usize,
    /// How many requests were lately under way at the same time.
    crowd: usize,
    /// How long the last commit took.
    commit: Duration,
    /// Something was dropped that must not stay in the write-ahead log.
    forgets: bool,
    /// The log says which keys it needs.
    keys_noted: bool,
    /// Why nothing is written any more.
    failed: Option<StoreError>,
    // Last: given up after the connection was closed.
    _lock: super::lock::Lock,
}

impl Writer {
    pub(super) fn new(opened: Opened, tail: Arc<Tail>, options: &SqliteOptions) -> Self {
        Self {
            connection: opened.connection,
            witness: opened.witness,
            seals: opened.seals,
            note: opened.note,
            head: opened.head,
            path: opened.path,
            tail,
            options: options.clone(),
            revisions: Revisions::default(),
            kinds: HashMap::new(),
            pages: 0,
            crowd: 1,
            commit: Duration::ZERO,
            forgets: false,
            keys_noted: false,
            failed: None,
            _lock: opened.lock,
        }
    }

    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let _close = CloseTail(Arc::clone(&self.tail));
        let mut batch = VecDeque::new();
        while let Some(first) = queue.blocking_recv() {
            self.gather(first, &mut queue, &mut batch);
            let (answered, begun) = (batch.len(), Instant::now());
            self.process(&mut batch);
            self.commit = begun.elapsed();

            self.crowd = answered + queue.len();
            if self.pages >= self.options.checkpoint_pages {
                self.checkpoint(false);
            }
        }
        if self.failed.is_none() {
            self.checkpoint(true);
        }
    }

    /// Everything that waits or comes soon, within bounds.
    fn gather(&self, first: Job, queue: &mut mpsc::Receiver<Job>, batch: &mut VecDeque<Job>) {
        let deadline = Instant::now() + (self.commit / 4).min(LONGEST_WAIT);
        let mut bytes = 0;
        let mut next = Some(first);
        loop {
            while let Some(job) = next {
                bytes += job.bytes();
                match job {
                    Job::Close => queue.close(),
                    job => batch.push_back(job),
                }
                if batch.len() >= self.options.batch_requests || bytes >= self.options.batch_bytes {
                    return;
                }
                next = queue.try_recv().ok();
            }
            if batch.len() >= self.crowd || queue.is_closed() || Instant::now() >= deadline {
                return;
            }
            #[expect(clippy::disallowed_methods, reason = "the writer is a thread of its own")]
            std::thread::sleep(PAUSE);
            next = queue.try_recv().ok();
        }
    }

    fn process(&mut self, batch: &mut VecDeque<Job>) {
        let (mut answers, mut written) = (Vec::with_capacity(batch.len()), Vec::new());
        let result = match &self.failed {
            Some(failure) => Err(failure.clone()),
            None => self.write(batch, &mut answers, &mut written),
        };
        // What the failure kept from being looked at.
        answers.extend(batch.drain(..).filter_map(|job| match job {
            Job::Append(append) => Some(Answer::Append(append.reply, Err(StoreError::Closed.into()))),
            Job::Snapshot { reply, .. } | Job::Forget { reply, .. } => Some(Answer::Snapshot(reply)),
            Job::Close => None,
        }));
        if let (Ok(()), Some(last)) = (&result, written.last()) {
            self.head = Anchor { position: last.position, hash: last.hash.unwrap_or_default() };
            self.note.head = last.position;
            self.witness.write(self.note);
            self.tail.publish(written);
        }
        if std::mem::take(&mut self.forgets) {
            // The old pages are in the write-ahead log, too, until it is begun anew.
            self.checkpoint(true);
        }
        match result {
            Ok(()) => answers.into_iter().for_each(Answer::give),
            Err(failure) => answers.into_iter().for_each(|answer| answer.fail(&failure)),
        }
    }

    /// One transaction. After an error nothing of it is in the log.
    fn write(
        &mut self,
        batch: &mut VecDeque<Job>,
        answers: &mut Vec<Answer>,
        written: &mut Vec<Arc<Recorded>>,
    ) -> Result<(), StoreError> {
        let outcome = self.transaction(batch, answers, written);
        let Err(error) = outcome else {
            return Ok(());
        };
        let position = self.note.head.0 + 1;
        let failure = error::explain(&error, position);
        tracing::error!(%error, position, "the log cannot be written");
        self.give_up(&error, &failure);
        let end = written.last().map(|last| last.position);
        match reader::head(&self.connection) {
            // The commit itself succeeded, what followed did not: everybody in the transaction is in the log.
            Ok(head) if Some(head) == end && self.failed.is_none() => return Ok(()),
            Ok(head) if head == self.note.head => {}
            // Nobody can say what is in the log until it has been opened anew.
            _ => self.failed = Some(failure.clone()),
        }
        written.clear();
        Err(failure)
    }

    fn give_up(&mut self, error: &rusqlite::Error, failure: &StoreError) {
        if !self.connection.is_autocommit() && self.connection.execute_batch("ROLLBACK").is_err() {
            self.failed = Some(failure.clone());
        }
        // They may know of streams and kinds that were taken back.
        self.revisions.clear();
        self.kinds.clear();
        self.keys_noted = false;
        if error::is_fatal(error) {
            self.failed = Some(failure.clone());
        }
        if *failure == StoreError::Full {
            // What was checkpointed need not be kept twice.
            self.checkpoint(false);
        }
    }

    fn transaction(
        &mut self,
        batch: &mut VecDeque<Job>,
        answers: &mut Vec<Answer>,
        written: &mut Vec<Arc<Recorded>>,
    ) -> rusqlite::Result<()> {
        let mut begun = false;
        let mut bytes = 0;
        let mut end = self.head;
        while let Some(job) = batch.pop_front() {
            bytes += job.bytes();
            match job {
                Job::Append(append) => {
                    let (stream, expected, reply) = (append.stream, append.expected, append.reply);
                    let place = match self.place(&stream) {
                        Ok(place) => place,
                        Err(error) => {
                            answers.push(Answer::Append(reply, Err(StoreError::Closed.into())));
                            return Err(error);
                        }
                    };
                    let actual = Revision(place.map_or(0, |(_, revision)| revision));
                    let answer = check_expected(&stream, expected, actual).map(|()| Appended {
                        revision: Revision(actual.0 + append.events.len() as u64),
                        position: Position(end.position.0 + append.events.len() as u64),
                    });
                    let writes = answer.is_ok() && !append.events.is_empty();
                    // Before anything can fail: everybody is to be told.
                    answers.push(Answer::Append(reply, answer));
                    if writes {
                        self.begin(&mut begun)?;
                        self.append(&stream, place, append.events, &mut end, written)?;
                    }
                }
                Job::Snapshot { stream, snapshot, reply } => {
                    answers.push(Answer::Snapshot(reply));
                    self.begin(&mut begun)?;
                    self.snapshot(&stream, &snapshot)?;
                }
                Job::Forget { streams, reply } => {
                    answers.push(Answer::Snapshot(reply));
                    self.begin(&mut begun)?;
                    for stream in streams {
                        let sql = "DELETE FROM snapshots WHERE stream = ?1";
                        self.connection.prepare_cached(sql)?.execute([stream.as_str()])?;
                    }
                    self.forgets = true;
                }
                Job::Close => {}
            }
        }
        if !begun {
            return Ok(());
        }
        self.connection.prepare_cached("UPDATE head SET position = ?1")?.execute([signed(end.position.0)])?;
        self.pages += bytes / PAGE + PAGES_PER_COMMIT;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn begin(&self, begun: &mut bool) -> rusqlite::Result<()> {
        if !*begun {
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            *begun = true;
        }
        Ok(())
    }

    /// The stream's number and revision, if it exists.
    fn place(&mut self, stream: &StreamId) -> rusqlite::Result<Option<Place>> {
        if let Some(place) = self.revisions.get(stream) {
            return Ok(Some(place));
        }
        let sql = "SELECT s.id, coalesce((SELECT max(e.revision) FROM events e WHERE e.stream = s.id), 0) \
                   FROM streams s WHERE s.name = ?1";
        let place = self
            .connection
            .prepare_cached(sql)?
            .query_row([stream.as_str()], |row| Ok((row.get(0)?, unsigned(row.get(1)?))))
            .optional()?;
        if let Some(place) = place {
            self.revisions.put(stream, place);
        }
        Ok(place)
    }

    fn append(
        &mut self,
        stream: &StreamId,
        place: Option<Place>,
        events: Vec<Encoded>,
        end: &mut Anchor,
        written: &mut Vec<Arc<Recorded>>,
    ) -> rusqlite::Result<()> {
        let (number, mut revision) = if let Some(place) = place {
            place
        } else {
            let sql = "INSERT INTO streams (name) VALUES (?1)";
            (self.connection.prepare_cached(sql)?.insert([stream.as_str()])?, 0)
        };
        for Encoded { new, codec, data, keys, content, sum } in events {
            revision += 1;
            if let Some(keys) = keys.as_ref().filter(|_| !self.keys_noted) {
                super::keys::note(&self.connection, keys)?;
                self.keys_noted = true;
            }
            end.position.0 += 1;
            end.hash = chain::link(&end.hash, end.position, Revision(revision), &content);
            let (kind_number, kind) = self.kind(new.event.kind())?;
            let recorded = Recorded {
                position: end.position,
                stream: stream.clone(),
                revision: Revision(revision),
                id: new.id,
                kind,
                version: new.event.version(),
                codec,
                recorded_at: new.recorded_at,
                meta: new.meta,
                data,
                hash: Some(end.hash),
                keys,
                decoded: OnceLock::from(new.event),
            };
            let mut statement = self.connection.prepare_cached(INSERT)?;
            insert(&mut statement, &recorded, number, kind_number, finish_checksum(sum, &recorded))?;
            written.push(Arc::new(recorded));
        }
        self.revisions.put(stream, (number, revision));
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

    fn snapshot(&self, stream: &StreamId, snapshot: &Snapshot) -> rusqlite::Result<()> {
        let sql = "INSERT INTO snapshots (stream, revision, state_version, data, checksum) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT (stream) DO UPDATE SET revision = excluded.revision, \
                   state_version = excluded.state_version, data = excluded.data, checksum = excluded.checksum";
        self.connection.prepare_cached(sql)?.execute(rusqlite::params![
            stream.as_str(),
            signed(snapshot.revision.0),
            snapshot.state_version,
            snapshot.bytes,
            crc32fast::hash(&snapshot.bytes),
        ])?;
        Ok(())
    }

    /// Moves what is in the write-ahead log into the data file. A failure is none of the log: all is where it was, and
    /// the next checkpoint tries again.
    fn checkpoint(&mut self, truncate: bool) {
        self.pages = 0;
        match schema::checkpoint(&self.connection, &self.path, &mut self.seals, truncate) {
            Ok(Some(size)) => {
                self.note.file = size;
                self.witness.write(self.note);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the log's checkpoint has to wait"),
        }
    }
}
