//! Power actions: starts, stops, reboots, pauses, unpauses, suspends or resumes a server.
//!
//! | step | does |
//! |---|---|
//! | `act` | asks the driver for the action; a start or reboot creates a vanished guest again from its disks |
//!
//! As in Nova, a hard reboot and a start make the guest's definition again from its server's record. If the host
//! refuses the new definition, or the guest does not start with it, the guest starts as it was defined. If the host
//! cannot start the guest as it is defined, both actions define the guest again, with missing disks and files. A start
//! keeps the saved memory of a guest, and the definition of a server that another copy of the log may have changed.
//!
//! As in Nova, a soft reboot becomes a hard one if the guest does not react.

use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, InstanceDisk, OngoingTask, PowerAction};
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::{Driver, DriverError, DriverResult};
use chronova_hypervisor::guest::Renew;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, settled, steps};
use super::{guest, machine, port_devices, tpm, turn};
use crate::instance::{InstanceRecord, InstanceRoot};

pub const DEFINITION: Definition = Definition {
    name: "power",
    steps: steps! {
        "act" => act;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let Some(action) = action(work) else { return Ok(()) };
        let process = work.running.process;
        let record = match (outcome, &work.running.failure) {
            (ProcessOutcome::Succeeded, _) => InstanceRecord::PowerDone { process, action },
            (_, failure) => {
                let fault = failure.as_ref().map(|failure| failure.fault.clone());
                let fault = fault.unwrap_or_else(|| StepError::again("cancelled").fault());
                InstanceRecord::PowerFailed { process, action, fault }
            }
        };
        if action == PowerAction::Suspend && outcome != ProcessOutcome::Succeeded {
            plug_again(work).await?;
        }
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)?;
        if matches!(action, PowerAction::Suspend | PowerAction::Resume) {
            compare_devices(work).await?;
        }
        if outcome == ProcessOutcome::Succeeded {
            return Ok(());
        }
        // While the process worked, the host's agent did not record the guest's power state. So the process records it.
        let Some(server) = work.server().await? else { return Ok(()) };
        turn::observe_guest(work, &server).await
    }
    .boxed()
}

/// Gives a guest that could not be suspended its devices again, while the server still belongs to this process.
async fn plug_again(work: &StepRun) -> Result<(), StepError> {
    if let Some(server) = work.server().await?.filter(|server| server.ongoing.is_some())
        && let Some(placed) = &server.placement
    {
        guest::restore_devices(work, placed, &server).await?;
    }
    Ok(())
}

/// Lets the host's agent compare the guest's devices with the log at once, if the agent could not do so before. A resumed
/// guest has the devices that it had when it was suspended.
async fn compare_devices(work: &StepRun) -> Result<(), StepError> {
    let placed = work.server().await?.and_then(|server| server.placement);
    let fleet = &work.context.fleet;
    if let Some(placed) = placed
        && fleet.suspects.contains(placed.host, work.instance_id())
        && let Some(member) = fleet.member(placed.host)
    {
        member.resync.notify_one();
    }
    Ok(())
}

fn action(work: &StepRun) -> Option<PowerAction> {
    match work.running.task {
        Task::Power { action, .. } => Some(action),
        _ => None,
    }
}

async fn act(work: &StepRun) -> Result<StepOutput, StepError> {
    let (Some(action), Some(server)) = (action(work), work.server().await?) else { return Ok(StepOutput::Nothing) };
    // A delete or a hard reboot has overtaken this process, and owns the guest now.
    if server.ongoing.map(|ongoing| ongoing.process()) != Some(work.running.process) {
        return Ok(StepOutput::Nothing);
    }
    let Some(placed) = &server.placement else {
        return Err(StepError::fatal(500, "The server has no host.", ""));
    };
    let driver = work.driver(placed.host)?;
    // As in Nova, these actions also restore the networks and filters that the guest needs on its host.
    if matches!(action, PowerAction::Start | PowerAction::RebootHard | PowerAction::Resume) {
        guest::connect(work, placed.host, &server).await?;
    }
    if matches!(action, PowerAction::Start | PowerAction::RebootHard) {
        machine::recorded(work, placed.host, &server).await?;
    }
    if is_defined_again(action, &server) {
        guest::reshape(work, placed.host, &server, Renew::Nothing, None).await?;
        return Ok(StepOutput::Nothing);
    }
    // As in Nova, a guest is saved without the devices of its host, and gets them again when it is resumed.
    if action == PowerAction::Suspend {
        let devices = port_devices::in_guest(work, &server, placed).await?;
        if devices.has_whole_card {
            let message = "A server with a port of binding:vnic_type direct-physical cannot be suspended.";
            return Err(StepError::fatal(400, message, ""));
        }
        port_devices::unplug(work, placed.host, &server, &devices).await?;
    }
    let asked = async { Ok(ask(driver.as_ref(), work, &server, action).await) };
    let answer = match starts(action) {
        true => tpm::with_passphrase(work, placed.host, &server, asked).await?,
        false => asked.await?,
    };
    // After a failed suspension, `conclude` restores the devices.
    if action == PowerAction::Resume && answer.is_ok() {
        guest::plug_devices(work, placed, &server).await?;
    }
    match answer {
        Ok(()) => {
            if matches!(action, PowerAction::Start | PowerAction::RebootSoft | PowerAction::RebootHard) {
                // A delete may have come before the host defined the guest again.
                guest::yield_to_delete(work, placed.host).await?;
            }
            Ok(StepOutput::Nothing)
        }
        Err(DriverError::NoSuchGuest(_)) if action == PowerAction::Stop => Ok(StepOutput::Nothing),
        // The guest's memory is lost. The user can request a hard reboot.
        Err(error @ DriverError::NoSuchGuest(_)) if keeps_memory(action) => Err(error.into()),
        Err(DriverError::NoSuchGuest(_)) => revive(work, placed.host, &server).await,
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error @ DriverError::Failed { .. }) if matches!(action, PowerAction::Start | PowerAction::RebootHard) => {
            define_again(work, placed.host, &server, error).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Defines the guest again after its host could not start it, and starts it. Its definition may name something that the
/// host no longer has, or somebody may have changed it. If that fails, too, the user sees why the guest did not start.
async fn define_again(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    error: DriverError,
) -> Result<StepOutput, StepError> {
    if work.driver(host)?.redefinition().is_none() {
        return Err(error.into());
    }
    let instance = work.instance_id();
    tracing::warn!(%instance, %error, "a host cannot start a guest as it is defined, so the guest is defined again");
    let defined = async {
        guest::prepare(work, host, server).await?;
        guest::reshape(work, host, server, Renew::Nothing, None).await
    };
    match defined.await {
        Ok(()) => Ok(StepOutput::Nothing),
        Err(again @ StepError::Again(_)) => Err(again),
        Err(failure) => {
            tracing::warn!(%instance, error = %failure, "another definition of the guest does not start either");
            Err(error.into())
        }
    }
}

/// Whether the action defines the guest again, because its definition is outdated. A hard reboot also does so if an
/// administrator reset the server's state during a rescue. Then the guest gets its own disk again.
fn is_defined_again(action: PowerAction, server: &Alive) -> bool {
    match action {
        PowerAction::RebootHard => server.outdated_definition || server.rescue.is_some(),
        PowerAction::Start => server.outdated_definition,
        _ => false,
    }
}

/// Whether the action starts a guest that is off. A soft reboot is a shutdown and a start.
fn starts(action: PowerAction) -> bool {
    match action {
        PowerAction::Start | PowerAction::RebootSoft | PowerAction::RebootHard | PowerAction::Resume => true,
        PowerAction::Stop | PowerAction::Pause | PowerAction::Unpause | PowerAction::Suspend => false,
    }
}

fn keeps_memory(action: PowerAction) -> bool {
    matches!(action, PowerAction::Pause | PowerAction::Unpause | PowerAction::Suspend | PowerAction::Resume)
}

async fn ask(driver: &dyn Driver, work: &StepRun, server: &Alive, action: PowerAction) -> DriverResult<()> {
    let (instance, options) = (work.instance_id(), &work.context.options);
    match action {
        PowerAction::Start => start(driver, work, server).await,
        PowerAction::Stop => driver.stop(instance, guest::graceful(work, server)).await,
        PowerAction::RebootHard => reboot_hard(driver, work, server).await,
        PowerAction::Pause => driver.suspension().needed()?.pause(instance).await,
        PowerAction::Unpause => driver.suspension().needed()?.unpause(instance).await,
        PowerAction::Suspend => driver.suspension().needed()?.suspend(instance).await,
        PowerAction::Resume => driver.suspension().needed()?.resume(instance).await,
        PowerAction::RebootSoft => match driver.reboot_soft(instance, options.soft_reboot_timeout).await {
            Err(DriverError::Unsupported(_) | DriverError::Failed { .. } | DriverError::Timeout { .. }) => {
                reboot_hard(driver, work, server).await
            }
            result => result,
        },
    }
}

/// Reboots a guest from a new definition, or from its old one if a new one is not possible now.
async fn reboot_hard(driver: &dyn Driver, work: &StepRun, server: &Alive) -> DriverResult<()> {
    match redefined(driver, work, server, Renew::Definition).await {
        Some(answer) => answer,
        None => driver.reboot_hard(work.instance_id()).await,
    }
}

/// Starts a guest from a new definition, or from its old one if a new one is not possible now. A guest that is not off
/// stays as it is, because a step that runs again must not cut the power of the guest that it has started. A guest
/// whose memory is saved continues from there.
async fn start(driver: &dyn Driver, work: &StepRun, server: &Alive) -> DriverResult<()> {
    // Another copy of the log may have given a volume of this server to another guest. Only a hard reboot gives the
    // guest the devices in the log.
    let is_trusted = work.context.fleet.doubt().trusts(server.created_at);
    let answer = if is_trusted { redefined(driver, work, server, Renew::AtStart).await } else { None };
    match answer {
        Some(answer) => answer,
        None => driver.start(work.instance_id()).await,
    }
}

/// Starts or reboots a guest from a new definition. `None`: the guest cannot get a new definition now, or its host
/// refuses it, so the guest is to start as it is defined.
async fn redefined(driver: &dyn Driver, work: &StepRun, server: &Alive, renew: Renew) -> Option<DriverResult<()>> {
    let instance = work.instance_id();
    match start_redefined(driver, work, server, renew).await? {
        Err(error) if !error.is_transient() && !matches!(error, DriverError::NoSuchGuest(_)) => {
            tracing::warn!(%instance, %error, "a host refuses a new definition of a guest, so the guest starts as it is defined");
            None
        }
        answer => Some(answer),
    }
}

/// `None`: the guest cannot get a new definition now.
async fn start_redefined(
    driver: &dyn Driver,
    work: &StepRun,
    server: &Alive,
    renew: Renew,
) -> Option<DriverResult<()>> {
    let (redefinition, placed) = (driver.redefinition()?, server.placement.as_ref()?);
    // An administrator may have reset the server's state during a rescue or a move. Then a soft reboot keeps the rescue,
    // and the guest keeps the hardware that it has until the move ends.
    if server.rescue.is_some() || server.moving.is_some() {
        return None;
    }
    // A definition without a disk that is being attached would take the disk from the guest.
    let is_unsettled =
        |disk: &InstanceDisk| disk.work.is_some() || (disk.device.is_volume() && disk.device.connection.is_none());
    if server.disks.iter().any(is_unsettled) {
        return None;
    }
    match guest::spec_of_definition(work, placed.host, server).await {
        Ok(spec) => Some(redefinition.redefine(&spec, renew).await),
        Err(error) => {
            let instance = work.instance_id();
            tracing::warn!(%instance, %error, "a guest gets no new definition now, so it starts as it is defined");
            None
        }
    }
}

/// Creates a guest again. Its domain is not defined any more, but its disks may still exist.
pub(super) async fn revive(work: &StepRun, host: HostId, server: &Alive) -> Result<StepOutput, StepError> {
    guest::prepare(work, host, server).await?;
    guest::spawn(work, host, server).await?;
    // A delete may have come meanwhile and found no guest.
    let now = work.server().await?;
    if now.is_none_or(|now| matches!(now.ongoing, Some(OngoingTask::Delete { .. }))) {
        guest::destroy(work, host).await?;
    }
    Ok(StepOutput::Nothing)
}
