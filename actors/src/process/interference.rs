//! The hook with which tests make steps fail and repeat. A control plane runs without it.

use std::time::Duration;

use chronova_events::process::StepOutput;

use super::definition::{Step, StepError, StepRun};

/// The direction of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepDirection {
    Run,
    Undo,
}

/// The fate of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterferenceVerdict {
    Pass,
    /// The step waits, and the hook is called again soon.
    Hold,
    /// The step runs twice.
    Repeat,
    /// The step fails before it does anything.
    FailBefore,
    /// The step does its work and then reports a failure.
    FailAfter,
    /// The step reports success without its work: a planted defect, which a test must find.
    Skip,
}

/// A test's hook between the plan and the steps.
pub trait Interference: Send + Sync + 'static {
    fn judge(&self, process: &'static str, step: &'static str, way: StepDirection) -> InterferenceVerdict;
}

/// The pause between two calls of the hook for a step that waits.
const MOMENT: Duration = Duration::from_millis(1);

async fn wait_for_verdict(
    work: &StepRun,
    process: &'static str,
    step: &'static str,
    way: StepDirection,
) -> InterferenceVerdict {
    let Some(by) = &work.context.interference else { return InterferenceVerdict::Pass };
    loop {
        match by.judge(process, step, way) {
            InterferenceVerdict::Hold => tokio::time::sleep(MOMENT).await,
            verdict => return verdict,
        }
    }
}

fn failure() -> StepError {
    StepError::fatal(500, "interference", "the crash harness made the step fail")
}

/// Runs a step, through the hook if there is one.
pub(super) async fn run(process: &'static str, step: &Step, work: &StepRun) -> Result<StepOutput, StepError> {
    match wait_for_verdict(work, process, step.name, StepDirection::Run).await {
        InterferenceVerdict::Pass | InterferenceVerdict::Hold => (step.run)(work).await,
        InterferenceVerdict::Skip => Ok(StepOutput::Nothing),
        InterferenceVerdict::FailBefore => Err(failure()),
        InterferenceVerdict::FailAfter => (step.run)(work).await.and(Err(failure())),
        InterferenceVerdict::Repeat => {
            (step.run)(work).await?;
            (step.run)(work).await
        }
    }
}

/// Undoes a step, through the hook if there is one.
pub(super) async fn undo(process: &'static str, step: &Step, work: &StepRun) -> Result<(), StepError> {
    let Some(undo) = step.undo else { return Ok(()) };
    match wait_for_verdict(work, process, step.name, StepDirection::Undo).await {
        InterferenceVerdict::Pass | InterferenceVerdict::Hold => undo(work).await,
        InterferenceVerdict::Skip => Ok(()),
        InterferenceVerdict::FailBefore => Err(failure()),
        InterferenceVerdict::FailAfter => undo(work).await.and(Err(failure())),
        InterferenceVerdict::Repeat => {
            undo(work).await?;
            undo(work).await
        }
    }
}
