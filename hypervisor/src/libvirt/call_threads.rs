//! The threads that run the libvirt calls of one host.
//!
//! libvirt calls block, and a hung libvirtd blocks them for ever. So each host has a few threads of its own, and a hung
//! host does not block the other hosts. A caller waits only until its deadline. If a caller leaves before a thread
//! takes its call, the call is never made. A session lasts as long as one connection to the host. Threads that hang in
//! an earlier session are no longer part of the limit, so each session begins with the full number of threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::driver::{DriverError, DriverResult};

/// The number of calls that may wait. If more would wait, the host is reported as unreachable.
const QUEUE_LIMIT: usize = 1024;
/// A thread without work ends after this time, so that an idle fleet costs no threads.
const IDLE: Duration = Duration::from_secs(30);

type LaneJob = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<LaneJob>,
    workers: usize,
    idle: usize,
    closed: bool,
    /// The address of the current session's connection.
    session: usize,
    /// The number of sessions so far. A thread of an earlier session ends after its present job.
    sessions: u64,
}

struct CallThreadsState {
    host: String,
    limit: usize,
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl CallThreadsState {
    /// Jobs run outside the lock, so a poisoned queue is still consistent.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bounded pool of blocking threads. Dropping the pool lets running calls end and drops the waiting calls.
pub(super) struct CallThreads {
    shared: Arc<CallThreadsState>,
}

impl CallThreads {
    pub(super) fn new(host: &str, limit: usize) -> Self {
        let shared = CallThreadsState {
            host: host.to_owned(),
            limit: limit.max(1),
            queue: Mutex::default(),
            wake: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Assigns later jobs to this session. Threads of an earlier session end after their present job, and are no longer
    /// part of the limit.
    ///
    /// A disconnected host blocks threads for minutes, until the kernel gives up the connections that they open. The
    /// host needs its full number of threads as soon as it is back.
    pub(super) fn serve(&self, session: usize) {
        let mut queue = self.shared.lock();
        if queue.session != session {
            queue.session = session;
            queue.sessions += 1;
            (queue.workers, queue.idle) = (0, 0);
            self.shared.wake.notify_all();
        }
    }

    /// Runs `work` on a thread of this host, and waits for its result until `deadline`.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        call: &'static str,
        deadline: Duration,
        work: impl FnOnce() -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<T> {
        let host = self.shared.host.as_str();
        let span = tracing::info_span!(target: "spans", "hypervisor", call, host, error = tracing::field::Empty);
        let result = self.start(call, work)?;
        let answer = match tokio::time::timeout(deadline, result).instrument(span.clone()).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(DriverError::Failed { call, message: "the caller has given up".to_owned() }),
            Err(_) => Err(DriverError::Timeout { call, seconds: deadline.as_secs() }),
        };
        answer.inspect_err(|error| {
            span.record("error", tracing::field::display(error));
        })
    }

    /// Queues `work`; the receiver yields its result.
    pub(super) fn start<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce() -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<oneshot::Receiver<DriverResult<T>>> {
        let (reply, result) = oneshot::channel();
        self.push(Box::new(move || {
            if !reply.is_closed() {
                let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
                    Err(DriverError::Failed { call, message: "the driver panicked; see the log".to_owned() })
                });
                let _ = reply.send(outcome);
            }
        }))?;
        Ok(result)
    }

    fn push(&self, job: LaneJob) -> DriverResult<()> {
        let mut queue = self.shared.lock();
        if queue.jobs.len() >= QUEUE_LIMIT {
            return Err(DriverError::Unreachable(format!(
                "{QUEUE_LIMIT} calls are waiting for {} already",
                self.shared.host
            )));
        }
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() || queue.workers >= self.shared.limit {
            self.shared.wake.notify_one();
            return Ok(());
        }
        let (shared, session) = (Arc::clone(&self.shared), queue.sessions);
        match thread::Builder::new().name("libvirt-call".to_owned()).spawn(move || work(&shared, session)) {
            Ok(_) => queue.workers += 1,
            Err(error) if queue.workers == 0 => {
                queue.jobs.pop_back();
                return Err(DriverError::Unreachable(format!("cannot start a thread for libvirt calls: {error}")));
            }
            Err(_) => self.shared.wake.notify_one(),
        }
        Ok(())
    }
}

impl Drop for CallThreads {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.jobs.clear();
        self.shared.wake.notify_all();
    }
}

fn work(shared: &CallThreadsState, session: u64) {
    let mut queue = shared.lock();
    loop {
        if queue.sessions != session {
            return;
        }
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            job();
            queue = shared.lock();
            continue;
        }
        if queue.closed {
            break;
        }
        queue.idle += 1;
        let (back, waited) = shared.wake.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
        queue = back;
        if queue.sessions != session {
            return;
        }
        queue.idle -= 1;
        if waited.timed_out() && queue.jobs.is_empty() {
            break;
        }
    }
    queue.workers -= 1;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn a_hung_host_does_not_block_another() {
        let (hung, other) = (CallThreads::new("a", 2), CallThreads::new("b", 2));
        let (release, gate) = mpsc::sync_channel::<()>(0);
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..2 {
            let gate = Arc::clone(&gate);
            let outcome = hung
                .run("hang", Duration::from_millis(20), move || {
                    let _ = gate.lock().unwrap().recv();
                    Ok(())
                })
                .await;
            assert!(matches!(outcome, Err(DriverError::Timeout { call: "hang", .. })));
        }
        assert_eq!(other.run("ok", LONG, || Ok(7)).await.unwrap(), 7);
        let late = hung.run("late", Duration::from_millis(20), || Ok(())).await;
        assert!(matches!(late, Err(DriverError::Timeout { .. })));
        drop(release);
        assert_eq!(hung.run("again", LONG, || Ok(8)).await.unwrap(), 8);
    }

    #[tokio::test]
    async fn threads_hanging_on_a_lost_session_do_not_block_the_next() {
        let threads = CallThreads::new("a", 2);
        threads.serve(1);
        let (release, gate) = mpsc::sync_channel::<()>(0);
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..2 {
            let gate = Arc::clone(&gate);
            let hung = threads.run("hang", Duration::from_millis(20), move || {
                let _ = gate.lock().unwrap().recv();
                Ok(())
            });
            assert!(hung.await.is_err());
        }
        threads.serve(2);
        assert_eq!(threads.run("ok", LONG, || Ok(7)).await.unwrap(), 7);
        drop(release);
        // An old thread that ends does not change the number of new threads.
        for n in 0..100 {
            assert_eq!(threads.run("ok", LONG, move || Ok(n)).await.unwrap(), n);
        }
        let queue = threads.shared.lock();
        assert!(queue.workers <= 2 && queue.idle <= queue.workers);
    }

    #[tokio::test]
    async fn a_queued_call_of_a_caller_that_left_is_not_made() {
        let threads = CallThreads::new("a", 1);
        let (release, gate) = mpsc::sync_channel::<()>(0);
        let first = threads.start("first", move || {
            let _ = gate.recv();
            Ok(())
        });
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let gone = threads.run("gone", Duration::from_millis(10), move || {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        assert!(gone.await.is_err());
        drop(release);
        first.unwrap().await.unwrap().unwrap();
        threads.run("fence", LONG, || Ok(())).await.unwrap();
        assert_eq!(made.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_panic_fails_only_one_call() {
        let threads = CallThreads::new("a", 1);
        let bad: DriverResult<()> = threads.run("bad", LONG, || panic!("on purpose")).await;
        assert!(matches!(bad, Err(DriverError::Failed { .. })));
        assert_eq!(threads.run("good", LONG, || Ok(1)).await.unwrap(), 1);
    }
}
