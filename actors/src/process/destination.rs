//! The host that a server comes to: what the scheduler is asked for it, and what becomes of its answer. Builds share how it
//! is asked; moves, whichever kind, share all of it.

use std::sync::Arc;

use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, FaultInfo, Placed};
use chronova_events::process::Output;

use super::definition::{StepError, Work};
use super::moving::{self, Subject};
use crate::instance::moving::MoveCommand;
use crate::scheduler::Request;
use crate::scheduler::placing::{Asked, NotPlaced, Seat, dice};

/// The request as it was made, with the hardware that the server has now.
pub(super) fn fit(request: &mut Request, server: &Alive) {
    request.dice = dice();
    request.image = server.shared_hardware_image();
    if server.is_volume_backed() {
        // The root disk takes no room on the host.
        Arc::make_mut(&mut request.flavor).root_gib = 0;
    }
}

/// The name by which a host is asked for.
pub(super) fn name(work: &Work, host: HostId) -> Option<String> {
    work.context.views.hosts.read(|hosts| hosts.get(host).map(|host| host.hostname.clone()))
}

/// A server by itself; one of several says so.
pub(super) fn asked(work: &Work, server: &Alive, request: Request) -> Asked {
    Asked {
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

/// Where the server goes, as the log has it.
pub(super) fn placed(work: &Work, seat: &Seat) -> Placed {
    let zone = seat.chosen.zone.clone();
    Placed {
        process: work.running.process,
        host: seat.chosen.host,
        hostname: seat.chosen.hostname.clone(),
        attempt: work.running.attempt,
        availability_zone: zone.unwrap_or_else(|| work.context.server_options.availability_zone.clone()),
    }
}

pub(super) fn output(placed: &Placed) -> Output {
    Output::Host { host: placed.host, hostname: placed.hostname.clone() }
}

// ----------------------------------------------------------------------------------------------------------- of moves

/// What this attempt chose before a crash: it is claimed, too.
pub(super) fn chosen(work: &Work, subject: &Subject) -> Option<Output> {
    let target = subject.moving.target.as_ref().filter(|target| target.attempt == work.running.attempt);
    target.map(output)
}

/// What is asked of the scheduler for a server that leaves its host: the host that was named, insisted on or not, and
/// never the one that it leaves.
pub(super) fn elsewhere(work: &Work, subject: &Subject, forced: bool) -> Request {
    let (server, moving) = (&subject.server, &subject.moving);
    let mut request =
        Request::of_build(&server.request, &work.running.excluded, &work.context.server_options.availability_zone);
    request.forced_host = moving.host.clone().filter(|_| forced);
    request.requested_host = moving.host.clone().filter(|_| !forced);
    request.excluded.insert(moving.source.host);
    fit(&mut request, server);
    request
}

/// Has the scheduler choose, and records what it said. `instead`: a better reason than that there is no host.
pub(super) async fn choose(
    work: &Work,
    subject: &Subject,
    request: Request,
    instead: Option<String>,
) -> Result<Output, StepError> {
    let (process, attempt) = (work.running.process, work.running.attempt);
    match work.context.scheduler.place(&asked(work, &subject.server, request)).await {
        Ok(seat) => {
            let target = placed(work, &seat);
            let Seat { scheduled, ticket, .. } = seat;
            let aim = MoveCommand::Aim { process, target: Some(target.clone()), scheduled: Box::new(scheduled) };
            ticket.placed(moving::insist(work, aim).await?);
            Ok(output(&target))
        }
        Err(NotPlaced::NoHost { reasons, lost }) => {
            let details = format!("{} (attempt {attempt})", reasons.counts());
            let message = instead.unwrap_or_else(|| reasons.message());
            let scheduled = Box::new(reasons.record(process, attempt, &[], lost));
            moving::record(work, MoveCommand::Aim { process, target: None, scheduled }).await?;
            Err(StepError::fatal(500, &message, &details))
        }
        Err(NotPlaced::NotNow(reason)) => Err(StepError::Again(reason)),
    }
}

/// The destination is not wanted any more: what is held goes back, and the record says why.
pub(super) async fn give_up(work: &Work, subject: &Subject, why: fn(&FaultInfo) -> &str) -> Result<(), StepError> {
    moving::take_back(work, &subject.moving).await?;
    let Some(target) = &subject.moving.target else { return Ok(()) };
    let failure = work.running.failure.as_ref();
    let reason = failure.map_or("called off", |failure| why(&failure.fault)).to_owned();
    moving::record(work, MoveCommand::GiveUp { process: work.running.process, host: target.host, reason }).await
}
