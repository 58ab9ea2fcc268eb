//! Passphrases of emulated TPMs.

use uuid::Uuid;

use super::{CheckOutcome, Checked as _, Trial, require};
use crate::capability::Needed as _;
use crate::guest::GuestSpec;
use crate::tpm::{TpmPassphrase, TpmVersion};

impl Trial {
    /// A new passphrase, even one in another secret, replaces the passphrase that a host holds. A second request to
    /// forget the passphrase succeeds, too. A guest without a TPM has no TPM state.
    pub(super) async fn passphrases(&self, guest: &GuestSpec) -> CheckOutcome {
        let tpm = self.driver.emulated_tpm().needed()?;
        let passphrase =
            |secret, text: &str| TpmPassphrase::new(guest.instance, Uuid::from_u128(secret), text.to_owned());
        tpm.hold_passphrase(&passphrase(1, "one")).await.check("a host takes a passphrase")?;
        tpm.hold_passphrase(&passphrase(2, "two")).await.check("another passphrase replaces it")?;
        tpm.drop_passphrase(guest.instance).await.check("a host forgets a passphrase")?;
        tpm.drop_passphrase(guest.instance).await.check("a forgotten passphrase is forgotten again")?;
        let state = tpm.tpm_state(guest.instance, TpmVersion::V2_0).await.check("a state is asked for")?;
        require("a guest without a TPM has no state of one", state.is_none(), state)
    }
}
