//! What the processes that move a server have in common: whose turn it is, what is where, and how disks travel.

use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::ids::{ConsumerId, HostId, ProcessId, ProviderId};
use chronova_events::instance::{Alive, FaultInfo, FlavorSnapshot, Live, MoveStage, Moving, Placed};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::disk_transfer::DiskFile;
use chronova_hypervisor::driver::{Driver, DriverError, StopMode};

use super::definition::{StepError, Work, settled};
use super::{guest, live_migrate};
use crate::instance::moving::MoveCommand;
use crate::instance::{InstanceAggregate, InstanceCommand};
use crate::ledger::{CELL, LedgerAggregate, LedgerCommand};
use crate::quota::{QuotaAggregate, QuotaCommand};

/// A server and its move.
pub(super) struct Subject {
    pub(super) server: Alive,
    pub(super) moving: Moving,
}

impl Subject {
    /// Where it goes; `claim_host` chose it.
    pub(super) fn target(&self) -> Result<&Placed, StepError> {
        let none = || StepError::fatal(500, "The move has no destination.", "no host was chosen");
        self.moving.target.as_ref().ok_or_else(none)
    }

    pub(super) fn live(&self) -> Option<&Live> {
        self.moving.live.as_ref()
    }

    /// The server as it is to be, with this flavor.
    pub(super) fn with(&self, flavor: &FlavorSnapshot) -> Alive {
        let mut server = self.server.clone();
        server.request.flavor = Arc::new(flavor.clone());
        server
    }
}

/// The server and its move, whoever has the turn; `None` where either is gone.
pub(super) async fn subject(work: &Work) -> Result<Option<Subject>, StepError> {
    let Some(server) = work.server().await? else { return Ok(None) };
    let Some(moving) = server.moving.as_deref().cloned() else { return Ok(None) };
    Ok(Some(Subject { server, moving }))
}

/// The same as long as it is this process's turn: a delete may have overtaken it, which makes it undo what it did.
pub(super) async fn mine(work: &Work) -> Result<Subject, StepError> {
    let overtaken = || StepError::fatal(409, "The move was overtaken by another request.", "");
    let subject = subject(work).await?.ok_or_else(overtaken)?;
    match is_mine(work, &subject.server) {
        true => Ok(subject),
        false => Err(overtaken()),
    }
}

pub(super) fn is_mine(work: &Work, server: &Alive) -> bool {
    server.ongoing.map(|ongoing| ongoing.process()) == Some(work.running.process)
}

/// What was asked of the server's volumes before is done; nothing new can be asked for meanwhile.
pub(super) fn disks_at_rest(server: &Alive) -> Result<(), StepError> {
    match server.disks.iter().any(|disk| disk.work.is_some()) {
        true => Err(StepError::Again("a volume is still being attached or detached".to_owned())),
        false => Ok(()),
    }
}

/// Records about the move; one that nobody waits for any more is no error.
pub(super) async fn record(work: &Work, command: MoveCommand) -> Result<(), StepError> {
    let command = InstanceCommand::Move(Box::new(command));
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceAggregate>(&work.instance_id(), command, work.meta.clone()).await)
}

/// Records that must be taken: a refusal says that another request has overtaken this one.
pub(super) async fn insist(work: &Work, command: MoveCommand) -> Result<Position, StepError> {
    let command = InstanceCommand::Move(Box::new(command));
    let gateway = &work.context.gateway;
    Ok(gateway.send::<InstanceAggregate>(&work.instance_id(), command, work.meta.clone()).await?.position)
}

pub(super) fn fault(work: &Work) -> FaultInfo {
    let failure = work.running.failure.as_ref().map(|failure| failure.fault.clone());
    failure.unwrap_or_else(|| StepError::Again("called off".to_owned()).fault())
}

/// The host is the only one that can do this: no other will be tried in its place.
pub(super) fn only_here(error: DriverError) -> StepError {
    match StepError::from(error) {
        StepError::Elsewhere(fault) => StepError::Fatal(fault),
        other => other,
    }
}

async fn ledger(work: &Work, command: LedgerCommand) -> Result<(), StepError> {
    work.context.gateway.send::<LedgerAggregate>(&CELL, command, work.meta.clone()).await?;
    Ok(())
}

pub(super) fn consumer(migration: ProcessId) -> ConsumerId {
    ConsumerId::new(migration.to_string())
}

/// What the server holds goes to the migration, so that the server can claim its destination.
pub(super) async fn set_aside(work: &Work, migration: ProcessId) -> Result<(), StepError> {
    let server = ConsumerId::new(work.instance_id().to_string());
    ledger(work, LedgerCommand::SetAside { server, migration: consumer(migration) }).await
}

/// What the migration holds goes back to the server, and its destination is given up.
pub(super) async fn take_back(work: &Work, moving: &Moving) -> Result<(), StepError> {
    let server = ConsumerId::new(work.instance_id().to_string());
    let (migration, host) = (consumer(moving.migration), ProviderId(moving.source.host.0));
    ledger(work, LedgerCommand::TakeBack { server, migration, host }).await
}

/// What the migration holds is free.
pub(super) async fn release(work: &Work, migration: ProcessId) -> Result<(), StepError> {
    ledger(work, LedgerCommand::Release { consumer: consumer(migration) }).await
}

/// The server counts as this flavor from now on.
pub(super) async fn count(work: &Work, server: &Alive, flavor: &FlavorSnapshot) -> Result<(), StepError> {
    let project = &server.request.project;
    let settle = QuotaCommand::Settle {
        project: project.clone(),
        instance: work.instance_id(),
        cores: flavor.vcpus,
        memory_mib: flavor.memory_mib,
    };
    work.context.gateway.send::<QuotaAggregate>(project, settle, work.meta.clone()).await?;
    Ok(())
}

/// The server's ports are at that host from now on.
pub(super) async fn bind(work: &Work, at: &Placed) -> Result<(), StepError> {
    let Some(server) = work.server().await? else { return Ok(()) };
    let (networks, project) = (&work.context.networks, &server.request.project);
    let (host, zone) = (Some(at.hostname.as_str()), at.availability_zone.as_str());
    networks.rebind(work.instance_id(), project, host, zone, work.meta.clone()).await?;
    Ok(())
}

/// Starts the guest at a host where it is defined. A host that does not answer is no obstacle: its guest is seen to be off.
pub(super) async fn start_again(work: &Work, host: HostId, server: &Alive) -> Result<(), StepError> {
    if !work.host_answers(host)? {
        return Ok(());
    }
    guest::connect(work, host, server).await?;
    match work.driver(host)?.start(work.instance_id()).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::Again(error.to_string())),
    }
}

/// Switches the guest off at a host, if there is anybody to ask.
pub(super) async fn pull(work: &Work, host: HostId) -> Result<(), StepError> {
    if !work.host_answers(host)? {
        return Ok(());
    }
    match work.driver(host)?.stop(work.instance_id(), StopMode::Hard).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::Again(error.to_string())),
    }
}

/// The disks that make the guest, without what was set aside.
pub(super) async fn disks(work: &Work, driver: &Arc<dyn Driver>) -> Result<Vec<DiskFile>, StepError> {
    let transfer = driver.disk_transfer().needed().map_err(only_here)?;
    let all = transfer.disk_files(work.instance_id()).await.map_err(only_here)?;
    Ok(all.into_iter().filter(|disk| !disk.is_kept()).collect())
}

/// Sends a disk of the guest from one host to another, or to another name on the same one.
pub(super) async fn send(
    work: &Work,
    from: &Arc<dyn Driver>,
    disk: &DiskFile,
    to: &Arc<dyn Driver>,
    name: &DiskFile,
) -> Result<(), StepError> {
    let source = from.disk_transfer().needed().map_err(only_here)?;
    let content = source.read_disk(work.instance_id(), disk).await.map_err(only_here)?;
    to.disk_transfer().needed()?.receive_disk(work.instance_id(), name, content).await?;
    Ok(())
}

// ------------------------------------------------------------------------------------ disks that stay in their place

/// Whether the disks stay where they are: on the same host, or on storage that both hosts have. What this says decides
/// whether disks are copied, written over or removed, so whichever host answers is asked anew.
pub(super) async fn in_place(work: &Work, subject: &Subject) -> Result<bool, StepError> {
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
        false => Err(StepError::Again("whether the hosts share their storage is not known yet".to_owned())),
    }
}

/// Whether both ends of a move have one storage, from what was seen on it in this life of the control plane, or by asking:
/// disks that both have must not be copied onto themselves.
pub(super) async fn one_storage(work: &Work, subject: &Subject) -> Result<bool, StepError> {
    let (source, target) = (subject.moving.source.host, subject.target()?.host);
    for (host, other) in [(source, target), (target, source)] {
        if !work.context.fleet.knows_storage_of(host) {
            live_migrate::shares(work, host, other).await?;
        }
    }
    Ok(work.context.fleet.share(source, target))
}

/// One of the move's hosts that answers: any of them has the disks that stay in their place.
fn keeper(work: &Work, subject: &Subject) -> Result<HostId, StepError> {
    let ends = [Some(subject.moving.source.host), subject.moving.target.as_ref().map(|target| target.host)];
    for host in ends.into_iter().flatten() {
        if work.host_answers(host)? {
            return Ok(host);
        }
    }
    Err(StepError::Again("no host that has the server's disks answers".to_owned()))
}

/// Disks as they were before the move take their places again; what was not set aside stays.
pub(super) async fn put_kept_back(work: &Work, subject: &Subject) -> Result<(), StepError> {
    let driver = work.driver(keeper(work, subject)?)?;
    let again = |error: DriverError| StepError::Again(error.to_string());
    // A driver that moves no disks has set none aside.
    let Some(transfer) = driver.disk_transfer() else { return Ok(()) };
    let all = transfer.disk_files(work.instance_id()).await.map_err(again)?;
    for kept in all.iter().filter(|disk| disk.is_kept()) {
        let content = transfer.read_disk(work.instance_id(), kept).await.map_err(again)?;
        transfer.receive_disk(work.instance_id(), &kept.unkept(), content).await.map_err(again)?;
    }
    Ok(())
}

/// Removes what was set aside.
pub(super) async fn drop_kept(work: &Work, subject: &Subject) -> Result<(), StepError> {
    let driver = work.driver(keeper(work, subject)?)?;
    let again = |error: DriverError| StepError::Again(error.to_string());
    let Some(transfer) = driver.disk_transfer() else { return Ok(()) };
    for kept in transfer.disk_files(work.instance_id()).await.map_err(again)?.iter().filter(|disk| disk.is_kept()) {
        transfer.remove_disk(work.instance_id(), kept).await.map_err(again)?;
    }
    Ok(())
}

/// Removes the guest from a host, not its disks: the server goes on using them elsewhere. A host that is down does it when
/// it is back.
pub(super) async fn withdraw(work: &Work, at: &Placed) -> Result<(), StepError> {
    pull(work, at.host).await?;
    live_migrate::forget(work, at).await
}

/// Before another host starts the guest: one that may run here must be seen to be off. A host that is silent is waited for, or
/// for an operator who says that it is down (`forced_down`), as before an evacuation. Says whether the host answers.
pub(super) async fn see_off(work: &Work, subject: &Subject, at: &Placed, started: bool) -> Result<bool, StepError> {
    if work.host_answers(at.host)? {
        return match work.driver(at.host)?.stop(work.instance_id(), StopMode::Hard).await {
            Ok(()) | Err(DriverError::NoSuchGuest(_)) => Ok(true),
            Err(error) => Err(StepError::Again(error.to_string())),
        };
    }
    let fenced = work.context.views.hosts.read(|hosts| hosts.get(at.host).is_some_and(|host| host.forced_down));
    // Whoever deletes the server removes the guest when the host is back.
    match started && !fenced && is_mine(work, &subject.server) {
        true => Err(StepError::Again(format!("host {} is down, and may run the guest all the same", at.hostname))),
        false => Ok(false),
    }
}

/// Takes the guest from a destination that was given up, so that it can be started elsewhere; its disks stay.
pub(super) async fn fence(work: &Work, subject: &Subject, target: &Placed) -> Result<(), StepError> {
    let started = subject.moving.was_active && subject.moving.stage >= MoveStage::Finishing;
    match see_off(work, subject, target, started).await? {
        true => live_migrate::forget(work, target).await,
        false => Ok(()),
    }
}
