//! Removes leftovers from a host: copies of disks for images, disks set aside for a revert, unfinished uploads. The
//! processes that made them could not remove them, because the host was down.
//!
//! The age of a leftover does not matter. These rules decide whether it is needed:
//!
//! * A copy has the id of its image, and only one process creates that image. When that process has ended, nothing
//!   needs the copy.
//! * Disks that were set aside have the same name in all moves of a server. So only the agent of the server's own host
//!   removes them, and only while no move is recorded. Meanwhile the agent's claim on the server's disks prevents a
//!   move from setting disks aside ([`DiskClaims`](crate::coordination::disk_claims::DiskClaims)).
//! * An incomplete image in a cache is useless. The driver keeps an image that is being uploaded or used. On shared
//!   storage, the upload may be another host's, so the incomplete image stays.
//!
//! If another generation of the log drove the hosts ([`crate::hosts::doubt`]), disks that were set aside may belong to
//! a move that only the other generation knows. They stay unless this log has created or moved the server since then.
//! Copies and incomplete images can be made again.
//!
//! Items that the log does not know may be another control plane's, so they stay. The sweep records no events: after a
//! crash, the next comparison of the host with the log finds the rest.

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
use crate::instance::InstanceRoot;

/// The images for which unfinished processes copy disks.
pub fn wanted(processes: &Processes) -> BTreeSet<ImageId> {
    let image = |task: &Task| match task {
        Task::Snapshot { image, .. } | Task::Shelve { image, .. } => Some(*image),
        _ => None,
    };
    processes.pending().filter_map(|pending| image(&pending.task)).collect()
}

/// Whether no process needs this copy of the server's disk any more.
pub fn copy_is_left(server: &Instance, copy: ImageId, wanted: &BTreeSet<ImageId>) -> bool {
    !matches!(server, Instance::Absent) && !wanted.contains(&copy)
}

/// Whether no move needs the server's disks that are set aside on `host`.
pub fn kept_is_left(server: &Instance, host: HostId) -> bool {
    let here = |placed: &chronova_events::instance::Placed| placed.host == host;
    server.alive().is_some_and(|server| server.moving.is_none() && server.placement.as_ref().is_some_and(here))
}

/// Removes unneeded leftovers from a host.
pub(crate) async fn sweep(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>) {
    let Some(cleanup) = driver.storage_cleanup() else { return };
    let found = match cleanup.leftovers().await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%host, %error, "listing leftovers on the host failed");
            return;
        }
    };
    // The log has the request for the process of each leftover. The read models must show these requests before the
    // sweep judges the leftovers.
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
            Ok(true) => tracing::info!(%host, ?leftover, "removed a leftover"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%host, ?leftover, %error, "removing a leftover failed, retrying"),
        }
    }
}

async fn server(context: &HostContext, instance: InstanceId) -> Instance {
    // A server that cannot be read now is checked at the next sweep.
    context.gateway.look::<InstanceRoot>(&instance).await.unwrap_or_default()
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
    // The check comes after the disk claim, so no move can set disks aside after the check.
    let row = context.views.servers.read(|servers| servers.get(instance).cloned());
    let is_known = row.is_some_and(|row| context.knows_place_of(&row, host));
    if !is_known || !kept_is_left(&server(context, instance).await, host) {
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
    fn a_copy_without_its_process_is_a_leftover() {
        let [wanted, other] = [1, 2].map(|n| ImageId(Uuid::from_u128(n)));
        let making = BTreeSet::from([wanted]);
        for server in [alive(Some(HERE), false), alive(None, false), alive(Some(ELSEWHERE), true)] {
            assert!(!copy_is_left(&server, wanted, &making));
            assert!(copy_is_left(&server, other, &making));
        }
        assert!(!copy_is_left(&Instance::Absent, other, &making), "the copy may be another control plane's");
    }

    #[test]
    fn disks_set_aside_are_leftovers_on_the_host_of_a_server_at_rest() {
        assert!(kept_is_left(&alive(Some(HERE), false), HERE));
        assert!(!kept_is_left(&alive(Some(HERE), true), HERE), "a revert needs the disks");
        assert!(!kept_is_left(&alive(Some(ELSEWHERE), false), HERE), "only the server's host removes the disks");
        assert!(!kept_is_left(&alive(None, false), HERE));
        assert!(!kept_is_left(&Instance::Absent, HERE));
    }
}
