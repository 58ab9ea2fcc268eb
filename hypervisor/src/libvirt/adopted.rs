//! Guests that Nova defined, and that `chronova adopt` took over as they are.

use chronova_events::ids::InstanceId;
use roxmltree::{Document, Node};
use virt::domain::Domain;

use super::domain;
use super::error::Context;
use super::storage::HostStorage;
use crate::driver::{DriverError, DriverResult};
use crate::volumes;

const CALL: &str = "redefinition of an adopted guest";

/// A disk in Nova's definition that is not a volume.
#[derive(Debug, PartialEq, Eq)]
struct AdoptedDisk {
    /// Where Nova created it: a file, a device or an image in Ceph.
    place: String,
    /// The name of the same disk among our disks.
    name: String,
}

impl AdoptedDisk {
    fn of(disk: Node<'_, '_>, instance: InstanceId) -> Option<Self> {
        let child = |name: &str| disk.children().find(|node| node.has_tag_name(name));
        // Nova gives each volume, and no other disk, a serial number.
        if disk.attribute("device").unwrap_or("disk") != "disk" || child("serial").is_some() {
            return None;
        }
        let place = ["file", "dev", "name"].iter().find_map(|key| child("source")?.attribute(*key))?.to_owned();
        let last = place.rsplit('/').next().unwrap_or_default();
        let name = match last.starts_with(&format!("{instance}_")) {
            true => last.to_owned(),
            false => volumes::suffixed(instance, &format!("_{last}")),
        };
        Some(Self { place, name })
    }

    fn has_our_name(&self) -> bool {
        self.place.ends_with(&self.name)
    }
}

fn own_disks(xml: &str, instance: InstanceId) -> DriverResult<Vec<AdoptedDisk>> {
    let failed = |error| DriverError::Failed { call: CALL, message: format!("the domain cannot be read: {error}") };
    let document = Document::parse(xml).map_err(failed)?;
    let disks = document.descendants().filter(|node| node.has_tag_name("disk"));
    Ok(disks.filter_map(|disk| AdoptedDisk::of(disk, instance)).collect())
}

/// Checks a guest that Nova defined, before it gets a new definition. Each disk that the guest keeps must be among our
/// disks. Otherwise, the new definition would name a new disk, created from the image, and the guest would lose its
/// data.
pub(super) fn keep_disks(
    site: HostStorage<'_>,
    guest: &Domain,
    instance: InstanceId,
    renewed: &[String],
) -> DriverResult<()> {
    if domain::has_our_definition(guest).during(CALL)? {
        return Ok(());
    }
    let xml = guest.xml_desc(virt_sys::VIR_DOMAIN_XML_INACTIVE).during(CALL)?;
    for disk in own_disks(&xml, instance)?.into_iter().filter(|disk| !renewed.contains(&disk.name)) {
        if !disk.has_our_name() || site.find(&disk.name)?.is_none() {
            let place = disk.place;
            let message = format!(
                "Nova created the guest's disk {place}, and it is not among the disks of Chronova's pool, so the guest \
                 keeps the definition that Nova gave it"
            );
            return Err(DriverError::Failed { call: CALL, message });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ID: &str = "e7ee3d45-92a9-43a3-9ab0-40bd8d075433";

    fn names(disks: &str) -> Vec<(String, String, bool)> {
        let xml = format!("<domain><devices>{disks}</devices></domain>");
        let found = own_disks(&xml, InstanceId(ID.parse().unwrap())).unwrap();
        found
            .into_iter()
            .map(|disk| (disk.has_our_name(), disk))
            .map(|(ours, disk)| (disk.place, disk.name, ours))
            .collect()
    }

    #[test]
    fn disks_of_novas_forms_get_our_names_and_volumes_get_none() {
        let path = format!("/var/lib/nova/instances/{ID}/disk");
        let files = format!(
            "<disk type='file' device='disk'><source file='{path}'/></disk>\
             <disk type='file'><source file='{path}.eph0'/></disk>\
             <disk type='file' device='cdrom'><source file='{path}.config'/></disk>\
             <disk type='network' device='disk'><source protocol='rbd' name='volumes/volume-x'/><serial>x</serial></disk>"
        );
        let expected =
            [(path.clone(), format!("{ID}_disk"), false), (format!("{path}.eph0"), format!("{ID}_disk.eph0"), false)];
        assert_eq!(names(&files), expected);
        let ceph = format!("<disk type='network' device='disk'><source protocol='rbd' name='vms/{ID}_disk'/></disk>");
        assert_eq!(names(&ceph), [(format!("vms/{ID}_disk"), format!("{ID}_disk"), true)]);
        assert!(own_disks("<domain", InstanceId(ID.parse().unwrap())).is_err());
    }
}
