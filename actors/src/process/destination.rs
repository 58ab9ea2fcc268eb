//! Selects the destination of a server. Builds and all kinds of moves ask the scheduler with the same type of request.
//! All kinds of moves record the answer in the same way.

use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, FaultInfo, Placed};
use chronova_events::process::StepOutput;

use super::definition::{StepError, StepRun};
use super::moving::{self, MovingServer};
use super::port_grants;
use crate::instance::MoveRecord;
use crate::scheduler::RequestSpec;
use crate::scheduler::placing::{Selection, SelectionError, SelectionRequest, dice};

/// Updates the request spec to the server's present hardware.
pub(crate) fn fit(request: &mut RequestSpec, server: &Alive) {
    request.dice = dice();
    request.take_hardware(server);
}

/// The name of a host in requests.
pub(super) fn name(work: &StepRun, host: HostId) -> Option<String> {
    work.context.views.hosts.read(|hosts| hosts.get(host).map(|host| host.hostname.clone()))
}

/// The request for one server. A build replaces `batch` and `launch_index` by the values of the create request, which
/// may ask for several servers.
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

/// The request spec for the destination of a server that leaves its host.
pub(super) fn elsewhere(work: &StepRun, subject: &MovingServer) -> RequestSpec {
    let (context, excluded) = (&work.context, &work.running.excluded);
    let (zone, may_stay) = (&context.server_options.availability_zone, context.options.allow_resize_to_same_host);
    let request = RequestSpec::of_move(&subject.server, &subject.moving, excluded, zone, may_stay);
    RequestSpec { dice: dice(), ..request }
}

/// Lets the scheduler select a host, and records its decision. If no host fits, `instead` replaces the scheduler's
/// message.
pub(super) async fn choose(
    work: &StepRun,
    subject: &MovingServer,
    mut request: RequestSpec,
    instead: Option<String>,
) -> Result<StepOutput, StepError> {
    port_grants::take_requests(work, &subject.server, &mut request).await?;
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
