//! The lock of the leader on the file of keys, by which a follower learns that the leader's process has ended.
//!
//! Each holder of the lease has a byte of its own, far behind the end of the file. So the locked byte says which holder
//! has the lock. The leader locks its own byte. A follower that takes the lead locks the byte of the former leader
//! while it asks the database.
//!
//! The kernel releases the lock when the last thread of its holder has ended, also after SIGKILL. A stopped process
//! keeps the lock. On shared storage the lock must be known to all machines, as it is with NFS 4. A follower trusts a
//! free lock only after it has seen the lock taken ([`LockWatch`]). So a follower on storage without common locks never
//! believes that the leader has ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::task::AbortHandle;

/// The longest wait for the storage.
const PATIENCE: Duration = Duration::from_secs(1);

/// The file that has the locks.
#[derive(Debug)]
pub(super) struct LeaderLock {
    path: PathBuf,
    file: Mutex<Arc<File>>,
    /// Lets this process lock the byte of one former leader at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Lets this process ask one question at a time. Otherwise a file server that does not answer would take one thread
    /// for each question.
    question: Arc<tokio::sync::Mutex<()>>,
}

impl LeaderLock {
    /// Opens the file, which must exist.
    pub(super) fn open(path: &Path) -> io::Result<Arc<Self>> {
        let file = Mutex::new(Arc::new(open(path)?));
        Ok(Arc::new(Self { path: path.to_owned(), file, turn: Arc::default(), question: Arc::default() }))
    }

    /// Locks the byte of `holder`. Success proves that no other process has locked this byte. `None` if another process
    /// has locked it, if the storage does not answer in time, or if an earlier attempt of this process has not ended.
    pub(super) async fn take(self: &Arc<Self>, holder: &[u8]) -> Option<HeldLock> {
        let turn = Arc::clone(&self.turn).try_lock_owned().ok()?;
        let held = HeldLock { wanted: WantedLock::new(self, holder, Some(turn)), task: None };
        let wanted = Arc::clone(&held.wanted);
        let is_taken = in_time(move || wanted.take()).await?;
        is_taken.then_some(held)
    }

    /// Whether another process has locked the byte of `holder`. `None` if the storage does not say, or has not yet
    /// answered an earlier question.
    pub(super) async fn is_taken(self: &Arc<Self>, holder: &[u8]) -> Option<bool> {
        let question = Arc::clone(&self.question).try_lock_owned().ok()?;
        let (lock, byte) = (Arc::clone(self), byte_of(holder));
        in_time(move || {
            let mut found = range(libc::F_WRLCK, byte);
            let answered = fcntl(&*lock.file(), FcntlArg::F_OFD_GETLK(&mut found));
            drop(question);
            answered.map(|_| found.l_type != F_UNLCK)
        })
        .await
    }

    /// Locks the byte of `holder`, which is this leader, as soon as nobody else has locked it. Locks the byte again if
    /// the storage loses the lock. Without the lock, this leader still leads. But another member replaces it only when
    /// the lease ends.
    pub(super) fn hold(self: &Arc<Self>, holder: &[u8]) -> HeldLock {
        let wanted = WantedLock::new(self, holder, None);
        let kept = Arc::clone(&wanted);
        let task = tokio::spawn(async move {
            loop {
                let kept = Arc::clone(&kept);
                // A failure means a panic, which the panic hook has reported.
                let _ = tokio::task::spawn_blocking(move || kept.keep()).await;
                tokio::time::sleep(PATIENCE).await;
            }
        });
        HeldLock { wanted, task: Some(task.abort_handle()) }
    }

    fn file(&self) -> Arc<File> {
        Arc::clone(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn open_again(&self) {
        match open(&self.path) {
            Ok(file) => *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(file),
            Err(failure) => tracing::debug!(%failure, "cannot open the file of keys again"),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Asks the storage on a thread of its own, because a file server may not answer. `None` if it does not answer in time.
async fn in_time<T: Send + 'static>(ask: impl FnOnce() -> Result<T, Errno> + Send + 'static) -> Option<T> {
    match tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(ask)).await {
        Ok(Ok(Ok(answer))) => Some(answer),
        Ok(Ok(Err(failure))) => {
            tracing::debug!(%failure, "the storage does not lock the file of keys");
            None
        }
        Ok(Err(_)) | Err(_) => None,
    }
}

/// The place of the holder's byte in the file, computed from the holder's random id. No file is that long.
fn byte_of(holder: &[u8]) -> libc::off_t {
    let id = holder.iter().take(8).fold(0, |id: libc::off_t, byte| (id << 8) | libc::off_t::from(*byte));
    (1 << 62) | (id & ((1 << 61) - 1))
}

/// The kernel answers with this type of lock if nobody has the lock.
#[expect(clippy::cast_possible_truncation, reason = "the constants of locks are 0, 1 and 2")]
const F_UNLCK: libc::c_short = libc::F_UNLCK as libc::c_short;

/// A lock on one byte.
#[expect(clippy::cast_possible_truncation, reason = "the constants of locks are 0, 1 and 2")]
fn range(kind: libc::c_int, byte: libc::off_t) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}

/// A lock that this process wants. The threads that ask the storage for it share this value.
#[derive(Debug)]
struct WantedLock {
    lock: Arc<LeaderLock>,
    byte: libc::off_t,
    /// Whether the lock is still wanted. The storage may lock the byte after nobody waits for its answer any more.
    is_wanted: AtomicBool,
    /// Held until the last of these threads has ended. Otherwise a late release could undo the next attempt.
    _turn: Option<OwnedMutexGuard<()>>,
}

impl WantedLock {
    fn new(lock: &Arc<LeaderLock>, holder: &[u8], turn: Option<OwnedMutexGuard<()>>) -> Arc<Self> {
        let (lock, is_wanted) = (Arc::clone(lock), AtomicBool::new(true));
        Arc::new(Self { lock, byte: byte_of(holder), is_wanted, _turn: turn })
    }

    /// Locks the byte, which this process may have locked already. Returns whether this process has the lock now.
    fn take(&self) -> Result<bool, Errno> {
        let taken = match self.set(libc::F_WRLCK) {
            Ok(()) => true,
            Err(Errno::EAGAIN | Errno::EACCES) => false,
            Err(failure) => return Err(failure),
        };
        if taken && !self.is_wanted.load(Ordering::SeqCst) {
            self.release();
            return Ok(false);
        }
        Ok(taken)
    }

    /// Like [`WantedLock::take`]. After an error, opens the file again: if NFS has lost a lock of an open file, it may
    /// refuse every further lock through that open file.
    fn keep(&self) {
        if let Err(failure) = self.take() {
            tracing::debug!(%failure, "the storage does not lock the file of keys");
            self.lock.open_again();
        }
    }

    fn release(&self) {
        if let Err(failure) = self.set(libc::F_UNLCK) {
            tracing::warn!(%failure, "cannot release the lock of the leader");
        }
    }

    fn set(&self, kind: libc::c_int) -> Result<(), Errno> {
        fcntl(&*self.lock.file(), FcntlArg::F_OFD_SETLK(&range(kind, self.byte))).map(drop)
    }
}

/// A lock that this process has. Dropping this value releases the lock, on another thread.
#[derive(Debug)]
pub(super) struct HeldLock {
    wanted: Arc<WantedLock>,
    /// Locks the byte again and again.
    task: Option<AbortHandle>,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        // If a thread locks the byte after the release, this makes the thread release the byte again.
        self.wanted.is_wanted.store(false, Ordering::SeqCst);
        let wanted = Arc::clone(&self.wanted);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || wanted.release())),
            Err(_) => wanted.release(),
        }
    }
}

/// The process of the leader, by its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaderProcess {
    /// This member has not seen that the leader had the lock.
    Unknown,
    Runs,
    /// The leader had the lock, and nobody has it now.
    Ended,
}

/// The lock, as a follower has seen it.
#[derive(Debug, Default)]
pub(super) struct LockWatch(Mutex<WatchedLock>);

#[derive(Debug, Default)]
struct WatchedLock {
    /// The present leader.
    leader: Option<Vec<u8>>,
    /// The last leader that had its lock.
    locked_by: Option<Vec<u8>>,
    /// Whether the lock of the present leader was free at the last look.
    is_free: bool,
}

impl WatchedLock {
    fn process(&self) -> LeaderProcess {
        match self.leader.is_some() && self.leader == self.locked_by {
            true if self.is_free => LeaderProcess::Ended,
            true => LeaderProcess::Runs,
            false => LeaderProcess::Unknown,
        }
    }
}

impl LockWatch {
    /// Notes that `holder` is the present leader. Returns what is known of its process.
    pub(super) fn led_by(&self, holder: &[u8]) -> LeaderProcess {
        let mut watched = self.watched();
        if watched.leader.as_deref() != Some(holder) {
            watched.leader = Some(holder.to_vec());
            watched.is_free = false;
        }
        watched.process()
    }

    /// The present leader, whose lock is of interest.
    pub(super) fn leader(&self) -> Option<Vec<u8>> {
        self.watched().leader.clone()
    }

    /// Notes whether `holder` has its lock, if `holder` is still the present leader. `None`: the storage did not say.
    /// Returns what is known of the process of the present leader.
    pub(super) fn note(&self, holder: &[u8], is_taken: Option<bool>) -> LeaderProcess {
        let mut watched = self.watched();
        if watched.leader.as_deref() == Some(holder) {
            if is_taken == Some(true) {
                watched.locked_by = Some(holder.to_vec());
            }
            watched.is_free = is_taken == Some(false);
        }
        watched.process()
    }

    /// The present leader, if it had its lock and no longer has the lock.
    pub(super) fn ended(&self) -> Option<Vec<u8>> {
        let watched = self.watched();
        watched.leader.clone().filter(|_| watched.process() == LeaderProcess::Ended)
    }

    fn watched(&self) -> MutexGuard<'_, WatchedLock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Locks the byte of `holder` as soon as the other handle has released it.
    async fn taken(lock: &Arc<LeaderLock>, holder: &[u8]) -> HeldLock {
        loop {
            if let Some(held) = lock.take(holder).await {
                return held;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn sees(lock: &Arc<LeaderLock>, holder: &[u8], is_taken: bool) {
        while lock.is_taken(holder).await != Some(is_taken) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_handle_has_the_lock_of_a_holder_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "keys").unwrap();
        let (one, other) = (LeaderLock::open(&path).unwrap(), LeaderLock::open(&path).unwrap());
        assert_eq!(one.is_taken(b"a").await, Some(false));
        let held = one.hold(b"a");
        sees(&other, b"a", true).await;
        assert_eq!(one.is_taken(b"a").await, Some(false), "the own lock is no other's");
        assert_eq!(other.is_taken(b"b").await, Some(false), "each holder has a lock of its own");
        assert!(other.take(b"a").await.is_none());
        drop(taken(&other, b"b").await);
        drop(held);
        let asked = taken(&other, b"a").await;
        sees(&one, b"a", true).await;
        assert!(one.take(b"a").await.is_none());
        assert!(other.take(b"b").await.is_none(), "this handle already has the lock of a former leader");
        drop(asked);
        drop(taken(&one, b"a").await);
    }

    #[tokio::test]
    async fn a_question_that_is_not_answered_is_the_only_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "keys").unwrap();
        let lock = LeaderLock::open(&path).unwrap();
        let earlier = Arc::clone(&lock.question).try_lock_owned().unwrap();
        assert_eq!(lock.is_taken(b"a").await, None);
        drop(earlier);
        assert_eq!(lock.is_taken(b"a").await, Some(false));
    }

    #[tokio::test]
    async fn a_lock_that_nobody_wants_any_more_is_released_after_a_late_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "keys").unwrap();
        let (one, other) = (LeaderLock::open(&path).unwrap(), LeaderLock::open(&path).unwrap());
        let late = WantedLock::new(&one, b"a", None);
        assert_eq!(late.take(), Ok(true));
        assert_eq!(other.is_taken(b"a").await, Some(true));
        late.is_wanted.store(false, Ordering::SeqCst);
        assert_eq!(late.take(), Ok(false));
        assert_eq!(other.is_taken(b"a").await, Some(false));
    }

    #[test]
    fn holders_have_different_bytes_behind_the_end_of_the_file() {
        let (one, other) = (byte_of(&[0xff; 16]), byte_of(&[0xfe; 16]));
        assert!(one != other && one >= 1 << 62);
        assert_eq!(byte_of(b""), 1 << 62);
    }

    #[test]
    fn a_free_lock_says_something_only_about_the_leader_that_had_it() {
        let watch = LockWatch::default();
        assert_eq!((watch.leader(), watch.ended()), (None, None));
        assert_eq!(watch.led_by(b"a"), LeaderProcess::Unknown);
        assert_eq!(watch.note(b"a", Some(false)), LeaderProcess::Unknown, "nobody saw that `a` had the lock");
        assert_eq!(watch.ended(), None);
        assert_eq!(watch.note(b"a", Some(true)), LeaderProcess::Runs);
        assert_eq!(watch.note(b"a", None), LeaderProcess::Runs, "the storage did not answer");
        assert_eq!(watch.ended(), None);
        assert_eq!(watch.note(b"a", Some(false)), LeaderProcess::Ended);
        assert_eq!((watch.led_by(b"a"), watch.ended()), (LeaderProcess::Ended, Some(b"a".to_vec())));
        assert_eq!(watch.led_by(b"b"), LeaderProcess::Unknown);
        assert_eq!(watch.note(b"a", Some(false)), LeaderProcess::Unknown, "the answer about `a` came too late");
        assert_eq!(watch.note(b"b", Some(false)), LeaderProcess::Unknown);
        assert_eq!((watch.leader(), watch.ended()), (Some(b"b".to_vec()), None));
    }
}
