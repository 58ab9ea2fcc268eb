//! `/os-assisted-volume-snapshots`. With this operation, a volume service that stores volumes as files requests a new
//! overlay file for the disk of a running guest.
//!
//! Source: nova `api/openstack/compute/assisted_volume_snapshots.py`, `compute/api.py` (`volume_snapshot_create`). Only
//! drivers with volumes as files on a shared file system (NFS and the like) use this operation. The volumes here are in
//! libvirt pools, and the volume service itself makes their snapshots. So even after all checks the request is refused,
//! because the volume is no file on a shared file system.

use chronova_events::ids::VolumeId;
use chronova_events::instance::{Alive, status};
use chronova_projections::servers::ServerRow;
use serde_json::Value;

use super::bodies::proxies as bodies;
use crate::answers::refused;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, post};

pub(super) const ROUTES: &[Route] = &[
    post("assisted_volume_snapshots.create", "/os-assisted-volume-snapshots", handler!(create))
        .policy("os_compute_api:os-assisted-volume-snapshots:create")
        .body(bodies::assisted_snapshot_body)
        .answers(refused),
    delete("assisted_volume_snapshots.delete", "/os-assisted-volume-snapshots/{id}", handler!(remove))
        .policy("os_compute_api:os-assisted-volume-snapshots:delete")
        .query(bodies::assisted_snapshot_query)
        .answers(refused),
];

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: bodies::AssistedSnapshotBody = ctx.parse_at("snapshot")?;
    Err(refusal(&ctx, &body.volume_id, &["active", "paused"], "volume_snapshot_create")?)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let info = ctx.query.first("delete_info").ok_or_else(|| Fault::bad_request("'delete_info'"))?;
    let info: Value = serde_json::from_str(info).map_err(|error| Fault::bad_request(error.to_string()))?;
    let volume = info["volume_id"].as_str().ok_or_else(|| Fault::bad_request("'volume_id'"))?;
    Err(refusal(&ctx, volume, &["active", "paused", "stopped"], "volume_snapshot_delete")?)
}

/// The reason of the refusal: no server has the volume, the server's state forbids the action, or the volume is no
/// file. As in Nova, the status is always 400.
fn refusal(ctx: &Ctx, volume: &str, allowed: &[&str], action: &str) -> Result<Fault, Fault> {
    let unknown = || Fault::bad_request(format!("No volume Block Device Mapping with id {volume}."));
    let Ok(id) = volume.parse::<VolumeId>() else { return Ok(unknown()) };
    let holder = ctx.views()?.servers.read(|servers| {
        let has =
            |row: &&std::sync::Arc<ServerRow>| row.instance.alive().is_some_and(|server| server.disk_of(id).is_some());
        servers.all().find(has).cloned()
    });
    let Some((holder, server)) = holder.as_ref().and_then(|row| Some((row.id, row.server()?))) else {
        return Ok(unknown());
    };
    Ok(match state(server, allowed) {
        Some((attribute, value)) => Fault::bad_request(format!(
            "Instance {holder} in {attribute} {value}. Cannot {action} while the instance is in this state."
        )),
        None => Fault::bad_request(format!(
            "Invalid volume: volume {volume} is not a file that can become the backing file of a running guest's disk."
        )),
    })
}

/// The part of the server's state that forbids the action.
fn state(server: &Alive, allowed: &[&str]) -> Option<(&'static str, &'static str)> {
    let shown = status::of_alive(server);
    match shown.task_state {
        _ if !allowed.contains(&shown.vm_state) => Some(("vm_state", shown.vm_state)),
        Some(task) => Some(("task_state", task)),
        None => None,
    }
}
