//! Reads, subscriptions and appends against a log in memory, below the sockets.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use chronova_events::clock::SystemClock;
use chronova_events::envelope::{Revision, StreamId};
use chronova_events::store::Expected;
use chronova_events::store::conformance::event;
use chronova_events::store::eventstoredb::form::EventStoreDbEvent;
use chronova_events::store::memory::MemoryStore;
use futures::StreamExt as _;
use tokio::sync::{Semaphore, watch};
use tonic::Code;

use super::access::{LogRight, LogUser, LogUsers};
use super::append::{AppendRefusal, append};
use super::read::read;
use super::served::ServedLog;
use super::show;
use super::wire::{
    AllOption, AllOptions, BACKWARDS, Empty, ExpectedRevision, FilterExpression, FilterOptions, FilterSubject,
    FilterWindow, Position, ProposedMessage, ReadContent, ReadCount, ReadFilter, ReadFrom, ReadOptions, RevisionOption,
    StreamIdentifier, StreamOptions,
};
use super::{LogServerError, LogServerOptions, serve};

fn users() -> LogUsers {
    LogUsers::parse(&["r:read:password-r".into(), "w:write:password-w".into(), "p:peer:password-p".into()]).unwrap()
}

pub(super) fn user(right: LogRight) -> LogUser {
    let password = match right {
        LogRight::Read => "password-r",
        LogRight::Write => "password-w",
        LogRight::Peer => "password-p",
    };
    users().admit(&format!("Bearer {password}")).unwrap().clone()
}

pub(super) fn log(subscriptions: usize) -> (Arc<ServedLog>, watch::Sender<bool>) {
    let (ends, ended) = watch::channel(false);
    let log = ServedLog {
        store: MemoryStore::new(),
        clock: Arc::new(SystemClock),
        users: users(),
        max_append_bytes: 1 << 20,
        subscriptions: Arc::new(Semaphore::new(subscriptions)),
        ends: ended,
    };
    (Arc::new(log), ends)
}

/// A log of `count` events in `process-a`, with an event of another stream after each of them.
async fn filled(count: u64) -> (Arc<ServedLog>, watch::Sender<bool>) {
    let (log, ends) = log(2);
    for n in 0..count {
        for stream in ["a", "b"] {
            let stream = StreamId::new("process", stream);
            log.store.append(&stream, Expected::Any, vec![event(n.to_string())]).await.unwrap();
        }
    }
    (log, ends)
}

fn of_stream(name: &str, revision: RevisionOption) -> ReadFrom {
    let stream_identifier = Some(StreamIdentifier { stream_name: name.to_owned().into() });
    ReadFrom::Stream(StreamOptions { stream_identifier, revision: Some(revision) })
}

fn of_all(position: AllOption) -> ReadFrom {
    ReadFrom::All(AllOptions { position: Some(position) })
}

fn at(position: u64) -> AllOption {
    AllOption::Position(Position { commit_position: position, prepare_position: position })
}

fn options(from: ReadFrom, backwards: bool, count: ReadCount) -> ReadOptions {
    ReadOptions {
        from: Some(from),
        read_direction: if backwards { BACKWARDS } else { 0 },
        count: Some(count),
        ..ReadOptions::default()
    }
}

/// The revisions (of a stream) or positions (of the log) that a read returns; `None` for a missing stream.
async fn places(log: &Arc<ServedLog>, options: ReadOptions) -> Option<Vec<u64>> {
    let whole = matches!(options.from, Some(ReadFrom::All(_)));
    let mut answers = read(Arc::clone(log), &user(LogRight::Read), Some(options)).await.unwrap();
    let mut places = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer.unwrap().content.unwrap() {
            ReadContent::Event(event) => {
                let event = event.event.unwrap();
                places.push(if whole { event.commit_position } else { event.stream_revision });
            }
            ReadContent::StreamNotFound(_) => return None,
            other => panic!("{other:?} in a read"),
        }
    }
    Some(places)
}

#[tokio::test]
async fn reads_of_a_stream_return_the_requested_events() {
    for events in [0_u64, 1, 2, 7, 300] {
        let (log, _ends) = filled(events).await;
        assert_eq!(log.last_revision(&StreamId::new("process", "a")).await.unwrap(), Revision(events));
        for count in [0, 1, 3, 299, u64::MAX] {
            let limit = usize::try_from(count).unwrap();
            for start in [0, 1, 5, events.saturating_sub(1), events, 1_000, u64::MAX] {
                let read = async |revision, backwards| {
                    places(&log, options(of_stream("process-a", revision), backwards, ReadCount::Count(count))).await
                };
                let wanted = |all: Vec<u64>| (events > 0).then(|| all.into_iter().take(limit).collect::<Vec<_>>());
                let forwards = read(RevisionOption::Revision(start), false).await;
                assert_eq!(forwards, wanted((0..events).filter(|n| *n >= start).collect()), "{events} from {start}");
                let backwards = read(RevisionOption::Revision(start), true).await;
                assert_eq!(
                    backwards,
                    wanted((0..events).rev().filter(|n| *n <= start).collect()),
                    "{events} to {start}"
                );
                assert_eq!(read(RevisionOption::End(Empty {}), true).await, wanted((0..events).rev().collect()));
                assert_eq!(read(RevisionOption::Start(Empty {}), false).await, wanted((0..events).collect()));
            }
        }
    }
}

#[tokio::test]
async fn reads_of_the_log_return_the_requested_events() {
    for events in [0_u64, 1, 3, 300] {
        let (log, _ends) = filled(events).await;
        let last = 2 * events;
        for count in [0, 1, 5, 599, u64::MAX] {
            let take = usize::try_from(count).unwrap();
            for start in [0, 1, 2, last, last + 1, 5_000, u64::MAX] {
                let read = async |place, backwards| {
                    places(&log, options(of_all(place), backwards, ReadCount::Count(count))).await.unwrap()
                };
                let forwards: Vec<_> = (1..=last).filter(|n| *n >= start).take(take).collect();
                assert_eq!(read(at(start), false).await, forwards, "{last} from {start}");
                let backwards: Vec<_> = (1..=last).rev().filter(|n| *n < start).take(take).collect();
                assert_eq!(read(at(start), true).await, backwards, "{last} to {start}");
            }
            let all: Vec<_> = (1..=last).rev().take(take).collect();
            assert_eq!(
                places(&log, options(of_all(AllOption::End(Empty {})), true, ReadCount::Count(count))).await,
                Some(all)
            );
        }
    }
}

/// The revisions of the links in a read, with the streams of their events; `None` for a missing stream.
async fn links(log: &Arc<ServedLog>, name: &str, from: RevisionOption, backwards: bool, count: u64) -> Links {
    let options = options(of_stream(name, from), backwards, ReadCount::Count(count));
    let options = ReadOptions { resolve_links: true, ..options };
    let mut answers = read(Arc::clone(log), &user(LogRight::Read), Some(options)).await.unwrap();
    let mut links = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer.unwrap().content.unwrap() {
            ReadContent::Event(event) => {
                let (link, event) = (event.link.unwrap(), event.event.unwrap());
                assert_eq!((link.commit_position, &link.metadata["type"]), (event.commit_position, &"$>".to_owned()));
                let stream = event.stream_identifier.unwrap().stream_name;
                let stream = String::from_utf8(stream.to_vec()).unwrap();
                assert_eq!(link.data, format!("{}@{stream}", event.stream_revision));
                links.push((link.stream_revision, stream));
            }
            ReadContent::StreamNotFound(_) => return None,
            other => panic!("{other:?} in a read"),
        }
    }
    Some(links)
}

type Links = Option<Vec<(u64, String)>>;

/// A log with an event of another category after each third event: positions 4, 8, 12, ...
pub(super) async fn two_categories(count: u64) -> (Arc<ServedLog>, watch::Sender<bool>) {
    let (log, ends) = log(2);
    for n in 0..count {
        for stream in [StreamId::new("process", "a"), StreamId::new("process", "b"), StreamId::new("process2", "a")] {
            log.store.append(&stream, Expected::Any, vec![event(n.to_string())]).await.unwrap();
        }
        log.store.append(&StreamId::new("orders", n), Expected::Any, vec![event("x")]).await.unwrap();
    }
    (log, ends)
}

#[tokio::test]
async fn a_category_is_read_as_links_in_both_directions() {
    let (log, _ends) = two_categories(300).await;
    let all: Vec<_> = (0..300_u64).map(|n| (4 * (n + 1), format!("orders-{n}"))).collect();
    let read = async |from, backwards, count| links(&log, "$ce-orders", from, backwards, count).await.unwrap();
    assert_eq!(read(RevisionOption::Start(Empty {}), false, u64::MAX).await, all);
    assert_eq!(read(RevisionOption::End(Empty {}), false, 9).await, []);
    let reversed: Vec<_> = all.iter().rev().cloned().collect();
    assert_eq!(read(RevisionOption::End(Empty {}), true, u64::MAX).await, reversed);
    assert_eq!(read(RevisionOption::Start(Empty {}), true, 9).await, all[..1]);
    // A forward read from a revision between two links begins at the next link. A backward read begins at the link
    // before.
    for (revision, index) in [(8, 1), (7, 1), (5, 1)] {
        assert_eq!(read(RevisionOption::Revision(revision), false, 2).await, all[index..index + 2], "from {revision}");
    }
    for (revision, last) in [(8, 1), (11, 1), (12, 2)] {
        let wanted: Vec<_> = all[..=last].iter().rev().cloned().collect();
        assert_eq!(read(RevisionOption::Revision(revision), true, 9).await, wanted, "to {revision}");
    }
    for missing in ["$ce-nothing", "$ce-process-a", "$ce-", "$ce-orders*", "$et-Nothing"] {
        assert_eq!(links(&log, missing, RevisionOption::Start(Empty {}), false, 9).await, None, "{missing}");
    }
    let types = links(&log, "$et-process.step_undone", RevisionOption::End(Empty {}), true, 2).await.unwrap();
    assert_eq!(types.iter().map(|(revision, _)| *revision).collect::<Vec<_>>(), [1200, 1199]);
}

#[tokio::test]
async fn a_category_without_resolved_links_is_the_links_alone() {
    let (log, _ends) = two_categories(1).await;
    let options = options(of_stream("$ce-orders", RevisionOption::Start(Empty {})), false, ReadCount::Count(u64::MAX));
    let mut answers = read(Arc::clone(&log), &user(LogRight::Read), Some(options)).await.unwrap();
    let Some(ReadContent::Event(read)) = answers.next().await.unwrap().unwrap().content else { panic!() };
    let link = read.event.unwrap();
    assert_eq!((read.link, link.stream_revision, &*link.data), (None, 4, b"0@orders-0".as_slice()));
    assert_eq!(link.stream_identifier.unwrap().stream_name, "$ce-orders");
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn a_category_is_followed_live_after_the_given_revision() {
    let (log, _ends) = two_categories(3).await;
    let options = subscription(of_stream("$ce-orders", RevisionOption::Revision(4)));
    let mut answers = read(Arc::clone(&log), &user(LogRight::Read), Some(options)).await.unwrap();
    let mut next = async || answers.next().await.unwrap().unwrap().content.unwrap();
    assert!(matches!(next().await, ReadContent::Confirmation(_)));
    for revision in [8, 12] {
        let ReadContent::Event(read) = next().await else { panic!() };
        assert_eq!(read.event.unwrap().stream_revision, revision);
    }
    let ReadContent::CaughtUp(standing) = next().await else { panic!() };
    assert_eq!(standing.stream_revision, Some(12));
    for stream in ["process", "orders"] {
        log.store.append(&StreamId::new(stream, "new"), Expected::Any, vec![event("x")]).await.unwrap();
    }
    let ReadContent::Event(read) = next().await else { panic!() };
    assert_eq!(read.event.unwrap().data, "0@orders-new");
}

fn subscription(from: ReadFrom) -> ReadOptions {
    options(from, false, ReadCount::Subscription(Empty {}))
}

#[tokio::test]
async fn subscriptions_have_a_bound_and_end_with_the_server() {
    let (log, ends) = filled(1).await;
    let reader = user(LogRight::Read);
    let begin = || read(Arc::clone(&log), &reader, Some(subscription(of_all(AllOption::End(Empty {})))));
    let mut first = begin().await.unwrap();
    let second = begin().await.unwrap();
    let Err(refused) = begin().await else { panic!("a third subscription") };
    assert_eq!(refused.code(), Code::ResourceExhausted);
    drop(second);
    begin().await.map(drop).expect("no subscription begins although another one has ended");
    assert!(matches!(first.next().await.unwrap().unwrap().content, Some(ReadContent::Confirmation(_))));
    let Some(ReadContent::CaughtUp(standing)) = first.next().await.unwrap().unwrap().content else { panic!() };
    assert_eq!(standing.position.unwrap().commit_position, 2);
    ends.send_replace(true);
    assert_eq!(first.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn a_filtered_subscription_sends_checkpoints() {
    let (log, _ends) = filled(8).await;
    let filter = FilterOptions {
        subject: Some(FilterSubject::Stream(FilterExpression {
            regex: String::new(),
            prefix: vec!["process-b".into()],
        })),
        window: Some(FilterWindow::Max(2)),
        checkpoint_interval_multiplier: 3,
    };
    let options = ReadOptions { filter: Some(ReadFilter::Filter(filter)), ..subscription(of_all(at(2))) };
    let mut answers = read(Arc::clone(&log), &user(LogRight::Read), Some(options)).await.unwrap();
    let (mut events, mut checkpoints) = (Vec::new(), Vec::new());
    loop {
        match answers.next().await.unwrap().unwrap().content.unwrap() {
            ReadContent::Event(event) => events.push(event.event.unwrap().commit_position),
            ReadContent::Checkpoint(checkpoint) => checkpoints.push(checkpoint.commit_position),
            ReadContent::CaughtUp(_) => break,
            _ => {}
        }
    }
    assert_eq!(events, [4, 6, 8, 10, 12, 14, 16], "not the matching events after the start position");
    assert_eq!(checkpoints, [8, 14]);
}

fn proposed(form: EventStoreDbEvent, id: uuid::Uuid) -> ProposedMessage {
    let metadata = [("type", form.event_type), ("content-type", form.content_type)];
    ProposedMessage {
        id: Some(show::uuid(id, true)),
        metadata: metadata.map(|(name, value)| (name.to_owned(), value)).into(),
        custom_metadata: form.metadata,
        data: form.data,
    }
}

#[tokio::test]
async fn only_a_peer_appends_to_our_streams_and_only_what_belongs_there() {
    let (log, _ends) = log(1);
    let new = event("a step");
    let message = proposed(EventStoreDbEvent::of_new(&new).unwrap(), new.id.0);
    let any = ExpectedRevision::Any(Empty {});
    let attempt = async |right, stream: &str, message: &ProposedMessage| {
        append(&log, &user(right), stream.to_owned(), &any, vec![message.clone()]).await
    };
    let code = |refusal| match refusal {
        Err(AppendRefusal::Status(status)) => status.code(),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(attempt(LogRight::Read, "process-a", &message).await), Code::PermissionDenied);
    assert_eq!(code(attempt(LogRight::Write, "process-a", &message).await), Code::PermissionDenied);
    assert_eq!(code(attempt(LogRight::Peer, "instance-a", &message).await), Code::InvalidArgument);
    let broken = ProposedMessage { data: bytes::Bytes::from_static(b"\xff"), ..message.clone() };
    assert_eq!(code(attempt(LogRight::Peer, "process-a", &broken).await), Code::InvalidArgument);
    let nameless = ProposedMessage { id: None, ..message.clone() };
    assert_eq!(code(attempt(LogRight::Peer, "process-a", &nameless).await), Code::InvalidArgument);
    assert_eq!(log.store.head().0, 0);
    let first = attempt(LogRight::Peer, "process-a", &message).await.unwrap();
    assert_eq!(attempt(LogRight::Peer, "process-a", &message).await.unwrap(), first, "the repetition differs");
    let read = log.store.read_stream(&StreamId::new("process", "a"), Revision::NONE, 9).await.unwrap();
    assert_eq!((read.len(), read[0].event().unwrap(), &read[0].meta), (1, &new.event, &new.meta));
    attempt(LogRight::Write, "elsewhere-a", &message).await.expect("an append to a category of its own");
    let read = log.store.read_stream(&StreamId::new("elsewhere", "a"), Revision::NONE, 9).await.unwrap();
    assert_eq!(&*read[0].kind, "external.recorded");
}

#[tokio::test]
async fn without_tls_only_loopback_is_listened_on() {
    let options = |listen: &str| LogServerOptions {
        listen: vec![listen.parse().unwrap()],
        users: users(),
        tls: None,
        max_connections: 1,
        max_subscriptions: 1,
        max_append_bytes: 1 << 20,
    };
    let refused = serve(MemoryStore::new(), Arc::new(SystemClock), options("0.0.0.0:0")).await.unwrap_err();
    assert!(matches!(refused, LogServerError::Exposed(_)), "{refused}");
    let server = serve(MemoryStore::new(), Arc::new(SystemClock), options("127.0.0.1:0")).await.unwrap();
    assert_ne!(server.addresses()[0].port(), 0);
    server.stop().await;
}
