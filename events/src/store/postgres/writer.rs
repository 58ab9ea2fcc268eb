//! The single appender: it combines all waiting requests into one statement, which is one transaction and one round
//! trip.
//!
//! If the head row has the writer's epoch and position, the statement updates the row and inserts the events. The lock
//! on that row until the commit makes the order of commits the order of positions. The statement also notes the
//! previous position, up to which all events are acknowledged. Followers fold no later event, because a crash of the
//! database may remove it.
//!
//! If the answer is lost, the outcome is unknown. The writer then takes a new epoch, so that the lost statement cannot
//! commit later. The returned row shows whether the batch is in the log. Callers get their answers only after that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::address::DatabaseAddress;
use super::link::{DatabaseLink, within};
use super::row::signed;
use super::schema::{self, TakenFrom};
use crate::chain::{self, Anchor, EventContent};
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::sealed::StoredPayload;
use crate::sealed::keys::KeyRing;
use crate::store::tail::Tail;
use crate::store::{AppendError, Appended, Expected, StoreError, check_expected};

/// The largest number of requests in one transaction.
const BATCH_REQUESTS: usize = 1_024;
const BATCH_BYTES: usize = 8 << 20;
/// The number of streams with a cached revision.
const REMEMBERED: usize = 100_000;

const APPEND: &str = "WITH moved AS (UPDATE chronova_head SET position = $4, hash = $5, batch = $6, \
        durable = $3, keys = COALESCE($7, keys) WHERE cell = $1 AND epoch = $2 AND position = $3 RETURNING 1) \
    INSERT INTO chronova_events SELECT e.* FROM moved, unnest($8::bigint[], $9::bytea[], $10::bigint[], \
        $11::bytea[], $12::text[], $13::int[], $14::int[], $15::bigint[], $16::text[], $17::bytea[], $18::bytea[]) e";

/// Each payload with its version. The version is older than the event's own while not all members know the newest one.
pub(super) type EventsToSeal = Vec<(StoredPayload, u16, NewEvent)>;

pub(super) struct PostgresAppend {
    pub(super) stream: StreamId,
    pub(super) expected: Expected,
    pub(super) events: EventsToSeal,
    pub(super) reply: oneshot::Sender<Result<Appended, AppendError>>,
}

impl PostgresAppend {
    fn bytes(&self) -> usize {
        self.events.iter().map(|(stored, ..)| stored.data.len() + 256).sum()
    }
}

type Answer = (oneshot::Sender<Result<Appended, AppendError>>, Result<Appended, AppendError>);

pub(super) struct PostgresWriter {
    pub(super) config: DatabaseAddress,
    pub(super) cell: String,
    pub(super) holder: Vec<u8>,
    pub(super) lease: Duration,
    /// The newest level that this process knows.
    pub(super) newest: u16,
    /// Why this process no longer leads.
    pub(super) lost: watch::Receiver<Option<String>>,
    /// Why the log accepts no more events.
    pub(super) failed: watch::Sender<Option<StoreError>>,
    pub(super) link: Option<Arc<DatabaseLink>>,
    /// The epoch of the next append. Answers to other members name it, too.
    pub(super) epoch: Arc<AtomicI64>,
    pub(super) head: Anchor,
    pub(super) keys: Option<Arc<KeyRing>>,
    pub(super) tail: Arc<Tail>,
    pub(super) patience: Duration,
    pub(super) revisions: HashMap<StreamId, u64>,
}

impl PostgresWriter {
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<PostgresAppend>) {
        while let Some(first) = queue.recv().await {
            let mut jobs = vec![first];
            let mut bytes = jobs[0].bytes();
            while jobs.len() < BATCH_REQUESTS && bytes < BATCH_BYTES {
                let Ok(job) = queue.try_recv() else { break };
                bytes += job.bytes();
                jobs.push(job);
            }
            let earlier = self.failed.borrow().clone();
            if let Some(failure) = earlier {
                refuse(jobs, &failure);
            } else if let Err(failure) = self.perform(jobs).await {
                tracing::error!(%failure, "the log's writer failed: the log accepts no more events");
                self.failed.send_replace(Some(failure));
                self.tail.close();
            }
        }
        self.tail.close();
    }

    /// Appends one batch. An error is final. The writer then no longer knows the end of the log, or has lost the lead.
    async fn perform(&mut self, jobs: Vec<PostgresAppend>) -> Result<(), StoreError> {
        if let Err(failure) = self.learn_revisions(&jobs).await {
            // Nothing was written. These requests are refused; later requests may succeed.
            refuse(jobs, &failure);
            return Ok(());
        }
        let (answers, written) = self.place(jobs);
        let outcome = if written.is_empty() { Ok(()) } else { self.write(&written).await };
        match outcome {
            Ok(()) => {
                if let Some(hash) = written.last().and_then(|last| last.hash) {
                    self.head = Anchor { position: Position(self.head.position.0 + written.len() as u64), hash };
                }
                self.tail.publish(written);
                for (reply, answer) in answers {
                    // A caller that gave up needs no answer.
                    let _ = reply.send(answer);
                }
                Ok(())
            }
            Err(failure) => {
                self.revisions.clear();
                for (reply, _) in answers {
                    let _ = reply.send(Err(failure.clone().into()));
                }
                Err(failure)
            }
        }
    }

    async fn learn_revisions(&mut self, jobs: &[PostgresAppend]) -> Result<(), StoreError> {
        if self.revisions.len() > REMEMBERED {
            self.revisions.clear();
        }
        let unknown: Vec<&[u8]> = jobs
            .iter()
            .filter(|job| !self.revisions.contains_key(&job.stream))
            .map(|job| job.stream.as_str().as_bytes())
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let sql = "SELECT stream, max(revision) FROM chronova_events WHERE stream = ANY($1) GROUP BY stream";
        let until = Instant::now() + self.patience;
        let rows = loop {
            let read = match self.link().await {
                Ok(link) => within(link.client.query(sql, &[&unknown])).await,
                Err(failure) => Err(failure),
            };
            match read {
                Ok(rows) => break rows,
                Err(failure) if Instant::now() >= until => return Err(failure),
                Err(_) => self.pause().await,
            }
        };
        for job in jobs {
            self.revisions.entry(job.stream.clone()).or_insert(0);
        }
        for row in rows {
            if let Ok(name) = std::str::from_utf8(row.get(0)) {
                self.revisions.insert(StreamId::from_stored(name), row.get::<_, i64>(1).unsigned_abs());
            }
        }
        Ok(())
    }

    /// Gives every accepted event its position, and determines every answer.
    fn place(&mut self, jobs: Vec<PostgresAppend>) -> (Vec<Answer>, Vec<Arc<Recorded>>) {
        let (mut answers, mut written, mut end) = (Vec::with_capacity(jobs.len()), Vec::new(), self.head);
        for PostgresAppend { stream, expected, events, reply } in jobs {
            let mut revision = Revision(self.revisions.get(&stream).copied().unwrap_or(0));
            if let Err(conflict) = check_expected(&stream, expected, revision) {
                answers.push((reply, Err(conflict)));
                continue;
            }
            for (StoredPayload { codec, data }, version, new) in events {
                revision.0 += 1;
                end.position.0 += 1;
                let content = EventContent { version, ..EventContent::of_new(&stream, &new, codec, &data) }.hash();
                end.hash = chain::link(&end.hash, end.position, revision, &content);
                written.push(Arc::new(Recorded {
                    position: end.position,
                    stream: stream.clone(),
                    revision,
                    id: new.id,
                    kind: Arc::from(new.event.kind()),
                    version,
                    codec,
                    recorded_at: new.recorded_at,
                    meta: new.meta,
                    data: data.into(),
                    hash: Some(end.hash),
                    keys: self.keys.as_ref().filter(|_| codec == crate::codec::SEALED).cloned(),
                    decoded: OnceLock::from(new.event),
                }));
            }
            self.revisions.insert(stream, revision.0);
            answers.push((reply, Ok(Appended { revision, position: end.position })));
        }
        (answers, written)
    }

    /// Returns when the batch is durable. The batch is in the log once, even if it was sent several times. An error
    /// ends the writer.
    async fn write(&mut self, written: &[Arc<Recorded>]) -> Result<(), StoreError> {
        let batch = Uuid::new_v4();
        let until = Instant::now() + self.patience;
        loop {
            self.leads()?;
            let sent = match self.link().await {
                Ok(link) => self.send(&link, batch, written).await,
                Err(failure) => Err(failure),
            };
            let failure = match sent {
                Ok(count) if count == written.len() as u64 => return Ok(()),
                Ok(_) => return Err(fenced()),
                Err(failure) => failure,
            };
            tracing::warn!(
                %failure,
                "the database did not confirm an append to the log: checking whether the events were stored"
            );
            if self.is_there(batch, until).await? {
                return Ok(());
            }
            // The batch is not in the log and never will be. The writer stops asking a database that refuses for too
            // long.
            if Instant::now() >= until {
                return Err(failure);
            }
        }
    }

    /// Fails if the lease is lost, because another member may then append to the log.
    fn leads(&self) -> Result<(), StoreError> {
        if self.lost.borrow().is_some() { Err(fenced()) } else { Ok(()) }
    }

    /// Whether the batch is in the log. This cannot change later, because the lost statement has an outdated epoch.
    async fn is_there(&mut self, batch: Uuid, until: Instant) -> Result<bool, StoreError> {
        loop {
            self.pause().await;
            self.leads()?;
            let asked = match self.link().await {
                Ok(link) => {
                    let (own, newest) = (TakenFrom::Own, self.newest);
                    schema::take_epoch(&link.client, &self.cell, &self.holder, None, own, self.lease, newest).await
                }
                Err(failure) => Err(failure),
            };
            match asked {
                Ok(Some(held)) => {
                    self.epoch.store(held.epoch, Ordering::SeqCst);
                    return Ok(held.batch == batch.as_bytes());
                }
                Ok(None) => return Err(fenced()),
                Err(failure) if Instant::now() >= until => return Err(failure),
                Err(_) => {}
            }
        }
    }

    async fn send(&self, link: &DatabaseLink, batch: Uuid, written: &[Arc<Recorded>]) -> Result<u64, StoreError> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        append(link, &self.cell, epoch, self.head.position, batch, written).await
    }

    async fn link(&mut self) -> Result<Arc<DatabaseLink>, StoreError> {
        if let Some(link) = self.link.as_ref().filter(|link| !link.client.is_closed()) {
            return Ok(Arc::clone(link));
        }
        let link = DatabaseLink::open(&self.config).await?;
        self.link = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Drops the connection and waits a little.
    async fn pause(&mut self) {
        self.link = None;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Appends events after `after`; the events already have their positions and hashes. Returns the number of appended
/// events. It is zero if the head row has another epoch or position.
pub(super) async fn append(
    link: &DatabaseLink,
    cell: &str,
    epoch: i64,
    after: Position,
    batch: Uuid,
    written: &[Arc<Recorded>],
) -> Result<u64, StoreError> {
    let Some(last) = written.last() else { return Ok(0) };
    let metas: Result<Vec<String>, _> = written.iter().map(|event| serde_json::to_string(&*event.meta)).collect();
    let metas = metas.map_err(|error| StoreError::Io(error.to_string()))?;
    let sealed = written.iter().find_map(|event| event.keys.as_ref()).map(|keys| keys.ring().0.to_vec());
    let hash = last.hash.unwrap_or_default();
    let column = |bytes: fn(&Recorded) -> Vec<u8>| written.iter().map(|event| bytes(event)).collect::<Vec<_>>();
    let positions: Vec<i64> = written.iter().map(|event| signed(event.position.0)).collect();
    let revisions: Vec<i64> = written.iter().map(|event| signed(event.revision.0)).collect();
    let kinds: Vec<&str> = written.iter().map(|event| &*event.kind).collect();
    let versions: Vec<i32> = written.iter().map(|event| i32::from(event.version)).collect();
    let codecs: Vec<i32> = written.iter().map(|event| i32::from(event.codec)).collect();
    let times: Vec<i64> = written.iter().map(|event| event.recorded_at.0).collect();
    let datas: Vec<&[u8]> = written.iter().map(|event| &event.data[..]).collect();
    let statement = link.append(APPEND).await?;
    within(link.client.execute(
        statement,
        &[
            &cell,
            &epoch,
            &signed(after.0),
            &signed(last.position.0),
            &&hash.0[..],
            &&batch.as_bytes()[..],
            &sealed,
            &positions,
            &column(|event| event.stream.as_str().as_bytes().to_vec()),
            &revisions,
            &column(|event| event.id.0.as_bytes().to_vec()),
            &kinds,
            &versions,
            &codecs,
            &times,
            &metas,
            &datas,
            &column(|event| event.hash.unwrap_or_default().0.to_vec()),
        ],
    ))
    .await
}

fn refuse(jobs: Vec<PostgresAppend>, failure: &StoreError) {
    for job in jobs {
        // A caller that gave up needs no answer.
        let _ = job.reply.send(Err(failure.clone().into()));
    }
}

fn fenced() -> StoreError {
    StoreError::Io("another member leads this log now: this member has stopped appending".to_owned())
}
