//! Emulated TPMs: their version, their passphrase and their state.

use bytes::Bytes;
use chronova_events::ids::InstanceId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TpmVersion {
    V1_2,
    V2_0,
}

impl TpmVersion {
    /// The word of `hw:tpm_version`, which is also libvirt's.
    pub fn word(self) -> &'static str {
        match self {
            Self::V1_2 => "1.2",
            Self::V2_0 => "2.0",
        }
    }

    pub fn of_word(word: &str) -> Option<Self> {
        [Self::V1_2, Self::V2_0].into_iter().find(|version| version.word() == word)
    }
}

/// The passphrase that encrypts the state of a guest's TPM. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TpmPassphrase {
    pub instance: InstanceId,
    /// The id of libvirt's secret, which the guest's definition names.
    pub secret: Uuid,
    text: String,
}

impl TpmPassphrase {
    pub fn new(instance: InstanceId, secret: Uuid, text: String) -> Self {
        Self { instance, secret, text }
    }

    pub fn expose(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Debug for TpmPassphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TpmPassphrase").field("instance", &self.instance).finish_non_exhaustive()
    }
}

/// The encrypted files of a TPM, by name. The TPM's passphrase decrypts them on any host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpmState {
    pub version: TpmVersion,
    pub files: Vec<(String, Bytes)>,
}
