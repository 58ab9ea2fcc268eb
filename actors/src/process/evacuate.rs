//! Evacuates a server. Its host is down, so the process rebuilds it on another host.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_host` | moves the allocations to the migration, claims a destination | moving them back |
//! | `prepare_target` | caches the image on the destination, adds networks and filters | (kept: a cache, and shared) |
//! | `bind_network` | binds the ports to the destination | binding them back |
//! | `attach_volumes` | attaches the volumes to the destination | attaching them back |
//! | `fence_source` | powers the guest off on its old host, if that host answers after all | |
//! | `start_target` | provides the disks, fences again, defines and starts the domain | destroying the guest there |
//!
//! The process uses disks on shared storage as they are, and creates all other disks again from the image. When the old
//! host is back, its agent removes the guest there (see [`crate::hosts::plan`]). Until the evacuation has ended, the
//! agent only keeps the guest off, so that a failed evacuation loses nothing.

use chronova_events::host::KnownHost;
use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, Evacuation, MoveStage};
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::driver::{DriverError, StopMode};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::moving::{self, MovingServer};
use super::{build_volumes, destination, guest, live_migrate, move_instance, moved_volumes};
use crate::instance::MoveRecord;

pub const DEFINITION: Definition = Definition {
    name: "evacuate",
    steps: steps! {
        "claim_host" => claim_host, undone by move_instance::release_host;
        "prepare_target" => prepare_target;
        "bind_network" => move_instance::bind_network, undone by move_instance::unbind;
        "attach_volumes" => attach_volumes, undone by reattach_volumes;
        "fence_source" => fence_source;
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
                // If a delete has overtaken this process, the delete cleans up.
                let Some(subject) = moving::subject(work).await? else { return Ok(()) };
                if !moving::is_mine(work, &subject.server) {
                    return Ok(());
                }
                moving::release(work, process).await?;
                let renewed = !shares_disks(work, &subject)?;
                moving::record(work, MoveRecord::Evacuated { process, renewed }).await?;
                // The old host may be back already, with leftovers of the server.
                live_migrate::look_at_both(work, &subject);
                Ok(())
            }
            ProcessOutcome::Failed => {
                moving::record(work, MoveRecord::Failed { process, fault: moving::fault(work) }).await
            }
            // The process that cancelled this process continues with the server.
            ProcessOutcome::CalledOff => Ok(()),
        }
    }
    .boxed()
}

fn evacuation(subject: &MovingServer) -> Option<&Evacuation> {
    subject.moving.evacuation.as_ref()
}

async fn claim_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    if let Some(chosen) = destination::chosen(work, &subject) {
        return Ok(chosen);
    }
    moving::disks_at_rest(&subject.server)?;
    moving::set_aside(work, work.running.process).await?;
    let mut request = destination::elsewhere(work, &subject);
    // If only one host reaches a volume, the server must go to that host. If it is the old host, there is no
    // destination.
    if let Some(only) = build_volumes::only_host(work, &subject.server).await? {
        (request.forced_host, request.requested_host) = (None, destination::name(work, only));
    }
    destination::choose(work, &subject, request, None).await
}

/// Whether both hosts share storage. The answer must be certain, because an undo removes the destination's disks if the
/// hosts share no storage.
fn is_shared(work: &StepRun, source: HostId, target: HostId) -> Result<bool, StepError> {
    match work.context.fleet.knows_storage_of(target) {
        true => Ok(work.context.fleet.share(source, target)),
        false => Err(StepError::again(format!("the storage of host {target} has not been checked yet"))),
    }
}

/// Whether the destination has the server's disks because the hosts share storage.
fn shares_disks(work: &StepRun, subject: &MovingServer) -> Result<bool, StepError> {
    let shared = is_shared(work, subject.moving.source.host, subject.target()?.host)?;
    match evacuation(subject).and_then(|evacuation| evacuation.on_shared_storage) {
        Some(said) if said != shared => {
            Err(StepError::fatal(500, "Invalid state of instance files on shared storage", ""))
        }
        _ => Ok(shared),
    }
}

/// The server after the evacuation. A new disk is created from the server's own image. The image of an earlier shelve,
/// which the lost disk was based on, is gone.
fn renewed(subject: &MovingServer, shared: bool) -> Alive {
    let mut server = subject.server.clone();
    if !shared {
        server.root = None;
    }
    server
}

async fn prepare_target(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    let shared = shares_disks(work, &subject)?;
    guest::prepare(work, subject.target()?.host, &renewed(&subject, shared)).await?;
    Ok(StepOutput::Nothing)
}

async fn attach_volumes(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    move_instance::advance(work, MoveStage::Migrating).await?;
    moved_volumes::take(work, &subject.server, subject.target()?).await?;
    Ok(StepOutput::Nothing)
}

async fn reattach_volumes(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    moved_volumes::take_back(work, &subject.server, &subject.moving.source).await
}

async fn fence_source(work: &StepRun) -> Result<StepOutput, StepError> {
    fence(work, &moving::mine(work).await?).await.map(|()| StepOutput::Nothing)
}

/// Powers the guest off on the old host. The old host may still run the guest if an operator only declared it down, or
/// if it came back.
async fn fence(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    let source = subject.moving.source.host;
    let Some(driver) = work.context.fleet.driver(source) else {
        // The host was recorded as down before the start-up, so it may be back. A host that was removed from the
        // configuration has no agent.
        let known = work.context.views.hosts.read(|hosts| hosts.get(source).cloned());
        if known.as_ref().is_some_and(|host| work.context.fleet.is_refused(&host.uri)) {
            let message = "Another copy of this log drives the server's host, which may still run the server.";
            return Err(StepError::fatal(409, message, ""));
        }
        let unheard = |host: KnownHost| host.up || work.context.fleet.is_unheard(&host.uri);
        return match known.is_some_and(unheard) {
            true => Err(StepError::again(format!("host {source} has not answered yet"))),
            false => Ok(()),
        };
    };
    match driver.stop(work.instance_id(), StopMode::Hard).await {
        // A host without an answer is down, as the requester said.
        Ok(()) | Err(DriverError::Unreachable(_) | DriverError::Timeout { .. } | DriverError::NoSuchGuest(_)) => Ok(()),
        Err(error) => Err(StepError::fatal(500, "The guest cannot be switched off at its old host.", error)),
    }
}

async fn start_target(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    move_instance::advance(work, MoveStage::Finishing).await?;
    let host = subject.target()?.host;
    let shared = shares_disks(work, &subject)?;
    let server = renewed(&subject, shared);
    if !shared {
        guest::provide(work, host, &server).await?;
    }
    // The old host is fenced once more right before the start. This step may be a retry, and the old host may be back
    // by now.
    let _turn = guest::turn_of(work, host).await;
    fence(work, &subject).await?;
    guest::install_now(work, host, &server, subject.moving.was_active).await?;
    Ok(StepOutput::Nothing)
}

async fn destroy_target(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    let Some(target) = &subject.moving.target else { return Ok(()) };
    moving::fence(work, &subject, target).await?;
    if !work.host_answers(target.host)? {
        return Ok(());
    }
    match is_shared(work, subject.moving.source.host, target.host)? {
        true => Ok(()),
        false => guest::destroy(work, target.host).await,
    }
}
