//! The events of one group that are not settled yet: those that wait, and those that a consumer has.
//!
//! The queue has no I/O and no clock. Events that are outstanding bound the checkpoint, so no event is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Recorded;
use tokio::time::Instant;
use uuid::Uuid;

use super::records::GroupCheckpoint;

/// Where an event of the queue comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MessagePlace {
    /// A place in the group's source.
    Source(u64),
    /// A revision in the stream of parked events.
    Parked(u64),
}

/// An event that waits for a consumer.
#[derive(Debug, Clone)]
pub(super) struct QueuedEvent {
    pub(super) place: MessagePlace,
    /// The id by which consumers name the event: that of its link, if the source is a link stream.
    pub(super) id: Uuid,
    pub(super) event: Arc<Recorded>,
    /// The number of attempts before this one.
    pub(super) retries: u32,
}

/// An event that a consumer has.
#[derive(Debug)]
struct SentEvent {
    queued: QueuedEvent,
    consumer: u64,
    /// `None`: the consumer may take any time.
    deadline: Option<Instant>,
}

/// The unsettled events of a group.
#[derive(Debug)]
pub(super) struct GroupQueue {
    waiting: VecDeque<QueuedEvent>,
    sent: BTreeMap<Uuid, SentEvent>,
    /// The number of events that each consumer has.
    sent_to: BTreeMap<u64, usize>,
    outstanding: BTreeSet<MessagePlace>,
    /// The source is read up to this place.
    read: u64,
    /// The parked events are read up to this revision.
    replayed: u64,
    /// The number of events settled since the last checkpoint.
    settled: u64,
    max_retries: u32,
}

impl GroupQueue {
    pub(super) fn new(checkpoint: GroupCheckpoint, max_retries: u32) -> Self {
        Self {
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            sent_to: BTreeMap::new(),
            outstanding: BTreeSet::new(),
            read: checkpoint.settled,
            replayed: checkpoint.replayed,
            settled: 0,
            max_retries,
        }
    }

    /// The place up to which the source is read.
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// The revision up to which the parked events are read.
    pub(super) fn replayed(&self) -> u64 {
        self.replayed
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn sent(&self) -> usize {
        self.sent.len()
    }

    /// The number of events that this consumer has.
    pub(super) fn sent_to(&self, consumer: u64) -> usize {
        self.sent_to.get(&consumer).copied().unwrap_or_default()
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The number of events settled since the last checkpoint.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// Adds the next events of the source, which is now read up to `read`.
    pub(super) fn add(&mut self, events: impl IntoIterator<Item = (u64, Uuid, Arc<Recorded>)>, read: u64) {
        for (place, id, event) in events {
            let place = MessagePlace::Source(place);
            self.outstanding.insert(place);
            self.waiting.push_back(QueuedEvent { place, id, event, retries: 0 });
        }
        self.read = self.read.max(read);
    }

    /// Adds the next parked event, which goes before the others. An event that cannot be found is settled.
    pub(super) fn add_parked(&mut self, revision: u64, event: Option<(Uuid, Arc<Recorded>)>) {
        self.replayed = self.replayed.max(revision);
        let place = MessagePlace::Parked(revision);
        match event {
            Some((id, event)) => {
                self.outstanding.insert(place);
                self.waiting.push_front(QueuedEvent { place, id, event, retries: 0 });
            }
            None => self.settled += 1,
        }
    }

    /// The next event to send. The caller sends it with [`Self::send`] or gives it back with [`Self::give_back`].
    pub(super) fn take(&mut self) -> Option<QueuedEvent> {
        while let Some(next) = self.waiting.pop_front() {
            if !self.sent.contains_key(&next.id) {
                return Some(next);
            }
            // A kill between the record of a parked event and the checkpoint can park an event twice.
            self.settle(next.place);
        }
        None
    }

    pub(super) fn give_back(&mut self, queued: QueuedEvent) {
        self.waiting.push_front(queued);
    }

    /// Notes that the consumer has the event.
    pub(super) fn send(&mut self, queued: QueuedEvent, consumer: u64, now: Instant, timeout: Option<Duration>) {
        let deadline = timeout.map(|timeout| now + timeout);
        self.sent.insert(queued.id, SentEvent { queued, consumer, deadline });
        *self.sent_to.entry(consumer).or_default() += 1;
    }

    /// Takes an event from the consumer. `None` if the consumer does not have it any more.
    pub(super) fn take_from(&mut self, consumer: u64, id: Uuid) -> Option<QueuedEvent> {
        self.sent.get(&id).filter(|sent| sent.consumer == consumer)?;
        self.take_back(id)
    }

    fn take_back(&mut self, id: Uuid) -> Option<QueuedEvent> {
        let sent = self.sent.remove(&id)?;
        if let Some(count) = self.sent_to.get_mut(&sent.consumer) {
            *count -= 1;
            if *count == 0 {
                self.sent_to.remove(&sent.consumer);
            }
        }
        Some(sent.queued)
    }

    /// Settles an event: it is acknowledged, skipped or parked.
    pub(super) fn settle(&mut self, place: MessagePlace) {
        if self.outstanding.remove(&place) {
            self.settled += 1;
        }
    }

    /// Queues an event for another attempt. Returns an event that has had all its attempts.
    pub(super) fn again(&mut self, queued: QueuedEvent) -> Option<QueuedEvent> {
        if queued.retries >= self.max_retries {
            return Some(queued);
        }
        self.waiting.push_front(QueuedEvent { retries: queued.retries + 1, ..queued });
        None
    }

    /// Takes back the events of consumers that are gone, and those whose time is over. Returns the events that have had
    /// all their attempts.
    pub(super) fn expire(&mut self, now: Instant, is_there: impl Fn(u64) -> bool) -> Vec<QueuedEvent> {
        let over = |sent: &SentEvent| !is_there(sent.consumer) || sent.deadline.is_some_and(|deadline| deadline <= now);
        let ids: Vec<Uuid> = self.sent.iter().filter(|(_, sent)| over(sent)).map(|(id, _)| *id).collect();
        let mut back: Vec<QueuedEvent> = ids.into_iter().filter_map(|id| self.take_back(id)).collect();
        // Each goes to the front, so the first event is queued last.
        back.sort_by_key(|queued| std::cmp::Reverse(queued.place));
        back.into_iter().filter_map(|queued| self.again(queued)).collect()
    }

    /// The checkpoint now: everything before the first outstanding event is settled.
    pub(super) fn checkpoint(&self, last: GroupCheckpoint) -> GroupCheckpoint {
        let (mut settled, mut replayed) = (self.read, self.replayed);
        if let Some(MessagePlace::Source(first)) = self.outstanding.first() {
            settled = settled.min(first.saturating_sub(1));
        }
        let first_parked = self.outstanding.range(MessagePlace::Parked(0)..).next();
        if let Some(MessagePlace::Parked(first)) = first_parked {
            replayed = replayed.min(first.saturating_sub(1));
        }
        last.at(settled, replayed)
    }

    /// Notes that a checkpoint is recorded.
    pub(super) fn recorded(&mut self) {
        self.settled = 0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use chronova_events::envelope::{Position, Revision, StreamId};
    use chronova_events::store::conformance::event;
    use chronova_events::store::memory::MemoryStore;
    use chronova_events::store::{EventStore as _, Expected};

    use super::super::settings::{GroupRecord, PersistentGroupId, PersistentSettings};
    use super::super::wire::SettingsMessage;
    use super::*;

    fn first() -> GroupCheckpoint {
        let message = SettingsMessage { consumer_strategy: "RoundRobin".to_owned(), ..SettingsMessage::default() };
        GroupCheckpoint::first(&GroupRecord {
            id: PersistentGroupId::new("a".to_owned(), "b".to_owned()).unwrap(),
            key: Uuid::nil(),
            owner: "u".to_owned(),
            after: 3,
            parked_before: 7,
            filter: None,
            settings: PersistentSettings::of(Some(message)).unwrap(),
        })
    }

    #[tokio::test]
    async fn the_checkpoint_is_before_the_first_unsettled_event() {
        let store = MemoryStore::new();
        store.append(&StreamId::new("a", "b"), Expected::Exact(Revision::NONE), vec![event("x")]).await.unwrap();
        let recorded = store.read_all(Position::START, 1).await.unwrap().remove(0);
        let mut queue = GroupQueue::new(first(), 1);
        let place = |checkpoint: GroupCheckpoint| (checkpoint.settled, checkpoint.replayed);
        let now = Instant::now();
        assert_eq!(place(queue.checkpoint(first())), (3, 7));
        let events = [4_u64, 6, 9].map(|at| (at, Uuid::from_u128(at.into()), Arc::clone(&recorded)));
        queue.add(events, 12);
        assert_eq!(place(queue.checkpoint(first())), (3, 7), "nothing is settled");
        for _ in 0..3 {
            let next = queue.take().unwrap();
            queue.send(next, 1, now, None);
        }
        let settle = |queue: &mut GroupQueue, id| {
            let taken = queue.take_from(1, Uuid::from_u128(id)).unwrap();
            queue.settle(taken.place);
        };
        settle(&mut queue, 6);
        assert_eq!(place(queue.checkpoint(first())), (3, 7));
        settle(&mut queue, 4);
        assert_eq!(place(queue.checkpoint(first())), (8, 7));
        assert!(queue.take_from(2, Uuid::from_u128(9)).is_none(), "another consumer settles it");
        settle(&mut queue, 9);
        assert_eq!((place(queue.checkpoint(first())), queue.settled(), queue.sent_to(1)), ((12, 7), 3, 0));
        queue.add_parked(9, None);
        queue.add_parked(8, Some((Uuid::nil(), recorded)));
        assert_eq!(place(queue.checkpoint(first())), (12, 7));
        let parked = queue.take().unwrap();
        queue.send(parked, 1, now, Some(Duration::ZERO));
        assert!(queue.expire(now, |_| true).is_empty(), "the first attempt was the last");
        let again = queue.take().unwrap();
        queue.send(again, 1, now, None);
        let spent = queue.expire(now, |_| false).remove(0);
        queue.settle(spent.place);
        assert_eq!(place(queue.checkpoint(first())), (12, 9));
    }
}
