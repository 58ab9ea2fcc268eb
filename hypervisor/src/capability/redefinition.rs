//! Gives an existing guest another definition, for a rebuild, a rescue, an unrescue, a start or a hard reboot.

use async_trait::async_trait;

use crate::driver::DriverResult;
use crate::guest::{GuestSpec, Renew};

#[async_trait]
pub trait Redefinition: Send + Sync {
    /// Stops a running guest, recreates the disks that `renew` names, and creates missing ones. Creates or removes the
    /// rescue disk. Then defines the guest and starts it. A missing guest is created. A second call repeats all of it.
    /// [`Renew::Definition`] and [`Renew::AtStart`] do less.
    async fn redefine(&self, guest: &GuestSpec, renew: Renew) -> DriverResult<()>;
}
