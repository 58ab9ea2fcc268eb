//! Makes committed transactions durable and then answers. This is the second half of the writer, on a thread of its
//! own.
//!
//! A commit only hands pages to the kernel. One `fdatasync` of the write-ahead log then makes all earlier commits
//! durable, while the writer already works on the next transaction. Nothing is published or acknowledged before the
//! sync, and readers in this process see only published events.
//!
//! After a failed sync the content of the disk is unknown, and the kernel reports this only once. So all unconfirmed
//! appends and all later ones are refused until the log is reopened. The same holds after a program removed or replaced
//! the files ([`super::watch`]).

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::watch::LogWatch;
use super::witness::{Witness, WitnessNote};
use crate::envelope::Recorded;
use crate::store::tail::Tail;
use crate::store::{AppendError, Appended, StoreError};

/// The largest time that one sync adds to the average, so that a single stall of the disk does not lengthen the
/// collection time.
const LONGEST: Duration = Duration::from_millis(2);

/// An answer that waits for the sync.
pub(super) enum PendingReply {
    Append(oneshot::Sender<Result<Appended, AppendError>>, Result<Appended, AppendError>),
    Done(oneshot::Sender<Result<(), StoreError>>),
}

impl PendingReply {
    /// Gives the answer to its caller. A caller that has stopped waiting needs none.
    pub(super) fn give(self) {
        match self {
            Self::Append(reply, answer) => drop(reply.send(answer)),
            Self::Done(reply) => drop(reply.send(Ok(()))),
        }
    }

    pub(super) fn fail(self, failure: &StoreError) {
        match self {
            // Encoding errors and oversized events were refused earlier. A conflict may be with an event that was not
            // written in the end, so the caller gets the failure instead of the conflict.
            Self::Append(reply, _) => drop(reply.send(Err(failure.clone().into()))),
            Self::Done(reply) => drop(reply.send(Err(failure.clone()))),
        }
    }
}

/// One committed transaction.
#[derive(Default)]
pub(super) struct CommittedBatch {
    pub(super) answers: Vec<PendingReply>,
    pub(super) written: Vec<Arc<Recorded>>,
}

/// The state of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskActivity {
    /// No request waits for the disk.
    Idle,
    /// A sync is running, and will answer this many requests. One more transaction can wait behind it.
    Busy(usize),
    /// A sync is running, and a transaction waits behind it.
    Full(usize),
}

#[derive(Default)]
struct SyncState {
    /// A committed transaction that the next sync will cover.
    waiting: Option<CommittedBatch>,
    /// The number of answers that the running sync will give.
    syncing: Option<usize>,
    closed: bool,
    failed: Option<StoreError>,
}

struct SyncShared {
    state: Mutex<SyncState>,
    /// Tells the syncing thread that there is work, and the writer that there is space.
    changed: Condvar,
    /// Wakes a writer that waits for requests and for space at the same time.
    room: Notify,
    noted: Mutex<(Witness, WitnessNote)>,
    wal: File,
    watch: Arc<LogWatch>,
    /// The average time of recent syncs, in nanoseconds.
    usual: AtomicU64,
    tail: Arc<Tail>,
}

/// The writer's handle.
pub(super) struct Syncer {
    shared: Arc<SyncShared>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// `wal` is the write-ahead log of the file that `note` describes. `watch` watches that log's files.
    pub(super) fn start(
        wal: &Path,
        watch: &Arc<LogWatch>,
        (witness, note): (Witness, WitnessNote),
        tail: &Arc<Tail>,
    ) -> Result<Self, StoreError> {
        let io = |error: std::io::Error| StoreError::Io(format!("{}: {error}", wal.display()));
        let shared = Arc::new(SyncShared {
            state: Mutex::default(),
            changed: Condvar::new(),
            room: Notify::new(),
            noted: Mutex::new((witness, note)),
            wal: File::open(wal).map_err(io)?,
            watch: Arc::clone(watch),
            usual: AtomicU64::new(0),
            tail: Arc::clone(tail),
        });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("log-sync".to_owned()).spawn(move || worker.run()).map_err(io)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(super) fn disk(&self) -> DiskActivity {
        let state = self.shared.state();
        match (&state.waiting, state.syncing) {
            (Some(batch), syncing) => DiskActivity::Full(batch.answers.len() + syncing.unwrap_or(0)),
            (None, Some(syncing)) => DiskActivity::Busy(syncing),
            (None, None) => DiskActivity::Idle,
        }
    }

    /// Why no more transactions become durable.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.shared.state().failed.clone()
    }

    /// The average time of a sync.
    pub(super) fn usual(&self) -> Duration {
        Duration::from_nanos(self.shared.usual.load(Ordering::Relaxed))
    }

    /// Returns when the disk has become less busy since the last call.
    pub(super) async fn room(&self) {
        self.shared.room.notified().await;
    }

    /// Takes a committed transaction. Waits while another one is waiting.
    pub(super) fn take(&self, batch: CommittedBatch) {
        let mut state = self.shared.state();
        while state.waiting.is_some() && state.failed.is_none() {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(failure) = state.failed.clone() {
            drop(state);
            batch.answers.into_iter().for_each(|answer| answer.fail(&failure));
            return;
        }
        state.waiting = Some(batch);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Makes the transaction durable on this thread, which saves the time to wake the syncing thread. Call this only if
    /// the disk is idle and no request waits.
    pub(super) fn take_here(&self, batch: CommittedBatch) {
        self.shared.finish(batch);
    }

    /// Notes the size of the data file after a complete checkpoint.
    pub(super) fn note_file(&self, size: u64) {
        let mut noted = self.shared.noted();
        let (witness, note) = &mut *noted;
        note.file = size;
        witness.write(*note);
    }

    /// Waits until all accepted transactions are durable and answered, or have failed.
    pub(super) fn close(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A failure means a panic, which the panic hook has reported.
            let _ = thread.join();
        }
    }
}

/// Waits like [`Syncer::close`].
impl Drop for Syncer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Tells the writer that the thread has ended by a panic and not on request.
struct SyncThreadGuard<'a>(&'a SyncShared);

impl Drop for SyncThreadGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if !state.closed {
            state.failed.get_or_insert(StoreError::Closed);
        }
        drop(state);
        self.0.changed.notify_all();
        self.0.room.notify_one();
    }
}

impl SyncShared {
    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted(&self) -> MutexGuard<'_, (Witness, WitnessNote)> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let _ended = SyncThreadGuard(self);
        while let Some(batch) = self.next() {
            self.finish(batch);
        }
    }

    /// The next transaction to make durable; `None` when no more follow.
    fn next(&self) -> Option<CommittedBatch> {
        let mut state = self.state();
        if state.syncing.take().is_some() {
            self.room.notify_one();
        }
        loop {
            if let Some(batch) = state.waiting.take() {
                state.syncing = Some(batch.answers.len());
                drop(state);
                self.changed.notify_all();
                self.room.notify_one();
                return Some(batch);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Syncs, and then answers the callers of the transaction.
    fn finish(&self, batch: CommittedBatch) {
        let before = self.state().failed.clone();
        let synced = before.map_or_else(|| self.sync().map_err(|error| self.fail(&error)), Err);
        let failure = synced.and_then(|()| self.check_files()).err();
        if let Some(failure) = failure {
            batch.answers.into_iter().for_each(|answer| answer.fail(&failure));
            return;
        }
        if let Some(last) = batch.written.last() {
            let mut noted = self.noted();
            let (witness, note) = &mut *noted;
            note.head = last.position;
            witness.write(*note);
            drop(noted);
            self.tail.publish(batch.written);
        }
        batch.answers.into_iter().for_each(PendingReply::give);
    }

    fn sync(&self) -> std::io::Result<()> {
        let begun = Instant::now();
        self.wal.sync_data()?;
        let (took, usual) = (begun.elapsed().min(LONGEST), self.usual.load(Ordering::Relaxed));
        // The effect of a single slow sync soon decays.
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.usual.store(usual - usual / 4 + took / 4, Ordering::Relaxed);
        Ok(())
    }

    /// Checks the files after the sync. Events that are durable now are in the log, whatever happens to its files
    /// later.
    fn check_files(&self) -> Result<(), StoreError> {
        self.watch.check().inspect_err(|failure| self.state().failed = Some(failure.clone()))
    }

    fn fail(&self, error: &std::io::Error) -> StoreError {
        tracing::error!(%error, "the log cannot be made durable: nothing is written until the server is restarted");
        let failure = StoreError::Io(format!("the write-ahead log cannot be synced: {error}"));
        self.watch.fail(&failure);
        self.state().failed = Some(failure.clone());
        failure
    }
}
