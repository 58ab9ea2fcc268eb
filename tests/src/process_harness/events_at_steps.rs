//! Incidents at steps: the subject is deleted, or a host is lost and comes back, right before the process runs or
//! undoes a step. The control plane crashes after some append around that moment.

use std::time::Duration;

use chronova_actors::process::context::StepContext;
use chronova_actors::process::interference::StepDirection;
use chronova_events::ids::{InstanceId, VolumeId};
use chronova_events::process::Process;
use chronova_events::store::EventStore as _;
use chronova_hypervisor::sim::{DriverCall, SimGuest};

use super::interferences::EventAtStep;
use super::sample::Sample;
use super::{Case, HOSTS, check, comes_to_rest, prepared, seen, subject};
use crate::world::{Life, World};

/// In an ordinary run, each case has at most this many deletes and this many lost hosts.
const FEW: usize = 2;
/// The longest wait of a life before a lost host comes back. The process retries meanwhile.
const LOST: Duration = Duration::from_millis(40);
/// The interval of heartbeats and of comparisons with the log, in trials with a lost host.
const SOON: Duration = Duration::from_millis(20);

/// An event outside the process.
#[derive(Debug, Clone, Copy)]
enum Incident {
    Delete,
    LoseHost { host: usize, guests_survive: bool },
}

/// An incident, and the step at which it happens.
#[derive(Debug, Clone, Copy)]
struct Trial {
    step: &'static str,
    way: StepDirection,
    incident: Incident,
}

/// Tries each incident at each step: without a crash, and with a crash after each append around the incident. An
/// ordinary run has a sample of these trials. `appends`: the approximate number of appends of an undisturbed process.
pub(super) async fn crash_around(case: &Case, appends: u64, sample: &mut Sample) {
    let losses = [(0, true), (0, false), (1, true), (1, false)];
    let losses = losses.map(|(host, guests_survive)| Incident::LoseHost { host, guests_survive });
    for incidents in [&[Incident::Delete][..], &losses] {
        for trial in sample.choose(trials(case, incidents), FEW) {
            if sample.is_everything() {
                let around = meet(case, trial, None).await;
                for fuse in 0..=around {
                    meet(case, trial, Some(fuse)).await;
                }
            } else {
                // 0 means no crash, and 1 a crash before the incident.
                let fuse = sample.below(appends + 2);
                meet(case, trial, fuse.checked_sub(1)).await;
            }
        }
    }
}

/// Loses one of the two hosts right before `step` is undone. The guests of the lost host survive or not. Crashes after
/// each append around that moment.
pub async fn lose_host_in_undo(case: &Case, step: &'static str) {
    for (host, guests_survive) in [(0, true), (0, false), (1, true), (1, false)] {
        let incident = Incident::LoseHost { host, guests_survive };
        let trial = Trial { step, way: StepDirection::Undo, incident };
        let around = meet(case, trial, None).await;
        for fuse in 0..=around {
            meet(case, trial, Some(fuse)).await;
        }
    }
}

fn trials(case: &Case, incidents: &[Incident]) -> Vec<Trial> {
    let steps = case.definition.steps.iter();
    let undone = steps.clone().filter(|step| case.definition.undoes && step.undo.is_some());
    let moments =
        steps.map(|step| (step.name, StepDirection::Run)).chain(undone.map(|step| (step.name, StepDirection::Undo)));
    moments
        .flat_map(|(step, way)| incidents.iter().map(move |incident| Trial { step, way, incident: *incident }))
        .collect()
}

/// Runs one trial. `fuse`: the append of the crash; 0 for a crash before the incident. Returns the number of appends
/// after the incident.
async fn meet(case: &Case, trial: Trial, fuse: Option<u64>) -> u64 {
    let what = format!("{}: {trial:?}, crash at {fuse:?}", case.definition.name);
    eprintln!("{what}");
    let mut world = prepared(case).await;
    if matches!(trial.incident, Incident::LoseHost { .. }) {
        // A host that comes back must soon be compared with the log.
        world.options.hosts.heartbeat = SOON;
        world.options.hosts.resync = SOON;
    }
    let meeting = EventAtStep::new(case.definition, trial.step, trial.way, fuse.filter(|fuse| *fuse > 0));
    let life = world.live(None, Some(meeting.clone())).await;
    meeting.watch(&life.store);
    life.hosts_up(HOSTS).await;
    // The request runs concurrently, because some requests wait for the end of their process.
    let asking = async { (case.ask)(&life, subject()).await.is_ok() };
    let happening = async {
        life.until(|context| meeting.is_reached() && context.views.position() >= life.store.head()).await;
        assert!(meeting.is_reached(), "{what}: never reached");
        if fuse == Some(0) {
            life.store.blow();
        }
        let done = trial.incident.happens(&world, &life).await;
        meeting.end();
        done
    };
    let (asked, done) = futures::join!(asking, happening);
    let (appends, gone) = match trial.incident {
        Incident::Delete => after_delete(&world, life, &meeting, done).await,
        Incident::LoseHost { host, guests_survive } => {
            (after_loss(&world, life, &meeting, host, guests_survive).await, false)
        }
    };
    check(case, &world).await;
    let now = seen(&world).await;
    let server = world.story().await.first().map(|(server, _)| *server);
    let possible = match trial.incident {
        _ if gone => ["DELETED", "ABSENT"].contains(&now),
        // The server has the power state of its guest, however the process ended.
        Incident::LoseHost { .. } if server.and_then(|server| power(&world, server)) == Some(now) => true,
        // A failed create request does not undo the builds that it has already started.
        Incident::LoseHost { .. } if case.waits && now == "ERROR" => true,
        Incident::Delete | Incident::LoseHost { .. } => {
            let half = !asked && case.half_asked.contains(&now);
            half || now == case.to || now == case.from || now == case.failed || case.failed_after.contains(&now)
        }
    };
    assert!(possible, "{what}: {now}\n{}", world.trail().await);
    appends
}

/// The status of a server according to the power state of its guest; `None` without a guest.
fn power(world: &World, server: InstanceId) -> Option<&'static str> {
    let hosts = world.fleet.whereabouts().remove(&server)?;
    let is_on = hosts.into_iter().any(|host| world.fleet.guests(host).get(&server).is_some_and(SimGuest::is_on));
    Some(if is_on { "ACTIVE" } else { "SHUTOFF" })
}

impl Incident {
    /// Performs the incident. Returns whether it was acknowledged.
    async fn happens(self, world: &World, life: &Life) -> bool {
        match self {
            Self::Delete => delete(life).await,
            Self::LoseHost { host, .. } => {
                world.fleet.kill_host(host);
                true
            }
        }
    }
}

/// Deletes the first server of the world, or the volume if there is no server.
async fn delete(life: &Life) -> bool {
    match server(life) {
        Some(server) => life.delete(server).await.is_ok(),
        None => life.remove_volume(VolumeId(subject().0), true, true).await.is_ok(),
    }
}

fn server(life: &Life) -> Option<InstanceId> {
    life.context().views.servers.read(|servers| servers.all().next().map(|row| row.id))
}

/// Returns the number of appends after the incident, and whether the subject must be gone: a delete was acknowledged,
/// or each life requested the delete of a server.
async fn after_delete(world: &World, life: Life, meeting: &EventAtStep, mut acknowledged: bool) -> (u64, bool) {
    let mut asked_to_go = server(&life).is_some();
    life.settled().await;
    let (appends, crashed) = (meeting.appends_since(), life.store.is_blown());
    life.stop().await;
    if crashed {
        let life = world.live(None, None).await;
        life.hosts_up(HOSTS).await;
        // This delete runs beside the processes that continue after the crash. It may be the second delete.
        acknowledged = acknowledged || delete(&life).await;
        asked_to_go = asked_to_go && server(&life).is_some();
        comes_to_rest(world, &life).await;
        life.stop().await;
    }
    (appends, acknowledged || asked_to_go)
}

async fn after_loss(world: &World, life: Life, meeting: &EventAtStep, host: usize, guests_survive: bool) -> u64 {
    idle(&life).await;
    life.store.arm(None);
    let (appends, crashed) = (meeting.appends_since(), life.store.is_blown());
    let life = match crashed {
        false => life,
        true => {
            life.stop().await;
            let next = world.live(None, None).await;
            idle(&next).await;
            next
        }
    };
    world.fleet.revive_host(host, guests_survive).unwrap();
    life.hosts_up(HOSTS).await;
    assert!(life.settled().await);
    compared(world, &life).await;
    assert!(life.settled().await);
    life.stop().await;
    appends
}

/// Waits until no process can continue, but at most for [`LOST`], because some processes wait for the host and record
/// no event about that.
async fn idle(life: &Life) {
    let is_stuck = |process: &Process| matches!(process, Process::Running(running) if running.stuck > 0);
    let met = |context: &StepContext| {
        let caught_up = context.views.position() >= life.store.head();
        caught_up && context.views.processes.read(|view| view.pending().all(|pending| is_stuck(&pending.state)))
    };
    let _ = tokio::time::timeout(LOST, life.until(met)).await;
}

/// Waits until the third comparison of each host with the log begins, so that two comparisons have ended. By then,
/// leftovers on a lost host are removed.
async fn compared(world: &World, life: &Life) {
    for call in [DriverCall::Guests, DriverCall::Leftovers] {
        let wanted: Vec<u64> = (0..HOSTS).map(|host| world.fleet.calls_of(host, call) + 3).collect();
        life.until(|_| wanted.iter().enumerate().all(|(host, wanted)| world.fleet.calls_of(host, call) >= *wanted))
            .await;
    }
}
