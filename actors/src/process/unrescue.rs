//! Unrescues a server: starts it from its own disk again.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `unrescue` | removes the rescue disk from the definition, starts the guest | (nothing: the user can repeat it) |

use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::guest::Renew;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{guest, imaging, turn};
use crate::instance::WorkOutcome;

pub const DEFINITION: Definition = Definition {
    name: "unrescue",
    steps: steps! {
        "unrescue" => unrescue;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    turn::conclude(work, outcome, WorkOutcome::Unrescued, WorkOutcome::UnrescueFailed)
}

async fn unrescue(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    guest::connect(work, placed.host, &server).await?;
    guest::reshape(work, placed.host, &server, Renew::Nothing, None).await?;
    Ok(StepOutput::Nothing)
}
