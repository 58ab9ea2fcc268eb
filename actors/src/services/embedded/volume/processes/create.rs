//! Creates a volume.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `choose_host` | selects the required host, or the host with the most free space | (it changes nothing) |
//! | `make_content` | caches and verifies the image, if there is one; creates the volume in its pool | deleting the volume |
//!
//! If a host fails, the process tries another host, unless the volume requires a particular host.

use std::sync::Arc;

use chronova_events::ids::{HostId, VolumeId};
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_events::volume::{Volume, VolumeRecord, VolumeSource};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::volume_store::VolumeContent;
use chronova_hypervisor::driver::{BytesAlone, Driver, ImageSource};
use chronova_hypervisor::volumes;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{GIB, user};
use crate::aggregate::CommandError;
use crate::image_signatures::ImageToPlace;
use crate::process::definition::{Definition, StepError, StepRun, steps};
use crate::process::guest::{PortImageSource, image_ref};
use crate::services::embedded::volume::{VolumeCommand, VolumeReject, VolumeRoot};

const UNSHARED: &str = "Guests cannot share a volume in a pool of files, where volumes are qcow2. A multiattach volume \
     needs a host with a pool of block devices for its volumes.";

pub const DEFINITION: Definition = Definition {
    name: "create_volume",
    steps: steps! {
        "choose_host" => choose_host;
        "make_content" => make_content, undone by remove_content;
    },
    undoes: true,
    max_attempts: |options| options.max_attempts.max(1),
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        match outcome {
            ProcessOutcome::Succeeded => {
                let Some((host, hostname)) = work.running.host() else { return Ok(()) };
                let driver = work.driver(host)?;
                let pool = driver.volume_store().needed()?.volume_pool().await.map_err(StepError::again)?;
                let (hostname, format) = (hostname.to_owned(), pool.format);
                let ready = VolumeCommand::RecordReady { process, host, hostname, format };
                let gateway = &work.context.gateway;
                match gateway.send::<VolumeRoot>(&work.volume_id(), ready, work.meta.clone()).await {
                    // The volume was deleted meanwhile. Only this process knows on which host its content is.
                    Err(CommandError::Rejected(VolumeReject::NotFound | VolumeReject::Superseded)) => {
                        remove_content(work).await
                    }
                    result => Ok(result.map(drop)?),
                }
            }
            ProcessOutcome::Failed => {
                let failure = work.running.failure.as_ref();
                let fault =
                    failure.map_or_else(|| StepError::again("unknown").fault(), |failure| failure.fault.clone());
                work.tell_volume(VolumeCommand::RecordFailed { process, fault }).await
            }
            // The process that cancelled this process continues with the volume.
            ProcessOutcome::CalledOff => Ok(()),
        }
    }
    .boxed()
}

async fn choose_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let volume = work.present_volume().await?;
    let bound = |id: HostId| volume.created.host.is_none_or(|only| only == id);
    let mut candidates: Vec<(HostId, String)> = Vec::new();
    let (mut silent, mut unshared) = (0, false);
    work.context.views.hosts.read(|hosts| {
        for host in hosts.all().filter(|host| bound(host.id) && !work.running.excluded.contains(&host.id)) {
            match host.answers() {
                true => candidates.push((host.id, host.hostname.clone())),
                // The host was recorded as down before the start-up, so it may answer in a moment.
                false => silent += u32::from(work.context.fleet.is_unheard(&host.uri)),
            }
        }
    });
    let needed = u64::from(volume.size_gb) * GIB;
    let mut best: Option<(u64, HostId, String)> = None;
    for (host, hostname) in candidates {
        let Some(driver) = work.context.fleet.driver(host) else {
            silent += 1;
            continue;
        };
        let Some(store) = driver.volume_store() else { continue };
        match store.volume_pool().await {
            // libvirt lets guests share only raw volumes.
            Ok(pool) if volume.created.multiattach && pool.format != "raw" => unshared = true,
            // Volumes in a pool of files are sparse. So a pool with too little capacity excludes its host, but too
            // little free space does not.
            Ok(pool) if best.as_ref().is_none_or(|(free, ..)| pool.free > *free) && pool.capacity >= needed => {
                best = Some((pool.free, host, hostname));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%host, %error, "reading a host's volume pool failed");
                silent += u32::from(error.is_transient());
            }
        }
    }
    match best {
        Some((_, host, hostname)) => Ok(StepOutput::Host { host, hostname }),
        None if silent > 0 => Err(StepError::again("no host has answered yet")),
        None if unshared => Err(StepError::fatal(500, UNSHARED, "")),
        None => Err(StepError::fatal(500, "No valid backend was found. No weighed backends available", "")),
    }
}

async fn make_content(work: &StepRun) -> Result<StepOutput, StepError> {
    let volume = work.present_volume().await?;
    let Some((host, _)) = work.running.host() else { return Err(StepError::again("no host was chosen")) };
    let driver = work.driver(host)?;
    let content = content(work, &volume, host, &driver).await?;
    let name = volumes::volume(work.volume_id());
    let made = driver.volume_store().needed()?.create_volume(&name, u64::from(volume.size_gb) * GIB, &content).await;
    made.map_err(|error| if error.is_transient() { StepError::again(error) } else { error.into() })?;
    Ok(StepOutput::Nothing)
}

async fn content(
    work: &StepRun,
    volume: &VolumeRecord,
    host: HostId,
    driver: &Arc<dyn Driver>,
) -> Result<VolumeContent, StepError> {
    match volume.created.source {
        VolumeSource::Blank => Ok(VolumeContent::Blank),
        VolumeSource::Image(_) => {
            let Some(image) = &volume.created.image else { return Err(StepError::again("the image is not known")) };
            let known = &image.snapshot;
            let image = image_ref(known);
            let source: Arc<dyn ImageSource> = Arc::new(PortImageSource::new(&work.context.images, &work.meta));
            // The volume is made from the copy in the host's cache.
            let source: Arc<dyn ImageSource> = Arc::new(BytesAlone(source));
            work.context.image_holds.hold(work.running.process, host, &image.checksum).await;
            let properties = known.properties.as_slice();
            let wanted = ImageToPlace { image: &image, properties, trusted: &[], work: &work.meta };
            work.context.signatures.place(driver.as_ref(), source, wanted).await?;
            Ok(VolumeContent::Image(image))
        }
        VolumeSource::Snapshot { snapshot, of } => {
            let known = look(work, of).await?.is_some_and(|of| of.snapshots.contains_key(&snapshot));
            match known {
                true => Ok(VolumeContent::Copy { of: volumes::snapshot(snapshot), user: None }),
                false => Err(StepError::fatal(404, &format!("Snapshot {snapshot} could not be found."), "")),
            }
        }
        VolumeSource::Volume(of) => match look(work, of).await? {
            Some(source) => Ok(VolumeContent::Copy { of: volumes::volume(of), user: user(&source) }),
            None => Err(StepError::fatal(404, &format!("Volume {of} could not be found."), "")),
        },
    }
}

async fn look(work: &StepRun, volume: VolumeId) -> Result<Option<Arc<VolumeRecord>>, StepError> {
    match work.context.gateway.look::<VolumeRoot>(&volume).await? {
        Volume::Here(record) => Ok(Some(record)),
        Volume::Unknown | Volume::Deleted => Ok(None),
    }
}

/// Deletes the volume from its pool. If the host is down, its agent deletes the volume when the host is back.
async fn remove_content(work: &StepRun) -> Result<(), StepError> {
    let Some((host, _)) = work.running.host() else { return Ok(()) };
    let Some(driver) = work.reach(host)? else { return Ok(()) };
    match driver.volume_store() {
        Some(store) => store.delete_volume(&volumes::volume(work.volume_id())).await.map_err(StepError::again),
        None => Ok(()),
    }
}
