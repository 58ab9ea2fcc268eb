//! What is on a host beside guests and their disks and is wanted by nobody: copies of disks that were to become images,
//! disks set aside for a revert, images half sent. Whoever began them could not remove them, because the host was down.
//!
//! Who wants something is asked, never guessed from its age:
//!
//! * A copy carries the id of its image, which one process alone ever makes. When that process has ended nobody comes back
//!   to it.
//! * Disks that are set aside have one name for all moves of a server. So they are removed only by the host that the server
//!   is on, while no move of it is recorded, and while none can begin to set them aside ([`DiskClaims`](crate::coordination::disk_claims::DiskClaims)).
//! * A torn image is of use to nobody; the driver keeps away from one that is being uploaded, or used all the same. Where
//!   hosts share their storage the upload may be another host's, so it is left there.
//!
//! What the log has never heard of may be another control plane's and stays. Nothing is recorded: a control plane that dies
//! in between leaves what the next comparison of the host with the log finds again.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::ids::{HostId, ImageId, InstanceId};
use chronova_events::instance::Instance;
use chronova_events::process::Task;
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::disk_transfer::DiskFile;
use chronova_hypervisor::capability::storage_cleanup::Leftover;
use chronova_hypervisor::driver::{Driver, DriverResult};
use chronova_projections::processes::Processes;

use crate::hosts::context::HostContext;
use crate::instance::InstanceAggregate;

/// The images that copies of disks are being made for.
pub fn wanted(processes: &Processes) -> BTreeSet<ImageId> {
    let image = |task: &Task| match task {
        Task::Snapshot { image, .. } | Task::Shelve { image, .. } => Some(*image),
        _ => None,
    };
    processes.pending().filter_map(|pending| image(&pending.task)).collect()
}

/// Whether nobody comes back to a copy of the server's disk.
pub fn copy_is_left(server: &Instance, copy: ImageId, wanted: &BTreeSet<ImageId>) -> bool {
    !matches!(server, Instance::Absent) && !wanted.contains(&copy)
}

/// Whether nobody comes back to what `host` has set aside of the server's disks.
pub fn kept_is_left(server: &Instance, host: HostId) -> bool {
    let here = |placed: &chronova_events::instance::Placed| placed.host == host;
    server.alive().is_some_and(|server| server.moving.is_none() && server.placement.as_ref().is_some_and(here))
}

/// Removes from a host what nobody wants any more.
pub(crate) async fn sweep(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>) {
    let Some(cleanup) = driver.storage_cleanup() else { return };
    let found = match cleanup.leftovers().await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%host, %error, "what is left on the host cannot be listed");
            return;
        }
    };
    // Whoever made what was found had been asked before: judge by everything that was recorded by now.
    if found.is_empty() || !context.views.wait_for(context.log.head(), context.options.resync).await {
        return;
    }
    let wanted = context.views.processes.read(wanted);
    for leftover in found {
        let removed = match &leftover {
            Leftover::Copy { instance, copy } => copy_goes(context, driver, *instance, *copy, &wanted).await,
            Leftover::Kept { instance, suffix } => kept_goes(context, host, driver, *instance, suffix).await,
            Leftover::TornImage { checksum } if context.fleet.is_alone(host) => {
                cleanup.remove_torn_image(checksum).await.map(|()| true)
            }
            Leftover::TornImage { .. } => Ok(false),
        };
        match removed {
            Ok(true) => tracing::info!(%host, ?leftover, "removed what nobody came back to"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%host, ?leftover, %error, "what nobody came back to cannot be removed yet"),
        }
    }
}

async fn server(context: &HostContext, instance: InstanceId) -> Instance {
    // Who cannot be asked now is asked next time.
    context.gateway.look::<InstanceAggregate>(&instance).await.unwrap_or_default()
}

async fn copy_goes(
    context: &HostContext,
    driver: &Arc<dyn Driver>,
    instance: InstanceId,
    copy: ImageId,
    wanted: &BTreeSet<ImageId>,
) -> DriverResult<bool> {
    match copy_is_left(&server(context, instance).await, copy, wanted) {
        true => driver.snapshots().needed()?.remove_copy(instance, copy).await.map(|()| true),
        false => Ok(false),
    }
}

async fn kept_goes(
    context: &HostContext,
    host: HostId,
    driver: &Arc<dyn Driver>,
    instance: InstanceId,
    suffix: &str,
) -> DriverResult<bool> {
    let Some(_alone) = context.disk_claims.enter(instance) else { return Ok(false) };
    // Asked only now: whoever is asked for a move from here on finds the door shut.
    if !kept_is_left(&server(context, instance).await, host) {
        return Ok(false);
    }
    let disk = DiskFile { suffix: suffix.to_owned(), size: 0, capacity: 0, raw: false };
    driver.disk_transfer().needed()?.remove_disk(instance, &disk).await.map(|()| true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold as _;
    use chronova_events::ids::ProcessId;
    use chronova_events::instance::{Alive, InstanceEvent, Moving, Placed, samples};
    use uuid::Uuid;

    use super::*;

    const HERE: HostId = HostId(Uuid::from_u128(1));
    const ELSEWHERE: HostId = HostId(Uuid::from_u128(2));

    fn alive(host: Option<HostId>, moving: bool) -> Instance {
        let built = samples().into_iter().find(|event| matches!(event, InstanceEvent::BuildRequested(_)));
        let mut state = Instance::Absent;
        state.evolve(&built.unwrap(), Timestamp(7));
        let placed = |host| Placed {
            process: ProcessId(Uuid::from_u128(3)),
            host,
            hostname: "h".into(),
            attempt: 1,
            availability_zone: "nova".into(),
        };
        let mut server: Alive = state.alive().unwrap().clone();
        server.placement = host.map(placed);
        server.moving = moving.then(|| Box::new(under_way(&server)));
        Instance::Alive(Box::new(server))
    }

    fn under_way(server: &Alive) -> Moving {
        let asked = samples().into_iter().find(|event| matches!(event, InstanceEvent::MoveRequested(_)));
        let placed = Placed {
            process: ProcessId(Uuid::from_u128(3)),
            host: HERE,
            hostname: "h".into(),
            attempt: 1,
            availability_zone: "nova".into(),
        };
        let mut state = Instance::Alive(Box::new(Alive { placement: Some(placed), ..server.clone() }));
        state.evolve(&asked.unwrap(), Timestamp(8));
        *state.alive().unwrap().moving.clone().unwrap()
    }

    #[test]
    fn a_copy_is_left_when_nobody_makes_an_image_of_it() {
        let [wanted, other] = [1, 2].map(|n| ImageId(Uuid::from_u128(n)));
        let making = BTreeSet::from([wanted]);
        for server in [alive(Some(HERE), false), alive(None, false), alive(Some(ELSEWHERE), true)] {
            assert!(!copy_is_left(&server, wanted, &making));
            assert!(copy_is_left(&server, other, &making));
        }
        assert!(!copy_is_left(&Instance::Absent, other, &making), "another control plane's");
    }

    #[test]
    fn what_is_set_aside_is_left_where_the_server_is_and_does_not_move() {
        assert!(kept_is_left(&alive(Some(HERE), false), HERE));
        assert!(!kept_is_left(&alive(Some(HERE), true), HERE), "a revert goes back to it");
        assert!(!kept_is_left(&alive(Some(ELSEWHERE), false), HERE), "the host that it is on removes it");
        assert!(!kept_is_left(&alive(None, false), HERE));
        assert!(!kept_is_left(&Instance::Absent, HERE));
    }
}
