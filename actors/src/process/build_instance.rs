//! Builds a server.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_host` | chooses a host, claims its resources in the ledger, records the host | release, record |
//! | `allocate_network` | makes or binds the ports | deleting or unbinding them |
//! | `prepare_volumes` | makes volumes, waits for them, reserves and connects them | giving them back, deleting those made |
//! | `prepare_host` | image into the host's cache; networks and filters on the host | (kept: a cache, and shared) |
//! | `spawn_guest` | disks, domain, start | destroying the guest |
//! | `complete_volumes` | tells the volume service that the guest has its volumes | (with the attachments) |
//!
//! A host that fails is given up and the build tries another, `[scheduler] max_attempts` in all.

use chronova_events::ids::{ConsumerId, HostId};
use chronova_events::instance::{Alive, FaultInfo, NetworkAllocated};
use chronova_events::process::{Outcome, Output};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work, settled};
use super::{build_volumes, destination, guest};
use crate::instance::disks;
use crate::instance::{InstanceAggregate, InstanceCommand};
use crate::ledger::{CELL, LedgerAggregate, LedgerCommand};
use crate::ports::NicsWanted;
use crate::scheduler::Request;
use crate::scheduler::placing::{Asked, NotPlaced, Seat};

pub const DEFINITION: Definition = Definition {
    name: "build_instance",
    steps: &[
        Step {
            name: "claim_host",
            run: |work| claim_host(work).boxed(),
            undo: Some(|work| release_host(work).boxed()),
        },
        Step {
            name: "allocate_network",
            run: |work| allocate_network(work).boxed(),
            undo: Some(|work| release_network(work).boxed()),
        },
        Step {
            name: "prepare_volumes",
            run: |work| prepare_volumes(work).boxed(),
            undo: Some(|work| build_volumes::undo(work).boxed()),
        },
        Step { name: "prepare_host", run: |work| prepare_host(work).boxed(), undo: None },
        Step {
            name: "spawn_guest",
            run: |work| spawn_guest(work).boxed(),
            undo: Some(|work| destroy_guest(work).boxed()),
        },
        Step { name: "complete_volumes", run: |work| build_volumes::complete(work).boxed(), undo: None },
    ],
    undoes: true,
    max_attempts: |options| options.max_attempts.max(1),
    conclude,
};

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        work.context.passwords.forget(process);
        let record = match outcome {
            Outcome::Succeeded => InstanceCommand::RecordBuilt { process },
            Outcome::Failed => InstanceCommand::RecordBuildFailed { process, fault: fault(work) },
            // Whoever called it off goes on with the server.
            Outcome::CalledOff => return Ok(()),
        };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceAggregate>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

/// What the user is told. Where hosts were tried in vain: Nova's `MaxRetriesExceeded`; what the last one said is in the
/// details.
pub(super) fn fault(work: &Work) -> FaultInfo {
    let Some(failure) = &work.running.failure else { return StepError::Again("unknown".to_owned()).fault() };
    match failure.elsewhere && work.context.options.max_attempts > 1 {
        true => exhausted(work, &format!("{} {}", failure.fault.message, failure.fault.details)),
        false => failure.fault.clone(),
    }
}

fn exhausted(work: &Work, details: &str) -> FaultInfo {
    let message = format!(
        "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance {}.",
        work.instance_id()
    );
    FaultInfo { code: 500, message, details: details.to_owned() }
}

async fn claim_host(work: &Work) -> Result<Output, StepError> {
    let server = work.present_server().await?;
    check_disks(work, &server)?;
    let request =
        Request::of_build(&server.request, &work.running.excluded, &work.context.server_options.availability_zone);
    claim(work, &server, request).await
}

/// Nova's `TooManyDiskDevices`, which its compute service finds when it gives the disks their names: no other host will do.
fn check_disks(work: &Work, server: &Alive) -> Result<(), StepError> {
    match work.context.server_options.max_disk_devices.filter(|most| disks::count(server) > *most) {
        None => Ok(()),
        Some(most) => {
            let reason = format!(
                "The maximum allowed number of disk devices ({most}) to attach to a single instance has been exceeded."
            );
            let message = format!("Build of instance {} aborted: {reason}", work.instance_id());
            Err(StepError::fatal(500, &message, ""))
        }
    }
}

/// Has the scheduler choose a host, and records it.
pub(super) async fn claim(work: &Work, server: &Alive, mut request: Request) -> Result<Output, StepError> {
    let context = &work.context;
    // A host that this very process chose before a crash stays chosen: its claim is in the ledger.
    if let Some(placed) = server.placement.as_ref().filter(|placed| placed.process == work.running.process) {
        return Ok(Output::Host { host: placed.host, hostname: placed.hostname.clone() });
    }
    destination::fit(&mut request, server);
    if let Some(only) = build_volumes::only_host(work, server).await? {
        request.requested_host = request.requested_host.or_else(|| destination::name(work, only));
    }
    let (batch, launch_index) = (server.request.batch, server.request.launch_index);
    let asked = Asked { batch, launch_index, ..destination::asked(work, server, request) };
    match context.scheduler.place(&asked).await {
        Ok(seat) => take_seat(work, seat).await,
        Err(NotPlaced::NoHost { reasons, lost }) => {
            let details = format!("{} (attempt {})", reasons.counts(), work.running.attempt);
            let message = reasons.message();
            let scheduled = Box::new(reasons.record(work.running.process, work.running.attempt, &[], lost));
            let record = InstanceCommand::RecordScheduled { placed: None, scheduled };
            settled(context.gateway.send::<InstanceAggregate>(&work.instance_id(), record, work.meta.clone()).await)?;
            if !work.running.excluded.is_empty() {
                return Err(StepError::Fatal(exhausted(work, &details)));
            }
            Err(StepError::fatal(500, &message, &details))
        }
        Err(NotPlaced::NotNow(reason)) => Err(StepError::Again(reason)),
    }
}

/// Records where the server goes, and why, in one append.
async fn take_seat(work: &Work, seat: Seat) -> Result<Output, StepError> {
    let placed = destination::placed(work, &seat);
    let Seat { scheduled, ticket, .. } = seat;
    let output = destination::output(&placed);
    let record = InstanceCommand::RecordScheduled { placed: Some(placed), scheduled: Box::new(scheduled) };
    let gateway = &work.context.gateway;
    let committed = gateway.send::<InstanceAggregate>(&work.instance_id(), record, work.meta.clone()).await?;
    ticket.placed(committed.position);
    Ok(output)
}

pub(super) async fn release_claim(work: &Work) -> Result<(), StepError> {
    let release = LedgerCommand::Release { consumer: ConsumerId::new(work.instance_id().to_string()) };
    work.context.gateway.send::<LedgerAggregate>(&CELL, release, work.meta.clone()).await?;
    Ok(())
}

pub(super) async fn release_host(work: &Work) -> Result<(), StepError> {
    release_claim(work).await?;
    let Some(server) = work.server().await? else { return Ok(()) };
    let Some(placed) = server.placement else { return Ok(()) };
    let reason = work.running.failure.as_ref().map_or("called off".to_owned(), |f| f.fault.details.clone());
    let record = InstanceCommand::RecordUnplaced { process: work.running.process, host: placed.host, reason };
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceAggregate>(&work.instance_id(), record, work.meta.clone()).await)
}

async fn allocate_network(work: &Work) -> Result<Output, StepError> {
    let server = work.present_server().await?;
    let (_, hostname) = host(work)?;
    let wanted = NicsWanted {
        instance: work.instance_id(),
        project: server.request.project.clone(),
        hostname: server.request.hostname.clone(),
        host: hostname,
        availability_zone: placed_zone(work, &server),
        networks: server.request.networks.clone(),
        security_groups: server.request.security_groups.clone(),
    };
    let nics = work.context.networks.allocate(wanted, work.meta.clone()).await?;
    let record = InstanceCommand::RecordNetwork(NetworkAllocated { process: work.running.process, nics: nics.clone() });
    work.context.gateway.send::<InstanceAggregate>(&work.instance_id(), record, work.meta.clone()).await?;
    Ok(Output::Nics(nics))
}

fn placed_zone(work: &Work, server: &Alive) -> String {
    let placed = server.placement.as_ref().map(|placed| placed.availability_zone.clone());
    placed.unwrap_or_else(|| work.context.server_options.availability_zone.clone())
}

pub(super) async fn release_network(work: &Work) -> Result<(), StepError> {
    let Some(server) = work.server().await? else { return Ok(()) };
    work.context.networks.release(work.instance_id(), &server.request.project, work.meta.clone()).await?;
    Ok(())
}

async fn prepare_volumes(work: &Work) -> Result<Output, StepError> {
    let (host, hostname) = host(work)?;
    build_volumes::prepare(work, host, &hostname).await
}

async fn prepare_host(work: &Work) -> Result<Output, StepError> {
    let (host, _) = host(work)?;
    let server = work.present_server().await?;
    guest::prepare(work, host, &server).await?;
    Ok(Output::Nothing)
}

async fn spawn_guest(work: &Work) -> Result<Output, StepError> {
    let (host, _) = host(work)?;
    let server = work.present_server().await?;
    guest::spawn(work, host, &server).await?;
    Ok(Output::Nothing)
}

async fn destroy_guest(work: &Work) -> Result<(), StepError> {
    let (host, _) = host(work)?;
    guest::destroy(work, host).await
}

/// The host that `claim_host` chose.
fn host(work: &Work) -> Result<(HostId, String), StepError> {
    let (host, hostname) =
        work.running.host().ok_or_else(|| StepError::fatal(500, "The server has no host.", "claim_host left none"))?;
    Ok((host, hostname.to_owned()))
}
