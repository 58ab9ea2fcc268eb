//! The work of processes on a server's emulated TPM. They handle its passphrase, and move its state with the server.
//!
//! As in Nova, the passphrase is stored and read in the name of the user whose request starts the guest. So only users
//! of the server's own project can start a server with a TPM. A request can also come from another project, from a
//! drain or from the restart of a host. Then its process fails before it stops the guest.

use std::future::Future;

use chronova_events::envelope::Cause;
use chronova_events::ids::HostId;
use chronova_events::instance::Alive;
use chronova_events::process::Task;
use chronova_hypervisor::capability::{EmulatedTpm, Needed as _};
use chronova_hypervisor::driver::DriverResult;
use chronova_hypervisor::tpm::{TpmPassphrase, TpmVersion};
use uuid::Uuid;

use super::definition::{StepError, StepRun, settled};
use crate::hardware;
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::ports::PortError;
use crate::ports::keys::{KeyRequester, SecretPayload};

/// The number of random bytes of a passphrase.
const STRENGTH: usize = 32;

/// The most attempts to take a passphrase from a host after a start.
const DROPS: u32 = 3;

/// The version of the server's TPM; `None` if it has none.
fn version(server: &Alive) -> Option<TpmVersion> {
    hardware::tpm_version(&server.request.flavor, server.hardware_image())
}

/// The user for whom the process works. A build always works for the server's owner, also after a crash.
fn requester(work: &StepRun, server: &Alive) -> Result<KeyRequester, StepError> {
    let owner = || KeyRequester { user: server.request.user.clone(), project: server.request.project.clone() };
    match (&work.asked_by.cause, &work.running.task) {
        (_, Task::BuildInstance { .. }) => Ok(owner()),
        (Cause::User { user, project: Some(project), .. }, _) => {
            Ok(KeyRequester { user: user.clone(), project: project.clone() })
        }
        _ => Err(forbidden(server)),
    }
}

fn forbidden(server: &Alive) -> StepError {
    let message = format!(
        "Only users of project {} start this server, because only they can read the passphrase of its TPM.",
        server.request.project
    );
    StepError::fatal(403, &message, "")
}

fn refused(server: &Alive, requester: &KeyRequester, error: PortError) -> StepError {
    match error {
        PortError::Forbidden(_) => forbidden(server),
        // Barbican shows a user no secret of another project.
        PortError::NotFound(_) if requester.project != server.request.project => forbidden(server),
        PortError::NotFound(message) => {
            let message = format!("The passphrase of the server's TPM is lost: {message}");
            StepError::fatal(404, &message, "")
        }
        other => other.into(),
    }
}

/// The secret that the server's definition names. The first definition of a guest with a TPM stores its passphrase.
pub(super) async fn secret(work: &StepRun, server: &Alive) -> Result<Option<Uuid>, StepError> {
    if version(server).is_none() {
        return Ok(None);
    }
    if let Some(stored) = &server.tpm {
        return Ok(Some(stored.secret));
    }
    store(work, server).await.map(|stored| Some(stored.0))
}

/// Stores a new passphrase. Returns the secret's id and the key manager's reference. If an earlier run stored a
/// passphrase before a crash, that passphrase stays, and the result names it.
async fn store(work: &StepRun, server: &Alive) -> Result<(Uuid, String), StepError> {
    if let Some(stored) = &server.tpm {
        return Ok((stored.secret, stored.reference.clone()));
    }
    let secret = secret_id(work);
    let requester = requester(work, server)?;
    let mut random = [0_u8; STRENGTH];
    if !chronova_events::entropy::fill(&mut random) {
        return Err(StepError::again("the operating system gives no random numbers"));
    }
    let passphrase = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, random);
    let stored = work.context.keys.store(secret, SecretPayload::new(passphrase), &requester, &work.meta).await;
    let reference = stored.map_err(|error| refused(server, &requester, error))?;
    let record = InstanceRecord::TpmSecret { secret, reference: reference.clone() };
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)?;
    Ok((secret, reference))
}

/// Fails if the process may not start the server's guest. A process that stops a guest checks this first.
pub(super) async fn check_access(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    let Some(stored) = server.tpm.as_ref().filter(|_| version(server).is_some()) else { return Ok(()) };
    let requester = requester(work, server)?;
    let read = work.context.keys.read(&stored.reference, &requester, &work.meta).await;
    read.map(drop).map_err(|error| refused(server, &requester, error))
}

/// Starts a guest with `start`. If the guest has a TPM, its host has the passphrase meanwhile. If the passphrase cannot
/// be taken from the host after a failed start, the host keeps it in memory. The next start or the removal of the guest
/// ends this.
pub(super) async fn with_passphrase<T>(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    start: impl Future<Output = Result<T, StepError>>,
) -> Result<T, StepError> {
    if version(server).is_none() {
        return start.await;
    }
    let (secret, reference) = store(work, server).await?;
    let requester = requester(work, server)?;
    let read = work.context.keys.read(&reference, &requester, &work.meta).await;
    let payload = read.map_err(|error| refused(server, &requester, error))?;
    let driver = work.driver(host)?;
    let tpm = driver.emulated_tpm().needed().map_err(StepError::from)?;
    let passphrase = TpmPassphrase::new(work.instance_id(), secret, payload.expose().to_owned());
    let started = match tpm.hold_passphrase(&passphrase).await {
        Ok(()) => start.await,
        // The host may have the passphrase although the call failed.
        Err(error) => Err(error.into()),
    };
    match (started, drop_passphrase(work, tpm).await) {
        (started, Ok(())) => started,
        // The step is repeated. This is safe, because a start of a running guest has no effect.
        (Ok(_), Err(error)) => Err(StepError::again(error)),
        (Err(failed), Err(error)) => {
            tracing::warn!(instance = %work.instance_id(), %host, %error, "a host may keep the passphrase of a TPM");
            Err(failed)
        }
    }
}

/// Takes the passphrase from the host. The step of a failed start may not be repeated, so this is tried more than once.
async fn drop_passphrase(work: &StepRun, tpm: &dyn EmulatedTpm) -> DriverResult<()> {
    for _ in 1..DROPS {
        match tpm.drop_passphrase(work.instance_id()).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                tracing::debug!(instance = %work.instance_id(), %error, "taking the passphrase failed, retrying");
            }
        }
        tokio::time::sleep(work.context.options.retry_base).await;
    }
    tpm.drop_passphrase(work.instance_id()).await
}

/// Copies the state of the TPM to the host that the server moves to. The guest is off.
pub(super) async fn carry(work: &StepRun, from: HostId, to: HostId, server: &Alive) -> Result<(), StepError> {
    let Some(version) = version(server).filter(|_| from != to) else { return Ok(()) };
    let (source, target) = (work.driver(from)?, work.driver(to)?);
    let source = source.emulated_tpm().needed().map_err(StepError::only_here)?;
    let state = source.tpm_state(work.instance_id(), version).await.map_err(StepError::only_here)?;
    if let Some(state) = state {
        target.emulated_tpm().needed()?.receive_tpm_state(work.instance_id(), &state).await?;
    }
    Ok(())
}

/// Deletes the passphrase of a server that is being deleted.
pub(super) async fn forget(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    let reference = match &server.tpm {
        Some(stored) => stored.reference.clone(),
        // A crash may have come after the secret was stored and before it was recorded.
        None if version(server).is_some() => secret_id(work).to_string(),
        None => return Ok(()),
    };
    Ok(work.context.keys.delete(&reference, &work.meta).await?)
}

fn secret_id(work: &StepRun) -> Uuid {
    Uuid::new_v5(&work.instance_id().0, b"vtpm")
}
