//! The config drive of a guest.

use bytes::Bytes;
use chronova_events::instance::Alive;
use chronova_hypervisor::guest::Nic;

use super::definition::{StepError, StepRun};
use crate::metadata::{GuestMetadata, sources};

/// Makes the content of the config drive. `plugged`: the guest's interfaces.
pub(super) async fn content(work: &StepRun, server: &Alive, plugged: &[Nic]) -> Result<Bytes, StepError> {
    let password = work.context.passwords.of(work.running.process);
    let failed = |reason: String| StepError::fatal(500, "The config drive could not be created.", reason);
    let options = &work.context.server_options.metadata;
    let floating = sources::floating_ip(work.context.networks.as_ref(), server).await?;
    let said = sources::said(options, work.context.log.as_ref(), server).await.map_err(failed)?;
    let about = GuestMetadata {
        server,
        password: password.as_deref(),
        options,
        devices: &[],
        plugged,
        floating_ip: floating.as_deref(),
        said: said.as_ref(),
    };
    about.config_drive().map_err(failed)
}
