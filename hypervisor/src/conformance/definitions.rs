//! The definitions of guests and networks, as the host tells them.

use super::{CheckOutcome, Checked as _, Trial, require};
use crate::capability::Needed as _;
use crate::found::FoundGuest;
use crate::guest::{GuestSpec, NetworkSpec, PowerState};

impl Trial {
    /// The guest was just spawned, and is on the network of the fixture.
    pub(super) async fn definitions(&self, guest: &GuestSpec) -> CheckOutcome {
        let definitions = self.driver.guest_definitions().needed()?;
        let all = definitions.found_guests().await.check("definitions of guests")?;
        let found = all.into_iter().find(|found| found.instance == guest.instance);
        // The host chooses the machine type.
        let found = found.map(|found| FoundGuest { machine_type: None, ..found });
        let spec = FoundGuest::of(guest, PowerState::Running, false);
        require("a definition tells its guest", found.as_ref() == Some(&spec), &found)?;
        let all = definitions.found_networks().await.check("definitions of networks")?;
        let wanted = self.network();
        let found = all.into_iter().find(|found| found.network == wanted.network);
        let ranges = |spec: &NetworkSpec| spec.subnets.iter().map(|subnet| subnet.cidr.clone()).collect::<Vec<_>>();
        let is_told =
            |found: &NetworkSpec| (ranges(found), &found.reservations) == (ranges(&wanted), &wanted.reservations);
        require("a definition tells its network", found.as_ref().is_some_and(is_told), &found)
    }
}
