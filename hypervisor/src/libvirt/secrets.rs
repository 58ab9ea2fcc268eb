//! The libvirt secrets of disks that QEMU reaches over the network.
//!
//! All disks of a host use the same secret for a Ceph user. Either the operator has defined this secret, or Chronova
//! defines it with the key of `[chronova] rbd_keyring`. libvirtd stores that secret on the host, so that a guest starts
//! without the control plane. The CHAP secret of an iSCSI volume, and the passphrase of an encrypted volume, are only
//! in libvirtd's memory. Chronova sets their values before each use, and removes them when no guest of the host has the
//! volume any more. A secret for a guest that never arrived (a failed live migration) ends with libvirtd. No client of
//! libvirtd can read a secret that Chronova has defined.

use virt::connect::Connect;
use virt::error::ErrorNumber;
use virt::secret::Secret;

use super::error::{Context, found, is};
use crate::driver::{DriverError, DriverResult};
use crate::guest::{NetworkDisk, VolumeDisk, passphrase_secret};
use crate::options::LibvirtOptions;
use crate::xml::Element;

const CALL: &str = "secret";

fn failed(message: String) -> DriverError {
    DriverError::Failed { call: CALL, message }
}

/// Gives the host the secrets that the disk needs.
pub(super) fn provide(connect: &Connect, options: &LibvirtOptions, disk: &VolumeDisk) -> DriverResult<()> {
    if let Some(value) = disk.passphrase() {
        let key = disk.key();
        let uuid = passphrase_secret(key).ok_or_else(|| failed(format!("{key} is not the id of a volume")))?;
        keep(connect, &uuid, &passphrase(&uuid, key), value.expose().as_bytes())?;
    }
    match disk.network.as_ref().map(|network| network.opened().0) {
        Some(NetworkDisk::Rbd { user: Some(user), secret: Some(secret), .. }) => {
            provide_ceph(connect, options, user, secret)
        }
        Some(NetworkDisk::Rbd { user: Some(user), secret: None, .. }) => Err(failed(format!(
            "the volume is in a Ceph pool for the user {user}, and no libvirt secret is named: set [libvirt] \
             rbd_secret_uuid, or rbd_secret_uuid of Cinder's back end"
        ))),
        Some(NetworkDisk::Iscsi { chap: Some((_, password)), target, .. }) => {
            keep(connect, &disk.serial, &chap(&disk.serial, target), password.expose().as_bytes())
        }
        _ => Ok(()),
    }
}

/// Gives the host the secret of the pool of guests' own disks.
pub(super) fn provide_for_pool(connect: &Connect, options: &LibvirtOptions) -> DriverResult<()> {
    match (&options.images.rbd.user, &options.images.rbd.secret) {
        (Some(user), Some(secret)) => provide_ceph(connect, options, user, secret),
        _ => Ok(()),
    }
}

/// Defines the secret of a Ceph user if Chronova has the key. Otherwise the host must have the secret.
fn provide_ceph(connect: &Connect, options: &LibvirtOptions, user: &str, secret: &str) -> DriverResult<()> {
    match options.images.rbd.key.as_ref().filter(|key| key.user == user) {
        Some(key) => keep(connect, secret, &ceph(secret, user), &key.value),
        None => require(connect, secret, user),
    }
}

/// The keys of the disk's secrets that are only in libvirtd's memory. Such a secret is removed when no guest of the
/// host has the volume any more.
pub(super) fn passing(disk: &VolumeDisk) -> Vec<&str> {
    let Some((plain, passphrase)) = disk.network.as_ref().map(NetworkDisk::opened) else { return Vec::new() };
    let chap = matches!(plain, NetworkDisk::Iscsi { chap: Some(_), .. }).then_some(disk.serial.as_str());
    chap.into_iter().chain(passphrase.map(|_| disk.key())).collect()
}

fn lookup(connect: &Connect, uuid: &str) -> DriverResult<Option<Secret>> {
    let uuid = uuid.parse().map_err(|_| failed(format!("{uuid} is not the UUID of a libvirt secret")))?;
    found(CALL, connect.lookup_secret_by_uuid(uuid))
}

/// Refuses a volume whose secret the host does not have. QEMU would only say that it cannot open the disk.
fn require(connect: &Connect, secret: &str, user: &str) -> DriverResult<()> {
    match lookup(connect, secret)? {
        Some(_) => Ok(()),
        None => Err(failed(format!(
            "the host has no libvirt secret {secret} with the key of Ceph's user {user}: define it there, or set \
             [chronova] rbd_keyring to a keyring with client.{user}"
        ))),
    }
}

/// Removes the CHAP secret and the passphrase of a volume that no guest of the host has any more. Does nothing for
/// other volumes. The caller holds the volume's gate, because a guest that is about to get the volume does not name it
/// yet.
pub(super) fn forget(connect: &Connect, serial: &str) -> DriverResult<()> {
    // Only a secret of Chronova's has the id of a volume, or an id made from it. A host may have no secrets at all.
    let of_volume = [Some(serial.to_owned()), passphrase_secret(serial)];
    let known = |uuid: String| lookup(connect, &uuid).ok().flatten();
    let secrets: Vec<Secret> = of_volume.into_iter().flatten().filter_map(known).collect();
    if secrets.is_empty() {
        return Ok(());
    }
    for domain in connect.list_all_domains(0).during(CALL)? {
        match domain.xml_desc(0) {
            Ok(xml) if !xml.contains(serial) => {}
            Err(error) if is(&error, ErrorNumber::NoDomain) => {}
            // Another guest has the volume, or the guest's definition cannot be read.
            _ => return Ok(()),
        }
    }
    secrets.iter().try_for_each(|secret| found(CALL, secret.undefine()).map(drop))
}

/// Sets the value of a secret. Defines the secret if the host does not have it. An operator's own definition stays.
fn keep(connect: &Connect, uuid: &str, wanted: &Element, value: &[u8]) -> DriverResult<()> {
    let secret = match lookup(connect, uuid)? {
        Some(secret) => secret,
        None => connect.define_secret_xml(&wanted.render(), 0).during(CALL)?,
    };
    secret.set_value(value, 0).during(CALL)
}

fn ceph(uuid: &str, user: &str) -> Element {
    let usage =
        Element::new("usage").attr("type", "ceph").child(Element::leaf("name", format!("client.{user} secret {uuid}")));
    secret(uuid, "no", usage)
}

fn chap(uuid: &str, target: &str) -> Element {
    let usage = Element::new("usage").attr("type", "iscsi").child(Element::leaf("target", format!("{target} {uuid}")));
    secret(uuid, "yes", usage)
}

/// A host has at most one secret for a usage. Nova's is the id of the volume alone, and a host that Nova had may still
/// keep that secret.
fn passphrase(uuid: &str, volume: &str) -> Element {
    let usage = Element::new("usage").attr("type", "volume").child(Element::leaf("volume", format!("{volume} {uuid}")));
    secret(uuid, "yes", usage)
}

fn secret(uuid: &str, ephemeral: &str, usage: Element) -> Element {
    Element::new("secret")
        .attr("ephemeral", ephemeral)
        .attr("private", "yes")
        .child(Element::leaf("uuid", uuid))
        .child(usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::DiskPassword;

    #[test]
    fn a_secret_is_never_read_again() {
        let uuid = "457eb676-33da-42ec-9a8c-9293d545c337";
        let kept = ceph(uuid, "cinder").render();
        assert!(kept.contains("ephemeral='no' private='yes'") && kept.contains("<usage type='ceph'>"), "{kept}");
        let passing = chap(uuid, "iqn.2010-10.org.openstack:volume-8").render();
        assert!(passing.contains("ephemeral='yes' private='yes'") && passing.contains("<target>iqn."), "{passing}");
        let opening = passphrase(uuid, "volume").render();
        assert!(
            opening.contains("ephemeral='yes' private='yes'") && opening.contains("<usage type='volume'>"),
            "{opening}"
        );
        assert!(
            opening.contains(&format!("<volume>volume {uuid}</volume>")),
            "not the usage of Nova's secret: {opening}"
        );
    }

    #[test]
    fn an_encrypted_disk_has_a_secret_of_its_own_beside_that_of_its_target() {
        let serial = "457eb676-33da-42ec-9a8c-9293d545c337";
        let target = NetworkDisk::Iscsi {
            portal: "h:3260".to_owned(),
            target: "iqn.2010-10.org.openstack:volume-8".to_owned(),
            lun: 1,
            initiator: "iqn.h".to_owned(),
            chap: Some(("u".to_owned(), DiskPassword::new("p"))),
        };
        let mut disk = VolumeDisk {
            serial: serial.to_owned(),
            pool: "p".to_owned(),
            volume: "1".to_owned(),
            network: Some(target.clone()),
            format: "raw".to_owned(),
            readonly: false,
            shareable: false,
            device: "vdb".to_owned(),
            bus: "virtio".to_owned(),
            kind: "disk".to_owned(),
            boot_order: None,
        };
        assert_eq!(passing(&disk), [serial]);
        disk.network = Some(NetworkDisk::Encrypted { disk: Box::new(target), passphrase: DiskPassword::new("00ff") });
        assert_eq!(passing(&disk), [serial, serial], "the password and the passphrase");
        assert_ne!(passphrase_secret(serial).as_deref(), Some(serial), "libvirt knows a secret by its UUID");
        assert_eq!(passphrase_secret("1"), None);
        assert!(!format!("{disk:?}").contains("00ff"), "a passphrase is shown");
        // After Cinder has moved the volume, the source's name has another id.
        disk.volume = "volume-00000000-0000-4000-8000-000000000007".to_owned();
        assert_eq!(passing(&disk), [serial, "00000000-0000-4000-8000-000000000007"]);
        disk.network = Some(NetworkDisk::Nfs { host: "h".to_owned(), path: "/p".to_owned() });
        assert_eq!(passing(&disk), [""; 0]);
    }
}
