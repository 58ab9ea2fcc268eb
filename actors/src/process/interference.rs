//! How the proofs make steps fail and repeat. A control plane runs without it.

use std::time::Duration;

use chronova_events::process::Output;

use super::definition::{Step, StepError, Work};

/// Which half of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    Run,
    Undo,
}

/// What happens to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// It is not begun yet: the judge is asked again in a moment.
    Hold,
    /// It is done twice.
    Repeat,
    /// It fails before it did anything.
    FailBefore,
    /// It does its work and then says that it failed.
    FailAfter,
    /// It is said to be done and nothing was done: a planted defect, which a proof has to find.
    Skip,
}

/// Somebody who stands between the plan and the steps.
pub trait Interference: Send + Sync + 'static {
    fn judge(&self, process: &'static str, step: &'static str, way: Way) -> Verdict;
}

/// Between two questions to a judge who holds a step back.
const MOMENT: Duration = Duration::from_millis(1);

async fn judged(work: &Work, process: &'static str, step: &'static str, way: Way) -> Verdict {
    let Some(by) = &work.context.interference else { return Verdict::Pass };
    loop {
        match by.judge(process, step, way) {
            Verdict::Hold => tokio::time::sleep(MOMENT).await,
            verdict => return verdict,
        }
    }
}

fn failure() -> StepError {
    StepError::fatal(500, "interference", "a proof made the step fail")
}

/// Runs a step, interfered with where a proof does.
pub(super) async fn run(process: &'static str, step: &Step, work: &Work) -> Result<Output, StepError> {
    match judged(work, process, step.name, Way::Run).await {
        Verdict::Pass | Verdict::Hold => (step.run)(work).await,
        Verdict::Skip => Ok(Output::Nothing),
        Verdict::FailBefore => Err(failure()),
        Verdict::FailAfter => (step.run)(work).await.and(Err(failure())),
        Verdict::Repeat => {
            (step.run)(work).await?;
            (step.run)(work).await
        }
    }
}

/// Undoes a step, interfered with where a proof does.
pub(super) async fn undo(process: &'static str, step: &Step, work: &Work) -> Result<(), StepError> {
    let Some(undo) = step.undo else { return Ok(()) };
    match judged(work, process, step.name, Way::Undo).await {
        Verdict::Pass | Verdict::Hold => undo(work).await,
        Verdict::Skip => Ok(()),
        Verdict::FailBefore => Err(failure()),
        Verdict::FailAfter => undo(work).await.and(Err(failure())),
        Verdict::Repeat => {
            undo(work).await?;
            undo(work).await
        }
    }
}
