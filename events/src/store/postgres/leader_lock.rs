//! The lock of the leader on the file of keys, by which a follower learns that the leader's process has ended.
//!
//! The kernel releases the lock when the last thread of its holder has ended, also after SIGKILL. A stopped process
//! keeps the lock. On shared storage the lock must be known to all machines, as it is with NFS 4. A follower trusts a
//! free lock only after it has seen the lock taken ([`LockWatch`]). So a follower on storage without common locks never
//! believes that the leader has ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tokio::task::AbortHandle;

/// The longest wait for the storage.
const PATIENCE: Duration = Duration::from_secs(1);

/// The lock. Dropping this value releases it.
#[derive(Debug)]
pub(super) struct LeaderLock {
    path: PathBuf,
    file: Mutex<Arc<File>>,
}

impl LeaderLock {
    /// Opens the file, which must exist.
    pub(super) fn open(path: &Path) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { path: path.to_owned(), file: Mutex::new(Arc::new(open(path)?)) }))
    }

    /// Takes the lock. Returns whether this process has it now.
    pub(super) async fn take(self: &Arc<Self>) -> bool {
        self.attempt(Self::set).await.unwrap_or(false)
    }

    /// Takes the lock, which this process may already have. Returns whether it has the lock now.
    fn set(&self) -> Result<bool, Errno> {
        match fcntl(&*self.file(), FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK))) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Takes the lock, or takes it again. After an error it opens the file again, because NFS may refuse every further
    /// lock through an open file that has lost one.
    fn keep(&self) {
        let Err(failure) = self.set() else { return };
        tracing::debug!(%failure, "the storage does not lock the file of keys");
        match open(&self.path) {
            Ok(file) => *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(file),
            Err(failure) => tracing::debug!(%failure, "cannot open the file of keys again"),
        }
    }

    fn file(&self) -> Arc<File> {
        Arc::clone(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether another process has the lock; `None` if the storage does not say.
    pub(super) async fn is_taken(self: &Arc<Self>) -> Option<bool> {
        self.attempt(|lock| {
            let mut found = range(libc::F_WRLCK);
            fcntl(&*lock.file(), FcntlArg::F_OFD_GETLK(&mut found))?;
            Ok(found.l_type != F_UNLCK)
        })
        .await
    }

    pub(super) fn release(&self) {
        if let Err(failure) = fcntl(&*self.file(), FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK))) {
            tracing::warn!(%failure, "cannot release the lock of the leader");
        }
    }

    /// Takes the lock as soon as nobody else has it, and takes it again if the storage loses it. Without the lock, this
    /// leader still leads, but it is replaced only when its lease ends.
    pub(super) fn hold(self: &Arc<Self>) -> HeldLock {
        let lock = Arc::clone(self);
        let task = tokio::spawn(async move {
            loop {
                let lock = Arc::clone(&lock);
                // A failure means a panic, which the panic hook has reported.
                let _ = tokio::task::spawn_blocking(move || lock.keep()).await;
                tokio::time::sleep(PATIENCE).await;
            }
        });
        HeldLock { lock: Arc::clone(self), task: task.abort_handle() }
    }

    /// Asks the storage on a thread of its own, because a file server may not answer.
    async fn attempt<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&Self) -> Result<T, Errno> + Send + 'static,
    ) -> Option<T> {
        let lock = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || ask(&lock));
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(Ok(answer))) => Some(answer),
            Ok(Ok(Err(failure))) => {
                tracing::debug!(%failure, "the storage does not lock the file of keys");
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// The type of a lock in the answer that nobody has it.
#[expect(clippy::cast_possible_truncation, reason = "the constants of locks are 0, 1 and 2")]
const F_UNLCK: libc::c_short = libc::F_UNLCK as libc::c_short;

/// A lock on the whole file.
#[expect(clippy::cast_possible_truncation, reason = "the constants of locks are 0, 1 and 2")]
fn range(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// The lock of a leader. Dropping this value releases the lock.
#[derive(Debug)]
pub(super) struct HeldLock {
    lock: Arc<LeaderLock>,
    task: AbortHandle,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.task.abort();
        self.lock.release();
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
    /// The leader that led while the lock was taken.
    locked_by: Option<Vec<u8>>,
    /// Whether the lock was free at the last look.
    is_free: bool,
}

impl LockWatch {
    /// Notes whether the lock was taken while `holder` led. `None`: the storage did not say.
    pub(super) fn note(&self, holder: &[u8], is_taken: Option<bool>) -> LeaderProcess {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_taken == Some(true) {
            watched.locked_by = Some(holder.to_vec());
        }
        watched.is_free = is_taken == Some(false);
        match watched.locked_by.as_deref() == Some(holder) {
            true if watched.is_free => LeaderProcess::Ended,
            true => LeaderProcess::Runs,
            false => LeaderProcess::Unknown,
        }
    }

    /// The leader that had the lock before the lock became free.
    pub(super) fn ended(&self) -> Option<Vec<u8>> {
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.locked_by.clone().filter(|_| watched.is_free)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn one_handle_has_the_lock_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "keys").unwrap();
        let (one, other) = (LeaderLock::open(&path).unwrap(), LeaderLock::open(&path).unwrap());
        assert_eq!(one.is_taken().await, Some(false));
        let held = one.hold();
        while other.is_taken().await != Some(true) {
            tokio::task::yield_now().await;
        }
        assert_eq!(one.is_taken().await, Some(false), "the own lock is no other's");
        assert!(!other.take().await);
        drop(held);
        assert!(other.take().await);
        assert!(!one.take().await);
        drop(other);
        assert!(one.take().await);
    }

    #[test]
    fn a_free_lock_says_something_only_about_the_leader_that_had_it() {
        let watch = LockWatch::default();
        assert_eq!(watch.note(b"a", Some(false)), LeaderProcess::Unknown, "nobody saw that `a` had the lock");
        assert_eq!(watch.ended(), None);
        assert_eq!(watch.note(b"a", Some(true)), LeaderProcess::Runs);
        assert_eq!(watch.note(b"a", None), LeaderProcess::Runs, "the storage did not answer");
        assert_eq!(watch.ended(), None);
        assert_eq!(watch.note(b"a", Some(false)), LeaderProcess::Ended);
        assert_eq!(watch.note(b"b", Some(false)), LeaderProcess::Unknown);
        assert_eq!(watch.ended(), Some(b"a".to_vec()), "the database decides whether `a` still leads");
    }
}
