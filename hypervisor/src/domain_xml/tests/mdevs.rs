//! Mediated devices.

use super::*;
use crate::mdev::GuestMdev;

#[test]
fn a_guest_with_mediated_devices_of_its_host() {
    let device = |uuid: &str, parent: &str, mdev_type: &str| GuestMdev {
        uuid: uuid.parse().unwrap(),
        parent: parent.parse().unwrap(),
        mdev_type: mdev_type.to_owned(),
    };
    let mdevs = vec![
        device("11111111-1111-5111-8111-111111111111", "0000:85:00.0", "nvidia-35"),
        device("22222222-2222-5222-8222-222222222222", "0000:86:00.0", "nvidia-36"),
    ];
    let xml = golden("mdev", &GuestSpec { mdevs, ..guest() }, &host());
    assert_eq!(xml.matches("<hostdev mode='subsystem' type='mdev' model='vfio-pci'>").count(), 2);
}
