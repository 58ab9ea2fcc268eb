//! Selects a host for a server. Builds and all kinds of moves send the scheduler the request that this file makes. All
//! kinds of moves also record the scheduler's answer with the functions here.

use std::sync::Arc;

use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, FaultInfo, Placed};
use chronova_events::process::StepOutput;

use super::definition::{StepError, StepRun};
use super::moving::{self, MovingServer};
use crate::instance::MoveRecord;
use crate::scheduler::RequestSpec;
use crate::scheduler::placing::{Selection, SelectionError, SelectionRequest, dice};

/// Updates the request spec to the server's present hardware.
pub(crate) fn fit(request: &mut RequestSpec, server: &Alive) {
    request.dice = dice();
    request.image = server.shared_hardware_image();
    if server.is_volume_backed() {
        // The root disk is a volume and uses no disk space of the host.
        Arc::make_mut(&mut request.flavor).root_gib = 0;
    }
}

/// The name of a host in requests.
pub(super) fn name(work: &StepRun, host: HostId) -> Option<String> {
    work.context.views.hosts.read(|hosts| hosts.get(host).map(|host| host.hostname.clone()))
}

/// The request for a single server. A caller with several servers sets `batch` and `launch_index`.
pub(super) fn asked(work: &StepRun, server: &Alive, request: RequestSpec) -> SelectionRequest {
    SelectionRequest {
        request,
        server: work.instance_id(),
        project: server.request.project.clone(),
        user: server.request.user.clone(),
        process: work.running.process,
        attempt: work.running.attempt,
        reservation: server.request.reservation.clone(),
        batch: 1,
        launch_index: 0,
        meta: work.meta.clone(),
    }
}

/// The selected host, as events record it.
pub(super) fn placed(work: &StepRun, selection: &Selection) -> Placed {
    let zone = selection.chosen.zone.clone();
    Placed {
        process: work.running.process,
        host: selection.chosen.host,
        hostname: selection.chosen.hostname.clone(),
        attempt: work.running.attempt,
        availability_zone: zone.unwrap_or_else(|| work.context.server_options.availability_zone.clone()),
    }
}

pub(super) fn output(placed: &Placed) -> StepOutput {
    StepOutput::Host { host: placed.host, hostname: placed.hostname.clone() }
}

// -------------------------------------------------------------------------------------------------------------- moves

/// The host that this attempt selected and claimed before a crash.
pub(super) fn chosen(work: &StepRun, subject: &MovingServer) -> Option<StepOutput> {
    let target = subject.moving.target.as_ref().filter(|target| target.attempt == work.running.attempt);
    target.map(output)
}

/// The request spec of a server that leaves its host. It has the requested destination, forced or not, and excludes the
/// present host.
pub(super) fn elsewhere(work: &StepRun, subject: &MovingServer, forced: bool) -> RequestSpec {
    let (server, moving) = (&subject.server, &subject.moving);
    let mut request =
        RequestSpec::of_build(&server.request, &work.running.excluded, &work.context.server_options.availability_zone);
    request.forced_host = moving.host.clone().filter(|_| forced);
    request.requested_host = moving.host.clone().filter(|_| !forced);
    request.excluded.insert(moving.source.host);
    fit(&mut request, server);
    request
}

/// Lets the scheduler select a host, and records its decision. If no host fits, `instead` replaces the scheduler's
/// message.
pub(super) async fn choose(
    work: &StepRun,
    subject: &MovingServer,
    request: RequestSpec,
    instead: Option<String>,
) -> Result<StepOutput, StepError> {
    let (process, attempt) = (work.running.process, work.running.attempt);
    match work.context.scheduler.place(&asked(work, &subject.server, request)).await {
        Ok(selection) => {
            let target = placed(work, &selection);
            let Selection { scheduled, ticket, .. } = selection;
            let targeted =
                MoveRecord::Targeted { process, target: Some(target.clone()), scheduled: Box::new(scheduled) };
            ticket.placed(moving::insist(work, targeted).await?);
            Ok(output(&target))
        }
        Err(SelectionError::NoHost { reasons, lost }) => {
            let details = format!("{} (attempt {attempt})", reasons.counts());
            let message = instead.unwrap_or_else(|| reasons.message());
            let scheduled = Box::new(reasons.record(process, attempt, &[], lost));
            moving::record(work, MoveRecord::Targeted { process, target: None, scheduled }).await?;
            Err(StepError::fatal(500, &message, details))
        }
        Err(SelectionError::NotNow(error)) => Err(StepError::Again(error)),
    }
}

/// Releases the destination and its claim, and records the reason.
pub(super) async fn give_up(
    work: &StepRun,
    subject: &MovingServer,
    why: fn(&FaultInfo) -> &str,
) -> Result<(), StepError> {
    moving::take_back(work, &subject.moving).await?;
    let Some(target) = &subject.moving.target else { return Ok(()) };
    let failure = work.running.failure.as_ref();
    let reason = failure.map_or("cancelled", |failure| why(&failure.fault)).to_owned();
    moving::record(work, MoveRecord::Untargeted { process: work.running.process, host: target.host, reason }).await
}
