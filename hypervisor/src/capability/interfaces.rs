//! Attaches interfaces to existing guests and detaches them.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::guest::Nic;

#[async_trait]
pub trait InterfaceAttachment: Send + Sync {
    /// Attaches an interface to the guest. A running guest gets the interface at once, and every guest gets it at each
    /// later start. The host already has the network and the filter. `hardware` has the image's properties, as in
    /// [`GuestSpec`](crate::guest::GuestSpec). Succeeds if it is already attached.
    async fn attach_nic(&self, instance: InstanceId, nic: &Nic, hardware: &[(String, String)]) -> DriverResult<()>;
    /// Detaches the interface with this MAC. The driver asks a running guest several times to release the interface.
    /// `Failed`: the guest did not release the interface and still has it. Succeeds if the guest has no such interface.
    async fn detach_nic(&self, instance: InstanceId, mac: &str) -> DriverResult<()>;
    /// The MAC addresses of the guest's interfaces at its next start, in lower case, sorted.
    async fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>>;
}
