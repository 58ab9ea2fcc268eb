//! The proof of a process, one line per process in `tests/processes.rs`.
//!
//! 1. It succeeds.
//! 2. **Crash after every append**: whatever append the control plane dies at, the next life ends where an uncrashed one
//!    does, or nothing ever happened.
//! 3. Every step fails, before and after its work: the world is clean afterwards.
//! 4. Every step is done twice: nothing changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chronova_actors::process::definition::Definition;
use chronova_actors::process::interference::{Interference, Verdict, Way};
use chronova_actors::reconcile::options::ImageCacheOptions;
use chronova_events::ids::{InstanceId, VolumeId};
use futures::future::LocalBoxFuture;
use uuid::Uuid;

use crate::world::{Life, World};

/// What is to be proven.
pub struct Case {
    pub definition: &'static Definition,
    /// Brings the world to where the process begins.
    pub before: for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, ()>,
    /// Asks for the process. An error says that the request was not acknowledged.
    pub ask: for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, Result<(), String>>,
    /// What the server is before and after.
    pub from: &'static str,
    pub to: &'static str,
    /// What the server is when a step failed for good before it did anything.
    pub failed: &'static str,
    /// What else it may be when a step did its work before it failed: a guest that runs is seen to run.
    pub failed_after: &'static [&'static str],
    /// What else it may be when the request was not acknowledged: a request of several commands may have got half-way.
    pub half_asked: &'static [&'static str],
    /// Whether asking waits for the end of the process, so that a step that fails is told to whoever asks.
    pub waits: bool,
    /// Whether every host reaches every volume.
    pub shared: bool,
    /// Whether the hosts have one storage for the guests' own disks.
    pub one_storage: bool,
    /// Whether the hosts have processors for guests that want their own, each other ones.
    pub dedicated: bool,
    /// Whether the hosts' image caches are swept all the time, of everything that nobody uses.
    pub swept: bool,
}

impl Case {
    /// Of a server that is what it was when the process fails; hosts share nothing.
    pub fn new(
        definition: &'static Definition,
        before: for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, ()>,
        ask: for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, Result<(), String>>,
        [from, to]: [&'static str; 2],
    ) -> Self {
        Self {
            definition,
            before,
            ask,
            from,
            to,
            failed: from,
            failed_after: &[],
            half_asked: &[],
            waits: false,
            shared: false,
            one_storage: false,
            dedicated: false,
            swept: false,
        }
    }
}

/// Image caches that are swept all the time, of what was unused for so long.
pub fn swept(minimum_age: Duration) -> ImageCacheOptions {
    ImageCacheOptions { interval: Some(Duration::from_millis(2)), minimum_age, ..ImageCacheOptions::default() }
}

const HOSTS: usize = 2;

fn subject() -> InstanceId {
    InstanceId(Uuid::from_u128(0xCAFE))
}

/// A world in which `before` has happened.
async fn prepared(case: &Case) -> World {
    let mut world = World::new(HOSTS);
    world.options.volume.shared = case.shared;
    world.fleet.share_storage(case.one_storage);
    if case.dedicated {
        world = world.with_dedicated_processors();
    }
    if case.swept {
        world.options.image_cache = swept(Duration::ZERO);
    }
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    (case.before)(&life, subject()).await;
    life.settled().await;
    life.stop().await;
    world.check().await;
    assert_eq!(seen(&world).await, case.from);
    world
}

async fn seen(world: &World) -> &'static str {
    match world.story().await.first() {
        Some((_, status)) => status,
        None => crate::volumes::word(&world.views().await, VolumeId(subject().0)),
    }
}

/// Proves a case.
pub async fn prove(case: &Case) {
    let appends = succeeds(case).await;
    assert!(appends > 2, "a process leaves a trail");
    for fuse in 1..=appends {
        crashes(case, fuse).await;
    }
    for step in case.definition.steps {
        for verdict in [Verdict::FailBefore, Verdict::FailAfter] {
            fails(case, step.name, verdict).await;
        }
        repeats(case, step.name, Way::Run).await;
    }
    if case.definition.undoes {
        unwinds_twice(case).await;
    }
}

/// Returns how many appends a whole life takes.
async fn succeeds(case: &Case) -> u64 {
    let world = prepared(case).await;
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    (case.ask)(&life, subject()).await.unwrap();
    assert!(life.settled().await);
    let appends = life.store.appends();
    life.stop().await;
    world.check().await;
    let faults = world.faults().await;
    assert_eq!(seen(&world).await, case.to, "{} succeeds: {faults:?}", case.definition.name);
    appends
}

async fn crashes(case: &Case, fuse: u64) {
    let world = prepared(case).await;
    let life = world.live(Some(fuse), None).await;
    life.hosts_up(HOSTS).await;
    let acknowledged = (case.ask)(&life, subject()).await.is_ok();
    life.settled().await;
    life.stop().await;

    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    assert!(life.settled().await);
    life.stop().await;
    world.check().await;
    let now = seen(&world).await;
    let name = case.definition.name;
    if acknowledged {
        assert_eq!(now, case.to, "{name}, crashed at append {fuse}: what was acknowledged happens");
    } else {
        let possible = now == case.to || now == case.from || case.half_asked.contains(&now);
        assert!(possible, "{name}, crashed at append {fuse}: {now}");
    }
}

async fn fails(case: &Case, step: &'static str, verdict: Verdict) {
    let world = prepared(case).await;
    let once =
        Arc::new(Once { process: case.definition.name, step, way: Way::Run, verdict, done: AtomicBool::new(false) });
    let life = world.live(None, Some(Arc::clone(&once) as Arc<dyn Interference>)).await;
    life.hosts_up(HOSTS).await;
    let asked = (case.ask)(&life, subject()).await;
    assert_eq!(asked.is_err(), case.waits, "{asked:?}");
    assert!(life.settled().await);
    life.stop().await;
    world.check().await;
    let reached = once.done.load(Ordering::SeqCst);
    assert!(reached, "{step} of {} is never reached\n{}", case.definition.name, world.trail().await);
    let expected = if case.definition.undoes { case.failed } else { case.to };
    let now = seen(&world).await;
    let possible = now == expected || (verdict == Verdict::FailAfter && case.failed_after.contains(&now));
    let trail = world.trail().await;
    assert!(possible, "{}: {step} {verdict:?}: {now}\n{trail}", case.definition.name);
}

async fn repeats(case: &Case, step: &'static str, way: Way) {
    let world = prepared(case).await;
    let verdict = Verdict::Repeat;
    let once = Arc::new(Once { process: case.definition.name, step, way, verdict, done: AtomicBool::new(false) });
    let life = world.live(None, Some(Arc::clone(&once) as Arc<dyn Interference>)).await;
    life.hosts_up(HOSTS).await;
    (case.ask)(&life, subject()).await.unwrap();
    assert!(life.settled().await);
    life.stop().await;
    world.check().await;
    let reached = once.done.load(Ordering::SeqCst);
    assert!(reached, "{step} of {} is never reached\n{}", case.definition.name, world.trail().await);
    assert_eq!(seen(&world).await, case.to, "{}: {step} twice", case.definition.name);
}

/// The last step fails and every undo is done twice.
async fn unwinds_twice(case: &Case) {
    let world = prepared(case).await;
    let last = case.definition.steps.last().unwrap().name;
    let clumsy = Arc::new(Clumsy { process: case.definition.name, last, failed: AtomicBool::new(false) });
    let life = world.live(None, Some(clumsy)).await;
    life.hosts_up(HOSTS).await;
    let asked = (case.ask)(&life, subject()).await;
    assert_eq!(asked.is_err(), case.waits, "{asked:?}");
    assert!(life.settled().await);
    life.stop().await;
    world.check().await;
    let now = seen(&world).await;
    let possible = now == case.failed || case.failed_after.contains(&now);
    assert!(possible, "{}: every undo twice: {now}", case.definition.name);
}

/// One verdict on the first run of one step.
struct Once {
    process: &'static str,
    step: &'static str,
    way: Way,
    verdict: Verdict,
    done: AtomicBool,
}

impl Interference for Once {
    fn judge(&self, process: &'static str, step: &'static str, way: Way) -> Verdict {
        let here = (process, step, way) == (self.process, self.step, self.way);
        match here && !self.done.swap(true, Ordering::SeqCst) {
            true => self.verdict,
            false => Verdict::Pass,
        }
    }
}

struct Clumsy {
    process: &'static str,
    last: &'static str,
    failed: AtomicBool,
}

impl Interference for Clumsy {
    fn judge(&self, process: &'static str, step: &'static str, way: Way) -> Verdict {
        match (process == self.process, way) {
            (true, Way::Undo) => Verdict::Repeat,
            (true, Way::Run) if step == self.last && !self.failed.swap(true, Ordering::SeqCst) => Verdict::FailAfter,
            _ => Verdict::Pass,
        }
    }
}
