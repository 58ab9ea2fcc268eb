//! Creates the servers of one request. The claim that requested this process has already reserved their quota.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `hold_quota` | nothing: the claim took the quota | releasing the quota of servers that were never recorded |
//! | `join_group` | adds the servers to the server group | removing them |
//! | `record_servers` | records each server; this event requests its build | deleting the recorded ones |
//!
//! The process records only failures ([`Task::records_only_failure`]). The record of the last server means success. The
//! request itself is in memory ([`CreateRequests`](crate::coordination::CreateRequests)). A crash loses the request and
//! the client's connection, so the next leader undoes the process if one of its servers is not recorded.

use chronova_events::ids::{InstanceId, ProcessId, ProjectId, ServerGroupId};
use chronova_events::instance::Instance;
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};

use super::definition::{Definition, StepError, StepRun, steps};
use super::turn;
use crate::aggregate::CommandError;
use crate::coordination::waiting_requests::CreateOrder;
use crate::instance::creation::{CreateReject, build_process};
use crate::instance::{CallerRights, InstanceReject, InstanceRequest, InstanceRoot};
use crate::quota::{QuotaCommand, QuotaRoot};
use crate::server_group::{ServerGroupCommand, ServerGroupRoot};

pub const DEFINITION: Definition = Definition {
    name: "create_servers",
    steps: steps! {
        "hold_quota" => turn::nothing, undone by release_quota;
        "join_group" => join_group, undone by leave_group;
        "record_servers" => record_servers, undone by delete_servers;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

/// The number of servers that are undone at the same time.
const AT_ONCE: usize = 64;

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        work.context.passwords.forget(process);
        work.context.create_requests.settle(process, outcome == ProcessOutcome::Succeeded);
        Ok(())
    }
    .boxed()
}

/// The claim that requested the process.
struct CreateClaim<'a> {
    project: &'a ProjectId,
    instances: &'a [InstanceId],
    group: Option<&'a (ProjectId, ServerGroupId)>,
}

/// Only this task runs these steps.
fn claimed(work: &StepRun) -> Result<CreateClaim<'_>, StepError> {
    match &work.running.task {
        Task::CreateServers { project, instances, group } => {
            Ok(CreateClaim { project, instances, group: group.as_ref() })
        }
        other => Err(StepError::fatal(500, "The process creates no servers.", other.name())),
    }
}

/// The request; `None` after a crash, or after a step failed.
fn order(work: &StepRun) -> Option<CreateOrder> {
    work.context.create_requests.order(work.running.process)
}

/// Notes that the request cannot succeed, and the reason for its client.
fn refuse<R>(work: &StepRun, error: CommandError<R>, reject: impl FnOnce(R) -> CreateReject) -> StepError {
    let reject = match error {
        CommandError::Rejected(rejected) => reject(rejected),
        CommandError::Unavailable(error) => CreateReject::Unavailable(error),
    };
    let fault = StepError::fatal(500, "The servers could not be created.", reject.clone());
    work.context.create_requests.refuse(work.running.process, reject);
    fault
}

async fn join_group(work: &StepRun) -> Result<StepOutput, StepError> {
    let claimed = claimed(work)?;
    let Some((owner, group)) = claimed.group else { return Ok(StepOutput::Nothing) };
    // Without the request, `record_servers` decides whether the process has succeeded.
    let Some(CreateOrder { request, meta }) = order(work) else { return Ok(StepOutput::Nothing) };
    let join = ServerGroupCommand::Join {
        group: *group,
        user: request.template.user.clone(),
        instances: claimed.instances.to_vec(),
        limit: request.group.as_ref().map_or(-1, |wanted| wanted.limit),
    };
    match work.context.gateway.send::<ServerGroupRoot>(owner, join, meta).await {
        Ok(committed) => work.context.create_requests.reached(work.running.process, committed.position),
        Err(error) => return Err(refuse(work, error, CreateReject::Group)),
    }
    Ok(StepOutput::Nothing)
}

async fn leave_group(work: &StepRun) -> Result<(), StepError> {
    let claimed = claimed(work)?;
    let Some((owner, group)) = claimed.group else { return Ok(()) };
    for chunk in claimed.instances.chunks(AT_ONCE) {
        try_join_all(chunk.iter().map(|instance| {
            let leave = ServerGroupCommand::Leave { group: *group, instance: *instance };
            work.context.gateway.send::<ServerGroupRoot>(owner, leave, work.meta.clone())
        }))
        .await?;
    }
    Ok(())
}

async fn record_servers(work: &StepRun) -> Result<StepOutput, StepError> {
    let claimed = claimed(work)?;
    let Some(order) = order(work) else { return all_recorded(work, claimed.instances).await };
    for (index, instance) in claimed.instances.iter().enumerate() {
        record_server(work, &order, *instance, index, claimed.instances.len()).await?;
    }
    Ok(StepOutput::Nothing)
}

/// Handles a request that a crash lost. The request has succeeded only if all its servers are recorded.
async fn all_recorded(work: &StepRun, instances: &[InstanceId]) -> Result<StepOutput, StepError> {
    for instance in instances {
        if let Instance::Absent = work.context.gateway.look::<InstanceRoot>(instance).await? {
            let message = "The control plane restarted before it had created the servers.";
            return Err(StepError::fatal(500, message, ""));
        }
    }
    Ok(StepOutput::Nothing)
}

async fn record_server(
    work: &StepRun,
    order: &CreateOrder,
    instance: InstanceId,
    index: usize,
    of: usize,
) -> Result<(), StepError> {
    let (context, process) = (&work.context, work.running.process);
    let number = context.server_numbers.next(&context.views);
    let build = build_process(instance);
    if let Some(password) = context.passwords.of(process) {
        context.passwords.keep(build, password.to_owned());
    }
    let command = order.request.server(instance, index, of, number);
    match context.gateway.send::<InstanceRoot>(&instance, command, order.meta.clone()).await {
        Ok(committed) => context.create_requests.reached(process, committed.position),
        // This step was repeated after a crash, and in between a user had deleted the server.
        Err(CommandError::Rejected(InstanceReject::NotFound)) => context.passwords.forget(build),
        Err(error) => {
            context.passwords.forget(build);
            return Err(refuse(work, error, |reject| CreateReject::Server { instance, reject }));
        }
    }
    Ok(())
}

async fn delete_servers(work: &StepRun) -> Result<(), StepError> {
    for chunk in claimed(work)?.instances.chunks(AT_ONCE) {
        try_join_all(chunk.iter().map(|instance| delete_server(work, *instance))).await?;
    }
    Ok(())
}

async fn delete_server(work: &StepRun, instance: InstanceId) -> Result<(), StepError> {
    let process = ProcessId::derive(instance.0, "undo-create");
    // The undo deletes a server even if its user has locked it meanwhile.
    let asker = CallerRights { overrides_lock: true };
    let delete = InstanceRequest::Delete { process, force: true, asker };
    match work.context.gateway.send::<InstanceRoot>(&instance, delete, work.meta.clone()).await {
        Ok(_) | Err(CommandError::Rejected(InstanceReject::NotFound)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn release_quota(work: &StepRun) -> Result<(), StepError> {
    let claimed = claimed(work)?;
    for chunk in claimed.instances.chunks(AT_ONCE) {
        try_join_all(chunk.iter().map(|instance| release(work, claimed.project, *instance))).await?;
    }
    Ok(())
}

/// Releases the quota of a server that was never recorded. A recorded server releases its quota at its deletion.
async fn release(work: &StepRun, project: &ProjectId, instance: InstanceId) -> Result<(), StepError> {
    let gateway = &work.context.gateway;
    if let Instance::Absent = gateway.look::<InstanceRoot>(&instance).await? {
        let release = QuotaCommand::Release { project: project.clone(), instance };
        gateway.send::<QuotaRoot>(project, release, work.meta.clone()).await?;
    }
    Ok(())
}
