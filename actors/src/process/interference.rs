//! How the proofs make steps fail and repeat. A control plane runs without it.

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
    /// It is done twice.
    Repeat,
    /// It fails before it did anything.
    FailBefore,
    /// It does its work and then says that it failed.
    FailAfter,
}

/// Somebody who stands between the plan and the steps.
pub trait Interference: Send + Sync + 'static {
    fn judge(&self, process: &'static str, step: &'static str, way: Way) -> Verdict;
}

fn judged(work: &Work, process: &'static str, step: &'static str, way: Way) -> Verdict {
    work.house.interference.as_ref().map_or(Verdict::Pass, |by| by.judge(process, step, way))
}

fn failure() -> StepError {
    StepError::fatal(500, "interference", "a proof made the step fail")
}

/// Runs a step, interfered with where a proof does.
pub(super) async fn run(process: &'static str, step: &Step, work: &Work) -> Result<Output, StepError> {
    match judged(work, process, step.name, Way::Run) {
        Verdict::Pass => (step.run)(work).await,
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
    match judged(work, process, step.name, Way::Undo) {
        Verdict::Pass => undo(work).await,
        Verdict::FailBefore => Err(failure()),
        Verdict::FailAfter => undo(work).await.and(Err(failure())),
        Verdict::Repeat => {
            undo(work).await?;
            undo(work).await
        }
    }
}
