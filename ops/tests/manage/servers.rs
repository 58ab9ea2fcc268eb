//! `volume_attachment`, `image_property` and `libvirt`: the sub-commands about stored properties of servers.

use serde_json::{Value, json};

use super::site::{CELL0, CELL1, ManagedCloud, NOBODY};

#[test]
fn volume_attachments_are_shown_and_refreshed() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let volume = json!({"volume": {"size": 1, "name": "data"}});
    let volume = site.client().post("/volume/v3/admin/volumes", &volume).unwrap().expect(202).text("/volume/id");
    site.cloud.wait("the volume is there", |cloud| {
        cloud.client().get(&format!("/volume/v3/admin/volumes/{volume}")).unwrap().body["volume"]["status"]
            == "available"
    });
    let show = |server: &str, volume: &str, rest: &str| format!("volume_attachment show {server} {volume} {rest}");
    site.manage(&show(&server, &volume, ""), 3);
    site.manage(&show(NOBODY, &volume, ""), 2);
    let attach = json!({"volumeAttachment": {"volumeId": volume}});
    site.client().post(&format!("/compute/v2.1/servers/{server}/os-volume_attachments"), &attach).unwrap().expect(200);
    site.cloud.wait("the volume is attached", |cloud| {
        cloud.client().get(&format!("/volume/v3/admin/volumes/{volume}")).unwrap().body["volume"]["status"] == "in-use"
    });
    // The volume is in use shortly before the server has its connection.
    let told = |rest: &str| serde_json::from_str::<Value>(&site.manage(&show(&server, &volume, rest), 0)).unwrap();
    let has_connection = (0..100).any(|_| !told("--json --connection_info").is_null());
    assert!(has_connection, "the server never gets the connection");
    let shown = told("--json");
    assert_eq!((&shown["volume_id"], &shown["instance_uuid"]), (&json!(volume), &json!(server)));
    let connection = told("--json --connection_info");
    assert_eq!(connection["serial"], json!(volume));
    assert_eq!(shown["connection_info"], connection);
    let table = site.manage(&show(&server, &volume, "--connection_info"), 0);
    assert!(table.contains("| Property ") && table.contains("| serial "), "{table}");
    let connector = site.cloud.folder.path().join("connector.json");
    let (path, other) = (connector.to_str().unwrap(), NOBODY);
    let refresh =
        |server: &str, volume: &str, path: &str| format!("volume_attachment refresh {server} {volume} {path}");
    site.manage(&refresh(&server, &volume, path), 2);
    std::fs::write(&connector, "{").unwrap();
    site.manage(&refresh(&server, &volume, path), 3);
    std::fs::write(&connector, "{\"host\": \"elsewhere\"}").unwrap();
    site.manage(&refresh(other, &volume, path), 4);
    assert!(site.manage(&refresh(&server, &volume, path), 5).contains("is active"));
    site.act(&server, &json!({"os-stop": null}), "SHUTOFF");
    site.manage(&refresh(&server, other, path), 6);
    site.act(&server, &json!({"lock": null}), "SHUTOFF");
    assert!(site.manage(&refresh(&server, &volume, path), 5).contains("stopped and locked"));
    site.act(&server, &json!({"unlock": null}), "SHUTOFF");
    let conflict = site.manage(&refresh(&server, &volume, path), 7);
    assert!(conflict.contains("may have been run on the wrong compute host"), "{conflict}");
    std::fs::write(&connector, "{}").unwrap();
    assert!(site.manage(&refresh(&server, &volume, path), 1).contains("names no host"));
    // With the connector of the server's host, the volume gets a new attachment. The server starts with this
    // attachment.
    let home = site.client().get(&format!("/chronova/v1/servers/{server}")).unwrap().expect(200).text("/server/host");
    let own = site.manage(&format!("volume_attachment get_connector --json --host {home}"), 0);
    std::fs::write(&connector, own).unwrap();
    site.manage(&refresh(&server, &volume, path), 0);
    let renewed: Value = serde_json::from_str(&site.manage(&show(&server, &volume, "--json"), 0)).unwrap();
    assert!(shown["attachment_id"].is_string() && renewed["attachment_id"].is_string());
    assert_ne!(shown["attachment_id"], renewed["attachment_id"]);
    assert_eq!((&renewed["volume_id"], &renewed["uuid"]), (&shown["volume_id"], &shown["uuid"]));
    assert_eq!(renewed["connection_info"]["serial"], json!(volume));
    let kept = site.client().get(&format!("/volume/v3/admin/volumes/{volume}")).unwrap().body["volume"].take();
    assert_eq!((&kept["status"], kept["attachments"].as_array().map(Vec::len)), (&json!("in-use"), Some(1)), "{kept}");
    assert_eq!(kept["attachments"][0]["attachment_id"], renewed["attachment_id"]);
    let actions = site.client().get(&format!("/compute/v2.1/servers/{server}/os-instance-actions")).unwrap().body;
    assert_eq!(actions["instanceActions"][0]["action"], "refresh_volume_attachment", "{actions}");
    site.act(&server, &json!({"os-start": null}), "ACTIVE");
    // The owner still sees the refresh after the server has been started again.
    let actions = site.client().get(&format!("/compute/v2.1/servers/{server}/os-instance-actions")).unwrap().body;
    let list = actions["instanceActions"].as_array().unwrap();
    assert_eq!(list[0]["action"], "start", "{actions}");
    assert!(list.iter().any(|action| action["action"] == "refresh_volume_attachment"), "{actions}");
    // An unshelve by a user without an administrator's rights also gives the volume a new attachment.
    for (action, status) in [("shelve", "SHELVED_OFFLOADED"), ("unshelve", "ACTIVE")] {
        let path = format!("/compute/v2.1/servers/{server}/action");
        site.client().post_as("ann:admin", &path, &json!({action: null})).unwrap().expect(202);
        site.settle(&server, status);
    }
    let again: Value = serde_json::from_str(&site.manage(&show(&server, &volume, "--json"), 0)).unwrap();
    assert!(again["attachment_id"].is_string() && again["attachment_id"] != renewed["attachment_id"], "{again}");
    let host = site.client().get("/chronova/v1/hosts").unwrap().expect(200).text("/hosts/0/name");
    let connector = site.manage(&format!("volume_attachment get_connector --json --host {host}"), 0);
    let connector = serde_json::from_str::<Value>(&connector).unwrap();
    let known = site.client().get("/compute/v2.1/os-hypervisors/detail").unwrap().expect(200).body;
    let known = known["hypervisors"].as_array().unwrap().iter().find(|one| one["hypervisor_hostname"] == json!(host));
    let whole = json!({
        "host": host, "ip": known.unwrap()["host_ip"], "initiator": format!("iqn.2008-11.org.linux-kvm:{host}"),
        "platform": "x86_64", "os_type": "linux", "do_local_attach": false, "multipath": false,
    });
    assert_eq!(connector, whole);
    // Without --host, the connector is that of the host in the configuration.
    let own = site.cloud.folder.path().join("own.conf");
    std::fs::write(&own, format!("[DEFAULT]\nhost = {host}\n")).unwrap();
    let own = site.manage(&format!("volume_attachment get_connector --json --config-file {}", own.display()), 0);
    assert_eq!(serde_json::from_str::<Value>(&own).unwrap(), whole);
    let table = site.manage(&format!("volume_attachment get_connector --host {host}"), 0);
    assert!(whole.as_object().unwrap().keys().all(|key| table.contains(&format!("| {key} "))), "{table}");
    site.manage("volume_attachment get_connector --host nowhere", 1);
    site.cloud.stop();
    site.manage(&show(&server, &volume, ""), 1);
    // After a restart, a user of the project sees that an administrator refreshed the attachment.
    site.cloud.start();
    let path = format!("/compute/v2.1/servers/{server}/os-instance-actions");
    let listed = site.client().get_as("ann:admin", &path).unwrap().expect(200).body;
    let is_refresh = |action: &&Value| action["action"] == "refresh_volume_attachment";
    let refresh = listed["instanceActions"].as_array().unwrap().iter().find(is_refresh).unwrap().clone();
    assert!(refresh["user_id"].is_string(), "{refresh}");
    let path = format!("{path}/{}", refresh["request_id"].as_str().unwrap());
    let shown = site.client().get_as_at("ann:admin", &path).unwrap().expect(200).body["instanceAction"].take();
    assert_eq!((&shown["action"], &shown["instance_uuid"]), (&refresh["action"], &json!(server)));
    assert!(shown["events"].as_array().is_some_and(|events| !events.is_empty()), "{shown}");
}

#[test]
fn image_properties_are_shown_and_set() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let show = |id: &str, name: &str| format!("image_property show {id} {name}");
    let set = |id: &str, rest: &str| format!("image_property set {id} {rest}");
    site.manage(&show(NOBODY, "hw_disk_bus"), 2);
    assert_eq!(
        site.manage(&show(&server, "hw_disk_bus"), 3),
        format!("Image property hw_disk_bus not found for instance {server}.\n")
    );
    site.manage(&set(NOBODY, "--property hw_disk_bus=scsi"), 2);
    let active = site.manage(&set(&server, "--property hw_disk_bus=scsi"), 3);
    assert!(active.contains("while it is in vm_state active"), "{active}");
    site.act(&server, &json!({"os-stop": null}), "SHUTOFF");
    site.manage(&set(&server, "--property hw_disk_bus"), 4);
    site.manage(&set(&server, "--property hw_disk_buss=scsi"), 5);
    site.manage(&set(&server, "--property hw_disk_bus=nvme"), 6);
    let unfit = site.manage(&set(&server, "--property hw_viommu_model=intel"), 6);
    assert!(unfit.contains("does not work with machine type pc"), "{unfit}");
    site.manage(&show(&server, "hw_disk_bus"), 3);
    site.manage(&set(&server, "--property hw_disk_bus=scsi --property hw_cdrom_bus=sata"), 0);
    assert_eq!(site.manage(&show(&server, "hw_disk_bus"), 0), "scsi\n");
    assert_eq!(site.manage(&show(&server, "hw_cdrom_bus"), 0), "sata\n");
    site.act(&server, &json!({"shelve": null}), "SHELVED_OFFLOADED");
    site.manage(&set(&server, "--property hw_disk_bus=virtio"), 0);
    assert_eq!(site.manage(&show(&server, "hw_disk_bus"), 0), "virtio\n");
    site.act(&server, &json!({"unshelve": null}), "ACTIVE");
    site.cloud.stop();
    site.manage(&show(&server, "hw_disk_bus"), 1);
    site.manage(&set(&server, "--property hw_disk_bus=scsi"), 1);
}

#[test]
fn machine_types_are_shown_and_changed() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    site.manage(&format!("libvirt get_machine_type {NOBODY}"), 2);
    let machine = site.manage(&format!("libvirt get_machine_type {server}"), 0);
    assert!(!machine.trim().is_empty());
    assert_eq!(site.manage("libvirt list_unset_machine_type", 0), "No instances found without hw_machine_type set.\n");
    site.manage(&format!("libvirt list_unset_machine_type --cell-uuid {NOBODY}"), 2);
    let update = |id: &str, rest: &str| format!("libvirt update_machine_type {id} {rest}");
    site.manage(&update(NOBODY, "pc"), 2);
    // The state is checked before the type. The type that the server has already is always accepted.
    let active = site.manage(&update(&server, "wonder"), 3);
    assert!(active.contains("in vm_state active"), "{active}");
    let same = site.manage(&update(&server, machine.trim()), 0);
    assert!(same.ends_with(&format!("machine type to {} (previously {})\n", machine.trim(), machine.trim())), "{same}");
    site.act(&server, &json!({"os-stop": null}), "SHUTOFF");
    site.manage(&update(&server, "wonder"), 5);
    site.manage(&update(&server, "virt-7.2"), 4);
    let said = site.manage(&update(&server, "virt-7.2 --force"), 0);
    assert!(said.contains(&format!("machine type to virt-7.2 (previously {})", machine.trim())), "{said}");
    assert_eq!(site.manage(&format!("libvirt get_machine_type {server}"), 0), "virt-7.2\n");
    site.manage(&update(&server, "virt-7.0"), 4);
    site.manage(&update(&server, "virt"), 4);
    site.manage(&update(&server, "virt-8.0"), 0);
    site.act(&server, &json!({"shelve": null}), "SHELVED_OFFLOADED");
    site.manage(&update(&server, "virt-9.0"), 0);
    assert_eq!(site.manage(&format!("libvirt get_machine_type {server}"), 0), "virt-9.0\n");
    // --force skips all checks: an unknown type, and the state. The guest gets the type at its next start.
    let said = site.manage(&update(&server, "wonder --force"), 0);
    assert!(said.starts_with("Forcing update of machine type.\n") && said.contains("(previously virt-9.0)"), "{said}");
    site.manage(&update(&server, "<os/> --force"), 5);
    site.manage(&update(&server, "pc --force"), 0);
    site.act(&server, &json!({"unshelve": null}), "ACTIVE");
    site.manage(&update(&server, "q35 --force"), 0);
    assert_eq!(site.manage(&format!("libvirt get_machine_type {server}"), 0), "q35\n");
    // A server that never got a host has no machine type.
    let huge = json!({"flavor": {"name": "huge", "vcpus": 1, "ram": 1 << 30, "disk": 1}});
    let huge = site.client().post("/compute/v2.1/flavors", &huge).unwrap().expect(200).text("/flavor/id");
    let unplaced = site.request("unplaced", &huge);
    site.settle(&unplaced, "ERROR");
    assert_eq!(
        site.manage(&format!("libvirt get_machine_type {unplaced}"), 3),
        format!("No machine type registered for instance {unplaced}\n")
    );
    assert_eq!(site.manage("libvirt list_unset_machine_type", 3), format!("{unplaced}\n"));
    let of_cell = site.manage(&format!("libvirt list_unset_machine_type --cell-uuid {CELL1}"), 3);
    assert_eq!(of_cell, format!("{unplaced}\n"));
    site.manage(&format!("libvirt list_unset_machine_type --cell-uuid {CELL0}"), 0);
    let (code, table, _) = site.run("nova-status", &["upgrade", "check"]);
    assert_eq!(code, 1, "{table}");
    assert!(table.contains("Result: Warning") && table.contains("Instances found without hw_machine_type"), "{table}");
    site.cloud.stop();
    site.manage(&format!("libvirt get_machine_type {server}"), 1);
    site.manage(&update(&server, "pc"), 1);
    site.manage("libvirt list_unset_machine_type", 1);
}
