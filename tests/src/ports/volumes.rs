//! The promises that every implementation of [`VolumeService`] keeps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_actors::hosts::doubt::CopyDoubt;
use chronova_actors::ports::{
    AttachmentInfo, NewContent, NewSnapshot, NewVolume, PortError, SnapshotInfo, VolumeInfo, VolumeService,
};
use chronova_events::envelope::Meta;
use chronova_events::ids::{AttachmentId, HostId, InstanceId, ProjectId, SnapshotId, UserId, VolumeId};
use chronova_hypervisor::capability::volume_store::VolumeContent;
use chronova_hypervisor::driver::Driver;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::promise;

/// An accepted request may take at most this long; only a hang reaches the limit.
const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Creates the resources of a case, without the port.
#[async_trait]
pub trait VolumeStage: Send + Sync {
    /// A project that has no volumes yet, and quota for several.
    async fn project(&self) -> ProjectId;

    /// The name of a compute host.
    fn host(&self) -> String;

    /// The id of that host, and its driver.
    fn driver(&self) -> (HostId, Arc<dyn Driver>);

    /// The request of a user of the project. A real service creates resources in the project of the user's token.
    async fn asked(&self, project: &ProjectId) -> Arc<Meta>;
}

pub type VolumeCase = for<'a> fn(&'a dyn VolumeService, &'a dyn VolumeStage) -> BoxFuture<'a, anyhow::Result<()>>;

/// The cases of the suite.
pub const CASES: &[(&str, VolumeCase)] = &[
    ("makes_a_volume_once", |port, stage| makes_once(port, stage).boxed()),
    ("shows_a_volume_to_its_project_alone", |port, stage| shows(port, stage).boxed()),
    ("accepts_a_second_delete_of_a_volume", |port, stage| deletes(port, stage).boxed()),
    ("attaches_step_by_step", |port, stage| attaches(port, stage).boxed()),
    ("repeats_each_step_of_an_attachment", |port, stage| repeats(port, stage).boxed()),
    ("gives_a_volume_to_one_server_at_a_time", |port, stage| reserves_alone(port, stage).boxed()),
    ("releases_an_attachment_that_was_not_completed", |port, stage| releases_early(port, stage).boxed()),
    ("ends_the_other_attachments_of_one_server", |port, stage| ends_others(port, stage).boxed()),
    ("detaches_only_used_volumes_and_deletes_only_free_ones", |port, stage| keeps_used(port, stage).boxed()),
    ("copies_snapshots", |port, stage| copies(port, stage).boxed()),
    ("makes_volumes_of_snapshots", |port, stage| makes_of_snapshot(port, stage).boxed()),
    ("leaves_what_lives_on_a_swept_host", |port, stage| sweeps(port, stage).boxed()),
];

fn meta() -> Arc<Meta> {
    Meta::system("conformance")
}

fn blank(project: &ProjectId) -> NewVolume {
    NewVolume {
        volume: VolumeId::random(),
        project: project.clone(),
        user: UserId::new("conformance"),
        name: "disk".to_owned(),
        description: None,
        size_gb: Some(1),
        content: NewContent::Blank,
        volume_type: None,
        availability_zone: None,
        metadata: vec![("of".to_owned(), "conformance".to_owned())],
        host: None,
    }
}

fn snapshot(of: VolumeId, project: &ProjectId) -> NewSnapshot {
    NewSnapshot {
        snapshot: SnapshotId::random(),
        volume: of,
        project: project.clone(),
        user: UserId::new("conformance"),
        name: "copy".to_owned(),
        description: None,
        force: false,
        metadata: vec![],
    }
}

/// Repeats a query until it has an answer.
async fn until<T, F>(what: &str, mut ask: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let asking = async {
        loop {
            if let Some(found) = ask().await? {
                return Ok(found);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(found) => found,
        Err(_) => anyhow::bail!("{what} does not come in time"),
    }
}

/// Creates a volume and waits until it is available.
async fn made(port: &dyn VolumeService, stage: &dyn VolumeStage, wanted: NewVolume) -> anyhow::Result<VolumeInfo> {
    let project = wanted.project.clone();
    let volume = port.create(wanted, false, stage.asked(&project).await).await?.id;
    let project = &project;
    let made = until("the end of `creating`", || async move {
        let found = port.find(volume, project, false).await?;
        Ok(Some(found).filter(|found| found.status != "creating"))
    });
    let made = made.await?;
    promise!(made.status == "available", "a volume that was accepted is not made: {made:?}");
    Ok(made)
}

async fn copied(
    port: &dyn VolumeService,
    stage: &dyn VolumeStage,
    wanted: NewSnapshot,
) -> anyhow::Result<SnapshotInfo> {
    let project = wanted.project.clone();
    let snapshot = port.create_snapshot(wanted, false, stage.asked(&project).await).await?.id;
    let project = &project;
    let made = until("the end of `creating`", || async move {
        let found = port.find_snapshot(snapshot, project, false).await?;
        Ok(Some(found).filter(|found| found.status != "creating"))
    });
    let made = made.await?;
    promise!(made.status == "available", "a snapshot that was accepted is not made: {made:?}");
    Ok(made)
}

async fn gone(port: &dyn VolumeService, volume: VolumeId, project: &ProjectId) -> anyhow::Result<()> {
    until("the end of a volume", || async move {
        match port.find(volume, project, false).await {
            Err(PortError::NotFound(_)) => Ok(Some(())),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        }
    })
    .await
}

/// Waits until the project lists exactly these volumes, because a list may lag.
async fn lists(port: &dyn VolumeService, project: &ProjectId, wanted: &[VolumeId]) -> anyhow::Result<()> {
    until("a list of the project's volumes", || async move {
        let listed: Vec<VolumeId> = port.list(project, false).await?.iter().map(|volume| volume.id).collect();
        Ok((listed == wanted).then_some(()))
    })
    .await
}

async fn status(port: &dyn VolumeService, of: &VolumeInfo) -> anyhow::Result<String> {
    Ok(port.find(of.id, &of.project, false).await?.status)
}

async fn makes_once(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let project = stage.project().await;
    let wanted = blank(&project);
    let made = made(port, stage, wanted.clone()).await?;
    promise!(made.size_gb == 1, "the volume has not the requested size: {made:?}");
    let proposed = port.find(wanted.volume, &project, false).await?;
    promise!(proposed == made, "the id that was proposed finds another volume: {proposed:?}");
    promise!((&made.name, &made.metadata) == (&wanted.name, &wanted.metadata), "name or metadata are lost: {made:?}");
    promise!(made.attachments.is_empty(), "a new volume is attached: {made:?}");
    let again = port.create(wanted, false, stage.asked(&project).await).await?;
    promise!(again == made, "a repeated request makes another volume: {again:?}");
    lists(port, &project, &[made.id]).await
}

async fn shows(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let (own, other) = (stage.project().await, stage.project().await);
    let made = made(port, stage, blank(&own)).await?;
    let foreign = port.find(made.id, &other, false).await;
    promise!(matches!(foreign, Err(PortError::NotFound(_))), "another project finds the volume: {foreign:?}");
    promise!(port.find(made.id, &other, true).await.is_ok(), "an administrator does not find the volume");
    let listed = port.list(&other, false).await?;
    promise!(listed.is_empty(), "another project lists the volume: {listed:?}");
    let all = port.list(&other, true).await?;
    promise!(all.iter().any(|volume| volume.id == made.id), "a list of all projects lacks the volume: {all:?}");
    let unknown = port.find(VolumeId::random(), &own, true).await;
    promise!(
        matches!(unknown, Err(PortError::NotFound(_))),
        "a volume that does not exist is not refused as missing: {unknown:?}"
    );
    let kind = port.find_type("nonsense", &own, true).await;
    promise!(
        matches!(kind, Err(PortError::NotFound(_))),
        "a type that does not exist is not refused as missing: {kind:?}"
    );
    Ok(())
}

async fn deletes(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let project = stage.project().await;
    let made = made(port, stage, blank(&project)).await?;
    port.delete(made.id, meta()).await?;
    gone(port, made.id, &project).await?;
    port.delete(made.id, meta()).await?;
    lists(port, &project, &[]).await
}

async fn attaches(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let volume = made(port, stage, blank(&stage.project().await)).await?;
    let server = InstanceId::random();
    let attachment = port.reserve(AttachmentId::random(), volume.id, server, meta()).await?;
    promise!(status(port, &volume).await? == "reserved", "the volume is not kept for the server");
    let way = port.connect(volume.id, attachment, &stage.host(), Some("/dev/vdb"), meta()).await?;
    promise!(way.serial == volume.id.to_string(), "the guest sees another serial number: {way:?}");
    promise!(status(port, &volume).await? == "attaching", "the volume is not being attached");
    port.complete(volume.id, attachment, meta()).await?;
    let now = port.find(volume.id, &volume.project, false).await?;
    let wanted = AttachmentInfo {
        id: attachment,
        instance: Some(server),
        host: Some(stage.host()),
        device: Some("/dev/vdb".to_owned()),
        attached: true,
    };
    promise!(
        now.status == "in-use" && now.attachments == [wanted],
        "the volume is not in use by the server alone: {now:?}"
    );
    port.begin_detaching(volume.id, meta()).await?;
    promise!(status(port, &volume).await? == "detaching", "the volume is not being detached");
    port.roll_detaching(volume.id, meta()).await?;
    promise!(status(port, &volume).await? == "in-use", "the volume is still being detached");
    port.begin_detaching(volume.id, meta()).await?;
    port.release(volume.id, attachment, meta()).await?;
    let now = port.find(volume.id, &volume.project, false).await?;
    promise!(now.status == "available" && now.attachments.is_empty(), "the volume is not free: {now:?}");
    Ok(())
}

async fn repeats(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let volume = made(port, stage, blank(&stage.project().await)).await?;
    let (proposed, server, host) = (AttachmentId::random(), InstanceId::random(), stage.host());
    let attachment = port.reserve(proposed, volume.id, server, meta()).await?;
    let again = port.reserve(proposed, volume.id, server, meta()).await?;
    promise!(again == attachment, "a repeated reservation makes another attachment: {again}");
    let way = port.connect(volume.id, attachment, &host, None, meta()).await?;
    let again = port.connect(volume.id, attachment, &host, None, meta()).await?;
    promise!(way == again, "a repeated call gives another connection: {way:?} and {again:?}");
    for _ in 0..2 {
        port.complete(volume.id, attachment, meta()).await?;
    }
    let now = port.find(volume.id, &volume.project, false).await?;
    promise!(now.status == "in-use" && now.attachments.len() == 1, "the volume is not attached just once: {now:?}");
    for _ in 0..2 {
        port.release(volume.id, attachment, meta()).await?;
    }
    promise!(status(port, &volume).await? == "available", "the volume is not free");
    Ok(())
}

async fn reserves_alone(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let volume = made(port, stage, blank(&stage.project().await)).await?;
    let first = AttachmentId::random();
    port.reserve(first, volume.id, InstanceId::random(), meta()).await?;
    let second = port.reserve(AttachmentId::random(), volume.id, InstanceId::random(), meta()).await;
    promise!(matches!(second, Err(PortError::Invalid(_))), "two servers are given the volume: {second:?}");
    let unknown = port.reserve(AttachmentId::random(), VolumeId::random(), InstanceId::random(), meta()).await;
    promise!(
        matches!(unknown, Err(PortError::NotFound(_))),
        "reserving a volume that does not exist is not refused as missing: {unknown:?}"
    );
    Ok(())
}

async fn releases_early(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let volume = made(port, stage, blank(&stage.project().await)).await?;
    for connects in [false, true] {
        let attachment = port.reserve(AttachmentId::random(), volume.id, InstanceId::random(), meta()).await?;
        if connects {
            port.connect(volume.id, attachment, &stage.host(), None, meta()).await?;
        }
        port.release(volume.id, attachment, meta()).await?;
        promise!(status(port, &volume).await? == "available", "the volume is not free (connected: {connects})");
    }
    port.release(VolumeId::random(), AttachmentId::random(), meta()).await?;
    Ok(())
}

async fn ends_others(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let volume = made(port, stage, blank(&stage.project().await)).await?;
    let server = InstanceId::random();
    let attachment = port.reserve(AttachmentId::random(), volume.id, server, meta()).await?;
    port.release_others(volume.id, InstanceId::random(), &[], meta()).await?;
    promise!(status(port, &volume).await? == "reserved", "the attachment of another server is ended");
    port.release_others(volume.id, server, &[attachment], meta()).await?;
    promise!(status(port, &volume).await? == "reserved", "the attachment to keep is ended");
    for _ in 0..2 {
        port.release_others(volume.id, server, &[], meta()).await?;
        promise!(status(port, &volume).await? == "available", "the volume is not free");
    }
    port.release_others(VolumeId::random(), server, &[], meta()).await?;
    Ok(())
}

async fn keeps_used(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let volume = made(port, stage, blank(&stage.project().await)).await?;
    let free = port.begin_detaching(volume.id, meta()).await;
    promise!(matches!(free, Err(PortError::Invalid(_))), "a free volume is being detached: {free:?}");
    let attachment = port.reserve(AttachmentId::random(), volume.id, InstanceId::random(), meta()).await?;
    port.connect(volume.id, attachment, &stage.host(), None, meta()).await?;
    port.complete(volume.id, attachment, meta()).await?;
    let deleted = port.delete(volume.id, meta()).await;
    promise!(matches!(deleted, Err(PortError::Invalid(_))), "a volume that a server has is deleted: {deleted:?}");
    promise!(status(port, &volume).await? == "in-use", "the server has lost its volume");
    Ok(())
}

async fn copies(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let (project, other) = (stage.project().await, stage.project().await);
    let volume = made(port, stage, blank(&project)).await?;
    let before = port.snapshots_left(&project).await?;
    let wanted = snapshot(volume.id, &project);
    let copy = copied(port, stage, wanted.clone()).await?;
    promise!(copy.volume == volume.id, "the snapshot is of another volume: {copy:?}");
    let proposed = port.find_snapshot(wanted.snapshot, &project, false).await?;
    promise!(proposed == copy, "the id that was proposed finds another snapshot: {proposed:?}");
    let left = port.snapshots_left(&project).await?;
    promise!(left == before.map(|before| before - 1), "{left:?} snapshots are left of {before:?} after one was made");
    let again = port.create_snapshot(wanted, false, stage.asked(&project).await).await?;
    promise!(again == copy, "a repeated request makes another snapshot: {again:?}");
    let listed = port.list_snapshots(&project, false).await?;
    promise!(listed.len() == 1 && listed[0].id == copy.id, "the list is not the project's one snapshot: {listed:?}");
    let foreign = port.find_snapshot(copy.id, &other, false).await;
    promise!(matches!(foreign, Err(PortError::NotFound(_))), "another project finds the snapshot: {foreign:?}");
    let foreign = port.create_snapshot(snapshot(volume.id, &other), false, stage.asked(&other).await).await;
    promise!(matches!(foreign, Err(PortError::NotFound(_))), "another project copies the volume: {foreign:?}");
    port.delete_snapshot(copy.id, meta()).await?;
    let (id, project) = (copy.id, &project);
    until("the end of a snapshot", || async move {
        match port.find_snapshot(id, project, false).await {
            Err(PortError::NotFound(_)) => Ok(Some(())),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        }
    })
    .await?;
    port.delete_snapshot(copy.id, meta()).await?;
    Ok(())
}

async fn makes_of_snapshot(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let (project, other) = (stage.project().await, stage.project().await);
    let volume = made(port, stage, blank(&project)).await?;
    let copy = copied(port, stage, snapshot(volume.id, &project)).await?;
    let content = NewContent::Snapshot(copy.id);
    let wanted = NewVolume { size_gb: None, content: content.clone(), ..blank(&project) };
    let second = made(port, stage, wanted).await?;
    promise!(second.size_gb == 1, "the volume has another size than its snapshot: {second:?}");
    promise!(second.snapshot == Some(copy.id), "the volume does not name its snapshot: {second:?}");
    let foreign = port.create(NewVolume { content, ..blank(&other) }, false, stage.asked(&other).await).await;
    promise!(foreign.is_err(), "another project makes a volume of the snapshot: {foreign:?}");
    Ok(())
}

async fn sweeps(port: &dyn VolumeService, stage: &dyn VolumeStage) -> anyhow::Result<()> {
    let (own, (host, driver)) = (stage.project().await, stage.driver());
    let Some(pool) = driver.volume_store() else { anyhow::bail!("the stage's host keeps no volumes") };
    pool.create_volume("somebody-else", 1 << 30, &VolumeContent::Blank).await?;
    made(port, stage, blank(&own)).await?;
    let before = names(&*driver).await?;
    port.sweep_host(host, &driver, CopyDoubt::default()).await;
    let after = names(&*driver).await?;
    promise!(before == after, "the sweep removes a volume that it must keep: {before:?} and {after:?}");
    Ok(())
}

async fn names(driver: &dyn Driver) -> anyhow::Result<BTreeSet<String>> {
    let Some(pool) = driver.volume_store() else { return Ok(BTreeSet::new()) };
    Ok(pool.volumes().await?.into_iter().map(|volume| volume.name).collect())
}
