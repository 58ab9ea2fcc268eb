//! Resizes a server, or cold-migrates it to another host. The guest is off meanwhile.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_host` | moves the allocations to the migration, claims a destination | moving them back |
//! | `prepare_target` | caches the image on the destination, adds networks and filters | (kept: a cache, and shared) |
//! | `stop_source` | powers the guest off | starting it, if it ran |
//! | `copy_disks` | copies the disks to the destination; if they stay in place, sets a copy aside | removing them |
//! | `bind_network` | binds the ports to the destination | binding them back |
//! | `attach_volumes` | attaches the volumes to the destination | attaching them back |
//! | `start_target` | enlarges the disks, defines the domain, starts it if it ran | destroying the guest there |
//!
//! The source keeps its guest and disks until the move is confirmed. On the same host and on shared storage, disks stay
//! in place, and a copy is set aside for a revert. If a destination fails, the process tries another, `[scheduler]
//! max_attempts` in all.

use std::sync::Arc;

use chronova_events::instance::{MoveStage, Moving};
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::driver::StopMode;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::moving::{self, MovingServer};
use super::{build_volumes, destination, guest, moved_volumes, tpm};
use crate::instance::MoveRecord;
use crate::instance::disks;
use crate::scheduler::RequestSpec;

pub const DEFINITION: Definition = Definition {
    name: "move_instance",
    steps: steps! {
        "claim_host" => claim_host, undone by release_host;
        "prepare_target" => prepare_target;
        "stop_source" => stop_source, undone by start_source;
        "copy_disks" => copy_disks, undone by remove_copies;
        "bind_network" => bind_network, undone by unbind;
        "attach_volumes" => attach_volumes, undone by reattach_volumes;
        "start_target" => start_target, undone by destroy_target;
    },
    undoes: true,
    max_attempts: |options| options.max_attempts.max(1),
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        match outcome {
            ProcessOutcome::Succeeded => {
                let Some(subject) = moving::subject(work).await? else { return Ok(()) };
                // As in Nova, a smaller flavor frees quota before the confirmation. A repetition of this conclusion
                // must not free quota again, because a revert may have claimed it for the old flavor since.
                if moving::is_mine(work, &subject.server) {
                    moving::count(work, &subject.server, &subject.moving.new_flavor).await?;
                }
                moving::record(work, MoveRecord::Arrived { process }).await
            }
            ProcessOutcome::Failed => {
                let Some(subject) = moving::subject(work).await? else { return Ok(()) };
                moving::count(work, &subject.server, &subject.moving.old_flavor).await?;
                moving::record(work, MoveRecord::Failed { process, fault: moving::fault(work) }).await
            }
            // The process that cancelled this process continues with the server.
            ProcessOutcome::CalledOff => Ok(()),
        }
    }
    .boxed()
}

async fn claim_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    if let Some(chosen) = destination::chosen(work, &subject) {
        return Ok(chosen);
    }
    check_disks(&subject)?;
    tpm::check_access(work, &subject.server).await?;
    moving::disks_at_rest(&subject.server)?;
    moving::set_aside(work, work.running.process).await?;
    destination::choose(work, &subject, request(work, &subject).await?, None).await
}

/// Refuses a smaller disk, with the message of Nova's libvirt driver.
fn check_disks(subject: &MovingServer) -> Result<(), StepError> {
    let (old, new) = (&subject.moving.old_flavor, &subject.moving.new_flavor);
    let root = new.root_gib < old.root_gib && !subject.server.is_volume_backed();
    match root || new.ephemeral_gib < disks::ephemerals(&subject.server).iter().sum() {
        true => Err(StepError::fatal(500, "Resize error: Unable to resize disk down.", "")),
        false => Ok(()),
    }
}

async fn request(work: &StepRun, subject: &MovingServer) -> Result<RequestSpec, StepError> {
    let mut request = destination::elsewhere(work, subject);
    if let Some(only) = build_volumes::only_host(work, &subject.server).await? {
        request.requested_host = destination::name(work, only);
    }
    Ok(request)
}

pub(super) async fn release_host(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    destination::give_up(work, &subject, |fault| &fault.details).await
}

pub(super) async fn advance(work: &StepRun, stage: MoveStage) -> Result<(), StepError> {
    moving::insist(work, MoveRecord::Advanced { process: work.running.process, stage }).await.map(drop)
}

async fn prepare_target(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    guest::prepare_from(work, subject.moving.source.host, subject.target()?.host, &subject.server).await?;
    Ok(StepOutput::Nothing)
}

async fn stop_source(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    advance(work, MoveStage::Migrating).await?;
    let mode = match subject.moving.was_active {
        true => guest::graceful(work, &subject.server),
        false => StopMode::Hard,
    };
    let driver = work.driver(subject.moving.source.host)?;
    driver.stop(work.instance_id(), mode).await.map_err(StepError::only_here)?;
    Ok(StepOutput::Nothing)
}

async fn start_source(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    match subject.moving.was_active && moving::is_mine(work, &subject.server) {
        true => moving::start_again(work, subject.moving.source.host, &subject.server).await,
        false => Ok(()),
    }
}

async fn copy_disks(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    let source = work.driver(subject.moving.source.host)?;
    let in_place = moving::in_place(work, &subject).await?;
    // On shared storage, a copy to the destination would overwrite the disk itself.
    let target = if in_place { Arc::clone(&source) } else { work.driver(subject.target()?.host)? };
    let busy = || StepError::again("leftovers of an earlier move are being removed");
    let alone =
        if in_place { Some(work.context.disk_claims.enter(work.instance_id()).ok_or_else(busy)?) } else { None };
    for disk in moving::disks(work, &source).await? {
        let name = if in_place { disk.kept() } else { disk.clone() };
        moving::send(work, &source, &disk, &target, &name).await?;
    }
    drop(alone);
    tpm::carry(work, subject.moving.source.host, subject.target()?.host, &subject.server).await?;
    advance(work, MoveStage::Migrated).await?;
    Ok(StepOutput::Nothing)
}

async fn remove_copies(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    let Some(target) = &subject.moving.target else { return Ok(()) };
    match moving::in_place(work, &subject).await? {
        true => moving::drop_kept(work, &subject).await,
        false => guest::destroy(work, target.host).await,
    }
}

pub(super) async fn bind_network(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    moving::bind(work, subject.target()?).await?;
    Ok(StepOutput::Nothing)
}

pub(super) async fn unbind(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    moving::bind(work, &subject.moving.source).await
}

async fn attach_volumes(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    if !subject.moving.stays() {
        moved_volumes::take(work, &subject.server, subject.target()?).await?;
    }
    Ok(StepOutput::Nothing)
}

async fn reattach_volumes(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    match subject.moving.stays() {
        true => Ok(()),
        false => moved_volumes::take_back(work, &subject.server, &subject.moving.source).await,
    }
}

async fn start_target(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    advance(work, MoveStage::Finishing).await?;
    let (host, flavor) = (subject.target()?.host, &subject.moving.new_flavor);
    guest::install(work, host, &subject.with(flavor), subject.moving.was_active).await?;
    Ok(StepOutput::Nothing)
}

async fn destroy_target(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    let Some(target) = &subject.moving.target else { return Ok(()) };
    if subject.moving.stays() {
        return restore(work, &subject).await;
    }
    moving::fence(work, &subject, target).await?;
    match moving::in_place(work, &subject).await? {
        true => moving::put_kept_back(work, &subject).await,
        false => guest::destroy(work, target.host).await,
    }
}

/// Restores the guest at its source: off, with its old disks and definition.
pub(super) async fn restore(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    moving::pull(work, subject.moving.source.host).await?;
    moving::put_kept_back(work, subject).await?;
    guest::install_as_before(work, subject, false).await
}

/// Removes the guests of a move for a delete. The move is neither confirmed nor reverted, or was cancelled half-way.
pub(super) async fn clean_up(work: &StepRun, moving: &Moving) -> Result<(), StepError> {
    // On shared storage, each call removes the disks that both hosts use. So the guest at the destination, which may
    // run on them, is removed first.
    if let Some(target) = &moving.target {
        guest::destroy(work, target.host).await?;
    }
    guest::destroy(work, moving.source.host).await
}
