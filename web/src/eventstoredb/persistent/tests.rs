//! Persistent subscriptions on a log in memory, below the sockets.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::StreamId;
use chronova_events::store::Expected;
use chronova_events::store::conformance::event;
use futures::StreamExt as _;
use futures::stream;
use tokio::sync::mpsc;
use tonic::{Code, Status};

use super::super::access::LogRight;
use super::super::served::ServedLog;
use super::super::tests::{log, two_categories, user};
use super::super::wire::{Empty, FilterExpression, FilterOptions, FilterSubject, StreamIdentifier, Uuid as WireUuid};
use super::group::GroupStanding;
use super::groups::PersistentGroups;
use super::reading::{GroupResponses, consume};
use super::settings::{ALL, FilterRecord, PersistentGroupId, PersistentSettings, SubscriberStrategy};
use super::wire::{
    Acknowledged, GroupAnswer, GroupEvent, GroupReadContent, GroupReadOptions, GroupReadReq, MessageTimeout, PARK,
    ReadSource, Rejected, RetryCount, SKIP, STOP, SettingsMessage,
};

/// An action of [`Rejected`] that sends the event again.
const RETRY: i32 = 2;

fn settings() -> PersistentSettings {
    PersistentSettings {
        resolve_links: true,
        extra_statistics: false,
        max_retry_count: 1,
        min_checkpoint_count: 1,
        max_checkpoint_count: 1,
        max_subscriber_count: 2,
        live_buffer_size: 500,
        read_batch_size: 20,
        history_buffer_size: 500,
        message_timeout: 0,
        checkpoint_after: 1_000,
        strategy: SubscriberStrategy::RoundRobin,
    }
}

fn id(source: &str) -> PersistentGroupId {
    PersistentGroupId::new(source.to_owned(), "billing".to_owned()).unwrap()
}

async fn created(groups: &PersistentGroups, source: &str, after: u64) -> PersistentGroupId {
    groups.create(&user(LogRight::Write), id(source), after, None, settings()).await.unwrap();
    id(source)
}

/// A client's call.
struct TestConsumer {
    answers: GroupResponses,
    requests: mpsc::Sender<GroupReadReq>,
}

async fn begin(groups: &PersistentGroups, right: LogRight, source: &str) -> Result<TestConsumer, Status> {
    let source = match source {
        ALL => ReadSource::All(Empty {}),
        name => ReadSource::Stream(StreamIdentifier { stream_name: name.to_owned().into() }),
    };
    let (group_name, buffer_size) = ("billing".to_owned(), 10);
    let options = GroupReadOptions { source: Some(source), group_name, buffer_size, uuid_option: None };
    let (requests, sent) = mpsc::channel(64);
    let sent = stream::unfold(sent, |mut sent| async move { sent.recv().await.map(|request| (request, sent)) });
    let answers = consume(groups, &user(right), options, sent.boxed()).await?;
    Ok(TestConsumer { answers, requests })
}

/// Begins a consumer's call and receives the confirmation.
async fn join(groups: &PersistentGroups, source: &str) -> TestConsumer {
    let mut consumer = begin(groups, LogRight::Write, source).await.unwrap();
    let answer = consumer.answers.next().await.unwrap().unwrap().content.unwrap();
    match answer {
        GroupAnswer::Confirmation(found) => assert_eq!(found.subscription_id, format!("{source}::billing")),
        other @ GroupAnswer::Event(_) => panic!("{other:?}"),
    }
    consumer
}

impl TestConsumer {
    async fn event(&mut self) -> GroupEvent {
        match self.answers.next().await.unwrap().unwrap().content.unwrap() {
            GroupAnswer::Event(event) => event,
            other @ GroupAnswer::Confirmation(_) => panic!("{other:?}"),
        }
    }

    /// The positions of the next events.
    async fn positions(&mut self, count: usize) -> Vec<u64> {
        let mut positions = Vec::new();
        for _ in 0..count {
            positions.push(position(&self.event().await));
        }
        positions
    }

    fn ack(&self, events: &[&GroupEvent]) {
        let ids = events.iter().map(|event| ack_id(event)).collect();
        self.requests.try_send(GroupReadReq { content: Some(GroupReadContent::Ack(Acknowledged { ids })) }).unwrap();
    }

    fn nack(&self, event: &GroupEvent, action: i32) {
        let nack = Rejected { ids: vec![ack_id(event)], action, reason: "a test".to_owned() };
        self.requests.try_send(GroupReadReq { content: Some(GroupReadContent::Nack(nack)) }).unwrap();
    }
}

/// The id that clients send: that of the link, if there is one.
fn ack_id(event: &GroupEvent) -> WireUuid {
    event.link.as_ref().or(event.event.as_ref()).unwrap().id.clone().unwrap()
}

fn position(event: &GroupEvent) -> u64 {
    event.event.as_ref().unwrap().commit_position
}

/// Waits until the group is in this state.
async fn until(groups: &PersistentGroups, id: &PersistentGroupId, is: impl Fn(&GroupStanding) -> bool) {
    loop {
        if is(&groups.describe(id).await.unwrap().1) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn append(log: &ServedLog, category: &str, key: &str) -> u64 {
    log.store.append(&StreamId::new(category, key), Expected::Any, vec![event("x")]).await.unwrap().position.0
}

#[tokio::test]
async fn a_group_goes_on_before_its_first_unsettled_event_after_a_kill() {
    let (log, _ends) = two_categories(3).await;
    let groups = PersistentGroups::new(Arc::clone(&log));
    let group = created(&groups, "$ce-orders", 0).await;
    let mut consumer = join(&groups, "$ce-orders").await;
    let (first, second, third) = (consumer.event().await, consumer.event().await, consumer.event().await);
    assert_eq!([&first, &second, &third].map(position), [4, 8, 12]);
    assert_eq!(first.link.as_ref().unwrap().stream_revision, 4);
    consumer.ack(&[&first, &third]);
    until(&groups, &group, |standing| standing.outstanding == 1 && standing.checkpoint.settled == 7).await;
    drop((consumer, groups));

    let groups = PersistentGroups::new(Arc::clone(&log));
    let mut consumer = join(&groups, "$ce-orders").await;
    assert_eq!(consumer.positions(2).await, [8, 12], "the unsettled event and those after it are sent again");
    let new = append(&log, "orders", "new").await;
    assert_eq!(consumer.positions(1).await, [new]);
}

#[tokio::test]
async fn an_event_is_parked_after_its_attempts_and_replayed() {
    let (log, _ends) = two_categories(2).await;
    let groups = PersistentGroups::new(Arc::clone(&log));
    let group = created(&groups, "process-a", 0).await;
    let mut consumer = join(&groups, "process-a").await;
    let first = consumer.event().await;
    assert_eq!((position(&first), first.retries.clone()), (1, Some(RetryCount::None(Empty {}))));
    let second = consumer.event().await;
    assert_eq!(position(&second), 5);
    consumer.nack(&first, RETRY);
    let again = consumer.event().await;
    assert_eq!((position(&again), again.retries.clone()), (1, Some(RetryCount::Count(1))));
    consumer.nack(&again, RETRY);
    consumer.nack(&second, PARK);
    until(&groups, &group, |standing| standing.parked == 2 && standing.checkpoint.settled == 2).await;
    drop((consumer, groups));

    // The parked events outlive the process, and are not sent by themselves.
    let groups = PersistentGroups::new(Arc::clone(&log));
    let mut consumer = join(&groups, "process-a").await;
    until(&groups, &group, |standing| standing.parked == 2 && standing.outstanding == 0).await;
    groups.replay(&user(LogRight::Write), &group, None).await.unwrap();
    let (first, second) = (consumer.event().await, consumer.event().await);
    assert_eq!([&first, &second].map(position), [1, 5]);
    consumer.ack(&[&first]);
    consumer.nack(&second, SKIP);
    until(&groups, &group, |standing| standing.parked == 0 && standing.outstanding == 0).await;
    drop((consumer, groups));

    let groups = PersistentGroups::new(log);
    until(&groups, &group, |standing| standing.parked == 0 && standing.checkpoint.settled == 2).await;
}

#[tokio::test]
async fn consumers_compete_and_get_the_events_of_one_that_leaves() {
    let (log, _ends) = log(3);
    let groups = PersistentGroups::new(Arc::clone(&log));
    created(&groups, "$ce-orders", 0).await;
    let (mut one, mut other) = (join(&groups, "$ce-orders").await, join(&groups, "$ce-orders").await);
    let Err(refused) = begin(&groups, LogRight::Write, "$ce-orders").await else { panic!("a third consumer") };
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().starts_with("Maximum subscriptions reached"), "{refused}");
    let mut all = Vec::new();
    for n in 0..6 {
        all.push(append(&log, "orders", &n.to_string()).await);
    }
    let (mine, theirs) = (one.positions(3).await, other.positions(3).await);
    let mut both = [mine.clone(), theirs].concat();
    both.sort_unstable();
    assert_eq!(both, all);
    drop(one);
    let mut again = other.positions(3).await;
    again.sort_unstable();
    assert_eq!(again, mine);
}

#[tokio::test]
async fn a_consumer_that_stops_or_is_too_slow_loses_its_events_to_others() {
    let (log, _ends) = two_categories(1).await;
    let groups = PersistentGroups::new(Arc::clone(&log));
    let group = created(&groups, "orders-0", 0).await;
    let mut consumer = join(&groups, "orders-0").await;
    let event = consumer.event().await;
    consumer.nack(&event, STOP);
    assert!(consumer.answers.next().await.is_none(), "the call goes on");
    let slow = PersistentSettings { message_timeout: 1, ..settings() };
    groups.update(&user(LogRight::Write), &group, 0, slow).await.unwrap();
    let mut consumer = join(&groups, "orders-0").await;
    assert_eq!(consumer.positions(2).await, [4, 4]);
    until(&groups, &group, |standing| standing.parked == 1).await;
}

#[tokio::test]
async fn a_group_on_the_log_gets_no_records_of_groups_and_only_what_its_filter_matches() {
    let (log, _ends) = two_categories(1).await;
    let groups = PersistentGroups::new(Arc::clone(&log));
    let group = created(&groups, ALL, 1).await;
    let mut consumer = join(&groups, ALL).await;
    let events = [consumer.event().await, consumer.event().await, consumer.event().await];
    assert_eq!([&events[0], &events[1], &events[2]].map(position), [2, 3, 4]);
    consumer.ack(&[&events[0], &events[1], &events[2]]);
    until(&groups, &group, |standing| standing.checkpoint.settled >= 4).await;
    let new = append(&log, "process", "new").await;
    assert!(new > 5, "no checkpoint was recorded");
    assert_eq!(consumer.positions(1).await, [new]);
    groups.delete(&user(LogRight::Write), &group).await.unwrap();
    let ended = consumer.answers.next().await.unwrap().unwrap_err();
    assert_eq!(ended.code(), Code::NotFound);

    let prefix = vec!["orders-".to_owned()];
    let subject = Some(FilterSubject::Stream(FilterExpression { regex: String::new(), prefix }));
    let filter = FilterOptions { subject, window: None, checkpoint_interval_multiplier: 1 };
    let filter = Some(FilterRecord::of(filter).unwrap());
    groups.create(&user(LogRight::Write), group, 0, filter, settings()).await.unwrap();
    let mut consumer = join(&groups, ALL).await;
    assert_eq!(consumer.positions(1).await, [4], "the new group begins at the checkpoint of the deleted one");
    let new = append(&log, "orders", "new").await;
    assert_eq!(consumer.positions(1).await, [new]);
}

#[tokio::test]
async fn groups_have_owners_and_bounds() {
    let (log, _ends) = log(1);
    let groups = PersistentGroups::new(log);
    let (reader, writer) = (user(LogRight::Read), user(LogRight::Write));
    let create = async |user, number: u32| {
        let id = PersistentGroupId::new("orders-1".to_owned(), number.to_string()).unwrap();
        groups.create(user, id, 0, None, settings()).await.map_err(|refused| refused.code())
    };
    assert_eq!(create(&reader, 0).await, Err(Code::PermissionDenied));
    for number in 0..32 {
        assert_eq!(create(&writer, number).await, Ok(()));
    }
    assert_eq!(create(&writer, 0).await, Err(Code::AlreadyExists));
    assert_eq!(create(&writer, 32).await, Err(Code::ResourceExhausted));
    assert_eq!(groups.list(Some("orders-1")).await.unwrap().len(), 32);
    assert_eq!(groups.list(Some("orders-2")).await.unwrap().len(), 0);
    let id = PersistentGroupId::new("orders-1".to_owned(), "0".to_owned()).unwrap();
    assert_eq!(groups.delete(&reader, &id).await.unwrap_err().code(), Code::PermissionDenied);
    groups.delete(&user(LogRight::Peer), &id).await.unwrap();
    assert_eq!(groups.delete(&writer, &id).await.unwrap_err().code(), Code::NotFound);
    let Err(refused) = begin(&groups, LogRight::Read, "orders-1").await else { panic!("a reader consumes") };
    assert_eq!(refused.code(), Code::PermissionDenied);
    let Err(refused) = begin(&groups, LogRight::Write, "orders-1").await else { panic!("a missing group") };
    assert_eq!(refused.code(), Code::NotFound);
}

#[test]
fn settings_that_are_not_supported_are_refused() {
    let message = SettingsMessage { consumer_strategy: "RoundRobin".to_owned(), ..SettingsMessage::default() };
    let settings = PersistentSettings::of(Some(message.clone())).unwrap();
    assert_eq!((settings.message_timeout, settings.checkpoint_after), (30_000, 2_000));
    let refused = |message| PersistentSettings::of(Some(message)).unwrap_err().code();
    let pinned = SettingsMessage { consumer_strategy: "Pinned".to_owned(), ..message.clone() };
    assert_eq!(refused(pinned), Code::Unimplemented);
    let negative = SettingsMessage { max_retry_count: -1, ..message.clone() };
    assert_eq!(refused(negative), Code::InvalidArgument);
    let swapped = SettingsMessage { min_checkpoint_count: 2, max_checkpoint_count: 1, ..message.clone() };
    assert_eq!(refused(swapped), Code::InvalidArgument);
    let ticks = SettingsMessage { message_timeout: Some(MessageTimeout::Ticks(20_000)), ..message };
    assert_eq!(PersistentSettings::of(Some(ticks)).unwrap().message_timeout, 2);
}
