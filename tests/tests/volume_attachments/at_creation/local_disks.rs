//! The local disks of new servers: root, ephemeral and swap disks.

use super::*;

/// The flavor gives the sizes of ephemeral disks and swap; a request may divide them differently.
#[actix_rt::test]
async fn ephemeral_disks_and_swap_are_deleted_with_the_server() {
    let api = Api::start().await;
    let flavor = json!({"flavor": {"id": "scratch", "name": "scratch", "ram": 512, "vcpus": 1, "disk": 1,
        "OS-FLV-EXT-DATA:ephemeral": 2, "swap": 512}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0});
    let one = blank(&json!({"volume_size": 1}));
    let swap = blank(&json!({"guest_format": "swap", "volume_size": 256}));
    let mappings = [None, Some(json!([root, one, swap]))];
    for devices in mappings {
        let mut request = Api::wish("scratch");
        request["flavorRef"] = json!("scratch");
        if let Some(devices) = devices {
            request["block_device_mapping_v2"] = devices;
        }
        let server = api.server(OWNER, request).await;
        assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
        let path = format!("/placement/allocations/{server}");
        let held = api.ask("GET", &path, "1.39", ADMIN, None).await.body;
        let held = held["allocations"].as_object().unwrap().values().next().unwrap().clone();
        assert_eq!(held["resources"]["DISK_GB"], 4, "not the flavor's 1 + 2 + 0.5 GiB, rounded up");
        delete(&api, &server).await;
        api.world.check().await;
    }
    let mut request = Api::wish("too much");
    request["flavorRef"] = json!("scratch");
    request["block_device_mapping_v2"] = json!([root, one, one, one]);
    assert_eq!(call(&api, "POST", "/servers", "2.1", Some(json!({"server": request}))).await.0, 400);
    api.stop().await;
}

fn blank(more: &Value) -> Value {
    let mut disk = json!({"source_type": "blank", "destination_type": "local", "boot_index": -1});
    disk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    disk
}

/// The guest gets the requested sizes, in any division; the driver chooses the device names.
#[actix_rt::test]
async fn guests_get_the_requested_swap_and_ephemeral_disks() {
    let mut api = Api::start().await;
    let config = chronova_web::compute::ComputeConfig { max_local_block_devices: 4, ..Default::default() };
    std::sync::Arc::get_mut(&mut api.app).unwrap().compute = chronova_web::compute::ComputeState::new(config);
    let flavor = json!({"flavor": {"id": "scratch", "name": "scratch", "ram": 512, "vcpus": 1, "disk": 1,
        "OS-FLV-EXT-DATA:ephemeral": 4, "swap": 512}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0});
    let swap = blank(&json!({"guest_format": "swap", "volume_size": 256}));
    let named =
        blank(&json!({"volume_size": 3, "guest_format": "ext4", "device_name": "/dev/vdz", "disk_bus": "virtio",
        "device_type": "disk"}));
    for (devices, ephemerals, swap_mib) in [
        (None, vec![4], 512),
        (Some(json!([root, swap])), vec![4], 256),
        (
            Some(json!([root, blank(&json!({"volume_size": 1})), blank(&json!({"volume_size": 2})), swap])),
            vec![1, 2],
            256,
        ),
        (Some(json!([root, named])), vec![3], 512),
        (Some(json!([root, blank(&json!({})), blank(&json!({"guest_format": "swap"}))])), vec![4], 512),
        // The format is for local disks: a volume never becomes a swap disk.
        (
            Some(json!([
                root,
                blank(&json!({"destination_type": "volume", "guest_format": "swap", "volume_size": 1,
                "delete_on_termination": true}))
            ])),
            vec![4],
            512,
        ),
    ] {
        let mut request = Api::wish("scratch");
        request["flavorRef"] = json!("scratch");
        let text = format!("{devices:?}");
        if let Some(devices) = devices {
            request["block_device_mapping_v2"] = devices;
        }
        let server = api.server(OWNER, request).await;
        assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE", "{text}");
        let spec = api.world.brakes.guest(server.parse().unwrap()).unwrap();
        assert_eq!((spec.ephemerals_gib, spec.swap_mib), (ephemerals, swap_mib), "{text}");
        assert_eq!(spec.root.map(|root| root.size_gib), Some(1));
        delete(&api, &server).await;
        // Nothing of the disks is left.
        api.world.check().await;
    }
    // An existing volume or snapshot cannot be a local disk.
    for kind in ["volume", "snapshot"] {
        let mut request = Api::wish("x");
        request["block_device_mapping_v2"] = json!([root, {"source_type": kind, "uuid": IMAGE,
            "destination_type": "local", "boot_index": -1}]);
        let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": request}))).await;
        let words = format!("Block Device Mapping is Invalid: Mapping {kind} to local is not supported.");
        assert_eq!((status, message), (400, words));
    }
    api.stop().await;
}

/// With `[DEFAULT] max_local_block_devices` of 0, all servers must be volume-backed.
#[actix_rt::test]
async fn local_disks_can_be_forbidden() {
    let mut api = Api::start().await;
    let config = chronova_web::compute::ComputeConfig { max_local_block_devices: 0, ..Default::default() };
    std::sync::Arc::get_mut(&mut api.app).unwrap().compute = chronova_web::compute::ComputeState::new(config);
    let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": Api::wish("x")}))).await;
    let words = "Block Device Mapping is Invalid: You specified more local devices than the limit allows";
    assert_eq!((status, message.as_str()), (400, words));
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "volume", "volume_size": 1,
        "boot_index": 0, "delete_on_termination": true});
    let request =
        json!({"name": "v", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "block_device_mapping_v2": [root]});
    let server = api.server(OWNER, request).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
    delete(&api, &server).await;
    api.stop().await;
}

/// With a flavor of disk 0, the root disk has the image's size, and no DISK_GB is claimed.
#[actix_rt::test]
async fn a_flavor_without_a_disk_leaves_its_size_to_the_image() {
    let api = Api::start().await;
    api.flavor("0", 512, 0).await;
    let mut request = Api::wish("zero");
    request["flavorRef"] = json!("0");
    // Only administrators may create such servers without volumes.
    let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": request}))).await;
    let words = "Only volume-backed servers are allowed for flavors with zero disk.";
    assert_eq!((status, message.as_str()), (403, words));
    let server = api.server(ADMIN, request).await;
    let spec = api.world.brakes.guest(server.parse().unwrap()).unwrap();
    assert_eq!(spec.root.unwrap().size_gib, 0, "the root disk does not have the image's size");
    let held = api.ask("GET", &format!("/placement/allocations/{server}"), "1.39", ADMIN, None).await.body;
    let held = held["allocations"].as_object().unwrap().values().next().unwrap().clone();
    assert_eq!(held["resources"].get("DISK_GB"), None, "{held}");
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "volume", "volume_size": 2,
        "boot_index": 0, "delete_on_termination": true});
    let request =
        json!({"name": "v", "flavorRef": "0", "networks": [{"uuid": NETWORK}], "block_device_mapping_v2": [root]});
    let server = api.server(OWNER, request).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
    let spec = api.world.brakes.guest(server.parse().unwrap()).unwrap();
    assert!(spec.root.is_none() && spec.volumes.len() == 1);
    api.stop().await;

    // A policy file may let users create such servers.
    let open = Api::start_with("'os_compute_api:servers:create:zero_disk_flavor': 'role:member'", None).await;
    open.flavor("0", 512, 0).await;
    let mut request = Api::wish("zero");
    request["flavorRef"] = json!("0");
    let (status, _, message) = call(&open, "POST", "/servers", "2.1", Some(json!({"server": request}))).await;
    assert_eq!(status, 202, "{message}");
    open.life.settled().await;
    open.stop().await;
}
