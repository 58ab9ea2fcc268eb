//! Emulated TPMs of simulated guests.
//!
//! A TPM remembers the passphrase of its first start. Without exactly this passphrase the guest does not start.

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;

use super::SimHost;
use super::faults::DriverCall;
use super::machine::SimMachine;
use crate::capability::EmulatedTpm;
use crate::driver::{DriverError, DriverResult};
use crate::tpm::{TpmPassphrase, TpmState, TpmVersion};

const FILE: &str = "tpm2-00.permall";

#[async_trait]
impl EmulatedTpm for SimHost {
    async fn hold_passphrase(&self, passphrase: &TpmPassphrase) -> DriverResult<()> {
        self.perform(DriverCall::HoldPassphrase, |machine| {
            machine.passphrases.insert(passphrase.instance, passphrase.expose().to_owned());
            Ok(())
        })
        .await
    }

    async fn drop_passphrase(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::DropPassphrase, |machine| {
            machine.passphrases.remove(&instance);
            Ok(())
        })
        .await
    }

    async fn tpm_state(&self, instance: InstanceId, version: TpmVersion) -> DriverResult<Option<TpmState>> {
        self.perform(DriverCall::TpmState, |machine| {
            let sealed = machine.tpms.get(&instance).map(|by| Bytes::from(by.clone()));
            Ok(sealed.map(|sealed| TpmState { version, files: vec![(FILE.to_owned(), sealed)] }))
        })
        .await
    }

    async fn receive_tpm_state(&self, instance: InstanceId, state: &TpmState) -> DriverResult<()> {
        self.perform(DriverCall::ReceiveTpmState, |machine| {
            let sealed = state.files.iter().find(|(name, _)| name == FILE).map(|(_, content)| content.to_vec());
            let sealed = sealed.and_then(|content| String::from_utf8(content).ok());
            sealed.map(|by| drop(machine.tpms.insert(instance, by))).ok_or_else(|| refused("the state is unreadable"))
        })
        .await
    }
}

fn refused(message: &str) -> DriverError {
    DriverError::Failed { call: "TPM", message: message.to_owned() }
}

impl SimMachine {
    /// Starts the guest's TPM, if the guest has a TPM. At the first start, the passphrase encrypts the TPM's state.
    pub(super) fn start_tpm(&mut self, instance: InstanceId) -> DriverResult<()> {
        if !self.with_tpm.contains(&instance) {
            return Ok(());
        }
        let Some(passphrase) = self.passphrases.get(&instance).cloned() else {
            return Err(refused("Secret not found: the host has no passphrase of the guest's TPM"));
        };
        match self.tpms.entry(instance).or_insert_with(|| passphrase.clone()) == &passphrase {
            true => Ok(()),
            false => Err(refused("the passphrase does not open the TPM's state")),
        }
    }
}
