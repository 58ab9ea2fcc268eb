//! Gives a guest that exists another definition: for a rebuild, a rescue and the end of one.

use async_trait::async_trait;

use crate::driver::DriverResult;
use crate::guest::{GuestSpec, Renew};

#[async_trait]
pub trait Redefinition: Send + Sync {
    /// Stops the guest where it runs, makes the disks that `renew` names and those that are missing, makes or removes
    /// the rescue disk, defines the guest and starts it. Creates the guest where it is missing. A second call repeats
    /// all of it.
    async fn redefine(&self, guest: &GuestSpec, renew: Renew) -> DriverResult<()>;
}
