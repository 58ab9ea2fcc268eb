//! The files of virtual persistent memory, in a storage pool of their own. See [`crate::pmem`].
//!
//! The names of the files begin with the guest's id, like those of its disks. So a file that exists is the guest's own,
//! and no record of the assignment is needed.

use chronova_events::ids::InstanceId;
use virt::connect::Connect;
use virt::storage_pool::StoragePool;

use super::error::{Context, found};
use super::pool;
use crate::driver::DriverResult;
use crate::guest::GuestSpec;
use crate::options::LibvirtOptions;
use crate::pmem::requested;
use crate::volumes;
use crate::xml::Element;

const POOL: &str = "chronova-pmem";
const CALL: &str = "persistent memory";
const MIB: u64 = 1 << 20;

/// The directory must exist, because a directory that Chronova made would not be on persistent memory.
fn open(connect: &Connect, options: &LibvirtOptions) -> DriverResult<StoragePool> {
    let target = Element::new("target").child(Element::leaf("path", &options.guests.pmem.path));
    let xml = Element::new("pool").attr("type", "dir").child(Element::leaf("name", POOL)).child(target);
    pool::open_as(connect, POOL, &xml)
}

/// The resource classes that the host offers. A host without the directory offers none.
pub(super) fn offered(connect: &Connect, options: &LibvirtOptions) -> DriverResult<Vec<(String, u32)>> {
    let pmem = &options.guests.pmem;
    if pmem.labels.is_empty() {
        return Ok(Vec::new());
    }
    match open(connect, options) {
        Ok(_) => Ok(pmem.offered()),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => {
            tracing::warn!(%error, path = pmem.path, "the host offers no persistent memory");
            Ok(Vec::new())
        }
    }
}

/// Creates the files of a guest, and deletes those that its flavor no longer has. A file of another size is replaced,
/// because its data does not belong to the new flavor.
pub(super) fn provide(connect: &Connect, options: &LibvirtOptions, guest: &GuestSpec) -> DriverResult<()> {
    let labels = requested(&guest.hardware);
    if labels.is_empty() {
        return remove(connect, options, guest.instance);
    }
    let pool = open(connect, options)?;
    let wanted: Vec<String> = (0..labels.len()).map(|number| volumes::pmem(guest.instance, number)).collect();
    for name in pool::names(&pool)?.iter().filter(|name| volumes::owner(name) == Some(guest.instance)) {
        if !wanted.contains(name)
            && let Some(volume) = pool::lookup(&pool, name)?
        {
            pool::delete(&volume)?;
        }
    }
    for (name, label) in wanted.iter().zip(labels) {
        // A definition with an unknown label cannot be rendered, so nothing is created for this label.
        let Some(label) = options.guests.pmem.labels.get(label) else { continue };
        let size = label.mib * MIB;
        if let Some(volume) = pool::lookup(&pool, name)? {
            if volume.info().during(CALL)?.capacity == size {
                continue;
            }
            pool::delete(&volume)?;
        }
        // The room is taken at once. A guest that writes to a hole of a full file system would crash.
        let bytes = |name: &'static str| Element::leaf(name, size).attr("unit", "bytes");
        let permissions = Element::new("permissions").child(Element::leaf("mode", "0600"));
        let target = Element::new("target").child(Element::new("format").attr("type", "raw")).child(permissions);
        let volume = Element::new("volume")
            .child(Element::leaf("name", name))
            .child(bytes("capacity"))
            .child(bytes("allocation"))
            .child(target);
        pool::create(&pool, &volume.render())?;
    }
    Ok(())
}

/// Deletes the files of a guest, and with them its data.
pub(super) fn remove(connect: &Connect, options: &LibvirtOptions, instance: InstanceId) -> DriverResult<()> {
    running(connect, options)?.map_or(Ok(()), |pool| pool::delete_of(&pool, instance))
}

/// The names of all files. A guest that was destroyed while the pool was stopped has left its files.
pub(super) fn names(connect: &Connect, options: &LibvirtOptions) -> DriverResult<Vec<String>> {
    let Some(pool) = running(connect, options)? else { return Ok(Vec::new()) };
    pool::refresh(&pool);
    pool::names(&pool)
}

/// The pool, if it is started.
fn running(connect: &Connect, options: &LibvirtOptions) -> DriverResult<Option<StoragePool>> {
    if options.guests.pmem.labels.is_empty() {
        return Ok(None);
    }
    let Some(pool) = found(CALL, connect.lookup_storage_pool_by_name(POOL))? else { return Ok(None) };
    Ok(pool.is_active().during(CALL)?.then_some(pool))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::libvirt::definition;
    use crate::pmem::PmemLabel;

    #[test]
    fn files_that_a_guest_has_left_are_found() {
        let connect = Connect::open(Some("test:///default")).unwrap();
        let mut options = LibvirtOptions::default();
        options.guests.pmem.path = "/mnt/pmem0".to_owned();
        options.guests.pmem.labels.insert("6GB".to_owned(), PmemLabel { count: 1, mib: 2 });
        let instance = InstanceId(uuid::Uuid::from_u128(7));
        let pool = open(&connect, &options).unwrap();
        pool::create_raw(&pool, &volumes::pmem(instance, 0), 2 * MIB, "0600").unwrap();
        assert!(definition::orphans(&connect, &options).unwrap().contains(&instance));
        remove(&connect, &options, instance).unwrap();
        assert!(!definition::orphans(&connect, &options).unwrap().contains(&instance));
    }
}
