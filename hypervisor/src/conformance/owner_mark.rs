//! The mark of the log that drives the host.

use chronova_events::envelope::Timestamp;
use uuid::Uuid;

use super::{CheckOutcome, Checked as _, Trial, require};
use crate::capability::Needed as _;
use crate::capability::owner_mark::HostOwner;

impl Trial {
    /// For each installation, a host remembers the generation that drove it last. The check uses fixed ids, so each
    /// trial overwrites the same mark. A real host therefore does not collect one mark per trial.
    pub(super) async fn owner(&self) -> CheckOutcome {
        let mark = self.driver.owner_mark().needed()?;
        let [installation, other] = [0x0c0f_fee1, 0x0c0f_fee2].map(Uuid::from_u128);
        for (generation, taken_at) in [(3, None), (4, Some(Timestamp(7)))] {
            let owner = HostOwner { installation, generation: Uuid::from_u128(generation), taken_at };
            mark.remember(owner).await.check("a host remembers a generation")?;
            let found = mark.owner_of(installation).await.check("a host tells who drives it")?;
            require("the owner is the last one", found == Some(owner), found)?;
        }
        let found = mark.owner_of(other).await.check("a host is asked about another installation")?;
        require("another installation has no mark", found.is_none(), found)
    }
}
