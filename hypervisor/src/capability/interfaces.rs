//! Interfaces that a guest gets or loses after it was created.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::guest::Nic;

#[async_trait]
pub trait InterfaceAttachment: Send + Sync {
    /// Gives the guest one more interface: now, where it is in memory, and for every later start. The host has network
    /// and filter already. `hardware` is the image's, as in [`GuestSpec`](crate::guest::GuestSpec). Attached already is
    /// success.
    async fn attach_nic(&self, instance: InstanceId, nic: &Nic, hardware: &[(String, String)]) -> DriverResult<()>;
    /// Takes the interface with this MAC from the guest. A running guest must release it, and is asked several times:
    /// `Failed` says that it did not, and that it has the interface as before. Gone already is success.
    async fn detach_nic(&self, instance: InstanceId, mac: &str) -> DriverResult<()>;
    /// The MAC addresses of the interfaces that the guest has at its next start, in lower case, sorted.
    async fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>>;
}
