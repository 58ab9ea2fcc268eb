//! A step fails, and the control plane crashes before or after some append while the process undoes its steps.

use std::sync::Arc;

use chronova_actors::process::interference::{Interference, InterferenceVerdict};
use chronova_events::envelope::Position;
use chronova_events::process::ProcessEvent;
use chronova_events::registry::{Event, NounEvent as _};
use chronova_events::store::EventStore as _;

use super::interferences::FailingOnce;
use super::sample::Sample;
use super::{Case, HOSTS, check, comes_to_rest, prepared, seen, subject};
use crate::world::{Setting, World};

/// The most trials of a case in an ordinary run.
const FEW: usize = 4;

/// The failure of a step, and the number of appends from then to the end.
pub(super) struct Unwinding {
    pub(super) step: &'static str,
    pub(super) verdict: InterferenceVerdict,
    pub(super) appends: u64,
}

/// Crashes in each of these unwindings, or in a sample of them.
pub(super) async fn crash_in(case: &Case, unwindings: Vec<Unwinding>, sample: &mut Sample) {
    let fuses = |unwinding: &Unwinding| (1..=unwinding.appends).flat_map(|fuse| [(fuse, false), (fuse, true)]);
    let trials = unwindings.iter().flat_map(|unwinding| fuses(unwinding).map(move |fuse| (unwinding, fuse)));
    for (unwinding, (fuse, loses)) in sample.choose(trials.collect(), FEW) {
        let (step, verdict) = (unwinding.step, unwinding.verdict);
        eprintln!("{}: {step} {verdict:?}, crash at append {fuse} after it, lost: {loses}", case.definition.name);
        crashes(case, step, verdict, fuse, loses).await;
    }
}

async fn crashes(case: &Case, step: &'static str, verdict: InterferenceVerdict, fuse: u64, loses: bool) {
    let world = prepared(case).await;
    let failures_before = failures(&world).await;
    let once = FailingOnce::new(case.definition, step, verdict, Some(fuse));
    let interference: Option<Arc<dyn Interference>> = Some(once.clone());
    let life = world.begin(Setting { loses, interference, ..Setting::default() }).await;
    once.watch(&life.store);
    life.hosts_up(HOSTS).await;
    let acknowledged = (case.ask)(&life, subject()).await.is_ok();
    life.settled().await;
    life.stop().await;
    assert!(once.has_judged(), "{step} of {} is never reached", case.definition.name);
    let failed = failures(&world).await > failures_before;

    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    comes_to_rest(&world, &life).await;
    life.stop().await;
    check(case, &world).await;
    let now = seen(&world).await;
    // If the failure was not recorded before the crash, the next life runs the step again, and this time the step
    // succeeds.
    let failed = case.definition.undoes && failed;
    let expected = if failed { case.failed } else { case.to };
    let possible = now == expected
        || (failed && verdict == InterferenceVerdict::FailAfter && case.failed_after.contains(&now))
        || (!acknowledged && (now == case.from || case.half_asked.contains(&now)));
    let name = case.definition.name;
    assert!(possible, "{name}: {step} {verdict:?}, crashed at append {fuse} after it: {now}\n{}", world.trail().await);
}

/// The number of failed steps in the log. Processes that came before the case may have some, too.
async fn failures(world: &World) -> usize {
    let events = world.log.read_all(Position::START, usize::MAX).await.unwrap();
    let is_failure = |event: &Event| matches!(ProcessEvent::of(event), Some(ProcessEvent::StepFailed(_)));
    events.iter().filter(|recorded| recorded.event().is_ok_and(|event| is_failure(event))).count()
}
