//! The gate before work on hosts. A leader that took over before the former lease ended decides requests, but touches
//! no host yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chronova_actors::coordination::HostGate;
use chronova_actors::process::build_instance;
use chronova_actors::process::interference::{Interference, InterferenceVerdict, StepDirection};
use chronova_events::process::Process;
use chronova_hypervisor::sim::DriverCall;
use chronova_projections::processes::UnfinishedProcess;
use chronova_tests::creation::create_request;
use chronova_tests::world::{Life, Setting, World, build_request};

use super::{id, started};

/// How many times the test yields to other tasks. A call to a host that must not happen would happen in this time.
const TURNS: usize = 10_000;

/// Counts the steps of builds.
#[derive(Default)]
struct BuildSteps(AtomicUsize);

impl Interference for BuildSteps {
    fn judge(&self, process: &'static str, _: &'static str, _: StepDirection) -> InterferenceVerdict {
        if process == build_instance::DEFINITION.name {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        InterferenceVerdict::Pass
    }
}

fn driver_calls(world: &World) -> u64 {
    DriverCall::ALL.iter().map(|call| world.fleet.calls(*call)).sum()
}

/// Whether the build of server 1 is requested, and has neither begun nor ended.
fn build_waits(life: &Life) -> bool {
    let process = build_request(id(1)).process;
    let waits = |one: &UnfinishedProcess| one.process == process && matches!(one.state, Process::Absent);
    life.status(id(1)) == "BUILD" && life.context().views.processes.read(|all| all.pending().any(waits))
}

async fn behind_closed_gate(world: &World) -> Life {
    let (_, gate) = HostGate::closed();
    world.begin(Setting { host_gate: Some(gate), ..Setting::default() }).await
}

#[actix_rt::test]
async fn no_host_is_touched_before_the_gate_opens() {
    let world = World::new(1);
    started(&world).await.stop().await;
    let life = behind_closed_gate(&world).await;
    life.build(id(1)).await.unwrap();
    life.until(|_| build_waits(&life)).await;
    life.stop().await;

    // This leader finds the unfinished build in the log.
    let (opener, gate) = HostGate::closed();
    let (steps, before) = (Arc::new(BuildSteps::default()), driver_calls(&world));
    let interference = Some(Arc::clone(&steps) as Arc<dyn Interference>);
    let life = world.begin(Setting { host_gate: Some(gate), interference, ..Setting::default() }).await;
    let created = life.create(create_request(2)).await.unwrap();
    assert_eq!(created.len(), 2, "requests are not decided while the gate is closed");
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
    assert!(life.context().fleet.driver(world.fleet.uri().host_id(0)).is_none(), "the host is connected");
    assert_eq!(driver_calls(&world), before, "the driver was called");
    assert!(build_waits(&life), "the build has begun");
    assert_eq!(steps.0.load(Ordering::SeqCst), 0, "a build has had a step");

    opener.send_replace(true);
    life.hosts_up(1).await;
    assert!(life.settled().await);
    for server in std::iter::once(id(1)).chain(created) {
        assert_eq!(life.status(server), "ACTIVE");
    }
    assert!(steps.0.load(Ordering::SeqCst) > 0, "no step was counted");
    life.stop().await;
    world.check().await;
}
