//! Triggers a crash dump in a guest.
//!
//! | step | does |
//! |---|---|
//! | `interrupt` | sends the guest a non-maskable interrupt |
//!
//! Nothing shows whether the guest got the interrupt. So after a crash of the control plane, the step sends it once
//! more.

use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::capability::Needed as _;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};

pub const DEFINITION: Definition = Definition {
    name: "crash_dump",
    steps: steps! {
        "interrupt" => interrupt;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

/// The server does not change; the process's record has the result.
fn conclude(_: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async { Ok(()) }.boxed()
}

async fn interrupt(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(placed) = work.server().await?.and_then(|server| server.placement) else { return Ok(StepOutput::Nothing) };
    match work.driver(placed.host)?.troubleshooting().needed()?.interrupt(work.instance_id()).await {
        Ok(()) => Ok(StepOutput::Nothing),
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error) => Err(error.into()),
    }
}
