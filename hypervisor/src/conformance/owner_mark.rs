//! The mark of the log that drives the host.

use uuid::Uuid;

use super::{CheckOutcome, Checked as _, Trial, require};
use crate::capability::Needed as _;
use crate::capability::owner_mark::HostOwner;

impl Trial {
    /// A host remembers the last generation, for each installation. The ids are fixed: each trial overwrites the same
    /// mark, so a real host does not collect one mark per trial.
    pub(super) async fn owner(&self) -> CheckOutcome {
        let mark = self.driver.owner_mark().needed()?;
        let [installation, other] = [0x0c0f_fee1, 0x0c0f_fee2].map(Uuid::from_u128);
        for generation in [3, 4].map(Uuid::from_u128) {
            mark.remember(HostOwner { installation, generation }).await.check("a host remembers a generation")?;
            let found = mark.generation_of(installation).await.check("a host tells who drives it")?;
            require("the generation is the last one", found == Some(generation), found)?;
        }
        let found = mark.generation_of(other).await.check("a host is asked about another installation")?;
        require("another installation has no mark", found.is_none(), found)
    }
}
