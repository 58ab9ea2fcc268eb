//! The mark of the log that drives a simulated host.

use async_trait::async_trait;
use uuid::Uuid;

use super::SimHost;
use super::faults::DriverCall;
use super::journal::SimChange;
use crate::capability::OwnerMark;
use crate::capability::owner_mark::HostOwner;
use crate::driver::DriverResult;

#[async_trait]
impl OwnerMark for SimHost {
    async fn owner_of(&self, installation: Uuid) -> DriverResult<Option<HostOwner>> {
        self.perform(DriverCall::OwnerOf, |machine| Ok(machine.owners.get(&installation).copied())).await
    }

    async fn remember(&self, owner: HostOwner) -> DriverResult<()> {
        self.perform(DriverCall::Remember, |machine| machine.change(&SimChange::Owner(owner))).await
    }
}
