//! Emulated TPMs of guests. A host has the passphrase of a TPM only while it starts the guest.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::tpm::{TpmPassphrase, TpmState, TpmVersion};

#[async_trait]
pub trait EmulatedTpm: Send + Sync {
    /// Gives the host the passphrase of a guest's TPM, which the host keeps in memory only. Replaces an earlier
    /// passphrase.
    async fn hold_passphrase(&self, passphrase: &TpmPassphrase) -> DriverResult<()>;
    /// Makes the host forget the passphrase, which a running guest does not need. Succeeds if the host has no
    /// passphrase of the guest.
    async fn drop_passphrase(&self, instance: InstanceId) -> DriverResult<()>;
    /// Reads the TPM state of a guest that is off. `None` if the guest never ran on this host.
    async fn tpm_state(&self, instance: InstanceId, version: TpmVersion) -> DriverResult<Option<TpmState>>;
    /// Writes the TPM state of a guest that is off or not defined. The new state replaces any earlier state.
    async fn receive_tpm_state(&self, instance: InstanceId, state: &TpmState) -> DriverResult<()>;
}
