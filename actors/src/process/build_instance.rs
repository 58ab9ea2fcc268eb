//! Builds a server.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_host` | selects a host, claims its resources, records the host | releasing the claim and the host |
//! | `allocate_network` | creates or binds the ports | deleting or unbinding them |
//! | `prepare_volumes` | creates, awaits, reserves and connects volumes | releasing them, deleting created ones |
//! | `prepare_host` | caches the image on the host, creates networks and filters | (kept: a cache, and shared) |
//! | `spawn_guest` | creates the disks, defines and starts the domain, waits for its network | destroying the guest |
//! | `complete_volumes` | tells the volume service that the guest has its volumes | (with the attachments) |
//!
//! If a host fails, the build tries another, at most `[scheduler] max_attempts` hosts in all. A build that takes longer
//! than `[DEFAULT] instance_build_timeout` does no further step and is undone.

use std::time::Duration;

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{HostId, PortId};
use chronova_events::instance::{Alive, FaultInfo, NetworkAllocated, NicInfo, RequestedNetworks};
use chronova_events::process::{ProcessOutcome, StepOutput};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::claim_holder::{ClaimHolder, server_consumer};
use super::definition::{Definition, StepError, StepRun, settled, steps};
use super::{build_volumes, destination, guest, machine, new_image, port_grants};
use crate::instance::disks;
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::ledger::{CELL, LedgerCommand, LedgerRoot};
use crate::ports::InterfacesRequest;
use crate::scheduler::RequestSpec;
use crate::scheduler::placing::{Selection, SelectionError, SelectionRequest};

pub const DEFINITION: Definition = Definition {
    name: "build_instance",
    steps: steps! {
        "claim_host" => claim_host, undone by release_host;
        "allocate_network" => allocate_network, undone by release_network;
        "prepare_volumes" => prepare_volumes, undone by build_volumes::undo;
        "prepare_host" => prepare_host;
        "spawn_guest" => spawn_guest, undone by destroy_guest;
        "complete_volumes" => complete_volumes;
    },
    undoes: true,
    max_attempts: |options| options.max_attempts.max(1),
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        work.context.passwords.forget(process);
        let record = match outcome {
            ProcessOutcome::Succeeded => InstanceRecord::Built { process },
            ProcessOutcome::Failed => InstanceRecord::BuildFailed { process, fault: fault(work) },
            // The process that cancelled this process continues with the server.
            ProcessOutcome::CalledOff => return Ok(()),
        };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

/// The fault that the user sees. If the last host failed, it is Nova's `MaxRetriesExceeded`, with that host's error in
/// the details.
pub(super) fn fault(work: &StepRun) -> FaultInfo {
    let Some(failure) = &work.running.failure else { return StepError::again("unknown").fault() };
    match failure.elsewhere && work.context.options.max_attempts > 1 {
        true => max_retries_exceeded(work, format!("{} {}", failure.fault.message, failure.fault.details)).fault(),
        false => failure.fault.clone(),
    }
}

fn max_retries_exceeded(work: &StepRun, details: String) -> StepError {
    let message = format!(
        "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance {}.",
        work.instance_id()
    );
    StepError::fatal(500, &message, details)
}

/// The server, while it still has to be built. After a crash, a step may run again although the build has succeeded,
/// and the user may have done something else with the server since. A build that takes too long fails here, before its
/// next step or the next attempt at one.
pub(super) async fn unbuilt(work: &StepRun) -> Result<Option<Alive>, StepError> {
    let server = work.present_server().await?;
    if server.launched_at.is_some() && server.request.process == work.running.process {
        return Ok(None);
    }
    let timeout = work.context.options.build_timeout;
    if is_overdue(&server, work.context.clock.now(), timeout) {
        let details = format!("The build took longer than {} seconds.", timeout.as_secs());
        return Err(StepError::fatal(500, "Instance build timed out. Set to error state.", details));
    }
    Ok(Some(server))
}

/// Whether the request for the server is older than `timeout`. A timeout of zero never expires. As in Nova, the time
/// during which no control plane ran counts.
fn is_overdue(server: &Alive, now: Timestamp, timeout: Duration) -> bool {
    let allowed = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
    !timeout.is_zero() && now.0.saturating_sub(server.created_at.0) > allowed
}

async fn claim_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = unbuilt(work).await? else { return Ok(StepOutput::Nothing) };
    check_disks(work, &server)?;
    let request =
        RequestSpec::of_build(&server.request, &work.running.excluded, &work.context.server_options.availability_zone);
    claim(work, &server, request).await
}

/// Refuses too many disks, as Nova's compute service does (`TooManyDiskDevices`). The limit is the same on all hosts,
/// so the error is final.
fn check_disks(work: &StepRun, server: &Alive) -> Result<(), StepError> {
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

/// Lets the scheduler select a host, and records the selection.
pub(super) async fn claim(work: &StepRun, server: &Alive, mut request: RequestSpec) -> Result<StepOutput, StepError> {
    let context = &work.context;
    // A host that this process selected before a crash stays selected, because the claim is in the ledger.
    if let Some(placed) = server.placement.as_ref().filter(|placed| placed.process == work.running.process) {
        return Ok(StepOutput::Host { host: placed.host, hostname: placed.hostname.clone() });
    }
    destination::fit(&mut request, server);
    port_grants::take_requests(work, server, &mut request).await?;
    if let Some(only) = build_volumes::only_host(work, server).await? {
        request.requested_host = request.requested_host.or_else(|| destination::name(work, only));
    }
    let (batch, launch_index) = (server.request.batch, server.request.launch_index);
    let asked = SelectionRequest { batch, launch_index, ..destination::asked(work, server, request) };
    match context.scheduler.place(&asked).await {
        Ok(seat) => record_placement(work, server, seat).await,
        Err(SelectionError::NoHost { reasons, lost }) => {
            let details = format!("{} (attempt {})", reasons.counts(), work.running.attempt);
            let message = reasons.message();
            let scheduled = Box::new(reasons.record(work.running.process, work.running.attempt, &[], lost));
            let record = InstanceRecord::Scheduled { placed: None, scheduled, network: None, machine_type: None };
            settled(context.gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)?;
            if !work.running.excluded.is_empty() {
                return Err(max_retries_exceeded(work, details));
            }
            Err(StepError::fatal(500, &message, details))
        }
        Err(SelectionError::NotNow(error)) => Err(StepError::Again(error)),
    }
}

/// Records the selected host and the reasons in one append. If a build requests no networks, the append also records
/// that the server has no interfaces.
async fn record_placement(work: &StepRun, server: &Alive, seat: Selection) -> Result<StepOutput, StepError> {
    let process = work.running.process;
    let lacks_networks =
        server.building() == Some(process) && matches!(server.request.networks, RequestedNetworks::None);
    let network = lacks_networks.then(|| NetworkAllocated { process, nics: Vec::new() });
    let placed = destination::placed(work, &seat);
    let Selection { scheduled, ticket, .. } = seat;
    let output = destination::output(&placed);
    let machine_type = Some(machine::machine_type(work, placed.host, server));
    let scheduled = Box::new(scheduled);
    let record = InstanceRecord::Scheduled { placed: Some(placed), scheduled, network, machine_type };
    let gateway = &work.context.gateway;
    let committed = gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await?;
    ticket.placed(committed.position);
    Ok(output)
}

pub(super) async fn release_claim(work: &StepRun) -> Result<(), StepError> {
    let release = LedgerCommand::Release { consumer: server_consumer(work) };
    work.context.gateway.send::<LedgerRoot>(&CELL, release, work.meta.clone()).await?;
    Ok(())
}

pub(super) async fn release_host(work: &StepRun) -> Result<(), StepError> {
    release_claim(work).await?;
    let Some(server) = work.server().await? else { return Ok(()) };
    let Some(placed) = server.placement else { return Ok(()) };
    let reason = work.running.failure.as_ref().map_or("cancelled".to_owned(), |f| f.fault.details.clone());
    let record = InstanceRecord::Unplaced { process: work.running.process, host: placed.host, reason };
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)
}

async fn allocate_network(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = unbuilt(work).await? else { return Ok(StepOutput::Nothing) };
    let (host, hostname) = host(work)?;
    let grants = port_grants::held(work, host, &server, ClaimHolder::Server).await?;
    let wanted = InterfacesRequest {
        instance: work.instance_id(),
        project: server.request.project.clone(),
        hostname: server.request.hostname.clone(),
        host: hostname,
        availability_zone: placed_zone(work, &server),
        networks: server.request.networks.clone(),
        security_groups: server.request.security_groups.clone(),
        grants,
    };
    let nics = allocate(work, wanted).await?;
    if server.has_interfaces(&nics) {
        return Ok(StepOutput::Nics(nics));
    }
    let record = InstanceRecord::Network(NetworkAllocated { process: work.running.process, nics: nics.clone() });
    work.context.gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await?;
    Ok(StepOutput::Nics(nics))
}

/// Allocates the interfaces. As in Nova, the step tries again after a failure, at most `[DEFAULT]
/// network_allocate_retries` times. Each attempt finds the interfaces that an earlier one has allocated.
async fn allocate(work: &StepRun, wanted: InterfacesRequest) -> Result<Vec<NicInfo>, StepError> {
    const LONGEST: Duration = Duration::from_secs(30);
    let (networks, options) = (&work.context.networks, &work.context.options);
    let mut pause = options.network_pause;
    for attempt in 1..=options.network_retries {
        match networks.allocate(wanted.clone(), work.meta.clone()).await {
            Ok(nics) => return Ok(nics),
            Err(error) => {
                tracing::warn!(instance = %wanted.instance, attempt, %error, "allocating interfaces failed, retrying");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
    Ok(networks.allocate(wanted, work.meta.clone()).await?)
}

fn placed_zone(work: &StepRun, server: &Alive) -> String {
    let placed = server.placement.as_ref().map(|placed| placed.availability_zone.clone());
    placed.unwrap_or_else(|| work.context.server_options.availability_zone.clone())
}

pub(super) async fn release_network(work: &StepRun) -> Result<(), StepError> {
    let Some(server) = work.server().await? else { return Ok(()) };
    let owned: Vec<PortId> = server.nics.iter().filter(|nic| nic.owned).map(|nic| nic.port).collect();
    let (networks, project) = (&work.context.networks, &server.request.project);
    Ok(networks.release(work.instance_id(), project, &owned, work.meta.clone()).await?)
}

async fn prepare_volumes(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = unbuilt(work).await? else { return Ok(StepOutput::Nothing) };
    let (host, hostname) = host(work)?;
    build_volumes::prepare(work, &server, host, &hostname).await
}

async fn prepare_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = unbuilt(work).await? else { return Ok(StepOutput::Nothing) };
    let (host, _) = host(work)?;
    new_image::prepare(work, host, &server, new_image::build_aborted).await?;
    Ok(StepOutput::Nothing)
}

async fn spawn_guest(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = unbuilt(work).await? else { return Ok(StepOutput::Nothing) };
    let (host, _) = host(work)?;
    guest::spawn(work, host, &server).await?;
    guest::await_network(work, &server).await.map_err(|error| match error {
        StepError::Fatal(_) => aborted(work, &error),
        other => other,
    })?;
    Ok(StepOutput::Nothing)
}

/// Nova's `BuildAbortException`: no other host is tried.
fn aborted(work: &StepRun, error: &StepError) -> StepError {
    let reason = "Failed to allocate the network(s), not rescheduling.";
    StepError::fatal(500, &format!("Build of instance {} aborted: {reason}", work.instance_id()), error.to_string())
}

/// Destroys the guest, even if `claim_host` has no record. After a crash before that record, only the server's
/// placement names the host.
async fn destroy_guest(work: &StepRun) -> Result<(), StepError> {
    let recorded = work.running.host().map(|(host, _)| host);
    let placed = match recorded {
        Some(_) => None,
        None => work.server().await?.and_then(|server| server.placement),
    };
    let placed = placed.filter(|placed| placed.process == work.running.process).map(|placed| placed.host);
    match recorded.or(placed) {
        Some(host) => guest::destroy(work, host).await,
        None => Ok(()),
    }
}

async fn complete_volumes(work: &StepRun) -> Result<StepOutput, StepError> {
    match unbuilt(work).await? {
        Some(server) => build_volumes::complete(work, &server).await,
        None => Ok(StepOutput::Nothing),
    }
}

/// The host that `claim_host` selected.
fn host(work: &StepRun) -> Result<(HostId, String), StepError> {
    let (host, hostname) = work
        .running
        .host()
        .ok_or_else(|| StepError::fatal(500, "The server has no host.", "the step claim_host chose no host"))?;
    Ok((host, hostname.to_owned()))
}
