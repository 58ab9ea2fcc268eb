//! The names of Chronova's objects on a host: storage volumes and networks. All names are formed here, because spawn,
//! destroy, the domain XML and the search for leftovers must agree on them.
//!
//! Invariant: the names of a guest's volumes begin with its id and an underscore. So a host can be searched for them
//! without any other record.

use chronova_events::ids::{HostId, ImageId, InstanceId, NetworkId, SnapshotId, VolumeId};

use crate::guest::ImageRef;

const BASE_PREFIX: &str = "base-";
const COMPLETE_SUFFIX: &str = ".complete";
const PARENT_SUFFIX: &str = ".parent";

/// The volume with the cached content of an image.
pub fn base(image: &ImageRef) -> String {
    base_of(&image.checksum)
}

pub(crate) fn base_of(checksum: &str) -> String {
    format!("{BASE_PREFIX}{checksum}")
}

/// An empty volume that is created after the last byte of [`base`]. As long as this volume is missing, the cached
/// content is incomplete.
pub fn base_complete(image: &ImageRef) -> String {
    complete(&base(image))
}

/// The file that names the snapshot in the image service's storage from which disks of this image are cloned.
pub fn parent(image: ImageId) -> String {
    format!("{image}{PARENT_SUFFIX}")
}

/// Whether the volume has the name that [`parent`] gives the file of some image.
pub fn is_parent(volume: &str) -> bool {
    volume.strip_suffix(PARENT_SUFFIX).is_some_and(|image| image.parse::<ImageId>().is_ok())
}

/// The volume that stores since when the cached image is unused.
pub(crate) fn base_idle(checksum: &str) -> String {
    format!("{}.idle", base_of(checksum))
}

/// An empty volume that marks the content with this name as complete.
pub(crate) fn complete(name: &str) -> String {
    format!("{name}{COMPLETE_SUFFIX}")
}

/// The checksum of the image in the volume with this name.
pub(crate) fn based_on(name: &str) -> Option<&str> {
    let checksum = name.strip_prefix(BASE_PREFIX)?;
    let hex = checksum.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
    (hex && matches!(checksum.len(), 32 | 64 | 128)).then_some(checksum)
}

pub fn root(instance: InstanceId) -> String {
    format!("{instance}_disk")
}

/// The guest's empty disk with this number, counted from 0.
pub fn ephemeral(instance: InstanceId, number: usize) -> String {
    format!("{instance}_disk.eph{number}")
}

pub fn swap(instance: InstanceId) -> String {
    format!("{instance}_disk.swap")
}

pub fn config_drive(instance: InstanceId) -> String {
    format!("{instance}_disk.config")
}

/// The file of the guest's virtual persistent memory with this number, counted from 0.
pub fn pmem(instance: InstanceId, number: usize) -> String {
    format!("{instance}_pmem{number}")
}

/// The disk from which a rescued guest is started.
pub fn rescue(instance: InstanceId) -> String {
    format!("{instance}_disk.rescue")
}

/// A copy of the root disk that becomes an image.
pub fn copy(instance: InstanceId, copy: ImageId) -> String {
    format!("{}{copy}", copies(instance))
}

/// The prefix of the names of all copies of a guest's disk.
pub fn copies(instance: InstanceId) -> String {
    format!("{instance}_copy.")
}

/// An empty volume that is created when the [`copy`] is complete.
pub fn copy_complete(instance: InstanceId, copy: ImageId) -> String {
    complete(&self::copy(instance, copy))
}

/// The id of the image that a copy becomes. `volume` names the copy, or the empty volume that marks it complete.
pub(crate) fn copied_to(volume: &str) -> Option<ImageId> {
    let (_, rest) = volume.split_at_checked(36)?;
    let image = rest.strip_prefix("_copy.")?;
    image.strip_suffix(COMPLETE_SUFFIX).unwrap_or(image).parse().ok()
}

pub fn console_log(instance: InstanceId) -> String {
    format!("{instance}_console.log")
}

/// The name of a guest's volume: the guest's id, then `suffix` (for example `_disk`).
pub fn suffixed(instance: InstanceId, suffix: &str) -> String {
    format!("{instance}{suffix}")
}

/// The guest that this volume belongs to, if any.
pub fn owner(volume: &str) -> Option<InstanceId> {
    let (id, rest) = volume.split_at_checked(36)?;
    rest.starts_with('_').then(|| id.parse().ok())?
}

const HOST_PREFIX: &str = "host-";

/// An empty volume that shows other hosts that they share this host's storage.
pub fn host_mark(host: HostId) -> String {
    format!("{HOST_PREFIX}{host}")
}

/// The host that has left the mark with this name.
pub fn marked_by(volume: &str) -> Option<HostId> {
    volume.strip_prefix(HOST_PREFIX)?.parse().ok()
}

const VOLUME_PREFIX: &str = "volume-";
const SNAPSHOT_PREFIX: &str = "snapshot-";

/// A volume of the volume service, with Cinder's name.
pub fn volume(volume: VolumeId) -> String {
    format!("{VOLUME_PREFIX}{volume}")
}

/// A snapshot of a volume.
pub fn snapshot(snapshot: SnapshotId) -> String {
    format!("{SNAPSHOT_PREFIX}{snapshot}")
}

/// The volume or snapshot of the volume service that a libvirt volume stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolVolumeOwner {
    Volume(VolumeId),
    Snapshot(SnapshotId),
}

/// The volume or snapshot with this name in the volume service's pool, if the name is one of ours.
pub fn kept(name: &str) -> Option<PoolVolumeOwner> {
    match (name.strip_prefix(VOLUME_PREFIX), name.strip_prefix(SNAPSHOT_PREFIX)) {
        (Some(id), _) => id.parse().ok().map(PoolVolumeOwner::Volume),
        (_, Some(id)) => id.parse().ok().map(PoolVolumeOwner::Snapshot),
        _ => None,
    }
}

/// libvirt's name for a virtual network on a host.
pub fn network_name(network: NetworkId) -> String {
    format!("chronova-{}", &network.hex()[..8])
}

/// The name of the network's bridge. Interface names have at most 15 bytes.
pub fn bridge_name(network: NetworkId) -> String {
    format!("cv{}", &network.hex()[..8])
}

/// Whether an interface name is the name of a network's bridge.
pub fn is_bridge_name(name: &str) -> bool {
    name.strip_prefix("cv").is_some_and(|hex| hex.len() == 8 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_volumes_name_their_guest() {
        let id = InstanceId::random();
        for name in [
            root(id),
            ephemeral(id, 0),
            swap(id),
            config_drive(id),
            pmem(id, 0),
            console_log(id),
            format!("{}.0", console_log(id)),
        ] {
            assert_eq!(owner(&name), Some(id), "{name}");
        }
        for name in ["base-0123", "", "chronova", &id.to_string(), &format!("{id}disk")] {
            assert_eq!(owner(name), None, "{name}");
        }
    }

    #[test]
    fn names_of_the_volume_service_identify_their_objects() {
        let (id, of) = (VolumeId::random(), SnapshotId::random());
        assert_eq!(kept(&volume(id)), Some(PoolVolumeOwner::Volume(id)));
        assert_eq!(kept(&snapshot(of)), Some(PoolVolumeOwner::Snapshot(of)));
        for name in ["volume-", "volume-1", "base-0123", &format!("{}.copy", volume(id))] {
            assert_eq!(kept(name), None, "{name}");
        }
    }

    #[test]
    fn a_bridge_name_fits_an_interface_name() {
        assert!(bridge_name(NetworkId::random()).len() <= 15);
    }
}
