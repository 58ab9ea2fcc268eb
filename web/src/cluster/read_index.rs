//! Asks the leader for the acknowledged position of the log. All reads that begin while one question is under way share
//! the next question.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Position;
use tokio::sync::{mpsc, oneshot};

/// Asks the leader for the acknowledged position. `None` when no leader confirms a position within the source's time
/// limit.
pub type HeadSource = Arc<dyn Fn() -> futures::future::BoxFuture<'static, Option<Position>> + Send + Sync>;

/// The maximum number of waiting reads.
const WAITING: usize = 65_536;
/// A read that has no answer within this time gets `None`.
const PATIENCE: Duration = Duration::from_secs(10);

/// One question at a time, for all reads that wait.
#[derive(Debug, Clone)]
pub struct ReadIndex {
    waiting: mpsc::Sender<oneshot::Sender<Option<Position>>>,
}

impl ReadIndex {
    /// Needs a running tokio runtime. The task that asks ends when the last copy of the index is dropped.
    pub fn new(source: HeadSource) -> Self {
        let (waiting, mut asked) = mpsc::channel::<oneshot::Sender<Option<Position>>>(WAITING);
        tokio::spawn(async move {
            while let Some(first) = asked.recv().await {
                // All reads that wait now began before the next question, so the answer to that question is valid for
                // them.
                let mut readers = vec![first];
                while let Ok(more) = asked.try_recv() {
                    readers.push(more);
                }
                let head = source().await;
                for reader in readers {
                    // A read that gave up needs no answer.
                    let _ = reader.send(head);
                }
            }
        });
        Self { waiting }
    }

    /// Returns a position that includes everything that was acknowledged before this call.
    pub async fn ask(&self) -> Option<Position> {
        let (reader, answer) = oneshot::channel();
        self.waiting.try_send(reader).ok()?;
        tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()?
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn reads_share_a_question_that_began_after_them() {
        let (questions, may_answer) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
        let (asked, gate) = (Arc::clone(&questions), Arc::clone(&may_answer));
        let index = ReadIndex::new(Arc::new(move || {
            let (nth, gate) = (asked.fetch_add(1, Ordering::SeqCst) + 1, Arc::clone(&gate));
            Box::pin(async move {
                gate.acquire().await.unwrap().forget();
                Some(Position(nth))
            })
        }));
        let ask = || {
            tokio::spawn({
                let index = index.clone();
                async move { index.ask().await }
            })
        };
        let first = ask();
        while questions.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let later: Vec<_> = (0..50).map(|_| ask()).collect();
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        may_answer.add_permits(2);
        assert_eq!(first.await.unwrap(), Some(Position(1)));
        for one in later {
            assert_eq!(one.await.unwrap(), Some(Position(2)), "the question began before the read");
        }
        assert_eq!(questions.load(Ordering::SeqCst), 2);
    }
}
