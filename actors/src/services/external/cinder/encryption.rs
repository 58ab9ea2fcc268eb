//! Volumes of encrypted types. Cinder has made the key in the key manager, and the volume with a LUKS header. QEMU
//! decrypts the volume, so the host needs no device.
//!
//! Invariant: the passphrase is neither kept nor logged. It is read each time a guest gets the volume: from Barbican
//! with the token of the user whose request began the work, from Vault with Chronova's own account.

use chronova_events::envelope::Meta;
use chronova_events::ids::VolumeId;
use chronova_hypervisor::guest::DiskPassword;
use serde::Deserialize;

use super::CinderVolumes;
use super::calls::{CinderCall, read};
use crate::ports::PortError;

/// Cinder's description of a volume's encryption.
#[derive(Debug, Deserialize)]
struct VolumeEncryption {
    encryption_key_id: Option<String>,
    provider: Option<String>,
    /// The place of the decryption: `front-end` on the compute host, `back-end` in the storage.
    control_location: Option<String>,
}

impl VolumeEncryption {
    /// Whether QEMU can decrypt the volume: by the short name of the format, or by the name of a class of Nova's or
    /// os-brick's, with or without its module.
    fn is_luks(&self) -> bool {
        let provider = self.provider.as_deref().unwrap_or_default();
        provider == "luks" || provider.rsplit('.').next() == Some("LuksEncryptor")
    }
}

impl CinderVolumes {
    /// The passphrase of an encrypted volume; `None` if its back end decrypts it.
    pub(super) async fn passphrase_of(&self, volume: VolumeId, meta: &Meta) -> Result<Option<DiskPassword>, PortError> {
        let own = self.own(meta.request_id.as_ref()).await?;
        let answer = self.must(&own, &CinderCall::get(format!("volumes/{volume}/encryption"))).await?;
        let encryption: VolumeEncryption = read(&answer)?;
        if encryption.control_location.as_deref().is_some_and(|who| who.eq_ignore_ascii_case("back-end")) {
            return Ok(None);
        }
        if !encryption.is_luks() {
            let provider = encryption.provider.as_deref().unwrap_or("no named provider");
            return Err(PortError::Invalid(format!(
                "The volume is encrypted by {provider}, which QEMU cannot decrypt: give the volume a type whose encryption \
                 has the provider luks."
            )));
        }
        let keys = self.keys.as_ref().ok_or_else(|| {
            PortError::Invalid("The volume is encrypted, and this cloud has no key manager with its key.".to_owned())
        })?;
        let key = encryption
            .encryption_key_id
            .ok_or_else(|| PortError::Invalid(format!("Cinder names no key of the encrypted volume {volume}")))?;
        let passphrase = keys.passphrase(&key, meta).await.map_err(|error| match error {
            PortError::Unavailable(_) => error,
            other => PortError::Invalid(format!("The key of the encrypted volume cannot be read: {other}")),
        })?;
        Ok(Some(DiskPassword::new(passphrase.expose())))
    }
}
