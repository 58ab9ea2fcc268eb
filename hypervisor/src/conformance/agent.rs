//! Checks the agent inside the guest, and copies of disks that need it.

use chronova_events::ids::{ImageId, InstanceId};

use super::{CheckOutcome, Checked as _, Trial, require};
use crate::capability::Needed as _;
use crate::driver::DriverError;
use crate::guest::{ImageFormat, PowerState, Quiesce};

impl Trial {
    /// The guest may have a channel for an agent or not. The answers of all calls must agree whether the guest has the
    /// channel.
    pub(super) async fn agent(&self, instance: InstanceId) -> CheckOutcome {
        let driver = &self.driver;
        let agent = driver.guest_agent().needed()?;
        let has = match agent.freeze(instance).await {
            Err(DriverError::NoAgent) => false,
            first => {
                first.check("freeze")?;
                true
            }
        };
        let again = agent.freeze(instance).await;
        require(
            "a freeze of a frozen guest succeeds",
            matches!((has, &again), (true, Ok(())) | (false, Err(DriverError::NoAgent))),
            &again,
        )?;
        for _ in 0..2 {
            let thaw = agent.thaw(instance).await;
            require(
                "a thaw succeeds",
                matches!((has, &thaw), (true, Ok(())) | (false, Err(DriverError::NoAgent))),
                &thaw,
            )?;
        }
        self.is(instance, "a guest runs after a thaw", PowerState::Running).await?;
        let copy = ImageId(uuid::Uuid::from_u128(0xc0f0 << 64 | 3));
        let copied =
            driver.snapshots().needed()?.copy_root(instance, copy, ImageFormat::Qcow2, Quiesce::Required).await;
        require(
            "a copy that requires a freeze succeeds only with an agent",
            matches!((has, &copied), (true, Ok(_)) | (false, Err(DriverError::NoAgent))),
            &copied,
        )?;
        driver.snapshots().needed()?.remove_copy(instance, copy).await.check("copy removal")?;
        let changed = agent.set_password(instance, "root", "s3cret").await;
        require(
            "a password is set",
            matches!((has, &changed), (true, Ok(())) | (false, Err(DriverError::NoAgent))),
            &changed,
        )
    }
}
