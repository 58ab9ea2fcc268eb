//! Emulated TPMs: passphrases as libvirt's secrets, and the state of a TPM that moves with its guest.
//!
//! A secret is ephemeral, so libvirtd never writes it to a disk. It is also private, so no client of libvirtd can read
//! it. Nova's driver does the same. libvirt has no call for the state of a TPM. So this file opens a short-lived
//! storage pool over libvirt's directory of that TPM, and reads and writes the state as volumes of the pool. libvirt
//! gives the files to the user of `swtpm` when it starts the guest.

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use virt::connect::Connect;
use virt::error::{Error, ErrorNumber};
use virt::secret::Secret;
use virt::storage_pool::StoragePool;

use super::error::{Context as _, is, translate};
use super::host::LibvirtDriver;
use super::{domain, pool};
use crate::capability::EmulatedTpm;
use crate::driver::{DriverError, DriverResult};
use crate::tpm::{TpmPassphrase, TpmState, TpmVersion};
use crate::xml::Element;

const CALL: &str = "TPM";
const USAGE: i32 = virt_sys::VIR_SECRET_USAGE_TYPE_VTPM.cast_signed();
/// The directory in which libvirt keeps the states of TPMs of system guests.
const STATES: &str = "/var/lib/libvirt/swtpm";
/// A file of a TPM can be moved if it has at most this many bytes. The state of a TPM has some ten KiB.
const MOST: usize = 4 << 20;

/// The secret of the guest's TPM.
fn secret_of(connect: &Connect, instance: InstanceId) -> DriverResult<Option<Secret>> {
    match connect.lookup_secret_by_usage(USAGE, &instance.to_string()) {
        Ok(secret) => Ok(Some(secret)),
        Err(error) if is(&error, ErrorNumber::NoSecret) => Ok(None),
        Err(error) => Err(translate(CALL, &error)),
    }
}

fn hold(connect: &Connect, passphrase: &TpmPassphrase) -> DriverResult<()> {
    // A crash may have left a secret with the same usage under another id. libvirt would then refuse the new secret.
    drop_secret(connect, passphrase.instance)?;
    let secret = connect.define_secret_xml(&secret_xml(passphrase), 0).during(CALL)?;
    secret.set_value(passphrase.expose().as_bytes(), 0).during(CALL)
}

/// The definition of the secret, without its value.
fn secret_xml(passphrase: &TpmPassphrase) -> String {
    let usage = Element::new("usage").attr("type", "vtpm").child(Element::leaf("name", passphrase.instance));
    Element::new("secret")
        .attr("ephemeral", "yes")
        .attr("private", "yes")
        .child(Element::leaf("uuid", passphrase.secret))
        .child(usage)
        .render()
}

fn drop_secret(connect: &Connect, instance: InstanceId) -> DriverResult<()> {
    let Some(secret) = secret_of(connect, instance)? else { return Ok(()) };
    match secret.undefine() {
        Err(error) if !is(&error, ErrorNumber::NoSecret) => Err(translate(CALL, &error)),
        _ => Ok(()),
    }
}

fn path(instance: InstanceId, version: TpmVersion) -> String {
    let folder = match version {
        TpmVersion::V1_2 => "tpm1.2",
        TpmVersion::V2_0 => "tpm2",
    };
    format!("{STATES}/{instance}/{folder}")
}

/// A storage pool over the directory of one TPM. It has no definition and ends when it is dropped.
struct StatePool(StoragePool);

impl StatePool {
    /// `build`: creates a missing directory.
    fn open(connect: &Connect, instance: InstanceId, version: TpmVersion, build: bool) -> Result<Self, Error> {
        let name = format!("chronova-tpm-{instance}");
        if let Ok(left) = connect.lookup_storage_pool_by_name(&name) {
            // A crash of the control plane left this pool.
            let _ = left.destroy();
        }
        let permissions = Element::new("permissions").child(Element::leaf("mode", "0700"));
        let target = Element::new("target").child(Element::leaf("path", path(instance, version)));
        let xml = Element::new("pool")
            .attr("type", "dir")
            .child(Element::leaf("name", name))
            .child(target.child(permissions))
            .render();
        let flags = match build {
            true => virt_sys::VIR_STORAGE_POOL_CREATE_WITH_BUILD,
            false => virt_sys::VIR_STORAGE_POOL_CREATE_NORMAL,
        };
        connect.create_storage_pool_xml(&xml, flags).map(Self)
    }
}

impl Drop for StatePool {
    fn drop(&mut self) {
        if let Err(error) = self.0.destroy() {
            tracing::warn!(%error, "the storage pool of a TPM's state could not be closed");
        }
    }
}

/// Whether a file of the directory is part of the state: lock files are not.
fn is_state(name: &str) -> bool {
    name.starts_with("tpm")
}

fn read(connect: &Connect, instance: InstanceId, version: TpmVersion) -> DriverResult<Option<TpmState>> {
    require_off(connect, instance)?;
    let opened = match StatePool::open(connect, instance, version, false) {
        Ok(opened) => opened,
        // The guest never ran here.
        Err(error) if error.message().contains("No such file or directory") => return Ok(None),
        Err(error) => return Err(translate(CALL, &error)),
    };
    let mut files = Vec::new();
    for name in pool::names(&opened.0)?.into_iter().filter(|name| is_state(name)) {
        let Some(volume) = pool::lookup(&opened.0, &name)? else { continue };
        let content = pool::tail(connect, &volume, MOST + 1)?;
        if content.len() > MOST {
            let message = format!("the file {name} of the TPM's state has more than {MOST} bytes");
            return Err(DriverError::Failed { call: CALL, message });
        }
        files.push((name, Bytes::from(content)));
    }
    Ok((!files.is_empty()).then_some(TpmState { version, files }))
}

fn write(connect: &Connect, instance: InstanceId, state: &TpmState) -> DriverResult<()> {
    require_off(connect, instance)?;
    let opened = StatePool::open(connect, instance, state.version, true).during(CALL)?;
    for (name, content) in &state.files {
        pool::put(connect, &opened.0, name, content)?;
    }
    Ok(())
}

/// Removes the passphrase of a guest without a domain, and a TPM state that arrived from another host. For a guest with
/// a domain, libvirt removes the state when it undefines the guest.
pub(super) fn remove(connect: &Connect, instance: InstanceId) -> DriverResult<()> {
    drop_secret(connect, instance)?;
    for version in [TpmVersion::V1_2, TpmVersion::V2_0] {
        let Ok(opened) = StatePool::open(connect, instance, version, false) else { continue };
        for name in pool::names(&opened.0)? {
            if let Some(volume) = pool::lookup(&opened.0, &name)? {
                pool::delete(&volume)?;
            }
        }
    }
    Ok(())
}

fn require_off(connect: &Connect, instance: InstanceId) -> DriverResult<()> {
    let runs = match domain::lookup(connect, instance)? {
        Some(domain) => domain.is_active().during(CALL)?,
        None => false,
    };
    match runs {
        true => Err(DriverError::Failed { call: CALL, message: "the guest runs".to_owned() }),
        false => Ok(()),
    }
}

#[async_trait]
impl EmulatedTpm for LibvirtDriver {
    async fn hold_passphrase(&self, passphrase: &TpmPassphrase) -> DriverResult<()> {
        let passphrase = passphrase.clone();
        self.call(CALL, move |connect, _| hold(connect, &passphrase)).await
    }

    async fn drop_passphrase(&self, instance: InstanceId) -> DriverResult<()> {
        self.call(CALL, move |connect, _| drop_secret(connect, instance)).await
    }

    async fn tpm_state(&self, instance: InstanceId, version: TpmVersion) -> DriverResult<Option<TpmState>> {
        self.call(CALL, move |connect, _| read(connect, instance, version)).await
    }

    async fn receive_tpm_state(&self, instance: InstanceId, state: &TpmState) -> DriverResult<()> {
        let state = state.clone();
        self.change(CALL, instance, self.options.call_deadline, move |connect, _| write(connect, instance, &state))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_reads_the_passphrase_of_a_tpm_and_no_disk_has_it() {
        let (instance, secret) = (InstanceId(uuid::Uuid::from_u128(7)), uuid::Uuid::from_u128(9));
        let xml = secret_xml(&TpmPassphrase::new(instance, secret, "s3cret".to_owned()));
        assert!(
            xml.contains("ephemeral='yes' private='yes'") && xml.contains(&format!("<uuid>{secret}</uuid>")),
            "{xml}"
        );
        assert!(xml.contains("<usage type='vtpm'>") && xml.contains(&format!("<name>{instance}</name>")), "{xml}");
        assert!(!xml.contains("s3cret"), "the definition has the passphrase: {xml}");
    }
}
