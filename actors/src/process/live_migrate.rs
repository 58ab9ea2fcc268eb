//! Moves a server to another host while its guest runs.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_host` | hands what is held to the migration, chooses a destination and claims it | taking it back |
//! | `check_target` | asks the destination whether the guest can run there, and both how its disks get there | |
//! | `wait_turn` | waits until few enough others leave the same host | |
//! | `prepare_target` | networks, filters and, where they are copied, disks | removing them |
//! | `migrate` | has the hosts move the guest, and waits for what becomes of it | calling it back |
//!
//! The last step ends only when both hosts together leave no doubt where the guest is ([`super::crossing`]): it is never
//! guessed, and never given up on. Across, there is no way back: ports, claims and the source follow, tried until they have
//! ([`arrive`]). That is so, too, when a step is undone and the guest turns out to be at its destination: a server follows
//! its guest.

use std::time::Duration;

use chronova_events::ids::HostId;
use chronova_events::instance::{LiveStage, Ongoing, Placed};
use chronova_events::process::{Outcome, Output};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::live_migration::GuestPresence;
use chronova_hypervisor::driver::DriverError;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::crossing::Verdict;
use super::definition::{Definition, Step, StepError, Work};
use super::moving::{self, Subject};
use super::on_the_way::{WATCH, look, mend, migrate};
use super::{build_volumes, destination, guest, moved_volumes, pinned};
use crate::hosts::consoles;
use crate::instance::live::LiveCommand;
use crate::instance::moving::MoveCommand;
use crate::instance::unsupported::tied_by_devices;

pub const DEFINITION: Definition = Definition {
    name: "live_migrate",
    steps: &[
        Step {
            name: "claim_host",
            run: |work| claim_host(work).boxed(),
            undo: Some(|work| release_host(work).boxed()),
        },
        Step { name: "check_target", run: |work| check_target(work).boxed(), undo: None },
        Step { name: "wait_turn", run: |work| wait_turn(work).boxed(), undo: None },
        Step {
            name: "prepare_target",
            run: |work| prepare_target(work).boxed(),
            undo: Some(|work| clear_target(work).boxed()),
        },
        Step { name: "migrate", run: |work| migrate(work).boxed(), undo: Some(|work| call_back(work).boxed()) },
    ],
    undoes: true,
    max_attempts: |options| options.max_attempts.max(1),
    conclude,
};

/// Looks at a guest that is called back before the step is begun anew.
const LOOKS: u32 = 250;
/// Pause between two looks while others are waited for.
const LOOK: Duration = Duration::from_millis(20);

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        work.context.migration_queues.leave(process);
        let Some(subject) = mine(work).await? else { return Ok(()) };
        match outcome {
            Outcome::Succeeded => arrive(work, &subject).await,
            Outcome::Failed if subject.live().is_some_and(|live| live.abort) => {
                let reason = moving::fault(work).message;
                tell(work, LiveCommand::Stay { process, reason }).await
            }
            Outcome::Failed => {
                moving::record(work, MoveCommand::Fail { process, fault: moving::fault(work) }).await?;
                look_at_both(work, &subject);
                Ok(())
            }
            // Whoever called it off goes on with the server.
            Outcome::CalledOff => Ok(()),
        }
    }
    .boxed()
}

/// The server and this migration of it, whoever has the turn; `None` where it is over.
pub(super) async fn mine(work: &Work) -> Result<Option<Subject>, StepError> {
    let subject = moving::subject(work).await?;
    Ok(subject.filter(|subject| subject.moving.migration == work.running.process))
}

/// The same as long as nobody has overtaken it and nobody wants it to end.
pub(super) async fn wanted(work: &Work) -> Result<Subject, StepError> {
    let subject = moving::mine(work).await?;
    match subject.live().is_some_and(|live| live.abort) {
        true => Err(aborted()),
        false => Ok(subject),
    }
}

fn aborted() -> StepError {
    StepError::fatal(409, "The live migration was aborted.", "")
}

pub(super) async fn tell(work: &Work, command: LiveCommand) -> Result<(), StepError> {
    moving::record(work, MoveCommand::Live(command)).await
}

pub(super) async fn advance(work: &Work, stage: LiveStage) -> Result<(), StepError> {
    let command = LiveCommand::Advance { process: work.running.process, stage };
    moving::insist(work, MoveCommand::Live(command)).await.map(drop)
}

/// What the hosts told while the guest was on its way was not heeded, and what was left behind is removed.
pub(super) fn look_at_both(work: &Work, subject: &Subject) {
    let ends = [Some(subject.moving.source.host), subject.moving.target.as_ref().map(|target| target.host)];
    for member in ends.into_iter().flatten().filter_map(|host| work.context.fleet.member(host)) {
        member.resync.notify_one();
    }
}

// ------------------------------------------------------------------------------------------------- a host to go to

async fn claim_host(work: &Work) -> Result<Output, StepError> {
    let subject = wanted(work).await?;
    if let Some(chosen) = destination::chosen(work, &subject) {
        return Ok(chosen);
    }
    // Nova's `ComputeServiceUnavailable`: whoever is to let the guest go must be there.
    if !work.host_answers(subject.moving.source.host)? {
        let message = format!("Service is unavailable at this time: host {} is down.", subject.moving.source.hostname);
        return Err(StepError::fatal(400, &message, ""));
    }
    moving::disks_at_rest(&subject.server)?;
    moving::set_aside(work, work.running.process).await?;
    let live = subject.live();
    let mut request = destination::elsewhere(work, &subject, live.is_some_and(|live| live.forced));
    request.page_kib = pinned::page_kib(work, &subject).await?;
    // Why the ones that were tried would not do says more than that there are no others.
    let refused = live.and_then(|live| live.refused.clone());
    destination::choose(work, &subject, request, refused).await
}

async fn release_host(work: &Work) -> Result<(), StepError> {
    work.context.migration_queues.leave(work.running.process);
    let Some(subject) = mine(work).await? else { return Ok(()) };
    destination::give_up(work, &subject, |fault| &fault.message).await
}

// ------------------------------------------------------------------------------------------------ before it sets out

async fn check_target(work: &Work) -> Result<Output, StepError> {
    let subject = wanted(work).await?;
    examine(work, &subject).await?;
    Ok(Output::Nothing)
}

/// Where only this destination will do, a refusal is final; else another is tried.
fn unsuitable(subject: &Subject, message: &str) -> StepError {
    let error = StepError::fatal(400, message, "");
    match (&subject.moving.host, error) {
        (None, StepError::Fatal(fault)) => StepError::Elsewhere(fault),
        (_, error) => error,
    }
}

async fn examine(work: &Work, subject: &Subject) -> Result<(), StepError> {
    if let Some(reason) = tied_by_devices(&subject.server) {
        return Err(StepError::fatal(400, &format!("Migration pre-check error: {reason}"), ""));
    }
    let (source, target) = (&subject.moving.source, subject.target()?);
    let (from, destination) = (work.driver(source.host)?, work.driver(target.host)?);
    let fit = async {
        let source = from.live_migration().needed().map_err(moving::only_here)?;
        let migration_data = source.migration_data(work.instance_id()).await.map_err(moving::only_here)?;
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
        equipped(work, subject),
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
    // libvirt copies no chosen disks through a tunnel; Nova refuses the same.
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

/// Both hosts must be able to do what the operator wants of every journey.
async fn equipped(work: &Work, subject: &Subject) -> Result<(), StepError> {
    inbound(work, subject).await?;
    if !work.context.live_options.native_tls {
        return Ok(());
    }
    let (source, target) = (&subject.moving.source, subject.target()?);
    let (from, destination) = (work.driver(source.host)?, work.driver(target.host)?);
    let leaves = async {
        let source = from.live_migration().needed().map_err(moving::only_here)?;
        source.tls_obstacle().await.map_err(moving::only_here)
    };
    let enters = async { destination.live_migration().needed()?.tls_obstacle().await.map_err(StepError::from) };
    let told = |at: &Placed, reason: &str| format!("Migration pre-check error: host {}: {reason}.", at.hostname);
    match futures::try_join!(leaves, enters)? {
        (Some(reason), _) => Err(StepError::fatal(400, &told(source, &reason), "")),
        (None, Some(reason)) => Err(unsuitable(subject, &told(target, &reason))),
        (None, None) => Ok(()),
    }
}

/// The address that the destination takes guests in by, where one is meant for that. One configuration serves all hosts:
/// `%s` stands for the host's name. An interface without an address is no reason to send guests by another.
pub(super) async fn inbound(work: &Work, subject: &Subject) -> Result<Option<String>, StepError> {
    let (options, target) = (&work.context.live_options, subject.target()?);
    if let Some(address) = &options.inbound_addr {
        return Ok(Some(address.replace("%s", &target.hostname)));
    }
    let Some(name) = &options.interface else { return Ok(None) };
    let address = work.driver(target.host)?.live_migration().needed()?.interface_address(name).await?;
    address.map(Some).ok_or_else(|| {
        let message = format!(
            "Migration pre-check error: host {}: its libvirt tells no address of an interface {name} \
             (live_migration_interface); live_migration_inbound_addr can say it instead.",
            target.hostname
        );
        unsuitable(subject, &message)
    })
}

/// Whether what is on `host`'s storage is on `other`'s, too. `host` is asked anew each time: what it answers decides
/// whether disks are removed.
pub(super) async fn shares(work: &Work, host: HostId, other: HostId) -> Result<bool, StepError> {
    let driver = work.driver(host)?;
    // A driver that knows nothing of shared storage has each host's storage to itself.
    let Some(storage) = driver.shared_storage() else { return Ok(host == other) };
    let sharers = storage.storage_sharers().await.map_err(|error| StepError::Again(error.to_string()))?;
    work.context.fleet.note_sharers(host, sharers.clone());
    Ok(sharers.contains(&other))
}

async fn wait_turn(work: &Work) -> Result<Output, StepError> {
    let limit = work.context.live_options.per_host;
    loop {
        let subject = wanted(work).await?;
        if work.context.migration_queues.may_go(subject.moving.source.host, work.running.process, limit) {
            return Ok(Output::Nothing);
        }
        if subject.live().is_some_and(|live| live.stage != LiveStage::Queued) {
            advance(work, LiveStage::Queued).await?;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn prepare_target(work: &Work) -> Result<Output, StepError> {
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
    Ok(Output::Nothing)
}

/// What was made at a destination that the guest does not go to. Where the storage is shared, nothing was. The guest of a
/// server that is deleted may be there, as nobody waited to hear where it is: then it goes, and its disks with it.
async fn clear_target(work: &Work) -> Result<(), StepError> {
    let Some(subject) = mine(work).await? else { return Ok(()) };
    let Some(target) = &subject.moving.target else { return Ok(()) };
    if !work.host_answers(target.host)? {
        return Ok(());
    }
    match shares(work, target.host, subject.moving.source.host).await? && !is_doomed(&subject) {
        true => forget(work, target).await,
        false => guest::destroy(work, target.host).await,
    }
}

/// Whoever deletes the server removes the guest from wherever it is.
fn is_doomed(subject: &Subject) -> bool {
    matches!(subject.server.ongoing, Some(Ongoing::Delete { .. }))
}

pub(super) async fn forget(work: &Work, at: &Placed) -> Result<(), StepError> {
    if !work.host_answers(at.host)? {
        return Ok(());
    }
    let driver = work.driver(at.host)?;
    let Some(storage) = driver.shared_storage() else { return Ok(()) };
    match storage.undefine(work.instance_id()).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::Again(error.to_string())),
    }
}

// ------------------------------------------------------------------------------------------------------------ the ends

/// Undoes `migrate`: the guest is to be at its source and not on its way. One that is across stays there, and its server
/// follows it.
async fn call_back(work: &Work) -> Result<(), StepError> {
    for _ in 0..LOOKS {
        let Some(subject) = mine(work).await? else { return Ok(()) };
        if subject.moving.target.is_none() {
            return Ok(());
        }
        match look(work, &subject).await?.verdict {
            Verdict::AtSource => return Ok(()),
            Verdict::AtTarget => return arrive(work, &subject).await,
            Verdict::Unknown | Verdict::Torn if is_doomed(&subject) => return Ok(()),
            Verdict::Underway => {
                if let Ok(driver) = work.driver(subject.moving.source.host)
                    && let Some(source) = driver.live_migration()
                {
                    let _ = source.abort_migration(work.instance_id()).await;
                    source.wait_for_migration(work.instance_id(), WATCH.0).await;
                }
            }
            Verdict::Twice => moving::pull(work, subject.moving.source.host).await?,
            Verdict::Torn => mend(work, &subject).await,
            Verdict::Unknown => {}
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(StepError::Again("nobody knows yet where the guest is".to_owned()))
}

/// The guest is at its destination: everything else follows. Each part may be done again.
async fn arrive(work: &Work, subject: &Subject) -> Result<(), StepError> {
    let (source, target) = (&subject.moving.source, subject.target()?);
    let process = work.running.process;
    let follow = async {
        moving::bind(work, target).await?;
        moved_volumes::take_back(work, &subject.server, target).await?;
        wake(work, subject, target).await
    };
    let finishing = tell(work, LiveCommand::Advance { process, stage: LiveStage::Finishing });
    // What was held at the source is free as soon as the guest has left, whenever what is left there is removed.
    let release = moving::release(work, process);
    futures::try_join!(finishing, follow, release, clear_source(work, source, target))?;
    tell(work, LiveCommand::Arrive { process }).await?;
    let milliseconds = work.context.clock.now().0.saturating_sub(work.running.started_at.0) / 1000;
    tracing::info!(server = %work.instance_id(), milliseconds, to = target.hostname, "a live migration has ended");
    look_at_both(work, subject);
    Ok(())
}

/// A host that is down is cleared when it is back, and what the guest wrote there follows it then.
async fn clear_source(work: &Work, source: &Placed, target: &Placed) -> Result<(), StepError> {
    if !work.host_answers(source.host)? {
        return Ok(());
    }
    // On storage that both have, the console's log is there already.
    let console = async {
        if !work.context.fleet.share(source.host, target.host)
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

/// A guest that was made to stand still so that it would get across goes on.
async fn wake(work: &Work, subject: &Subject, target: &Placed) -> Result<(), StepError> {
    let forced = subject.live().is_some_and(|live| live.force_complete);
    if !forced || !subject.moving.was_active || !work.host_answers(target.host)? {
        return Ok(());
    }
    let driver = work.driver(target.host)?;
    let (Some(migration), Some(suspension)) = (driver.live_migration(), driver.suspension()) else { return Ok(()) };
    let again = |error: DriverError| StepError::Again(error.to_string());
    let state = migration.migration_state(work.instance_id()).await.map_err(again)?;
    match state.presence {
        GuestPresence::Paused => suspension.unpause(work.instance_id()).await.map_err(again),
        _ => Ok(()),
    }
}
