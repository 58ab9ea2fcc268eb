//! Moves a server to another host while its guest runs.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_host` | moves the allocations to the migration, claims a destination | moving them back |
//! | `check_target` | asks the destination whether the guest can run there, and both hosts how its disks get there | |
//! | `wait_turn` | waits for a place in the source's queue of live migrations | |
//! | `bind_ports` | binds the ports to the destination as well | deleting those bindings |
//! | `prepare_target` | creates networks and filters; creates the disks if they are copied | removing the disks |
//! | `unplug_devices` | takes the interfaces that are PCI devices from the guest | plugging them in again |
//! | `migrate` | starts the migration, and watches it to its end | aborting it |
//!
//! The last step ends only when the reports of both hosts show where the guest is ([`super::crossing`]). It never
//! guesses. It gives up only if the server is being deleted, or if an operator gives up hosts that are down. An
//! operator does so by a reset of the server's state, or by `forced_down` on both hosts. After the guest has migrated,
//! nothing is undone: the process updates ports, claims and the source, and retries until this succeeds
//! ([`post_live_migration`]). The same is true if an undo finds the guest at its destination.
//!
//! A guest cannot take a PCI device of its host along. As in Nova, such an interface is unplugged before the migration,
//! and the destination plugs in its own device for the same port. The guest sees the loss of a card, and a new card.

use std::time::Duration;

use chronova_events::ids::HostId;
use chronova_events::instance::{LiveStage, OngoingTask, Placed};
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::live_migration::GuestPresence;
use chronova_hypervisor::driver::DriverError;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::crossing::GuestLocation;
use super::definition::{Definition, StepError, StepRun, steps};
use super::moving::{self, MovingServer};
use super::on_the_way::{WATCH, look, mend, migrate, resume_at_source};
use super::{build_volumes, destination, guest, moved_volumes, pinned, port_devices, port_grants};
use crate::hosts::consoles;
use crate::instance::unsupported::tied_by_devices;
use crate::instance::{LiveRecord, MoveRecord};
use crate::ports::PortError;

pub const DEFINITION: Definition = Definition {
    name: "live_migrate",
    steps: steps! {
        "claim_host" => claim_host, undone by release_host;
        "check_target" => check_target;
        "wait_turn" => wait_turn;
        "bind_ports" => bind_ports, undone by unbind_ports;
        "prepare_target" => prepare_target, undone by clear_target;
        "unplug_devices" => unplug_devices, undone by plug_again;
        "migrate" => migrate, undone by call_back;
    },
    undoes: true,
    max_attempts: |options| options.max_attempts.max(1),
    conclude,
};

/// The number of polls in which the undo of `migrate` waits for the guest, before it fails and is repeated.
const LOOKS: u32 = 250;
/// The pause between two polls.
const LOOK: Duration = Duration::from_millis(20);

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        work.context.migration_queues.leave(process);
        let Some(subject) = mine(work).await? else { return Ok(()) };
        match outcome {
            ProcessOutcome::Succeeded => post_live_migration(work, &subject).await,
            ProcessOutcome::Failed if subject.live().is_some_and(|live| live.abort) => {
                let reason = moving::fault(work).message;
                tell(work, LiveRecord::Stayed { process, reason }).await
            }
            ProcessOutcome::Failed => {
                moving::record(work, MoveRecord::Failed { process, fault: moving::fault(work) }).await?;
                look_at_both(work, &subject);
                Ok(())
            }
            // The process that cancelled this process continues with the server.
            ProcessOutcome::CalledOff => Ok(()),
        }
    }
    .boxed()
}

/// The server and this migration, even if another process owns the server's task; `None` if the migration has ended.
pub(super) async fn mine(work: &StepRun) -> Result<Option<MovingServer>, StepError> {
    let subject = moving::subject(work).await?;
    Ok(subject.filter(|subject| subject.moving.migration == work.running.process))
}

/// Like [`mine`], but it fails if another request has overtaken the migration or an abort is requested.
pub(super) async fn wanted(work: &StepRun) -> Result<MovingServer, StepError> {
    let subject = moving::mine(work).await?;
    match subject.live().is_some_and(|live| live.abort) {
        true => Err(aborted()),
        false => Ok(subject),
    }
}

fn aborted() -> StepError {
    StepError::fatal(409, "The live migration was aborted.", "")
}

pub(super) async fn tell(work: &StepRun, record: LiveRecord) -> Result<(), StepError> {
    moving::record(work, record).await
}

pub(super) async fn advance(work: &StepRun, stage: LiveStage) -> Result<(), StepError> {
    moving::insist(work, LiveRecord::Advanced { process: work.running.process, stage }).await.map(drop)
}

/// Asks the agents of both hosts to compare their hosts with the log. They ignored reports during the migration, and
/// must remove leftovers.
pub(super) fn look_at_both(work: &StepRun, subject: &MovingServer) {
    let ends = [Some(subject.moving.source.host), subject.moving.target.as_ref().map(|target| target.host)];
    for member in ends.into_iter().flatten().filter_map(|host| work.context.fleet.member(host)) {
        member.resync.notify_one();
    }
}

// ------------------------------------------------------------------------------------------------- the destination

async fn claim_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = wanted(work).await?;
    if let Some(chosen) = destination::chosen(work, &subject) {
        return Ok(chosen);
    }
    // As in Nova (`ComputeServiceUnavailable`), the source must answer.
    if !work.host_answers(subject.moving.source.host)? {
        let message = format!("Service is unavailable at this time: host {} is down.", subject.moving.source.hostname);
        return Err(StepError::fatal(400, &message, ""));
    }
    moving::disks_at_rest(&subject.server)?;
    moving::set_aside(work, work.running.process).await?;
    let mut request = destination::elsewhere(work, &subject);
    request.page_kib = pinned::page_kib(work, &subject).await?;
    // The refusal of the last destination is a better reason than "no host".
    let refused = subject.live().and_then(|live| live.refused.clone());
    destination::choose(work, &subject, request, refused).await
}

async fn release_host(work: &StepRun) -> Result<(), StepError> {
    work.context.migration_queues.leave(work.running.process);
    let Some(subject) = mine(work).await? else { return Ok(()) };
    destination::give_up(work, &subject, |fault| &fault.message).await
}

// -------------------------------------------------------------------------------------------- checks and preparation

async fn check_target(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = wanted(work).await?;
    check_can_migrate(work, &subject).await?;
    Ok(StepOutput::Nothing)
}

/// A refusal is final if the request named this destination. Otherwise the process tries another.
fn unsuitable(subject: &MovingServer, message: &str) -> StepError {
    let error = StepError::fatal(400, message, "");
    match (&subject.moving.host, error) {
        (None, StepError::Fatal(fault)) => StepError::Elsewhere(fault),
        (_, error) => error,
    }
}

async fn check_can_migrate(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    if let Some(reason) = tied_by_devices(&subject.server, &work.context.server_options.mdevs) {
        return Err(StepError::fatal(400, &format!("Migration pre-check error: {reason}"), ""));
    }
    let source = &subject.moving.source;
    if port_devices::in_guest(work, &subject.server, source).await?.has_whole_card {
        let message =
            "Migration pre-check error: a port with binding:vnic_type direct-physical cannot be migrated live.";
        return Err(StepError::fatal(400, message, ""));
    }
    let target = subject.target()?;
    let (from, destination) = (work.driver(source.host)?, work.driver(target.host)?);
    let fit = async {
        let source = from.live_migration().needed().map_err(StepError::only_here)?;
        let migration_data = source.migration_data(work.instance_id()).await.map_err(StepError::only_here)?;
        if let Some(reason) = &migration_data.bound {
            return Err(StepError::fatal(409, &format!("The server cannot be live-migrated: {reason}."), ""));
        }
        let obstacles = destination.live_migration().needed()?.destination_obstacles(&migration_data).await?;
        match obstacles.is_empty() {
            true => Ok(migration_data),
            false => {
                let message = format!("Migration pre-check error: host {}: {}", target.hostname, obstacles.join("; "));
                Err(unsuitable(subject, &message))
            }
        }
    };
    let (migration_data, there, here, ()) = futures::try_join!(
        fit,
        shares(work, source.host, target.host),
        shares(work, target.host, source.host),
        check_capabilities(work, subject),
    )?;
    let shared = there || here;
    let block = subject.live().and_then(|live| live.block);
    // Nova's `InvalidLocalStorage` and `InvalidSharedStorage`.
    let reason = match (block, shared, migration_data.disks.is_empty()) {
        (Some(true), true, false) => Some("Block migration can not be used with shared storage."),
        (Some(false), false, false) => Some("Live migration can not be used without shared storage."),
        _ => None,
    };
    if let Some(reason) = reason {
        let kind = if shared { "local" } else { "shared" };
        let message = format!("{} is not on {kind} storage: {reason}", source.hostname);
        return Err(unsuitable(subject, &message));
    }
    // libvirt cannot copy selected disks through a tunnel, so this is refused, as in Nova.
    if work.context.live_options.tunnelled && !shared && !migration_data.disks.is_empty() {
        let message = "Migration pre-check error: local disks are not copied in a tunnelled migration \
                       (live_migration_tunnelled).";
        return Err(unsuitable(subject, message));
    }
    if build_volumes::only_host(work, &subject.server).await?.is_some() {
        let message = "Migration pre-check error: the server's volumes are on storage that its host alone reaches.";
        return Err(StepError::fatal(400, message, ""));
    }
    Ok(())
}

/// Checks that both hosts support the operator's options on live migrations.
async fn check_capabilities(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    inbound(work, subject).await?;
    if !work.context.live_options.native_tls {
        return Ok(());
    }
    let (source, target) = (&subject.moving.source, subject.target()?);
    let (from, destination) = (work.driver(source.host)?, work.driver(target.host)?);
    let leaves = async {
        let source = from.live_migration().needed().map_err(StepError::only_here)?;
        source.tls_obstacle().await.map_err(StepError::only_here)
    };
    let enters = async { destination.live_migration().needed()?.tls_obstacle().await.map_err(StepError::from) };
    let told = |at: &Placed, reason: &str| format!("Migration pre-check error: host {}: {reason}.", at.hostname);
    match futures::try_join!(leaves, enters)? {
        (Some(reason), _) => Err(StepError::fatal(400, &told(source, &reason), "")),
        (None, Some(reason)) => Err(unsuitable(subject, &told(target, &reason))),
        (None, None) => Ok(()),
    }
}

/// The destination's address for inbound migrations, if one is configured. One configuration serves all hosts: `%s` is
/// the host's name. If the configured interface has no address, the migration fails instead of using another interface.
pub(super) async fn inbound(work: &StepRun, subject: &MovingServer) -> Result<Option<String>, StepError> {
    let (options, target) = (&work.context.live_options, subject.target()?);
    if let Some(address) = &options.inbound_addr {
        return Ok(Some(address.replace("%s", &target.hostname)));
    }
    let Some(name) = &options.interface else { return Ok(None) };
    let address = work.driver(target.host)?.live_migration().needed()?.interface_address(name).await?;
    address.map(Some).ok_or_else(|| {
        let message = format!(
            "Migration pre-check error: host {}: its libvirt reports no address of interface {name} \
             (live_migration_interface); set live_migration_inbound_addr instead.",
            target.hostname
        );
        unsuitable(subject, &message)
    })
}

/// Whether `host` and `other` share storage. `host` is asked again each time, because its answer decides whether disks
/// are removed.
pub(super) async fn shares(work: &StepRun, host: HostId, other: HostId) -> Result<bool, StepError> {
    let driver = work.driver(host)?;
    // If the driver does not support shared storage, the host shares storage with no other host.
    let Some(storage) = driver.shared_storage() else { return Ok(host == other) };
    let sharers = storage.storage_sharers().await.map_err(StepError::again)?;
    let fleet = &work.context.fleet;
    fleet.note_sharers(host, sharers.clone());
    Ok(sharers.contains(&other) || fleet.share_by_configuration(host, other))
}

async fn wait_turn(work: &StepRun) -> Result<StepOutput, StepError> {
    let limit = work.context.live_options.per_host;
    loop {
        let subject = wanted(work).await?;
        if work.context.migration_queues.may_go(subject.moving.source.host, work.running.process, limit) {
            return Ok(StepOutput::Nothing);
        }
        if subject.live().is_some_and(|live| live.stage != LiveStage::Queued) {
            advance(work, LiveStage::Queued).await?;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Binds the ports to the destination as well. As in Nova, this comes before the destination prepares itself. If the
/// network service refuses the host, the process tries another host.
async fn bind_ports(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = wanted(work).await?;
    let (project, host) = (&subject.server.request.project, &subject.target()?.hostname);
    let networks = &work.context.networks;
    let grants = port_grants::at(work, &subject.server, subject.target()?).await?;
    match networks.bind_destination(work.instance_id(), project, host, &grants, work.meta.clone()).await {
        Ok(()) => Ok(StepOutput::Nothing),
        Err(PortError::NotHere(reason)) => {
            Err(unsuitable(&subject, &format!("Migration pre-check error: host {host}: {reason}")))
        }
        Err(error) => Err(error.into()),
    }
}

async fn unbind_ports(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = mine(work).await? else { return Ok(()) };
    let Some(target) = &subject.moving.target else { return Ok(()) };
    let (networks, project) = (&work.context.networks, &subject.server.request.project);
    Ok(networks.unbind_destination(work.instance_id(), project, &target.hostname, work.meta.clone()).await?)
}

async fn prepare_target(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = wanted(work).await?;
    let (source, host) = (subject.moving.source.host, subject.target()?.host);
    let disks = async {
        let copied = !shares(work, host, source).await?;
        if copied {
            guest::fetch_image(work, source, host, &subject.server).await?;
        }
        let spec = guest::spec(work, host, &subject.server, None).await?;
        work.driver(host)?.live_migration().needed()?.prepare_destination(&spec, copied).await?;
        Ok(())
    };
    let networks = guest::connect(work, host, &subject.server);
    futures::try_join!(advance(work, LiveStage::Preparing), networks, disks)?;
    Ok(StepOutput::Nothing)
}

async fn unplug_devices(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = wanted(work).await?;
    let source = &subject.moving.source;
    let devices = port_devices::in_guest(work, &subject.server, source).await?;
    port_devices::unplug(work, source.host, &subject.server, &devices).await?;
    Ok(StepOutput::Nothing)
}

async fn plug_again(work: &StepRun) -> Result<(), StepError> {
    match mine(work).await?.filter(|subject| !is_being_deleted(subject)) {
        Some(subject) => guest::restore_devices(work, &subject.moving.source, &subject.server).await,
        None => Ok(()),
    }
}

/// Cleans up a destination to which the guest does not migrate. On shared storage, the destination has no disks of its
/// own. If the server is being deleted, its guest may be there, because no process waited for the migration's end. Then
/// the guest and its disks are removed.
async fn clear_target(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = mine(work).await? else { return Ok(()) };
    let Some(target) = &subject.moving.target else { return Ok(()) };
    if !work.host_answers(target.host)? {
        return Ok(());
    }
    match shares(work, target.host, subject.moving.source.host).await? && !is_being_deleted(&subject) {
        true => forget(work, target).await,
        false => guest::destroy(work, target.host).await,
    }
}

/// Whether the server is being deleted. The process of the delete removes the guest from both hosts.
fn is_being_deleted(subject: &MovingServer) -> bool {
    matches!(subject.server.ongoing, Some(OngoingTask::Delete { .. }))
}

/// Undefines the guest on a host that shares its storage with the guest's host, and removes the guest's packet filters
/// there. The networks stay for later guests.
pub(super) async fn forget(work: &StepRun, at: &Placed) -> Result<(), StepError> {
    if !work.host_answers(at.host)? {
        return Ok(());
    }
    let driver = work.driver(at.host)?;
    let Some(storage) = driver.shared_storage() else { return Ok(()) };
    match storage.undefine(work.instance_id()).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => {}
        Err(DriverError::Unreachable(_)) => return Ok(()),
        Err(error) => return Err(StepError::again(error)),
    }
    if let Some(server) = work.server().await? {
        guest::forget_filters(work, at.host, &server.nics).await;
    }
    Ok(())
}

// -------------------------------------------------------------------------------------------- the end of the migration

/// Undoes `migrate`: aborts the migration, so that the guest stays at its source. If the guest has already migrated, it
/// stays at its destination, and the process completes the migration.
async fn call_back(work: &StepRun) -> Result<(), StepError> {
    for _ in 0..LOOKS {
        let Some(subject) = mine(work).await? else { return Ok(()) };
        if subject.moving.target.is_none() {
            return Ok(());
        }
        match look(work, &subject).await?.verdict {
            // The agents of the hosts remove the leftovers when the hosts are back.
            GuestLocation::AtSource | GuestLocation::Lost => return Ok(()),
            GuestLocation::AtTarget => return post_live_migration(work, &subject).await,
            GuestLocation::Unknown | GuestLocation::Torn if is_being_deleted(&subject) => return Ok(()),
            GuestLocation::Underway => {
                if let Ok(driver) = work.driver(subject.moving.source.host)
                    && let Some(source) = driver.live_migration()
                {
                    let _ = source.abort_migration(work.instance_id()).await;
                    source.wait_for_migration(work.instance_id(), WATCH.0).await;
                }
            }
            GuestLocation::Twice => moving::pull(work, subject.moving.source.host).await?,
            GuestLocation::PausedAtSource => return resume_at_source(work, &subject).await,
            GuestLocation::Torn => mend(work, &subject).await,
            GuestLocation::Unknown => {}
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(StepError::again("the guest's host is not known yet"))
}

/// Completes the migration of a guest that is at its destination. Each part is idempotent.
async fn post_live_migration(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    let (source, target) = (&subject.moving.source, subject.target()?);
    let process = work.running.process;
    let follow = async {
        moving::bind(work, target).await?;
        guest::restore_devices(work, target, &subject.server).await?;
        moved_volumes::take_back(work, &subject.server, target).await?;
        resume_guest(work, subject, target).await
    };
    let finishing = tell(work, LiveRecord::Advanced { process, stage: LiveStage::Finishing });
    // The release of the claim on the source does not wait until the leftovers there are removed.
    let release = moving::release(work, process);
    futures::try_join!(finishing, follow, release, clean_up_source(work, source, target))?;
    tell(work, LiveRecord::Arrived { process }).await?;
    let milliseconds = work.context.clock.now().0.saturating_sub(work.running.started_at.0) / 1000;
    tracing::info!(server = %work.instance_id(), milliseconds, to = target.hostname, "a live migration has ended");
    // The guest has moved with its devices, which the source may not have corrected yet.
    work.context.fleet.suspects.add(target.host, [work.instance_id()]);
    look_at_both(work, subject);
    Ok(())
}

/// Cleans up the source. If the source is down, its agent does this later, and then also copies the console log.
async fn clean_up_source(work: &StepRun, source: &Placed, target: &Placed) -> Result<(), StepError> {
    if !work.host_answers(source.host)? {
        return Ok(());
    }
    // On shared storage, the destination may already have the console log.
    let console = async {
        if !work.context.fleet.share_files(source.host, target.host)
            && let (Ok(from), Ok(to)) = (work.driver(source.host), work.driver(target.host))
        {
            consoles::carry(work.instance_id(), from.as_ref(), to.as_ref()).await;
        }
    };
    let (shared, ()) = futures::join!(shares(work, source.host, target.host), console);
    match shared? {
        true => forget(work, source).await,
        false => guest::destroy(work, source.host).await,
    }
}

/// Resumes a guest that was paused to complete the migration.
async fn resume_guest(work: &StepRun, subject: &MovingServer, target: &Placed) -> Result<(), StepError> {
    let forced = work.context.live_options.force_at_timeout || subject.live().is_some_and(|live| live.force_complete);
    if !forced || !subject.moving.was_active || !work.host_answers(target.host)? {
        return Ok(());
    }
    let driver = work.driver(target.host)?;
    let (Some(migration), Some(suspension)) = (driver.live_migration(), driver.suspension()) else { return Ok(()) };
    let state = migration.migration_state(work.instance_id()).await.map_err(StepError::again)?;
    match state.presence {
        GuestPresence::Paused => suspension.unpause(work.instance_id()).await.map_err(StepError::again),
        _ => Ok(()),
    }
}
