//! Volumes that QEMU decrypts.

use super::*;
use crate::guest::passphrase_secret;

#[test]
fn qemu_decrypts_a_volume_with_the_passphrase_in_a_secret() {
    let rbd = NetworkDisk::Rbd {
        name: "volumes/volume-7".to_owned(),
        monitors: vec!["10.0.0.1:6789".to_owned()],
        user: None,
        secret: None,
    };
    let render = |network: NetworkDisk| {
        let disk = VolumeDisk { network: Some(network), ..volume(7, "vdb", "virtio") };
        (render_disk(&disk, &host(), false), passphrase_secret(disk.key()).unwrap())
    };
    let (plain, _) = render(rbd.clone());
    let (xml, uuid) = render(NetworkDisk::Encrypted { disk: Box::new(rbd), passphrase: DiskPassword::new("00ff") });
    let document = roxmltree::Document::parse(&xml).unwrap();
    let encryption = document.descendants().find(|node| node.has_tag_name("encryption")).unwrap();
    let secret = encryption.children().find(|node| node.has_tag_name("secret")).unwrap();
    assert_eq!(encryption.attribute("format"), Some("luks"));
    assert_eq!((secret.attribute("type"), secret.attribute("uuid")), (Some("passphrase"), Some(uuid.as_str())));
    assert!(!xml.contains("00ff") && !plain.contains("<encryption"), "{xml}");
    let source = |xml: &str| xml[xml.find("<source").unwrap()..xml.find("</source>").unwrap()].to_owned();
    assert_eq!(source(&xml), source(&plain), "the way to the volume is the same");
}
