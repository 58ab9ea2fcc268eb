//! Requests of operators' tools to a server: image properties, and another attachment of a volume.

use chronova_events::ids::AttachmentId;
use chronova_events::instance::BlockDevice;

use super::*;
use crate::instance::{InstanceVolumeRecord, InstanceVolumeRequest, WorkRequest};

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
    // With hardware that the board lacks, the next start would fail.
    for (machine, name, value, works) in [
        ("q35", "hw_disk_bus", "ide", false),
        ("pc-q35-7.2", "hw_cdrom_bus", "IDE", false),
        ("virt", "hw_rescue_bus", "ide", false),
        ("pc", "hw_disk_bus", "ide", true),
        ("pc-i440fx-7.2", "hw_cdrom_bus", "ide", true),
        ("q35", "hw_disk_bus", "sata", true),
        ("pc", "hw_viommu_model", "intel", false),
        ("q35", "hw_viommu_model", "intel", true),
        ("pc", "os_secure_boot", "required", false),
        ("pc", "os_secure_boot", "optional", true),
        ("wonder", "hw_disk_bus", "ide", true),
    ] {
        let given = off.clone().and(set("hw_machine_type", machine));
        let (name, value, machine) = (name.to_owned(), value.to_owned(), machine.to_owned());
        let answer = given.when(set(&name, &value));
        let unfit = Reject::UnfitImageProperty { name, value, machine };
        assert_eq!(answer.as_ref().err(), (!works).then_some(&unfit), "{unfit}");
    }
    // If the request also sets the machine type, the disk bus must fit the new type.
    let both = [("hw_disk_bus", "ide"), ("hw_machine_type", "q35")];
    let both = both.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let refused = off.when(Request::SetImageProperties { properties: both.to_vec() });
    assert!(matches!(refused, Err(Reject::UnfitImageProperty { .. })), "{refused:?}");
    // A new machine type must fit the properties that stay.
    let ide = off.clone().and(set("hw_disk_bus", "ide"));
    let (name, value, machine) = ("hw_disk_bus".to_owned(), "ide".to_owned(), "q35".to_owned());
    assert_eq!(ide.when(set("hw_machine_type", "q35")), Err(Reject::UnfitImageProperty { name, value, machine }));
    let accepted = || Ok(vec!["instance.image_properties_changed"]);
    assert_eq!(ide.when(set("hw_machine_type", "pc")), accepted());
    let both = [("hw_disk_bus", "sata"), ("hw_machine_type", "q35")];
    let both = both.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(ide.when(Request::SetImageProperties { properties: both.to_vec() }), accepted());
    // The recorded machine type takes precedence over the image's, so the image may name any type.
    let recorded = ide.and(Record::MachineType { machine_type: "pc".into() });
    assert_eq!(recorded.when(set("hw_machine_type", "q35")), accepted());
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

#[test]
fn image_properties_fit_the_machine_type_of_the_server() {
    let changed = || Ok(vec!["instance.image_properties_changed"]);
    for (machine, has_ide) in
        [("pc", true), ("pc-i440fx-7.2", true), ("q35", false), ("pc-q35-7.2", false), ("virt", false)]
    {
        let off = stopped().and(Record::MachineType { machine_type: machine.into() });
        for name in ["hw_disk_bus", "hw_cdrom_bus", "hw_rescue_bus"] {
            let (name, value, machine) = (name.to_owned(), "ide".to_owned(), machine.to_owned());
            let asked = off.when(set(&name, &value));
            let unfit = Reject::UnfitImageProperty { name, value, machine };
            assert_eq!(asked, if has_ide { changed() } else { Err(unfit.clone()) }, "{unfit}");
        }
        assert_eq!(off.when(set("hw_cdrom_bus", "sata")), changed(), "{machine}");
    }
}

#[test]
fn a_guest_gets_a_renewed_attachment_at_its_next_start_and_does_not_start_before() {
    let mut off = stopped();
    for event in samples() {
        if matches!(event, InstanceEvent::VolumeAttachRequested(_) | InstanceEvent::VolumeAttached(_)) {
            off.0.evolve(&event, Timestamp(7));
        }
    }
    let device = off.0.alive().unwrap().disks[0].device.clone();
    let (volume, new_attachment) = (device.volume.unwrap(), AttachmentId(Uuid::from_u128(77)));
    let refresh = InstanceVolumeRequest::Refresh { process: STRANGER, volume, new_attachment };
    let renewing = off.and(Request::from(refresh));
    assert!(!renewing.0.alive().unwrap().outdated_definition);
    let image = request().image.as_deref().cloned().unwrap();
    let rescue = WorkRequest::Rescue { process: OVERTAKING, image, asker: USER };
    for (action, command) in [
        ("start", power(PowerAction::Start)),
        ("reboot", power(PowerAction::RebootHard)),
        ("rescue", Request::from(rescue).into()),
    ] {
        assert_eq!(renewing.when(command), cannot(action, "task_state", "refreshing_volume_attachment"));
    }
    let device = Box::new(BlockDevice { attachment: Some(new_attachment), ..device });
    let renewed = renewing.and(Record::from(InstanceVolumeRecord::Swapped { process: STRANGER, device }));
    assert!(renewed.0.alive().unwrap().outdated_definition);
    let started = renewed.and(power(PowerAction::Start)).and(done(POWER, PowerAction::Start));
    assert!(!started.0.alive().unwrap().outdated_definition);
}
