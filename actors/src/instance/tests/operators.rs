//! Requests of operators' tools to a server: image properties.

use super::*;

fn set(name: &str, value: &str) -> Command {
    Request::SetImageProperties { properties: vec![(name.into(), value.into())] }.into()
}

#[test]
fn image_properties_change_while_the_guest_is_off_and_reach_it_at_its_next_start() {
    let off = stopped();
    assert_eq!(off.when(set("hw_disk_bus", "virtio")), Ok(vec![]), "setting the present value records nothing");
    assert_eq!(off.when(set("hw_disk_bus", "scsi")), Ok(vec!["instance.image_properties_changed"]));
    let state = Reject::NotInState { action: "image_property set", attribute: "vm_state", value: "active" };
    assert_eq!(active().when(set("hw_disk_bus", "scsi")), Err(state));
    let unknown = Reject::UnknownImageProperty { name: "hw_disk_buss".into() };
    assert_eq!(off.when(set("hw_disk_buss", "scsi")), Err(unknown));
    let bad = Reject::BadImageProperty { name: "hw_disk_bus".into(), value: "nvme".into() };
    assert_eq!(off.when(set("hw_disk_bus", "nvme")), Err(bad));
    let changed = off.and(set("hw_disk_bus", "scsi")).and(set("hw_cdrom_bus", "sata"));
    let server = changed.0.alive().unwrap();
    let properties = &server.hardware_image().unwrap().properties;
    let has = |name: &str| {
        properties.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    assert_eq!((has("hw_disk_bus"), has("hw_cdrom_bus")), (vec!["scsi"], vec!["sata"]));
    assert!(server.outdated_definition);
    let started = changed.and(power(PowerAction::Start)).and(done(POWER, PowerAction::Start));
    assert!(!started.0.alive().unwrap().outdated_definition);
}
