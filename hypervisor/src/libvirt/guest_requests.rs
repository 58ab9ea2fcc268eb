//! Asks a guest to power off or to release a disk, and waits for it.

use std::time::Duration;

use chronova_events::ids::InstanceId;
use tokio::time::{Instant, sleep};

use super::host::LibvirtDriver;
use super::{disks, domain};
use crate::driver::{Driver as _, DriverError, DriverResult};
use crate::guest::PowerState;

/// The pause between two checks of a guest that must release a disk, or of a running copy of a disk.
pub(super) const DISK_POLL: Duration = Duration::from_millis(250);
/// The interval between two checks of a guest that was asked to power off.
const STOP_POLL: Duration = Duration::from_millis(500);
/// The interval at which the request is repeated, because a booting guest misses it. Nova retries every 10 s.
const STOP_RETRY: Duration = Duration::from_secs(10);

impl LibvirtDriver {
    async fn power(&self, instance: InstanceId) -> DriverResult<PowerState> {
        self.guest(instance).await.map(|guest| guest.power)
    }

    /// Asks the guest to power off, and waits up to `timeout`. Returns whether it is off.
    pub(super) async fn shut_down(&self, instance: InstanceId, timeout: Duration) -> DriverResult<bool> {
        let end = Instant::now() + timeout;
        let mut ask_at = Instant::now();
        loop {
            if matches!(self.power(instance).await?, PowerState::Shutdown | PowerState::Crashed) {
                return Ok(true);
            }
            let now = Instant::now();
            if now >= end {
                return Ok(false);
            }
            if now >= ask_at {
                self.ask("shutdown", move |connect, _| domain::ask_to_stop(&domain::require(connect, instance)?))
                    .await?;
                ask_at = now + STOP_RETRY;
            }
            sleep(STOP_POLL.min(end - now)).await;
        }
    }

    /// Asks the guest to release the disk as often as Nova does, and waits each time.
    pub(super) async fn wait_for_detachment(&self, instance: InstanceId, serial: &str) -> DriverResult<()> {
        for attempt in 1..=self.options.device_detach_attempts.max(1) {
            let asked = serial.to_owned();
            let gone = self
                .ask("disk detachment", move |connect, _| disks::ask_for(&domain::require(connect, instance)?, &asked));
            let end = Instant::now() + self.options.device_detach_timeout;
            let mut gone = gone.await?;
            while !gone && Instant::now() < end {
                sleep(DISK_POLL).await;
                let wanted = serial.to_owned();
                let lookup = self.ask("disk lookup", move |connect, _| {
                    disks::still_has(&domain::require(connect, instance)?, &wanted)
                });
                gone = !lookup.await?;
            }
            if gone {
                return Ok(());
            }
            tracing::info!(%instance, serial, attempt, "the guest has not released a disk");
        }
        let message = format!("the guest does not release the disk {serial}");
        Err(DriverError::Failed { call: "disk detachment", message })
    }
}
