//! The passphrase of a server's emulated TPM. The log has its reference in the key manager, and never the passphrase.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::InstanceEvent;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TpmSecretStored {
    /// The id of the secret on the hosts.
    pub secret: Uuid,
    /// The key manager's reference to the passphrase.
    pub reference: String,
}

/// One example of each event.
pub(super) fn samples() -> Vec<InstanceEvent> {
    let secret = Uuid::from_u128(9);
    vec![TpmSecretStored { secret, reference: secret.to_string() }.into()]
}
