//! Checks that a server's volumes are in use before the server is rebuilt or rescued.
//! Source: nova `compute/api.py` (`_check_volume_status`).

use chronova_actors::ports::VolumeInfo;

use crate::compute::reject;
use crate::compute::servers::lookup::PermittedServer;
use crate::ctx::Ctx;
use crate::fault::Fault;

/// Returns the server's volumes. If one is not in use, `refused` makes the error from Nova's message.
pub(super) async fn in_use(
    ctx: &Ctx,
    found: &PermittedServer,
    refused: fn(String) -> Fault,
) -> Result<Vec<VolumeInfo>, Fault> {
    let mut all = Vec::new();
    for volume in found.server()?.disks.iter().filter_map(|disk| disk.device.volume) {
        let project = &found.server()?.request.project;
        let seen = ctx.queries()?.volumes.find(volume, project, ctx.caller().is_admin).await;
        let info = seen.map_err(|error| reject::volume(volume, error))?;
        if info.status != "in-use" {
            return Err(refused(format!(
                "Invalid volume: volume '{volume}' status must be 'in-use'. Currently in '{}' status",
                info.status
            )));
        }
        all.push(info);
    }
    Ok(all)
}
