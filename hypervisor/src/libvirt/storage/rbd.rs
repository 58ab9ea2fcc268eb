//! Images in a Ceph pool: `images_type = rbd`.
//!
//! libvirt creates, grows and removes images of a Ceph pool. libvirt cannot write into such an image, because its `rbd`
//! pools support neither uploads nor copies from other pools. So no disk can get the content of a Glance image. This
//! back end serves servers with a root volume, and empty disks.

use virt::storage_pool::StoragePool;

use super::{HostStorage, ImageBackend, VolumeToCreate, open_apart, volume_xml};
use crate::domain_xml::source::host;
use crate::domain_xml::{DiskSource, RbdImage};
use crate::driver::{DriverError, DriverResult};
use crate::guest::ImageRef;
use crate::libvirt::pool;
use crate::options::{ImagesType, LibvirtOptions};
use crate::xml::Element;

pub(super) struct Rbd;

fn pool_name(options: &LibvirtOptions) -> String {
    format!("{}-rbd-{}", options.pool_name, options.images.rbd.pool)
}

pub(super) fn pool_xml(options: &LibvirtOptions) -> Element {
    let rbd = &options.images.rbd;
    let auth = rbd.user.as_ref().map(|user| {
        let secret = rbd.secret.as_ref().map(|uuid| Element::new("secret").attr("uuid", uuid));
        Element::new("auth").attr("type", "ceph").attr("username", user).children(secret)
    });
    let source = Element::new("source")
        .children(rbd.monitors.iter().map(|monitor| host(monitor)))
        .child(Element::leaf("name", &rbd.pool))
        .children(auth);
    Element::new("pool").attr("type", "rbd").child(Element::leaf("name", pool_name(options))).child(source)
}

impl ImageBackend for Rbd {
    fn kind(&self) -> ImagesType {
        ImagesType::Rbd
    }

    fn shares_disks_alone(&self) -> bool {
        true
    }

    fn directory(&self, _: &LibvirtOptions) -> Option<String> {
        None
    }

    fn is_apart(&self) -> bool {
        true
    }

    fn pool(&self, site: HostStorage<'_>) -> DriverResult<StoragePool> {
        let setting = format!("[libvirt] images_rbd_pool names the Ceph pool {}", site.options.images.rbd.pool);
        open_apart(site.connect, &pool_name(site.options), &pool_xml(site.options), &setting)
    }

    fn source(&self, options: &LibvirtOptions, volume: &str) -> DiskSource {
        let rbd = &options.images.rbd;
        DiskSource::Rbd(RbdImage {
            name: format!("{}/{volume}", rbd.pool),
            monitors: rbd.monitors.clone(),
            conf: rbd.conf.clone(),
            user: rbd.user.clone(),
            secret: rbd.secret.clone(),
        })
    }

    fn make(&self, _: HostStorage<'_>, wanted: &VolumeToCreate<'_>) -> DriverResult<()> {
        pool::create(wanted.pool, &volume_xml(wanted.volume, wanted.capacity, 0, "raw")).map(drop)
    }

    fn fill(&self, _: HostStorage<'_>, _: &VolumeToCreate<'_>, image: &ImageRef) -> DriverResult<()> {
        let what = format!(
            "a disk in a Ceph pool cannot be made from image {}, because libvirt cannot write into the pool",
            image.id
        );
        Err(DriverError::Unsupported(what + "; give the server a root volume, or set another [libvirt] images_type"))
    }
}
