//! A rendered definition tells what was rendered.

use super::*;
use crate::found::{FoundGuest, PINNED, RESCUE};
use crate::guest::{GuestStatus, PowerState};

fn read(xml: &str, spec: &GuestSpec) -> FoundGuest {
    let status =
        GuestStatus { instance: spec.instance, domain_name: spec.domain_name.clone(), power: PowerState::Running };
    found(xml, &status, false).unwrap()
}

/// The guest in its definition, without the machine type, which the spec does not name.
fn told(spec: &GuestSpec) -> FoundGuest {
    let read = read(&render(spec, &host()).unwrap(), spec);
    assert!(read.machine_type.is_some());
    FoundGuest { machine_type: None, ..read }
}

#[test]
fn a_definition_tells_the_server_its_disks_and_its_interfaces() {
    let mut all = GuestSpec { ephemerals_gib: vec![3], swap_mib: 64, ..guest() };
    all.display_name = "<web> & co".to_owned();
    all.volumes = vec![
        VolumeDisk { readonly: true, ..volume(7, "vdd", "virtio") },
        VolumeDisk { kind: "cdrom".to_owned(), ..volume(8, "hdb", "ide") },
    ];
    let nic = Nic {
        port: PortId(Uuid::from_u128(6 << 96)),
        mac: "FA:16:3E:00:00:02".to_owned(),
        filter: None,
        tap: "tap00000006-00".to_owned(),
        plug: NicPlug::OpenVswitch { bridge: "br-int".to_owned() },
        ..all.nics[0].clone()
    };
    all.nics.push(nic);
    let from_volume = GuestSpec {
        root: None,
        config_drive: None,
        volumes: vec![VolumeDisk { boot_order: Some(1), ..volume(7, "vda", "virtio") }],
        ..guest()
    };
    for spec in [guest(), all, from_volume] {
        assert_eq!(told(&spec), FoundGuest::of(&spec, PowerState::Running, false));
    }
}

#[test]
fn a_definition_names_what_it_does_not_tell_completely() {
    let image = guest().root.unwrap().image;
    let rescued = GuestSpec { rescue: Some(RescueDisk { image, stable: None }), ..guest() };
    assert_eq!(told(&rescued).beyond.into_iter().collect::<Vec<_>>(), [RESCUE]);
    let pinned = render(&guest(), &host()).unwrap().replace("<features>", "<numatune/><features>");
    assert_eq!(read(&pinned, &guest()).beyond.into_iter().collect::<Vec<_>>(), [PINNED]);
}

#[test]
fn a_guest_of_another_program_has_no_metadata() {
    let xml = render(&guest(), &host()).unwrap().replace(NAMESPACE, "urn:other");
    assert_eq!(read(&xml, &guest()).metadata, None);
    assert!(
        found(
            "<domain",
            &GuestStatus { instance: guest().instance, domain_name: String::new(), power: PowerState::NoState },
            false
        )
        .is_err()
    );
}
