//! Deletes a server. The process only goes forward, and retries each step until the step succeeds.
//!
//! | step | does |
//! |---|---|
//! | `call_off_build` | cancels a build or a move under way, and waits until it is undone |
//! | `destroy_guest` | removes domain and disks on both hosts of a move; a down host's agent does it later |
//! | `release_volumes` | releases the volumes, deletes those with `delete_on_termination` |
//! | `release_network` | deletes the ports created for the server, unbinds the others |
//! | `release_claim` | releases the claim in the ledger |
//! | `delete_shelved_image` | deletes the image of a shelved server's disk |
//! | `release_quota` | releases the project's quota, and removes the server from its server group |

use std::time::Duration;

use chronova_events::ids::ProcessId;
use chronova_events::process::{Process, ProcessOutcome, StepOutput, Task};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, settled, steps};
use super::{
    ProcessCommand, ProcessReject, ProcessRoot, build_instance, build_volumes, guest, imaging, move_instance, moving,
    tpm,
};
use crate::aggregate::CommandError;
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::quota::{QuotaCommand, QuotaRoot};
use crate::server_group::{ServerGroupCommand, ServerGroupRoot};

pub const DEFINITION: Definition = Definition {
    name: "delete_instance",
    steps: steps! {
        "call_off_build" => call_off_build;
        "destroy_guest" => destroy_guest;
        "release_volumes" => build_volumes::give_back;
        "release_network" => release_network;
        "release_claim" => release_claim;
        "delete_shelved_image" => delete_shelved_image;
        "release_quota" => release_quota;
    },
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

/// The pause between two polls of the process that is being cancelled.
const POLL: Duration = Duration::from_millis(20);
/// The number of polls before the step is started again.
const LOOKS: u32 = 100;

fn conclude(work: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let record = InstanceRecord::Deleted { process: work.running.process };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

async fn call_off_build(work: &StepRun) -> Result<StepOutput, StepError> {
    match work.running.task {
        Task::DeleteInstance { cancels: Some(build), .. } => call_off(work, build).await,
        _ => Ok(StepOutput::Nothing),
    }
}

/// Cancels a process under way, and waits until it is undone.
pub(crate) async fn call_off(work: &StepRun, build: ProcessId) -> Result<StepOutput, StepError> {
    let gateway = &work.context.gateway;
    cancel(work, build).await?;
    for _ in 0..LOOKS {
        if let Process::Finished { .. } = gateway.look::<ProcessRoot>(&build).await? {
            return Ok(StepOutput::Nothing);
        }
        tokio::time::sleep(POLL).await;
    }
    Err(StepError::again("the cancelled process is still undoing its steps"))
}

/// Cancels a process as soon as the log has its first record. A running process may hold back its records for a while.
async fn cancel(work: &StepRun, build: ProcessId) -> Result<(), StepError> {
    for _ in 0..LOOKS {
        work.context.running.ring(build);
        let call = ProcessCommand::CallOff { by: work.running.process };
        match work.context.gateway.send::<ProcessRoot>(&build, call, work.meta.clone()).await {
            Ok(_) => return Ok(()),
            Err(CommandError::Rejected(ProcessReject::NotStarted)) => tokio::time::sleep(POLL).await,
            Err(error) => return Err(error.into()),
        }
    }
    Err(StepError::again("the process to cancel has not begun yet"))
}

async fn destroy_guest(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = work.server().await? else { return Ok(StepOutput::Nothing) };
    if let Some(placed) = &server.placement {
        guest::destroy(work, placed.host).await?;
    }
    if let Some(moving) = &server.moving {
        move_instance::clean_up(work, moving).await?;
    }
    tpm::forget(work, &server).await?;
    Ok(StepOutput::Nothing)
}

async fn release_network(work: &StepRun) -> Result<StepOutput, StepError> {
    build_instance::release_network(work).await.map(|()| StepOutput::Nothing)
}

async fn release_claim(work: &StepRun) -> Result<StepOutput, StepError> {
    build_instance::release_claim(work).await?;
    if let Some(moving) = work.server().await?.and_then(|server| server.moving) {
        moving::release(work, moving.migration).await?;
    }
    Ok(StepOutput::Nothing)
}

async fn delete_shelved_image(work: &StepRun) -> Result<StepOutput, StepError> {
    if let Some(image) = work.server().await?.and_then(|server| server.shelved) {
        imaging::drop_image(work, image).await?;
    }
    Ok(StepOutput::Nothing)
}

async fn release_quota(work: &StepRun) -> Result<StepOutput, StepError> {
    if let Some(server) = work.server().await? {
        let project = server.request.project.clone();
        let release = QuotaCommand::Release { project: project.clone(), instance: work.instance_id() };
        work.context.gateway.send::<QuotaRoot>(&project, release, work.meta.clone()).await?;
    }
    leave_group(work).await?;
    Ok(StepOutput::Nothing)
}

/// Removes the server from its group. The server became a member before it was recorded, so the read model shows the
/// membership. A reconciler removes members that a crash leaves behind.
async fn leave_group(work: &StepRun) -> Result<(), StepError> {
    let instance = work.instance_id();
    let group = work.context.views.server_groups.read(|groups| {
        groups.of_server(instance).map(|group| (group.definition.project.clone(), group.definition.group))
    });
    if let Some((project, group)) = group {
        let leave = ServerGroupCommand::Leave { group, instance };
        work.context.gateway.send::<ServerGroupRoot>(&project, leave, work.meta.clone()).await?;
    }
    Ok(())
}
