//! The readings of a host that the APIs may use: consoles, diagnostics, the volume pool. An API cannot define, start,
//! stop or move a guest. If the host's driver does not offer a reading, the error is
//! [`Unsupported`](chronova_hypervisor::driver::DriverError::Unsupported).

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use chronova_events::ids::InstanceId;
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::consoles::{ConsoleAddress, Screen, SerialLine};
use chronova_hypervisor::capability::volume_store::PoolStatus;
use chronova_hypervisor::driver::DriverResult;
use chronova_hypervisor::guest::{Diagnostics, GuestStatus};

use super::fleet::ConnectedHost;

/// A host that has answered since start-up. Its driver stays private.
///
/// ```compile_fail,E0616
/// fn driver(host: &chronova_actors::hosts::readings::HostReadings) {
///     let _ = &host.member;
/// }
/// ```
pub struct HostReadings {
    member: Arc<ConnectedHost>,
}

impl fmt::Debug for HostReadings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostReadings").field(&self.member.hostname).finish()
    }
}

impl HostReadings {
    pub(crate) fn new(member: Arc<ConnectedHost>) -> Self {
        Self { member }
    }

    /// The last `max_bytes` of the guest's console log.
    pub async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes> {
        self.member.driver.consoles().needed()?.console_log(instance, max_bytes).await
    }

    /// The hypervisor's measurements of the guest.
    pub async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics> {
        self.member.driver.troubleshooting().needed()?.diagnostics(instance).await
    }

    /// The guest as it is now.
    pub async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        self.member.driver.guest(instance).await
    }

    /// The address of the guest's graphical console.
    pub async fn screen(&self, instance: InstanceId, screen: Screen) -> DriverResult<ConsoleAddress> {
        self.member.driver.consoles().needed()?.screen(instance, screen).await
    }

    /// The guest's first serial port.
    pub async fn serial_line(&self, instance: InstanceId) -> DriverResult<SerialLine> {
        self.member.driver.consoles().needed()?.serial_line(instance).await
    }

    /// The address of the host, if it is another machine.
    pub fn remote_address(&self) -> DriverResult<Option<String>> {
        Ok(self.member.driver.consoles().needed()?.remote_address())
    }

    /// The size of the pool that volumes are in.
    pub async fn volume_pool(&self) -> DriverResult<PoolStatus> {
        self.member.driver.volume_store().needed()?.volume_pool().await
    }
}
