//! Sets a guest's administrator password through its agent.
//!
//! | step | does |
//! |---|---|
//! | `tell_agent` | passes the password to the guest's agent |
//!
//! Only the operating-system process that took the request holds the password, in memory
//! ([`crate::coordination::passwords`]). A crash loses the password and the request. The requester gets the result.
//!
//! The driver says whether there is an agent; simulated guests need none. Messages and codes are those of Nova's
//! `ComputeManager.set_admin_password` and `LibvirtDriver.set_admin_password`.

use chronova_events::instance::Alive;
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::DriverError;
use chronova_hypervisor::guest::PowerState;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{imaging, turn};
use crate::instance::WorkOutcome;

pub const DEFINITION: Definition = Definition {
    name: "change_password",
    steps: steps! {
        "tell_agent" => tell_agent;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        turn::conclude(work, outcome, WorkOutcome::PasswordChanged, WorkOutcome::PasswordChangeFailed).await?;
        let result = match outcome {
            ProcessOutcome::Succeeded => Ok(()),
            ProcessOutcome::Failed | ProcessOutcome::CalledOff => Err(turn::fault(work)),
        };
        work.context.passwords.settle(work.running.process, result);
        Ok(())
    }
    .boxed()
}

async fn tell_agent(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    let Some(password) = work.context.passwords.of(work.running.process) else {
        return Err(failed(work, "the password was lost when the control plane was restarted"));
    };
    let (driver, instance) = (work.driver(placed.host)?, work.instance_id());
    let power = driver.guest(instance).await.map(|guest| guest.power);
    if !matches!(power, Ok(PowerState::Running)) {
        return Err(failed(work, &format!("instance {instance} is not running")));
    }
    let result = match driver.guest_agent().needed() {
        Ok(agent) => agent.set_password(instance, user(&server), &password).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => Ok(StepOutput::Nothing),
        Err(error @ DriverError::NoAgent) => Err(StepError::fatal(409, &error.to_string(), "")),
        Err(error @ DriverError::Unsupported(_)) => {
            Err(StepError::fatal(501, "Unable to set password on instance", error))
        }
        Err(error) => {
            tracing::warn!(%instance, %error, "a password cannot be set");
            Err(failed(work, "error setting admin password"))
        }
    }
}

fn failed(work: &StepRun, reason: &str) -> StepError {
    let message = format!("Failed to set admin password on {} because {reason}", work.instance_id());
    StepError::fatal(409, &message, "")
}

/// The user whose password changes in the guest: the image's `os_admin_user`, or the operating system's administrator.
fn user(server: &Alive) -> &str {
    let property = |name: &str| {
        let properties = server.hardware_image().map(|image| image.properties.as_slice()).unwrap_or_default();
        properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|text| !text.is_empty())
    };
    match (property("os_admin_user"), property("os_type")) {
        (Some(user), _) => user,
        (None, Some("windows")) => "Administrator",
        (None, _) => "root",
    }
}
