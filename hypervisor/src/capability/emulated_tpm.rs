//! Emulated TPMs of guests. A host has the passphrase of a TPM only while it starts the guest.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::tpm::{TpmPassphrase, TpmState, TpmVersion};

#[async_trait]
pub trait EmulatedTpm: Send + Sync {
    /// Gives the host the passphrase of a guest's TPM, in memory only. Replaces an earlier one.
    async fn hold_passphrase(&self, passphrase: &TpmPassphrase) -> DriverResult<()>;
    /// Takes the passphrase from the host. A running guest does not need it. Succeeds if there is none.
    async fn drop_passphrase(&self, instance: InstanceId) -> DriverResult<()>;
    /// The state of the TPM of a guest that is off; `None` if it never ran here.
    async fn tpm_state(&self, instance: InstanceId, version: TpmVersion) -> DriverResult<Option<TpmState>>;
    /// Writes the state of the TPM of a guest that is off or not defined, over any earlier one.
    async fn receive_tpm_state(&self, instance: InstanceId, state: &TpmState) -> DriverResult<()>;
}
