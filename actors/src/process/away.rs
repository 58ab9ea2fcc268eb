//! The volumes of a server that leaves its host, or comes to one: its steps in [`super::offload`] and [`super::unshelve`].
//!
//! The volume service knows no attachment that is connected no more: the host's is ended, and another one keeps the
//! volume for the server meanwhile. The ids of attachments follow from the process, so that a step that is done again
//! finds what it made; what it made and nobody recorded (the server is being deleted) it gives back.

use chronova_events::ids::{AttachmentId, VolumeId};
use chronova_events::instance::{Alive, BlockDevice};
use chronova_events::process::Output;

use super::definition::{StepError, Work};
use super::disks::{self, host, recorded};
use super::turn;
use crate::instance::{InstanceAggregate, VolumeCommand};

/// Kept for the server by this process: while it is away, or until another host is tried.
fn keeper(work: &Work, device: &BlockDevice) -> AttachmentId {
    AttachmentId::derive(work.running.process.0, &format!("kept-{}-{}", device.id, work.running.attempt))
}

fn volumes(server: &Alive) -> impl Iterator<Item = (&BlockDevice, VolumeId)> {
    server.disks.iter().map(|disk| &disk.device).filter_map(|device| Some((device, device.volume?)))
}

/// Nobody may be at work on a disk whose attachment is about to be another one.
fn at_rest(server: &Alive) -> Result<(), StepError> {
    match server.disks.iter().any(|disk| disk.work.is_some()) {
        true => Err(StepError::Again("one of the server's volumes is being worked on".to_owned())),
        false => Ok(()),
    }
}

/// Gives the connections of the volumes back; they stay the server's.
pub(super) async fn keep(work: &Work, server: &Alive) -> Result<(), StepError> {
    at_rest(server)?;
    let mut devices = Vec::new();
    for device in server.disks.iter().map(|disk| &disk.device) {
        let mut device = device.clone();
        if let Some(volume) = device.volume {
            let keeper = keeper(work, &device);
            work.context.volumes.reserve(keeper, volume, work.instance_id(), work.meta.clone()).await?;
            // Not before it is kept otherwise: between two attachments anybody could take it.
            if let Some(old) = device.attachment.filter(|old| *old != keeper) {
                disks::release(work, volume, old).await?;
            }
            (device.attachment, device.connection) = (Some(keeper), None);
        }
        devices.push(device);
    }
    record(work, devices).await
}

/// What [`keep`] made and nobody recorded is given back: the server has another end than to be away.
pub(super) async fn let_go(work: &Work) -> Result<(), StepError> {
    let instance = work.context.gateway.look::<InstanceAggregate>(&work.instance_id()).await?;
    // Also of a server that is gone by now.
    let Some(server) = instance.known() else { return Ok(()) };
    for (device, volume) in volumes(server) {
        let keeper = keeper(work, device);
        if instance.alive().is_none() || device.attachment != Some(keeper) {
            disks::release(work, volume, keeper).await?;
        }
    }
    Ok(())
}

/// Has the volume service say how the server's host reaches its volumes.
pub(super) async fn connect(work: &Work, server: &Alive) -> Result<Output, StepError> {
    at_rest(server)?;
    if volumes(server).next().is_none() {
        return Ok(Output::Nothing);
    }
    let (_, hostname) = host(server)?;
    let mut devices = Vec::new();
    for device in server.disks.iter().map(|disk| &disk.device) {
        let mut device = device.clone();
        if let (Some(volume), Some(attachment)) = (device.volume, device.attachment) {
            let name = device.device_name.as_deref();
            let way = work.context.volumes.connect(volume, attachment, &hostname, name, work.meta.clone()).await?;
            device.connection = Some(recorded(way));
        }
        devices.push(device);
    }
    record(work, devices).await?;
    Ok(Output::Nothing)
}

/// The guest has them.
pub(super) async fn complete(work: &Work, server: &Alive) -> Result<(), StepError> {
    for (device, volume) in volumes(server) {
        if let Some(attachment) = device.attachment {
            work.context.volumes.complete(volume, attachment, work.meta.clone()).await?;
        }
    }
    Ok(())
}

async fn record(work: &Work, devices: Vec<BlockDevice>) -> Result<(), StepError> {
    let process = work.running.process;
    match disks::record(work, VolumeCommand::RecordPrepared { process, devices }).await? {
        true => Ok(()),
        // Whoever overtook the process gives back what the server has; what it does not have is given back here.
        false => {
            let_go(work).await?;
            turn::still_mine(work).await.map(drop)
        }
    }
}
