//! Functions that the processes that move a server share. They check who owns the task, move claims, and copy disks.

use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::ids::{HostId, ProcessId, ProviderId};
use chronova_events::instance::{Alive, FaultInfo, FlavorSnapshot, LiveMigrationState, MoveStage, Moving, Placed};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::disk_transfer::DiskFile;
use chronova_hypervisor::driver::{Driver, DriverError, StopMode};

use super::claim_holder::{migration_consumer, server_consumer};
use super::definition::{StepError, StepRun, settled};
use super::{guest, live_migrate, port_grants};
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::ledger::{CELL, LedgerCommand, LedgerRoot};
use crate::quota::{QuotaCommand, QuotaRoot};

/// A server and its move.
pub(super) struct MovingServer {
    pub(super) server: Alive,
    pub(super) moving: Moving,
}

impl MovingServer {
    /// The destination of the move, which `claim_host` selected.
    pub(super) fn target(&self) -> Result<&Placed, StepError> {
        let none = || StepError::fatal(500, "The move has no destination.", "no host was chosen");
        self.moving.target.as_ref().ok_or_else(none)
    }

    pub(super) fn live(&self) -> Option<&LiveMigrationState> {
        self.moving.live.as_ref()
    }

    /// The server with another flavor.
    pub(super) fn with(&self, flavor: &FlavorSnapshot) -> Alive {
        let mut server = self.server.clone();
        server.request.flavor = Arc::new(flavor.clone());
        server
    }
}

/// The server and its move, even if another process owns the server's task; `None` if either is gone.
pub(super) async fn subject(work: &StepRun) -> Result<Option<MovingServer>, StepError> {
    let Some(server) = work.server().await? else { return Ok(None) };
    let Some(moving) = server.moving.as_deref().cloned() else { return Ok(None) };
    Ok(Some(MovingServer { server, moving }))
}

/// Like [`subject`], but only while this process owns the server's task. If a delete has overtaken the process, the
/// step fails and the process is undone.
pub(super) async fn mine(work: &StepRun) -> Result<MovingServer, StepError> {
    let overtaken = || StepError::fatal(409, "Another request has overtaken the move.", "");
    let subject = subject(work).await?.ok_or_else(overtaken)?;
    match is_mine(work, &subject.server) {
        true => Ok(subject),
        false => Err(overtaken()),
    }
}

pub(super) fn is_mine(work: &StepRun, server: &Alive) -> bool {
    server.ongoing.map(|ongoing| ongoing.process()) == Some(work.running.process)
}

/// Fails while a change of the server's volumes is under way, so that the step is retried. No new changes are accepted
/// meanwhile.
pub(super) fn disks_at_rest(server: &Alive) -> Result<(), StepError> {
    match server.disks.iter().any(|disk| disk.work.is_some()) {
        true => Err(StepError::again("a volume is still being attached or detached")),
        false => Ok(()),
    }
}

/// Sends a record about the move. A refusal because the process was overtaken is no error.
pub(super) async fn record(work: &StepRun, record: impl Into<InstanceRecord>) -> Result<(), StepError> {
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceRoot>(&work.instance_id(), record.into(), work.meta.clone()).await)
}

/// Sends a record that must be accepted. A refusal is an error, because it means that another request has overtaken
/// this process.
pub(super) async fn insist(work: &StepRun, record: impl Into<InstanceRecord>) -> Result<Position, StepError> {
    let gateway = &work.context.gateway;
    Ok(gateway.send::<InstanceRoot>(&work.instance_id(), record.into(), work.meta.clone()).await?.position)
}

pub(super) fn fault(work: &StepRun) -> FaultInfo {
    let failure = work.running.failure.as_ref().map(|failure| failure.fault.clone());
    failure.unwrap_or_else(|| StepError::again("cancelled").fault())
}

async fn ledger(work: &StepRun, command: LedgerCommand) -> Result<(), StepError> {
    work.context.gateway.send::<LedgerRoot>(&CELL, command, work.meta.clone()).await?;
    Ok(())
}

/// Moves the server's allocations to the migration, so that the server can claim its destination.
pub(super) async fn set_aside(work: &StepRun, migration: ProcessId) -> Result<(), StepError> {
    let server = server_consumer(work);
    ledger(work, LedgerCommand::SetAside { server, migration: migration_consumer(migration) }).await
}

/// Moves the migration's allocations back to the server, and releases its destination.
pub(super) async fn take_back(work: &StepRun, moving: &Moving) -> Result<(), StepError> {
    let server = server_consumer(work);
    let (migration, host) = (migration_consumer(moving.migration), ProviderId(moving.source.host.0));
    ledger(work, LedgerCommand::TakeBack { server, migration, host }).await
}

/// Releases the migration's allocations.
pub(super) async fn release(work: &StepRun, migration: ProcessId) -> Result<(), StepError> {
    ledger(work, LedgerCommand::Release { consumer: migration_consumer(migration) }).await
}

/// Adjusts the quota to this flavor.
pub(super) async fn count(work: &StepRun, server: &Alive, flavor: &FlavorSnapshot) -> Result<(), StepError> {
    let project = &server.request.project;
    let settle = QuotaCommand::Settle {
        project: project.clone(),
        instance: work.instance_id(),
        cores: flavor.vcpus,
        memory_mib: flavor.memory_mib,
    };
    work.context.gateway.send::<QuotaRoot>(project, settle, work.meta.clone()).await?;
    Ok(())
}

/// Binds the server's ports to the host of `at`.
pub(super) async fn bind(work: &StepRun, at: &Placed) -> Result<(), StepError> {
    let Some(server) = work.server().await? else { return Ok(()) };
    let (networks, project) = (&work.context.networks, &server.request.project);
    let (host, zone) = (Some(at.hostname.as_str()), at.availability_zone.as_str());
    let grants = port_grants::at(work, &server, at).await?;
    networks.rebind(work.instance_id(), project, host, zone, &grants, work.meta.clone()).await?;
    Ok(())
}

/// Moves the traffic of the server's ports to the destination. In post-copy the guest runs there before its migration
/// has ended.
pub(super) async fn switch(work: &StepRun, at: &Placed) -> Result<(), StepError> {
    let Some(server) = work.server().await? else { return Ok(()) };
    let (networks, project) = (&work.context.networks, &server.request.project);
    Ok(networks.activate_destination(work.instance_id(), project, &at.hostname, work.meta.clone()).await?)
}

/// Starts the guest on a host where it is defined. If the host does not answer, its agent corrects the guest's state
/// later.
pub(super) async fn start_again(work: &StepRun, host: HostId, server: &Alive) -> Result<(), StepError> {
    if !work.host_answers(host)? {
        return Ok(());
    }
    guest::connect(work, host, server).await?;
    match guest::start(work, host, server).await? {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::again(error)),
    }
}

/// Powers the guest off on a host, if the host answers.
pub(super) async fn pull(work: &StepRun, host: HostId) -> Result<(), StepError> {
    if !work.host_answers(host)? {
        return Ok(());
    }
    match work.driver(host)?.stop(work.instance_id(), StopMode::Hard).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::again(error)),
    }
}

/// The guest's disks, without those that were set aside.
pub(super) async fn disks(work: &StepRun, driver: &Arc<dyn Driver>) -> Result<Vec<DiskFile>, StepError> {
    let transfer = driver.disk_transfer().needed().map_err(StepError::only_here)?;
    let all = transfer.disk_files(work.instance_id()).await.map_err(StepError::only_here)?;
    Ok(all.into_iter().filter(|disk| !disk.is_kept()).collect())
}

/// Sends a disk of the guest from one host to another, or to another name on the same host.
pub(super) async fn send(
    work: &StepRun,
    from: &Arc<dyn Driver>,
    disk: &DiskFile,
    to: &Arc<dyn Driver>,
    name: &DiskFile,
) -> Result<(), StepError> {
    let source = from.disk_transfer().needed().map_err(StepError::only_here)?;
    let content = source.read_disk(work.instance_id(), disk).await.map_err(StepError::only_here)?;
    to.disk_transfer().needed()?.receive_disk(work.instance_id(), name, content).await?;
    Ok(())
}

// ------------------------------------------------------------------------------------ disks that stay in their place

/// Whether the disks stay in place: on the same host, or on shared storage. The answer decides whether disks are
/// copied, overwritten or removed, so every host that answers is asked again.
pub(super) async fn in_place(work: &StepRun, subject: &MovingServer) -> Result<bool, StepError> {
    let (source, target) = (subject.moving.source.host, subject.target()?.host);
    if source == target {
        return Ok(true);
    }
    let fleet = &work.context.fleet;
    let mut known = fleet.knows_storage_of(source) && fleet.knows_storage_of(target);
    for (host, other) in [(source, target), (target, source)] {
        if work.host_answers(host)? {
            live_migrate::shares(work, host, other).await?;
            known = true;
        }
    }
    match known {
        true => Ok(fleet.share(source, target)),
        false => Err(StepError::again("it is not known yet whether the hosts share their storage")),
    }
}

/// Whether both hosts of a move share storage. The marks seen since start-up may show it; otherwise the hosts are
/// asked. Shared disks must not be copied onto themselves.
pub(super) async fn one_storage(work: &StepRun, subject: &MovingServer) -> Result<bool, StepError> {
    let (source, target) = (subject.moving.source.host, subject.target()?.host);
    for (host, other) in [(source, target), (target, source)] {
        if !work.context.fleet.knows_storage_of(host) {
            live_migrate::shares(work, host, other).await?;
        }
    }
    Ok(work.context.fleet.share(source, target))
}

/// A host of the move that answers. Both hosts have the disks that stay in their place.
fn host_with_kept_disks(work: &StepRun, subject: &MovingServer) -> Result<HostId, StepError> {
    let ends = [Some(subject.moving.source.host), subject.moving.target.as_ref().map(|target| target.host)];
    for host in ends.into_iter().flatten() {
        if work.host_answers(host)? {
            return Ok(host);
        }
    }
    Err(StepError::again("neither host that has the server's disks answers"))
}

/// Restores the disks from before the move. Disks that were not set aside stay as they are.
pub(super) async fn put_kept_back(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    let driver = work.driver(host_with_kept_disks(work, subject)?)?;
    // If a driver cannot transfer disks, no disks were set aside on its host.
    let Some(transfer) = driver.disk_transfer() else { return Ok(()) };
    let all = transfer.disk_files(work.instance_id()).await.map_err(StepError::again)?;
    for kept in all.iter().filter(|disk| disk.is_kept()) {
        let content = transfer.read_disk(work.instance_id(), kept).await.map_err(StepError::again)?;
        transfer.receive_disk(work.instance_id(), &kept.unkept(), content).await.map_err(StepError::again)?;
    }
    Ok(())
}

/// Removes the disks that were set aside.
pub(super) async fn drop_kept(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    let driver = work.driver(host_with_kept_disks(work, subject)?)?;
    let Some(transfer) = driver.disk_transfer() else { return Ok(()) };
    for kept in
        transfer.disk_files(work.instance_id()).await.map_err(StepError::again)?.iter().filter(|disk| disk.is_kept())
    {
        transfer.remove_disk(work.instance_id(), kept).await.map_err(StepError::again)?;
    }
    Ok(())
}

/// Undefines the guest on a host, but keeps its disks, which the server uses elsewhere. If the host is down, its agent
/// does this when the host is back.
pub(super) async fn withdraw(work: &StepRun, at: &Placed) -> Result<(), StepError> {
    pull(work, at.host).await?;
    live_migrate::forget(work, at).await
}

/// Ensures that the guest is off here before another host starts it. `started`: whether the guest may have been started
/// here. If so and the host does not answer, the step is repeated until the host answers or an operator declares it
/// down (`forced_down`). The step of an overtaken process does not wait. Returns whether the host answers.
pub(super) async fn see_off(
    work: &StepRun,
    subject: &MovingServer,
    at: &Placed,
    started: bool,
) -> Result<bool, StepError> {
    if work.host_answers(at.host)? {
        return match work.driver(at.host)?.stop(work.instance_id(), StopMode::Hard).await {
            Ok(()) | Err(DriverError::NoSuchGuest(_)) => Ok(true),
            Err(error) => Err(StepError::again(error)),
        };
    }
    // The host's agent removes the guest when the host is back.
    match started && !is_fenced(work, at.host) && is_mine(work, &subject.server) {
        true => Err(StepError::again(format!("host {} is down, but may still run the guest", at.hostname))),
        false => Ok(false),
    }
}

/// Whether an operator has declared the host down, so that no guest runs there.
pub(super) fn is_fenced(work: &StepRun, host: HostId) -> bool {
    work.context.views.hosts.read(|hosts| hosts.get(host).is_some_and(|known| known.forced_down))
}

/// Undefines the guest on a failed destination, so that it can be started elsewhere; its disks stay.
pub(super) async fn fence(work: &StepRun, subject: &MovingServer, target: &Placed) -> Result<(), StepError> {
    let started = subject.moving.was_active && subject.moving.stage >= MoveStage::Finishing;
    match see_off(work, subject, target, started).await? {
        true => live_migrate::forget(work, target).await,
        false => Ok(()),
    }
}
