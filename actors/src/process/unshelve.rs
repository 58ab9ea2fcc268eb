//! Unshelves a server on its host. If the server was offloaded, the scheduler selects a host.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_host` | selects a host and claims its resources, unless the server has a host | releasing both |
//! | `bind_network` | binds the ports to the host | unbinding them |
//! | `connect_volumes` | gets the host's connections to the volumes | releasing the connections |
//! | `prepare_host` | caches the shelved image, creates networks and filters | (kept: a cache, and shared) |
//! | `spawn_guest` | creates a disk from the image, starts the domain | destroying the guest, or powering it off |
//! | `complete_volumes` | tells the volume service that the guest has its volumes | (with the connections) |
//!
//! A volume-backed server has no image. The process deletes the image last, because it is the only copy of the server's
//! disk. If a host fails, the process tries another, as in a build.

use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, WorkStage};
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::driver::{DriverError, StopMode};
use chronova_hypervisor::guest::Renew;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{away, build_instance, guest, imaging, new_image, offload, port_grants, turn};
use crate::instance::WorkOutcome;
use crate::scheduler::RequestSpec;

pub const DEFINITION: Definition = Definition {
    name: "unshelve",
    steps: steps! {
        "claim_host" => claim_host, undone by release_host;
        "bind_network" => bind_network, undone by unbind;
        "connect_volumes" => connect_volumes, undone by keep_volumes;
        "prepare_host" => prepare_host;
        "spawn_guest" => spawn_guest, undone by put_down;
        "complete_volumes" => complete_volumes;
    },
    undoes: true,
    max_attempts: |options| options.max_attempts.max(1),
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        if outcome != ProcessOutcome::Succeeded {
            return turn::end(work, WorkOutcome::UnshelveFailed(build_instance::fault(work))).await;
        }
        let root = turn::image(work).cloned();
        let shelved = turn::mine(work).await?.and_then(|server| server.shelved);
        if let Some(image) = root.as_ref().map(|image| image.id).or(shelved) {
            imaging::drop_image(work, image).await?;
        }
        turn::end(work, WorkOutcome::Unshelved { root }).await
    }
    .boxed()
}

async fn claim_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    if let Some(placed) = server.placement.as_ref().filter(|_| !is_away(work, &server)) {
        return Ok(StepOutput::Host { host: placed.host, hostname: placed.hostname.clone() });
    }
    let mut request =
        RequestSpec::of_build(&server.request, &work.running.excluded, &work.context.server_options.availability_zone);
    if let Some(image) = server.shelved {
        request.image = Some(work.context.images.find(image, &server.request.project, true).await?.into());
    }
    build_instance::claim(work, &server, request).await
}

async fn release_host(work: &StepRun) -> Result<(), StepError> {
    match work.server().await?.is_some_and(|server| is_away(work, &server)) {
        true => build_instance::release_host(work).await,
        false => Ok(()),
    }
}

async fn bind_network(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    let (host, zone) = (Some(placed.hostname.as_str()), placed.availability_zone.as_str());
    let project = &server.request.project;
    let grants = port_grants::at(work, &server, placed).await?;
    work.context.networks.rebind(work.instance_id(), project, host, zone, &grants, work.meta.clone()).await?;
    Ok(StepOutput::Nothing)
}

async fn unbind(work: &StepRun) -> Result<(), StepError> {
    match work.server().await?.filter(|server| is_away(work, server)) {
        Some(server) => offload::unbind(work, &server).await,
        None => Ok(()),
    }
}

async fn connect_volumes(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    match is_away(work, &server) {
        true => away::connect(work, &server).await,
        false => Ok(StepOutput::Nothing),
    }
}

async fn keep_volumes(work: &StepRun) -> Result<(), StepError> {
    match work.server().await?.filter(|server| is_away(work, server)) {
        Some(server) => away::keep(work, &server).await,
        None => Ok(()),
    }
}

async fn complete_volumes(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    if is_away(work, &server) {
        away::complete(work, &server).await?;
    }
    Ok(StepOutput::Nothing)
}

async fn prepare_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let host = host(&server)?;
    if !is_away(work, &server) {
        guest::connect(work, host, &server).await?;
        return Ok(StepOutput::Nothing);
    }
    if server.is_volume_backed() {
        guest::prepare(work, host, &server).await?;
        return Ok(StepOutput::Nothing);
    }
    let gone = || StepError::fatal(404, "The image of the shelved server is gone.", "");
    let image = work.context.images.find(server.shelved.ok_or_else(gone)?, &server.request.project, true).await?;
    new_image::place(work, host, &server, &image, new_image::plain).await?;
    guest::connect(work, host, &server).await?;
    Ok(StepOutput::Image(Box::new(image)))
}

async fn spawn_guest(work: &StepRun) -> Result<StepOutput, StepError> {
    let mut server = turn::still_mine(work).await?;
    let host = host(&server)?;
    turn::advance(work, WorkStage::Spawning).await?;
    if is_away(work, &server) {
        server.root = turn::image(work).cloned().map(Box::new);
        guest::spawn(work, host, &server).await?;
        guest::await_network(work, &server).await?;
        guest::yield_to_delete(work, host).await?;
        return Ok(StepOutput::Nothing);
    }
    if server.outdated_definition {
        guest::reshape(work, host, &server, Renew::Nothing, None).await?;
        return Ok(StepOutput::Nothing);
    }
    match guest::start(work, host, &server).await? {
        Ok(()) => Ok(StepOutput::Nothing),
        // The guest has vanished from its host, but its disks may exist.
        Err(DriverError::NoSuchGuest(_)) => {
            guest::prepare(work, host, &server).await?;
            guest::reshape(work, host, &server, Renew::Nothing, None).await?;
            Ok(StepOutput::Nothing)
        }
        Err(error) => Err(StepError::only_here(error)),
    }
}

async fn put_down(work: &StepRun) -> Result<(), StepError> {
    let Some(server) = work.server().await? else { return Ok(()) };
    let Some(placed) = &server.placement else { return Ok(()) };
    if is_away(work, &server) {
        return guest::destroy(work, placed.host).await;
    }
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    match work.driver(placed.host)?.stop(work.instance_id(), StopMode::Hard).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::again(error)),
    }
}

/// Whether the server had no host when this process began, so that this process selected the present host. The server's
/// state is not used for this check, because a delete or an administrator may have changed it.
fn is_away(work: &StepRun, server: &Alive) -> bool {
    server.placement.as_ref().is_none_or(|placed| placed.process == work.running.process)
}

fn host(server: &Alive) -> Result<HostId, StepError> {
    server.placement.as_ref().map(|placed| placed.host).ok_or_else(imaging::no_host)
}
