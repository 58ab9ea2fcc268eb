//! Tests of the table of back ends, and of the XML of their pools and volumes.

use super::*;

fn options(kind: ImagesType) -> LibvirtOptions {
    let mut options = LibvirtOptions::default();
    options.images.kind = kind;
    options.images.volume_group = Some("nova-vol".to_owned());
    options.images.rbd.pool = "vms".to_owned();
    options
}

#[test]
fn disks_of_an_earlier_type_are_found_in_a_configured_group() {
    let mut options = options(ImagesType::Qcow2);
    assert!(backend_of(ImagesType::Lvm).is_set_up(&options));
    assert!(!backend_of(ImagesType::Rbd).is_set_up(&options), "rbd needs an option that names a Ceph cluster");
    options.images.volume_group = None;
    assert!(!backend_of(ImagesType::Lvm).is_set_up(&options));
}

#[test]
fn every_type_has_one_back_end_that_names_identify() {
    let id = InstanceId::random();
    let disk = volumes::root(id);
    for word in ImagesType::WORDS {
        let kind = ImagesType::of_word(word, true).unwrap();
        assert_eq!(BACKENDS.iter().filter(|backend| backend.kind() == kind).count(), 1, "{kind:?}");
        let raw = backend_of(kind).for_raw().unwrap_or(backend_of(kind));
        assert!(raw.is_raw(), "{kind:?}: the back end for raw content must store raw volumes");
        let volume = backend_of(kind).volume(&disk);
        assert_eq!(volumes::owner(&volume), Some(id), "{kind:?}: the volume must name its guest");
        let in_directory = BACKENDS.iter().filter(|backend| !backend.is_apart());
        let claimed: Vec<_> =
            in_directory.filter(|backend| backend.disk(&volume) == Some(&disk)).map(|backend| backend.kind()).collect();
        if !backend_of(kind).is_apart() {
            assert_eq!(claimed, [kind], "{volume} must belong to one back end");
        }
    }
}

#[test]
fn a_source_comes_from_its_back_end() {
    let disk = volumes::root(InstanceId::random());
    let source = |kind| {
        let backend = backend_of(kind);
        backend.source(&options(kind), &backend.volume(&disk))
    };
    let path = format!("/var/lib/libvirt/chronova/{disk}");
    assert_eq!(source(ImagesType::Qcow2), DiskSource::File { path: path.clone(), format: "qcow2" });
    assert_eq!(source(ImagesType::Flat), DiskSource::File { path: path + ".raw", format: "raw" });
    assert_eq!(source(ImagesType::Lvm), DiskSource::Block { path: format!("/dev/nova-vol/{disk}") });
    assert!(matches!(source(ImagesType::Rbd), DiskSource::Rbd(image) if image.name == format!("vms/{disk}")));
}

#[test]
fn pools_and_volumes() {
    let mut options = options(ImagesType::Lvm);
    let golden = |name: &str, xml: &str| expectorate::assert_contents(format!("golden/{name}.xml"), xml);
    golden("pool-lvm", &logical::pool_xml(&options, "nova-vol").render());
    golden("volume-lvm", &logical::blank_xml(&options, "UUID_disk", 1 << 30));
    options.images.sparse_logical_volumes = true;
    golden("volume-lvm-sparse", &logical::blank_xml(&options, "UUID_disk", 1 << 30));
    options.images.rbd.monitors = ["10.0.0.1:6789", "ceph-two"].map(str::to_owned).to_vec();
    golden("pool-rbd-open", &rbd::pool_xml(&options).render());
    options.images.rbd.user = Some("nova".to_owned());
    options.images.rbd.secret = Some("457eb676-33da-42ec-9a8c-9293d545c337".to_owned());
    golden("pool-rbd", &rbd::pool_xml(&options).render());
    golden("volume-flat", &volume_xml("UUID_disk.raw", 1 << 30, 0, "raw"));
}
