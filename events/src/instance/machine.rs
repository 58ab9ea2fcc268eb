//! The machine of a server's guest: its machine type and its TPM. The type is recorded before the first start, and then
//! kept.
//!
//! Nova records the type in the server's system metadata (`image_hw_machine_type`). Without the record, a new default
//! of the operator would give existing guests another board. Windows would treat that as another machine.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineTypeRecorded {
    /// For example `pc`, `q35` or `virt`.
    pub machine_type: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineTypeChanged {
    pub machine_type: String,
}

/// The passphrase of an emulated TPM. The log has its reference in the key manager, and never the passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TpmSecretStored {
    /// The id of the secret on the hosts.
    pub secret: Uuid,
    /// The key manager's reference to the passphrase.
    pub reference: String,
}
