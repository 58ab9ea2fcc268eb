//! Agents inside simulated guests. Every guest has an agent, even if its image does not ask for one. Nova's fake driver
//! does the same. The agent of a deaf or paused guest does not answer. The fault `noagent` removes the agents.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use super::SimHost;
use super::faults::DriverCall;
use super::machine::{SimMachine, not_running};
use crate::capability::GuestAgent;
use crate::driver::{DriverError, DriverResult};
use crate::guest::PowerState;

#[async_trait]
impl GuestAgent for SimHost {
    async fn set_password(&self, instance: InstanceId, user: &str, password: &str) -> DriverResult<()> {
        self.perform(DriverCall::SetPassword, |machine| machine.set_password(instance, user, password)).await
    }

    async fn freeze(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::Freeze, |machine| {
            machine.require_agent("quiesce", instance)?;
            machine.put_frozen(instance, true)
        })
        .await
    }

    async fn thaw(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::Thaw, |machine| match machine.guest(instance) {
            Ok(guest) if guest.frozen => {
                machine.require_agent("thaw", instance)?;
                machine.put_frozen(instance, false)
            }
            Ok(_) | Err(DriverError::NoSuchGuest(_)) => Ok(()),
            Err(error) => Err(error),
        })
        .await
    }
}

impl SimMachine {
    fn set_password(&mut self, instance: InstanceId, user: &str, password: &str) -> DriverResult<()> {
        let guest = self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?;
        if guest.power != PowerState::Running {
            return Err(not_running("set password"));
        }
        if guest.deaf {
            return Err(DriverError::Unsupported("no agent answers inside the guest".to_owned()));
        }
        guest.password = Some((user.to_owned(), password.to_owned()));
        Ok(())
    }

    /// Fails unless the agent inside the guest answers.
    pub(super) fn require_agent(&self, call: &'static str, instance: InstanceId) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if guest.power == PowerState::Running && !guest.deaf {
            return Ok(());
        }
        Err(DriverError::Failed { call, message: "the agent inside the guest does not answer".to_owned() })
    }

    fn put_frozen(&mut self, instance: InstanceId, frozen: bool) -> DriverResult<()> {
        self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?.frozen = frozen;
        Ok(())
    }
}
