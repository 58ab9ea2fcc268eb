//! Has a guest write a dump of itself.
//!
//! | step | does |
//! |---|---|
//! | `interrupt` | sends the guest a non-maskable interrupt |
//!
//! Nobody can tell whether an interrupt was heard: after a crash of the control plane it is sent once more.

use chronova_events::process::{Outcome, Output};
use chronova_hypervisor::capability::Needed as _;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work};

pub const DEFINITION: Definition = Definition {
    name: "crash_dump",
    steps: &[Step { name: "interrupt", run: |work| interrupt(work).boxed(), undo: None }],
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

/// The server is what it was; how it went is in the record of the process.
fn conclude(_: &Work, _: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async { Ok(()) }.boxed()
}

async fn interrupt(work: &Work) -> Result<Output, StepError> {
    let Some(placed) = work.server().await?.and_then(|server| server.placement) else { return Ok(Output::Nothing) };
    match work.driver(placed.host)?.troubleshooting().needed()?.interrupt(work.instance_id()).await {
        Ok(()) => Ok(Output::Nothing),
        Err(error) if error.is_transient() => Err(StepError::Again(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
