//! Confirms a cold migration or a resize. The process only goes forward, and retries each step until the step succeeds.
//!
//! | step | does |
//! |---|---|
//! | `clear_source` | removes guest and disks at the source; if the disks stay in place, removes their copy instead |
//! | `release_claim` | releases the claim on the source host |
//! | `settle_quota` | reduces the quota to the new flavor, for a move that an older version of Chronova made |

use chronova_events::process::{ProcessOutcome, StepOutput};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{guest, moving};
use crate::instance::MoveRecord;

pub const DEFINITION: Definition = Definition {
    name: "confirm_resize",
    steps: steps! {
        "clear_source" => clear_source;
        "release_claim" => release_claim;
        "settle_quota" => settle_quota;
    },
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    moving::record(work, MoveRecord::Confirmed { process: work.running.process }).boxed()
}

async fn clear_source(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(StepOutput::Nothing) };
    let source = &subject.moving.source;
    if !moving::in_place(work, &subject).await? {
        guest::destroy(work, source.host).await?;
        return Ok(StepOutput::Nothing);
    }
    if !subject.moving.stays() {
        moving::withdraw(work, source).await?;
    }
    moving::drop_kept(work, &subject).await?;
    Ok(StepOutput::Nothing)
}

async fn release_claim(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(StepOutput::Nothing) };
    moving::release(work, subject.moving.migration).await.map(|()| StepOutput::Nothing)
}

async fn settle_quota(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(StepOutput::Nothing) };
    moving::count(work, &subject.server, &subject.moving.new_flavor).await.map(|()| StepOutput::Nothing)
}
