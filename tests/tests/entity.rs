//! The guarantees of an aggregate's actor to its callers. The tests pause the log, fill it, and write to it
//! concurrently.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chronova_actors::aggregate::{AggregateRoot, CommandError, Committed};
use chronova_actors::shell::arbiters::Arbiters;
use chronova_actors::shell::directory::ActorDirectory;
use chronova_actors::shell::entity::{EntityContext, IDLE};
use chronova_events::clock::{Clock, SystemClock};
use chronova_events::envelope::{Meta, NewEvent, Position, Recorded, Revision, StreamId, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::instance::{InstanceEvent, Renamed};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::tail::Subscription;
use chronova_events::store::{AppendError, Appended, EventStore, Expected, StoreError, StreamSnapshot};
use futures::future::join_all;
use thiserror::Error;
use tokio::sync::Semaphore;

/// The state: all words in order, so that a lost, repeated or reordered word is visible. `V` is the state's version.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Said<const V: u32>(Vec<String>);

impl<const V: u32> Fold for Said<V> {
    type Event = InstanceEvent;
    const STATE_VERSION: u32 = V;

    fn evolve(&mut self, event: &InstanceEvent, _: Timestamp) {
        if let InstanceEvent::Renamed(renamed) = event {
            self.0.push(renamed.name.clone());
        }
    }
}

#[derive(Debug)]
struct Speaker<const V: u32>;

#[derive(Debug, Clone)]
enum What {
    Say(&'static str),
    /// A word that is refused if it was already said.
    Once(&'static str),
    Nothing,
    Panic,
}

#[derive(Debug, Clone)]
struct Command {
    what: What,
    /// The number of calls of `decide`.
    decided: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, PartialEq, Error)]
#[error("said already")]
struct SaidAlready;

impl<const V: u32> AggregateRoot for Speaker<V> {
    type Id = u32;
    type State = Said<V>;
    type Command = Command;
    type Reject = SaidAlready;
    const SNAPSHOT_EVERY: u64 = 5;

    fn stream(id: &u32) -> StreamId {
        StreamId::new("speaker", id)
    }

    fn decide(state: &Said<V>, command: Command) -> Result<Vec<InstanceEvent>, SaidAlready> {
        command.decided.fetch_add(1, Ordering::SeqCst);
        match command.what {
            What::Say(word) => Ok(vec![said(word)]),
            What::Once(word) if state.0.iter().any(|said| said == word) => Err(SaidAlready),
            What::Once(word) => Ok(vec![said(word)]),
            What::Nothing => Ok(vec![]),
            What::Panic => panic!("a mistake in a decision"),
        }
    }
}

fn said(word: &str) -> InstanceEvent {
    Renamed { name: word.to_owned() }.into()
}

/// The behaviour of the next append.
enum Act {
    Fail(AppendError),
    /// Another writer appends first.
    Overtake(&'static str),
}

/// A log in memory with configurable behaviour.
struct Scripted {
    inner: Arc<MemoryStore>,
    /// Each permit lets one append pass.
    turns: Semaphore,
    script: Mutex<VecDeque<Act>>,
    entered: AtomicUsize,
    /// The number of events of each append.
    appends: Mutex<Vec<usize>>,
    /// The revisions from which streams were read.
    reads: Mutex<Vec<Revision>>,
}

impl Scripted {
    fn new(turns: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            turns: Semaphore::new(turns),
            script: Mutex::default(),
            entered: AtomicUsize::new(0),
            appends: Mutex::default(),
            reads: Mutex::default(),
        })
    }

    fn next(&self, acts: impl IntoIterator<Item = Act>) {
        self.script.lock().unwrap().extend(acts);
    }

    fn reads(&self) -> Vec<Revision> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    async fn words(&self) -> Vec<String> {
        let mut all = Said::<1>::default();
        for recorded in self.inner.read_all(Position::START, 1_000).await.unwrap() {
            if let chronova_events::registry::Event::InstanceEvent(event) = recorded.event().unwrap().as_ref() {
                all.evolve(event, Timestamp(0));
            }
        }
        all.0
    }
}

#[async_trait]
impl EventStore for Scripted {
    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        self.entered.fetch_add(1, Ordering::SeqCst);
        self.turns.acquire().await.unwrap().forget();
        let act = self.script.lock().unwrap().pop_front();
        match act {
            Some(Act::Fail(error)) => return Err(error),
            Some(Act::Overtake(word)) => {
                let foreign = NewEvent::new(said(word), SystemClock.now(), &Meta::system("somebody-else"));
                self.inner.append(stream, Expected::Any, vec![foreign]).await?;
            }
            None => {}
        }
        self.appends.lock().unwrap().push(events.len());
        self.inner.append(stream, expected, events).await
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.reads.lock().unwrap().push(after);
        self.inner.read_stream(stream, after, limit).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.inner.read_all(after, limit).await
    }

    fn subscribe(&self, after: Position) -> Subscription {
        self.inner.subscribe(after)
    }

    fn head(&self) -> Position {
        self.inner.head()
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        self.inner.load_snapshot(stream).await
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
        self.inner.save_snapshot(stream, snapshot).await
    }
}

/// The actors on one log; cheap to clone for tasks.
struct Stage<const V: u32 = 1> {
    store: Arc<Scripted>,
    directory: Arc<ActorDirectory<Speaker<V>>>,
    decided: Arc<AtomicUsize>,
}

type Answer = Result<Committed, CommandError<SaidAlready>>;

impl<const V: u32> Stage<V> {
    fn on(store: &Arc<Scripted>, idle: Duration) -> Self {
        let around =
            EntityContext { store: Arc::clone(store) as Arc<dyn EventStore>, clock: Arc::new(SystemClock), idle };
        let directory = Arc::new(ActorDirectory::new(around, Arc::new(Arbiters::start(1))));
        Self { store: Arc::clone(store), directory, decided: Arc::default() }
    }

    fn ask(&self, what: What) -> actix_rt::task::JoinHandle<Answer> {
        let directory = Arc::clone(&self.directory);
        let command = Command { what, decided: Arc::clone(&self.decided) };
        actix_rt::spawn(async move { directory.execute(&1, command, Meta::system("test")).await })
    }

    async fn now(&self, what: What) -> Answer {
        self.ask(what).await.unwrap()
    }

    async fn heard(&self) -> Vec<String> {
        self.directory.look(&1).await.unwrap().0
    }

    async fn until_decided(&self, count: usize) {
        until(|| self.decided.load(Ordering::SeqCst) >= count).await;
    }

    async fn until_appending(&self, count: usize) {
        until(|| self.store.entered.load(Ordering::SeqCst) >= count).await;
    }
}

async fn until(met: impl Fn() -> bool) {
    let waiting = async {
        while !met() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), waiting).await.expect("a condition is not met within a minute");
}

/// Gives all ready tasks time to continue.
async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(30)).await;
}

const FREE: usize = 1_000;

fn unavailable(answer: &Answer, wanted: &StoreError) -> bool {
    matches!(answer, Err(CommandError::Unavailable(error)) if error == wanted)
}

#[actix_rt::test]
async fn no_command_or_read_is_answered_before_the_events_are_durable() {
    let stage = Stage::<1>::on(&Scripted::new(0), IDLE);
    let command = stage.ask(What::Say("a"));
    stage.until_appending(1).await;
    let refused = stage.ask(What::Once("a"));
    let repeated = stage.ask(What::Nothing);
    stage.until_decided(3).await;
    let directory = Arc::clone(&stage.directory);
    let look = actix_rt::spawn(async move { directory.look(&1).await });
    a_moment().await;
    let waiting = [command.is_finished(), refused.is_finished(), repeated.is_finished(), look.is_finished()];
    assert_eq!(waiting, [false; 4], "an answer came before the event was durable");
    assert_eq!(stage.store.head(), Position::START);
    stage.store.turns.add_permits(1);
    assert_eq!(command.await.unwrap().unwrap().position, Position(1));
    assert!(matches!(refused.await.unwrap(), Err(CommandError::Rejected(SaidAlready))));
    let nothing = repeated.await.unwrap().unwrap();
    assert_eq!((nothing.events.len(), nothing.position), (0, Position(1)), "the answer has another position");
    assert_eq!(look.await.unwrap().unwrap().0, ["a"]);
}

#[actix_rt::test]
async fn decisions_during_an_append_are_written_in_one_append_in_order() {
    const WORDS: [&str; 8] = ["b", "c", "d", "e", "f", "g", "h", "i"];
    let stage = Stage::<1>::on(&Scripted::new(0), IDLE);
    let first = stage.ask(What::Say("a"));
    stage.until_appending(1).await;
    let mut rest = Vec::new();
    for (index, word) in WORDS.into_iter().enumerate() {
        rest.push(stage.ask(What::Say(word)));
        stage.until_decided(index + 2).await;
    }
    stage.store.turns.add_permits(2);
    first.await.unwrap().unwrap();
    for answer in join_all(rest).await {
        assert_eq!(answer.unwrap().unwrap().position, Position(9), "an answer came before the whole batch was durable");
    }
    assert_eq!(*stage.store.appends.lock().unwrap(), [1, 8]);
    assert_eq!(stage.store.words().await, ["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    assert_eq!(stage.heard().await, stage.store.words().await);
}

#[actix_rt::test]
async fn a_full_log_takes_back_everything_decided_upon_it() {
    let stage = Stage::<1>::on(&Scripted::new(1), IDLE);
    stage.now(What::Say("before")).await.unwrap();
    stage.store.next([Act::Fail(StoreError::Full.into())]);
    let failing = stage.ask(What::Say("lost"));
    stage.until_appending(2).await;
    let resting = stage.ask(What::Once("lost"));
    stage.until_decided(3).await;
    stage.store.turns.add_permits(FREE);
    assert!(unavailable(&failing.await.unwrap(), &StoreError::Full));
    assert!(unavailable(&resting.await.unwrap(), &StoreError::Full), "it was rejected because of a lost event");
    assert_eq!(stage.heard().await, ["before"]);
    stage.now(What::Once("lost")).await.unwrap();
    assert_eq!(stage.store.words().await, ["before", "lost"]);
    assert_eq!(stage.heard().await, ["before", "lost"]);
}

#[actix_rt::test]
async fn a_command_whose_event_is_too_large_is_refused_alone() {
    let stage = Stage::<1>::on(&Scripted::new(0), IDLE);
    let first = stage.ask(What::Say("a"));
    stage.until_appending(1).await;
    // These three commands share one append.
    let before = stage.ask(What::Say("b"));
    stage.until_decided(2).await;
    let large = stage.ask(What::Say(Box::leak("x".repeat(2 << 20).into_boxed_str())));
    stage.until_decided(3).await;
    let after = stage.ask(What::Say("c"));
    stage.until_decided(4).await;
    stage.store.turns.add_permits(FREE);
    first.await.unwrap().unwrap();
    let refused = large.await.unwrap();
    assert!(matches!(refused, Err(CommandError::Unavailable(StoreError::TooLarge { .. }))), "{refused:?}");
    before.await.unwrap().unwrap();
    after.await.unwrap().unwrap();
    assert_eq!(stage.store.words().await, ["a", "b", "c"]);
    assert_eq!(stage.heard().await, ["a", "b", "c"]);
}

#[actix_rt::test]
async fn two_commands_whose_events_are_too_large_do_not_harm_the_others() {
    let stage = Stage::<1>::on(&Scripted::new(0), IDLE);
    let first = stage.ask(What::Say("a"));
    stage.until_appending(1).await;
    // These three commands share one append.
    let large = |byte: &str| What::Say(Box::leak(byte.repeat(2 << 20).into_boxed_str()));
    let one = stage.ask(large("x"));
    stage.until_decided(2).await;
    let other = stage.ask(large("y"));
    stage.until_decided(3).await;
    let small = stage.ask(What::Say("b"));
    stage.until_decided(4).await;
    stage.store.turns.add_permits(FREE);
    first.await.unwrap().unwrap();
    for refused in [one.await.unwrap(), other.await.unwrap()] {
        assert!(matches!(refused, Err(CommandError::Unavailable(StoreError::TooLarge { .. }))), "{refused:?}");
    }
    small.await.unwrap().unwrap();
    assert_eq!(stage.store.words().await, ["a", "b"]);
}

#[actix_rt::test]
async fn after_one_conflict_an_actor_decides_again_on_the_new_state() {
    let stage = Stage::<1>::on(&Scripted::new(FREE), IDLE);
    stage.now(What::Say("a")).await.unwrap();
    stage.store.next([Act::Overtake("foreign")]);
    stage.now(What::Say("b")).await.unwrap();
    assert_eq!(stage.decided.load(Ordering::SeqCst), 3, "`b` was not decided twice");
    assert_eq!(stage.store.words().await, ["a", "foreign", "b"]);
    assert_eq!(stage.heard().await, ["a", "foreign", "b"]);

    stage.store.next([Act::Overtake("c")]);
    let refused = stage.now(What::Once("c")).await;
    assert!(matches!(refused, Err(CommandError::Rejected(SaidAlready))), "the answer is not the second decision's");
    assert_eq!(stage.store.words().await, ["a", "foreign", "b", "c"]);
}

#[actix_rt::test]
async fn after_two_conflicts_a_command_fails_without_an_event() {
    let stage = Stage::<1>::on(&Scripted::new(FREE), IDLE);
    stage.store.next([Act::Overtake("x"), Act::Overtake("y")]);
    let given_up = stage.now(What::Say("a")).await;
    assert!(matches!(given_up, Err(CommandError::Unavailable(_))), "{given_up:?}");
    assert_eq!(stage.heard().await, ["x", "y"]);
    stage.now(What::Say("a")).await.unwrap();
    assert_eq!(stage.store.words().await, ["x", "y", "a"]);
}

#[actix_rt::test]
async fn an_actor_that_broke_is_started_again_from_the_log() {
    let stage = Stage::<1>::on(&Scripted::new(FREE), IDLE);
    stage.now(What::Say("a")).await.unwrap();
    let broken = stage.now(What::Panic).await;
    assert!(unavailable(&broken, &StoreError::Closed), "{broken:?}");
    stage.store.reads();
    stage.now(What::Say("b")).await.unwrap();
    assert_eq!(stage.store.reads(), [Revision::NONE], "the state was not read from the log");
    assert_eq!(stage.heard().await, ["a", "b"]);
    assert_eq!(stage.store.words().await, ["a", "b"]);
}

#[actix_rt::test]
async fn an_idle_actor_leaves_memory_and_comes_back_as_it_was() {
    let stage = Stage::<1>::on(&Scripted::new(FREE), Duration::from_millis(10));
    stage.now(What::Say("a")).await.unwrap();
    let mut loads = stage.store.reads().len();
    assert_eq!(loads, 1);
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(stage.heard().await, ["a"]);
        loads += stage.store.reads().len();
        if loads > 2 {
            break;
        }
    }
    assert!(loads > 2, "the actor was not passivated");
    stage.now(What::Say("b")).await.unwrap();
    assert_eq!(stage.heard().await, ["a", "b"]);
}

#[actix_rt::test]
async fn commands_take_effect_once_although_the_actor_leaves_memory() {
    let stage = Stage::<1>::on(&Scripted::new(FREE), Duration::from_millis(1));
    for _ in 0..100 {
        stage.now(What::Say("a")).await.unwrap();
        tokio::time::sleep(Duration::from_micros(900)).await;
    }
    assert_eq!(stage.store.words().await.len(), 100);
}

#[actix_rt::test]
async fn a_snapshot_shortens_loading_and_changes_nothing() {
    let store = Scripted::new(FREE);
    let stage = Stage::<1>::on(&store, IDLE);
    for word in ["a", "b", "c", "d", "e", "f", "g"] {
        stage.now(What::Say(word)).await.unwrap();
    }
    let stream = Speaker::<1>::stream(&1);
    let waiting = async {
        loop {
            if let Some(snapshot) = store.load_snapshot(&stream).await.unwrap() {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let snapshot = tokio::time::timeout(Duration::from_mins(1), waiting).await.unwrap();
    assert_eq!((snapshot.revision, snapshot.state_version), (Revision(5), 1));
    store.reads();

    let with_snapshot = Stage::<1>::on(&store, IDLE);
    assert_eq!(with_snapshot.heard().await, store.words().await);
    assert_eq!(store.reads(), [Revision(5)], "events before the snapshot are read");
    with_snapshot.now(What::Say("h")).await.unwrap();
    assert_eq!(store.words().await.len(), 8);

    let of_another_version = Stage::<2>::on(&store, IDLE);
    assert_eq!(of_another_version.heard().await, store.words().await);
    assert_eq!(store.reads(), [Revision::NONE], "a snapshot of another version is used");

    let damaged = StreamSnapshot { bytes: vec![255; 3], ..snapshot };
    store.save_snapshot(&stream, damaged).await.unwrap();
    let beside_damage = Stage::<1>::on(&store, IDLE);
    assert_eq!(beside_damage.heard().await, store.words().await);
    assert_eq!(store.reads(), [Revision::NONE], "a damaged snapshot is used");
}
