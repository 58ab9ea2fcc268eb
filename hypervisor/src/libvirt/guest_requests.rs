//! Asks a guest to power off or to release a disk, and waits until the guest has done so.

use std::time::Duration;

use chronova_events::ids::InstanceId;
use tokio::time::{Instant, sleep};

use super::host::LibvirtDriver;
use super::{disks, domain};
use crate::driver::{Driver as _, DriverError, DriverResult};
use crate::guest::PowerState;
use crate::options::LibvirtOptions;

/// The pause between two checks of a guest that must release a disk, or of a running copy of a disk.
pub(super) const DISK_POLL: Duration = Duration::from_millis(250);
/// The interval between two checks of a guest that was asked to power off.
const STOP_POLL: Duration = Duration::from_millis(500);

/// A request that a guest may miss and that is therefore repeated.
struct RepeatedRequest {
    period: Duration,
    next: Instant,
}

impl RepeatedRequest {
    fn to_shut_down(options: &LibvirtOptions, now: Instant) -> Self {
        Self { period: options.shutdown_retry, next: now }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.period;
        }
        due
    }
}

impl LibvirtDriver {
    async fn power(&self, instance: InstanceId) -> DriverResult<PowerState> {
        self.guest(instance).await.map(|guest| guest.power)
    }

    /// Asks the guest to power off, and waits up to `timeout`. Returns whether it is off.
    pub(super) async fn shut_down(&self, instance: InstanceId, timeout: Duration) -> DriverResult<bool> {
        let end = Instant::now() + timeout;
        let mut request = RepeatedRequest::to_shut_down(&self.options, Instant::now());
        loop {
            if matches!(self.power(instance).await?, PowerState::Shutdown | PowerState::Crashed) {
                return Ok(true);
            }
            let now = Instant::now();
            if now >= end {
                return Ok(false);
            }
            if request.is_due(now) {
                self.ask("shutdown", move |connect, _| domain::ask_to_stop(&domain::require(connect, instance)?))
                    .await?;
            }
            sleep(STOP_POLL.min(end - now)).await;
        }
    }

    /// Asks the guest to release the disk, at most `device_detach_attempts` times, and waits each time.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_asked_again_after_the_configured_time() {
        let options = LibvirtOptions { shutdown_retry: Duration::from_secs(4), ..LibvirtOptions::default() };
        let begin = Instant::now();
        let mut request = RepeatedRequest::to_shut_down(&options, begin);
        let asked: Vec<u64> = (0..12).filter(|second| request.is_due(begin + Duration::from_secs(*second))).collect();
        assert_eq!(asked, [0, 4, 8]);
    }
}
