//! The crash harness: tests a process in six ways. `tests/tests/processes.rs` and the files beside it have a case for
//! each process.
//!
//! 1. The process succeeds.
//! 2. **Crash before and after every append**: the control plane crashes right before or after any append. The next
//!    life (the control plane after its restart) reaches the same end as a run without a crash. A request that was not
//!    acknowledged may also have no effect, or be half done. A crash right before an append loses the records in that
//!    append, but not what the recorded steps did on the hosts.
//! 3. Every step fails, before and after its work: nothing is left over.
//! 4. Every step runs twice, and so does every undo: the result is the same.
//! 5. **Crash while unwinding**: a step fails, and the control plane crashes right before or after any later append.
//! 6. **Crash with interference**: the subject is deleted, or a host is lost, right before a step or its undo. The
//!    control plane crashes after any append around that moment.
//!
//! Every run has all trials of the first four ways. The last two ways have too many trials, so an ordinary run has a
//! sample of them: see [`sample`].

mod events_at_steps;
mod interferences;
mod sample;
mod unwinding;

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::process::definition::Definition;
use chronova_actors::process::interference::InterferenceVerdict;
use chronova_actors::reconcile::options::ImageCacheOptions;
use chronova_events::envelope::Position;
use chronova_events::ids::{InstanceId, VolumeId};
use chronova_events::instance::{Instance, Power};
use chronova_events::process::ProcessOutcome;
use chronova_events::store::EventStore;
use chronova_hypervisor::sim::SimGuest;
use futures::future::LocalBoxFuture;
use uuid::Uuid;

pub use self::events_at_steps::lose_host_in_undo;
use self::interferences::{FailingOnce, RepeatingSteps};
use self::sample::Sample;
use self::unwinding::Unwinding;
use crate::pci::PciTracking;
use crate::volume_kind::VolumeKind;
use crate::world::{Life, Setting, World};

impl World {
    /// The events of the servers and their processes, for the message of a failed assertion.
    pub async fn trail(&self) -> String {
        let events = self.log.read_all(Position::START, usize::MAX).await.unwrap();
        let ours = events.iter().filter(|event| matches!(event.stream.category(), "instance" | "process"));
        let lines: Vec<String> =
            ours.filter_map(|event| event.event().ok()).map(|event| format!("{event:?}")).collect();
        lines.join("\n")
    }
}

/// One test case: a process, its initial state and its expected ends.
pub struct Case {
    pub definition: &'static Definition,
    /// Brings the world to the initial state of the process.
    pub before: for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, ()>,
    /// Requests the process. An error means that the request was not acknowledged.
    pub ask: for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, Result<(), String>>,
    /// The status of the server before and after.
    pub from: &'static str,
    pub to: &'static str,
    /// The server's status after a step failed permanently before its work.
    pub failed: &'static str,
    /// Further possible statuses after a step failed after its work. For example, a running guest is observed as
    /// running.
    pub failed_after: &'static [&'static str],
    /// Further possible statuses of the server if the request was not acknowledged. A request of several commands may
    /// be half done.
    pub half_asked: &'static [&'static str],
    /// Whether the request waits for the end of the process, so that it returns the failure of a step.
    pub waits: bool,
    /// Whether the log has no record of the process as long as it goes well (`Task::records_only_failure`).
    pub unrecorded: bool,
    /// Whether a crash may lose what the process needs, so that an acknowledged request fails afterwards.
    pub forgets: bool,
    /// Whether every host reaches every volume.
    pub shared: bool,
    /// Whether the hosts have one storage for the guests' own disks.
    pub one_storage: bool,
    /// Whether the hosts have dedicated processors, with different numbers on each host.
    pub dedicated: bool,
    /// Whether the hosts have PCI devices for guests, and whether Placement knows these.
    pub pci: Option<PciTracking>,
    /// Whether each host has a GPU with three virtual GPUs.
    pub gpus: bool,
    /// Whether the hosts offer emulated TPMs.
    pub tpm: bool,
    /// Whether the image caches of the hosts are constantly cleared of unused images.
    pub swept: bool,
    /// Whether the volume service chooses the ids of volumes and attachments itself.
    pub choosing_volumes: bool,
    /// Whether the volume service migrates attached volumes itself.
    pub migrating_volumes: bool,
}

impl Case {
    /// A case in which a failed process restores the server's status, on hosts without shared storage.
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
            unrecorded: false,
            forgets: false,
            shared: false,
            one_storage: false,
            dedicated: false,
            pci: None,
            gpus: false,
            tpm: false,
            swept: false,
            choosing_volumes: false,
            migrating_volumes: false,
        }
    }
}

/// Options that constantly clear the image caches of images unused for `minimum_age`.
pub fn swept(minimum_age: Duration) -> ImageCacheOptions {
    ImageCacheOptions { interval: Some(Duration::from_millis(2)), minimum_age, ..ImageCacheOptions::default() }
}

const HOSTS: usize = 2;

fn subject() -> InstanceId {
    InstanceId(Uuid::from_u128(0xCAFE))
}

/// A world in which `before` has happened.
async fn prepared(case: &Case) -> World {
    let mut world = match case.pci {
        Some(tracking) => World::with_pci(HOSTS, "10de:1eb8*3,8086:1572/154c*3,15b3:101d/101ev*2", tracking),
        None if case.gpus => World::with_gpus(HOSTS, "nvidia-35*3"),
        None if case.tpm => World::with_tpms(HOSTS),
        None => World::new(HOSTS),
    };
    world.options.volume.shared = case.shared;
    world.volume_kind = match (case.choosing_volumes, case.migrating_volumes) {
        (true, _) => VolumeKind::Choosing,
        (_, true) => VolumeKind::Migrating(Arc::default()),
        _ => VolumeKind::Embedded,
    };
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

/// Checks the invariants that hold when no work is under way. A process must release its own quota and its places in
/// groups. So the check fails if a reconciler released any of them.
async fn check(case: &Case, world: &World) {
    world.check().await;
    assert_eq!(world.given_back_by_reconcilers().await, 0, "{}: reconcilers acted", case.definition.name);
}

/// Checks that the process was completed. Its end status alone does not show that, if it equals the status before.
async fn has_succeeded(case: &Case, world: &World, trial: &str) {
    let (name, faults) = (case.definition.name, world.faults().await);
    assert_eq!(seen(world).await, case.to, "{name}, {trial}: {faults:?}");
    match world.outcome_of(case.definition).await {
        Some(ProcessOutcome::Succeeded) => {}
        None if case.unrecorded => {}
        outcome => panic!("{name}, {trial}: {outcome:?} {faults:?}\n{}", world.trail().await),
    }
}

async fn seen(world: &World) -> &'static str {
    match world.story().await.first() {
        Some((_, status)) => status,
        None => crate::volumes::word(&world.views().await, VolumeId(subject().0)),
    }
}

/// Waits until no work is running, and the server's recorded power state is that of its guest. A life may crash after a
/// guest has started or stopped, but before the event about this. Then the next comparison with the host records the
/// power state.
async fn comes_to_rest(world: &World, life: &Life) {
    assert!(life.settled().await);
    let is_recorded = || {
        let Instance::Alive(server) = life.instance_now(subject()) else { return true };
        let guests: Vec<_> = (0..HOSTS).filter_map(|host| world.fleet.guests(host).remove(&subject())).collect();
        match server.power() {
            Power::Shutdown => !guests.iter().any(SimGuest::is_on),
            Power::Running => guests.is_empty() || guests.iter().any(SimGuest::is_on),
            _ => true,
        }
    };
    assert!(life.until(|_| is_recorded()).await);
}

/// Runs all trials of a case.
pub async fn prove(case: &Case) {
    let mut sample = Sample::of(case);
    let appends = succeeds(case).await;
    assert!(appends > 2, "the process made too few appends");
    for fuse in 1..=appends {
        crashes(case, fuse, false).await;
        crashes(case, fuse, true).await;
    }
    let mut unwindings = Vec::new();
    for step in case.definition.steps {
        for verdict in [InterferenceVerdict::FailBefore, InterferenceVerdict::FailAfter] {
            let appends = fails(case, step.name, verdict).await;
            unwindings.push(Unwinding { step: step.name, verdict, appends });
        }
        repeats(case, step.name).await;
    }
    if case.definition.undoes {
        unwinds_twice(case).await;
    }
    unwinding::crash_in(case, unwindings, &mut sample).await;
    events_at_steps::crash_around(case, appends, &mut sample).await;
}

/// Checks the success of the process. Returns the number of appends of the whole life.
async fn succeeds(case: &Case) -> u64 {
    let world = prepared(case).await;
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    (case.ask)(&life, subject()).await.unwrap();
    assert!(life.settled().await);
    let appends = life.store.appends();
    life.stop().await;
    check(case, &world).await;
    has_succeeded(case, &world, "undisturbed").await;
    appends
}

/// `loses`: the crash comes right before the append instead of right after it.
async fn crashes(case: &Case, fuse: u64, loses: bool) {
    let world = prepared(case).await;
    let life = world.begin(Setting { fuse: Some(fuse), loses, ..Setting::default() }).await;
    life.hosts_up(HOSTS).await;
    let acknowledged = (case.ask)(&life, subject()).await.is_ok();
    life.settled().await;
    life.stop().await;

    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    assert!(life.settled().await);
    life.stop().await;
    check(case, &world).await;
    let trial = format!("crashed {} append {fuse}", if loses { "before" } else { "after" });
    if acknowledged && !case.forgets {
        has_succeeded(case, &world, &format!("{trial}, after the request was acknowledged")).await;
    } else {
        let now = seen(&world).await;
        let possible = now == case.to || now == case.from || case.half_asked.contains(&now);
        assert!(possible, "{}, {trial}: {now}", case.definition.name);
    }
}

/// Checks the failure of a step. Returns the number of appends after the failure.
async fn fails(case: &Case, step: &'static str, verdict: InterferenceVerdict) -> u64 {
    let world = prepared(case).await;
    let (once, appends) = judged(case, &world, step, verdict).await;
    assert!(once, "{step} of {} is never reached\n{}", case.definition.name, world.trail().await);
    let expected = if case.definition.undoes { case.failed } else { case.to };
    let now = seen(&world).await;
    let possible = now == expected || (verdict == InterferenceVerdict::FailAfter && case.failed_after.contains(&now));
    let trail = world.trail().await;
    assert!(possible, "{}: {step} {verdict:?}: {now}\n{trail}", case.definition.name);
    appends
}

async fn repeats(case: &Case, step: &'static str) {
    let world = prepared(case).await;
    let (once, _) = judged(case, &world, step, InterferenceVerdict::Repeat).await;
    assert!(once, "{step} of {} is never reached\n{}", case.definition.name, world.trail().await);
    has_succeeded(case, &world, &format!("{step} twice")).await;
}

/// Runs a whole life with a verdict on a step. Returns whether the step was reached, and the number of appends after
/// it.
async fn judged(case: &Case, world: &World, step: &'static str, verdict: InterferenceVerdict) -> (bool, u64) {
    let once = FailingOnce::new(case.definition, step, verdict, None);
    let life = world.live(None, Some(once.clone())).await;
    once.watch(&life.store);
    life.hosts_up(HOSTS).await;
    let asked = (case.ask)(&life, subject()).await;
    assert_eq!(asked.is_err(), case.waits && verdict != InterferenceVerdict::Repeat, "{asked:?}");
    assert!(life.settled().await);
    let appends = once.appends_since();
    life.stop().await;
    check(case, world).await;
    (once.has_judged(), appends)
}

/// Lets the last step fail, and every undo run twice.
async fn unwinds_twice(case: &Case) {
    let world = prepared(case).await;
    let life = world.live(None, Some(RepeatingSteps::new(case.definition))).await;
    life.hosts_up(HOSTS).await;
    let asked = (case.ask)(&life, subject()).await;
    assert_eq!(asked.is_err(), case.waits, "{asked:?}");
    assert!(life.settled().await);
    life.stop().await;
    check(case, &world).await;
    let now = seen(&world).await;
    let possible = now == case.failed || case.failed_after.contains(&now);
    assert!(possible, "{}: every undo twice: {now}", case.definition.name);
}
