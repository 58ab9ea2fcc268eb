//! One group at work: a task that reads the source, sends events to the consumers and records the checkpoints.
//!
//! The task begins with the newest checkpoint. Events are read only while there are consumers and few events wait.
//! After a crash, the task sends all events again that come after the checkpoint. So consumers get each event at least
//! once.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Recorded, Revision};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tonic::Status;
use uuid::Uuid;

use super::super::served::ServedLog;
use super::super::status;
use super::queue::{GroupQueue, QueuedEvent};
use super::records::{self, GroupCheckpoint};
use super::settings::{GroupRecord, SubscriberStrategy};
use super::source::{GroupSource, SourcePage, SourceReader};

/// How often the task looks for consumers that are gone, for events whose time is over, and for a due checkpoint.
const TICK: Duration = Duration::from_millis(200);
/// A checkpoint is due when the settled part has grown by this many places, even if few of them have an event.
const SKIPPED: u64 = 10_000;
/// The number of parked events that are read at once.
const REPLAYED: usize = 64;
/// The most bytes of a consumer's reason to park an event.
const MAX_REASON: usize = 1_024;

/// An event for a consumer.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) event: Arc<Recorded>,
    /// The number of attempts before this one.
    pub(super) retries: u32,
}

/// How a consumer settles an event.
#[derive(Debug, Clone)]
pub(super) enum Settling {
    Done,
    Retry,
    /// With the reason.
    Park(String),
    /// The consumer stops, and its events go to others.
    Stop,
}

/// A message to the task of a group.
pub(super) enum GroupMessage {
    /// A consumer that takes at most `size` events at the same time. The answer is its number.
    Join {
        user: String,
        size: usize,
        events: mpsc::Sender<Result<Delivery, Status>>,
        answer: oneshot::Sender<Result<u64, Status>>,
    },
    Settle {
        consumer: u64,
        ids: Vec<Uuid>,
        how: Settling,
    },
    /// Sends parked events again, at most `limit`.
    Replay {
        limit: Option<u64>,
        answer: oneshot::Sender<()>,
    },
    Describe(oneshot::Sender<GroupStanding>),
    /// Ends the task, after a last checkpoint. Consumers get the status.
    End {
        status: Status,
        answer: oneshot::Sender<()>,
    },
}

/// A consumer in the description of a group.
#[derive(Debug, Clone)]
pub(super) struct ConsumerStanding {
    pub(super) user: String,
    pub(super) delivered: u64,
    pub(super) size: usize,
    pub(super) sent: usize,
}

/// The description of a group at work.
#[derive(Debug, Clone)]
pub(super) struct GroupStanding {
    pub(super) checkpoint: GroupCheckpoint,
    /// The place up to which the source is read.
    pub(super) read: u64,
    pub(super) waiting: usize,
    pub(super) sent: usize,
    pub(super) outstanding: usize,
    pub(super) parked: u64,
    pub(super) consumers: Vec<ConsumerStanding>,
}

struct GroupConsumer {
    number: u64,
    user: String,
    size: usize,
    delivered: u64,
    events: mpsc::Sender<Result<Delivery, Status>>,
}

/// The task of a group.
pub(super) struct GroupRunner {
    log: Arc<ServedLog>,
    record: GroupRecord,
    queue: GroupQueue,
    consumers: Vec<GroupConsumer>,
    /// The number of the next consumer.
    next: u64,
    /// The turn of the consumers.
    turn: usize,
    messages: mpsc::Receiver<GroupMessage>,
    /// The newest recorded checkpoint.
    recorded: GroupCheckpoint,
    recorded_at: Instant,
    /// The revision of the last parked event.
    parked: u64,
    /// Parked events up to this revision are to be sent again.
    replay: u64,
    /// The pages of the source; `None` while nobody reads it.
    pages: Option<mpsc::Receiver<Result<SourcePage, Status>>>,
    reader: JoinSet<()>,
}

impl GroupRunner {
    /// Reads the state of the group from the log.
    pub(super) async fn new(
        log: Arc<ServedLog>,
        record: GroupRecord,
        messages: mpsc::Receiver<GroupMessage>,
    ) -> Result<Self, Status> {
        let recorded = records::checkpoint(&log, &record).await?;
        let parked = log.last_revision(&records::parked(&record.id)).await?.0;
        let queue = GroupQueue::new(recorded, record.settings.max_retry_count);
        Ok(Self {
            log,
            record,
            queue,
            consumers: Vec::new(),
            next: 1,
            turn: 0,
            messages,
            recorded,
            recorded_at: Instant::now(),
            parked,
            replay: 0,
            pages: None,
            reader: JoinSet::new(),
        })
    }

    /// Works until the group or the server ends.
    pub(super) async fn run(mut self) {
        let mut ending = self.log.ending();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.replay_parked().await;
            self.dispatch();
            if self.is_checkpoint_due() {
                self.save_checkpoint().await;
            }
            self.open_source();
            let is_busy = !self.consumers.is_empty() || self.queue.settled() > 0;
            let is_wanted = self.queue.waiting() < self.record.settings.buffer();
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => if self.take(message).await.is_break() {
                        return;
                    },
                    None => break,
                },
                page = next_page(&mut self.pages), if is_wanted => self.take_page(page),
                _ = ticks.tick(), if is_busy => self.tick().await,
                () = ending.wait() => {
                    self.dismiss(&status::ending());
                    break;
                }
            }
        }
        self.save_checkpoint().await;
    }

    async fn take(&mut self, message: GroupMessage) -> ControlFlow<()> {
        match message {
            GroupMessage::Join { user, size, events, answer } => {
                let joined = self.join(user, size, events);
                // The client may be gone already.
                let _ = answer.send(joined);
            }
            GroupMessage::Settle { consumer, ids, how } => self.settle(consumer, &ids, &how).await,
            GroupMessage::Replay { limit, answer } => {
                let from = self.queue.replayed().max(self.replay);
                self.replay = limit.map_or(self.parked, |limit| self.parked.min(from.saturating_add(limit)));
                let _ = answer.send(());
            }
            GroupMessage::Describe(answer) => {
                let _ = answer.send(self.standing());
            }
            GroupMessage::End { status, answer } => {
                self.dismiss(&status);
                self.save_checkpoint().await;
                let _ = answer.send(());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn join(
        &mut self,
        user: String,
        size: usize,
        events: mpsc::Sender<Result<Delivery, Status>>,
    ) -> Result<u64, Status> {
        self.consumers.retain(|consumer| !consumer.events.is_closed());
        let most = self.record.settings.consumers();
        if self.consumers.len() >= most {
            // Clients recognize the refusal by the beginning of this text.
            return Err(Status::failed_precondition(format!(
                "Maximum subscriptions reached: this group may have {most} consumers"
            )));
        }
        let number = self.next;
        self.next += 1;
        self.consumers.push(GroupConsumer { number, user, size, delivered: 0, events });
        Ok(number)
    }

    /// Ends the calls of all consumers. Their events wait again.
    fn dismiss(&mut self, status: &Status) {
        for consumer in self.consumers.drain(..) {
            // A channel that is full ends, too, but without the status.
            let _ = consumer.events.try_send(Err(status.clone()));
        }
    }

    // ------------------------------------------------------------------------------------------------------- the source

    /// Begins to read the source, once there are consumers.
    fn open_source(&mut self) {
        if self.pages.is_some() || self.consumers.is_empty() {
            return;
        }
        let source = match GroupSource::of(&self.record) {
            Ok(source) => source,
            Err(status) => return self.dismiss(&status),
        };
        let (sender, pages) = mpsc::channel(1);
        let (log, mut reader) = (Arc::clone(&self.log), SourceReader::new(source, self.queue.read()));
        self.reader = JoinSet::new();
        self.reader.spawn(async move {
            loop {
                let page = reader.next(&log).await;
                let is_failed = page.is_err();
                if sender.send(page).await.is_err() || is_failed {
                    return;
                }
            }
        });
        self.pages = Some(pages);
    }

    fn take_page(&mut self, page: Option<Result<SourcePage, Status>>) {
        match page {
            Some(Ok(page)) => self.queue.add(page.events, page.read),
            Some(Err(status)) => {
                self.pages = None;
                self.dismiss(&status);
            }
            None => self.pages = None,
        }
    }

    // ------------------------------------------------------------------------------------------------------ the consumers

    /// Sends the waiting events to the consumers that have room.
    fn dispatch(&mut self) {
        let timeout = self.record.settings.timeout();
        while let Some(queued) = self.queue.take() {
            let Some(at) = self.consumer_with_room() else {
                self.queue.give_back(queued);
                return;
            };
            let Some(consumer) = self.consumers.get_mut(at) else { return self.queue.give_back(queued) };
            let delivery = Delivery { event: Arc::clone(&queued.event), retries: queued.retries };
            if consumer.events.try_send(Ok(delivery)).is_err() {
                // The consumer is gone, or does not read. The next tick takes its events back.
                self.queue.give_back(queued);
                return;
            }
            consumer.delivered += 1;
            self.queue.send(queued, consumer.number, Instant::now(), timeout);
            if self.record.settings.strategy == SubscriberStrategy::RoundRobin {
                self.turn = at + 1;
            }
        }
    }

    /// The index of the next consumer that can take an event.
    fn consumer_with_room(&self) -> Option<usize> {
        let count = self.consumers.len();
        let has_room = |at: &usize| {
            self.consumers.get(*at).is_some_and(|consumer| {
                consumer.events.capacity() > 1
                    && !consumer.events.is_closed()
                    && self.queue.sent_to(consumer.number) < consumer.size
            })
        };
        (0..count).map(|step| (self.turn + step) % count).find(has_room)
    }

    async fn settle(&mut self, consumer: u64, ids: &[Uuid], how: &Settling) {
        if matches!(how, Settling::Stop) {
            self.consumers.retain(|other| other.number != consumer);
            return self.tick().await;
        }
        for id in ids {
            let Some(queued) = self.queue.take_from(consumer, *id) else { continue };
            match how {
                Settling::Done => self.queue.settle(queued.place),
                Settling::Park(reason) => self.park(queued, reason).await,
                Settling::Retry | Settling::Stop => {
                    if let Some(spent) = self.queue.again(queued) {
                        self.park(spent, "the event had all its attempts").await;
                    }
                }
            }
        }
    }

    /// Takes back the events of consumers that are gone or too slow.
    async fn tick(&mut self) {
        self.consumers.retain(|consumer| !consumer.events.is_closed());
        let there: Vec<u64> = self.consumers.iter().map(|consumer| consumer.number).collect();
        for spent in self.queue.expire(Instant::now(), |number| there.contains(&number)) {
            self.park(spent, "the event had all its attempts").await;
        }
    }

    // --------------------------------------------------------------------------------------------------- parked events

    async fn park(&mut self, queued: QueuedEvent, reason: &str) {
        let end = reason.floor_char_boundary(MAX_REASON);
        let reason = reason.get(..end).unwrap_or_default();
        match records::park(&self.log, &self.record, &queued.event, reason).await {
            Ok(revision) => {
                self.parked = self.parked.max(revision.0);
                self.queue.settle(queued.place);
            }
            Err(error) => {
                tracing::warn!(group = self.record.id.shown(), %error, "parking an event failed; it is sent again");
                self.queue.give_back(queued);
            }
        }
    }

    /// Reads parked events that are to be sent again, while few events wait.
    async fn replay_parked(&mut self) {
        let read = self.queue.replayed();
        if read >= self.replay || self.queue.waiting() >= self.record.settings.buffer() {
            return;
        }
        let limit = usize::try_from(self.replay - read).unwrap_or(REPLAYED).min(REPLAYED);
        let found = records::parked_after(&self.log, &self.record, Revision(read), limit).await;
        match (found, GroupSource::of(&self.record)) {
            (Ok(found), Ok(source)) => {
                if found.is_empty() {
                    self.replay = read;
                }
                // Each goes to the front, so the first is added last.
                for (revision, event) in found.into_iter().rev() {
                    self.queue.add_parked(revision.0, event.map(|event| (source.id(&event), event)));
                }
            }
            (Err(error), _) | (_, Err(error)) => {
                tracing::warn!(group = self.record.id.shown(), %error, "reading parked events failed");
                self.replay = read;
            }
        }
    }

    // ------------------------------------------------------------------------------------------------------- checkpoints

    fn is_checkpoint_due(&self) -> bool {
        let (settings, settled) = (&self.record.settings, self.queue.settled());
        let passed = self.queue.checkpoint(self.recorded).settled.saturating_sub(self.recorded.settled);
        settled >= u64::from(settings.max_checkpoint_count.max(1))
            || settled >= u64::from(settings.min_checkpoint_count.max(1))
                && self.recorded_at.elapsed() >= settings.checkpoint_after()
            || settled > 0 && self.consumers.is_empty()
            || passed >= SKIPPED
    }

    /// Records the settled part, if it is larger than the recorded one.
    async fn save_checkpoint(&mut self) {
        let checkpoint = self.queue.checkpoint(self.recorded);
        self.recorded_at = Instant::now();
        if checkpoint == self.recorded {
            return self.queue.recorded();
        }
        match records::save_checkpoint(&self.log, &self.record, checkpoint).await {
            Ok(()) => {
                self.recorded = checkpoint;
                self.queue.recorded();
            }
            Err(error) => {
                tracing::warn!(group = self.record.id.shown(), %error, "a checkpoint was not recorded; retrying later");
            }
        }
    }

    fn standing(&self) -> GroupStanding {
        let consumers = self.consumers.iter().map(|consumer| ConsumerStanding {
            user: consumer.user.clone(),
            delivered: consumer.delivered,
            size: consumer.size,
            sent: self.queue.sent_to(consumer.number),
        });
        GroupStanding {
            checkpoint: self.recorded,
            read: self.queue.read(),
            waiting: self.queue.waiting(),
            sent: self.queue.sent(),
            outstanding: self.queue.outstanding(),
            parked: self.parked.saturating_sub(self.queue.checkpoint(self.recorded).replayed),
            consumers: consumers.collect(),
        }
    }
}

/// The next page of the source. Waits for ever while nobody reads the source.
async fn next_page(
    pages: &mut Option<mpsc::Receiver<Result<SourcePage, Status>>>,
) -> Option<Result<SourcePage, Status>> {
    match pages {
        Some(pages) => pages.recv().await,
        None => std::future::pending().await,
    }
}
