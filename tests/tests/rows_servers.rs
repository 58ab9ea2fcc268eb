//! Servers from the user's view: from the create request to the guest, and the guest's metadata.
//!
//! Source: the user guide. The rows of `docs/requirements` name these tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use chronova_actors::metadata::{GuestMetadata, MetadataOptions};
use chronova_actors::process::interference::{Interference, InterferenceVerdict, StepDirection};
use chronova_events::instance::Alive;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::compute_api::{ADMIN, Api, IMAGE};
use serde_json::{Value, json};

const USER: &str = "alice:web";

/// Pauses every step until the test releases it.
#[derive(Default)]
struct Barrier {
    open: AtomicBool,
}

impl Barrier {
    fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }
}

impl Interference for Barrier {
    /// The answer to a create request waits for the process `create_servers`, so the barrier lets that process pass.
    fn judge(&self, process: &'static str, _: &'static str, _: StepDirection) -> InterferenceVerdict {
        match process == "create_servers" || self.open.load(Ordering::SeqCst) {
            true => InterferenceVerdict::Pass,
            false => InterferenceVerdict::Hold,
        }
    }
}

fn with(key: &str, value: Value) -> Value {
    let mut request = Api::wish("web");
    request[key] = value;
    request
}

async fn show(api: &Api, id: &str) -> Value {
    let answer = api.call("GET", &format!("/servers/{id}"), "2.1", USER, None).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    answer.body["server"].clone()
}

async fn names(api: &Api, query: &str) -> Vec<String> {
    let answer = api.call("GET", &format!("/servers{query}"), "2.1", USER, None).await;
    answer.body["servers"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect()
}

#[actix_rt::test]
async fn a_build_can_be_watched_until_it_is_active() {
    let barrier = Arc::new(Barrier::default());
    let api = Api::start_with("", Some(Arc::clone(&barrier) as Arc<dyn Interference>)).await;
    let made = api.call("POST", "/servers", "2.1", USER, Some(json!({"server": Api::wish("web")}))).await;
    assert_eq!(made.status, 202);
    let id = made.body["server"]["id"].as_str().unwrap().to_owned();
    assert_eq!(made.body["server"]["adminPass"].as_str().unwrap().len(), 12);
    let building = show(&api, &id).await;
    assert_eq!(
        (&building["status"], &building["OS-EXT-STS:vm_state"], &building["OS-EXT-STS:task_state"]),
        (&json!("BUILD"), &json!("building"), &json!("scheduling"))
    );
    assert_eq!((&building["addresses"], &building["OS-EXT-STS:power_state"]), (&json!({}), &json!(0)));
    let wish = json!({"remote_console": {"protocol": "vnc", "type": "novnc"}});
    let console = api.call("POST", &format!("/servers/{id}/remote-consoles"), "2.6", USER, Some(wish)).await;
    assert_eq!((console.status, console.message()), (409, format!("Instance {id} is not ready").as_str()));
    barrier.open();
    api.life.settled().await;
    let active = show(&api, &id).await;
    assert_eq!((&active["status"], &active["OS-EXT-STS:task_state"]), (&json!("ACTIVE"), &Value::Null));
    let listed = api.call("GET", "/servers/detail", "2.1", USER, None).await.body["servers"][0].take();
    assert_eq!((&listed["id"], &listed["name"], &listed["status"]), (&json!(id), &json!("web"), &json!("ACTIVE")));
    let address = &listed["addresses"]["private"][0];
    assert_eq!((&address["version"], &address["OS-EXT-IPS:type"]), (&json!(4), &json!("fixed")));
    assert!(active.get("adminPass").is_none(), "a later answer has the password");

    assert_eq!(names(&api, "").await, ["web"]);
    assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(names(&api, "").await, [""; 0], "a deleted server is listed");
    assert_eq!(api.call("GET", &format!("/servers/{id}"), "2.1", USER, None).await.status, 404);
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_build_that_fails_ends_in_error_and_says_why() {
    let api = Api::start().await;
    api.flavor("huge", 20_000, 1).await;
    // No host is large enough for the first server. The hosts refuse to start the second server.
    let large = api.server(USER, with("flavorRef", json!("huge"))).await;
    api.world.fleet.set_all_faults(&FaultPlan::default().with(DriverCall::Spawn, FaultTrigger::Always, Effect::Refuse));
    let refused = api.server(USER, Api::wish("web")).await;
    for id in [&large, &refused] {
        let failed = show(&api, id).await;
        assert_eq!((&failed["status"], &failed["OS-EXT-STS:vm_state"]), (&json!("ERROR"), &json!("error")));
        assert_eq!((&failed["fault"]["code"], &failed["OS-EXT-STS:task_state"]), (&json!(500), &Value::Null));
        assert!(failed["fault"].get("details").is_none(), "a user sees the fault's details: {failed}");
        let for_admins = api.get(&format!("/servers/{id}"), "2.1").await["server"]["fault"].take();
        assert!(for_admins["details"].is_string(), "{for_admins}");
        assert_eq!(failed["hostId"], "", "a failed server shows a host");
    }
    let message = show(&api, &large).await["fault"]["message"].take();
    let words = "No valid host was found. There are not enough hosts available: no suitable host has";
    assert!(message.as_str().unwrap().starts_with(words), "{message}");
    assert_eq!(names(&api, "?status=ERROR").await.len(), 2);
    // A failed server can be deleted, and then nothing of it is left.
    api.world.fleet.set_all_faults(&FaultPlan::default());
    for id in [&large, &refused] {
        assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.1", USER, None).await.status, 204);
    }
    api.life.settled().await;
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn long_names_are_kept_and_make_short_hostnames() {
    let api = Api::start().await;
    let long = "n".repeat(200);
    let id = api.server(USER, with("name", json!(long))).await;
    let shown = api.get(&format!("/servers/{id}"), "2.90").await["server"].take();
    assert_eq!(shown["name"], *long);
    assert_eq!(shown["OS-EXT-SRV-ATTR:hostname"], "n".repeat(63));
    let made =
        api.call("POST", "/servers", "2.1", USER, Some(json!({"server": with("name", json!("n".repeat(256)))}))).await;
    assert_eq!(made.status, 400);
    let id = api.server(USER, with("hostname", json!("said-so"))).await;
    let path = format!("/servers/{id}");
    assert_eq!(api.get(&path, "2.90").await["server"]["OS-EXT-SRV-ATTR:hostname"], "said-so");
    let change = Some(json!({"server": {"hostname": "changed"}}));
    assert_eq!(api.call("PUT", &path, "2.89", USER, change.clone()).await.status, 400);
    let changed = api.call("PUT", &path, "2.90", USER, change).await;
    assert_eq!(changed.body["server"]["OS-EXT-SRV-ATTR:hostname"], "changed");
    api.stop().await;
}

#[actix_rt::test]
async fn user_data_is_base64_and_bounded() {
    let api = Api::start().await;
    let post = async |user_data: String| {
        let body = json!({"server": with("user_data", json!(user_data))});
        api.call("POST", "/servers", "2.1", USER, Some(body)).await
    };
    // 65532 is the largest length that both the limit and base64's groups of four allow.
    let most = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; 65_532 / 4 * 3]);
    assert_eq!((most.len(), post(most.clone()).await.status), (65_532, 202));
    let over = post(format!("{most}eHh4")).await;
    assert!(over.status == 400 && over.message().contains("is too long"), "{}", over.status);
    let plain = post("#!/bin/sh".to_owned()).await;
    assert!(plain.status == 400 && plain.message().contains("is not a 'base64'"), "{}", plain.message());
    api.life.settled().await;
    api.stop().await;
}

async fn alive(api: &Api, request: Value) -> Alive {
    let id = api.server(USER, request).await.parse().unwrap();
    api.life.instance_now(id).alive().unwrap().clone()
}

/// The content of the config drive, with an operator's settings and with a password.
fn drive(server: &Alive, options: &MetadataOptions, password: Option<&str>) -> Vec<(String, Vec<u8>)> {
    GuestMetadata { server, password, options, devices: &[], plugged: &[], floating_ip: None, said: None }
        .files()
        .unwrap()
}

fn on_drive(server: &Alive) -> Vec<(String, Vec<u8>)> {
    drive(server, &MetadataOptions::default(), None)
}

fn json_of(files: &[(String, Vec<u8>)], path: &str) -> Value {
    serde_json::from_slice(&file(files, path).unwrap_or_else(|| panic!("no {path}"))).unwrap()
}

fn file(files: &[(String, Vec<u8>)], path: &str) -> Option<Vec<u8>> {
    files.iter().find(|(name, _)| name == path).map(|(_, content)| content.clone())
}

/// Fails unless the document is as Nova's schema of `network_data.json` says.
fn is_network_data(document: &Value) {
    let text = json!({"type": "string"});
    let address = json!({"type": "string", "pattern": r"^([0-9]{1,3}\.){3}[0-9]{1,3}$"});
    let some = |required: &[&str], properties: Value| {
        let item = json!({"type": "object", "required": required, "properties": properties});
        json!({"type": "array", "minItems": 1, "items": item})
    };
    let link = json!({
        "id": text, "vif_id": text, "mtu": {"type": "number", "minimum": 1, "maximum": 65535},
        "type": {"enum": ["bridge", "dvs", "hw_veb", "hyperv", "ovs", "phy", "tap", "vhostuser", "vif"]},
        "ethernet_mac_address": {"type": "string", "pattern": "^([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}$"},
    });
    let route = json!({"network": address, "netmask": address, "gateway": address});
    let network = json!({
        "id": text, "link": text, "network_id": text, "type": {"enum": ["ipv4", "ipv4_dhcp"]},
        "ip_address": address, "netmask": address, "routes": some(&["network", "netmask", "gateway"], route),
    });
    let mut services = some(&["address", "type"], json!({"address": address, "type": {"const": "dns"}}));
    services["minItems"] = json!(0);
    let schema = json!({"type": "object", "required": ["links", "networks", "services"], "properties": {
        "links": some(&["id", "type", "ethernet_mac_address"], link),
        "networks": some(&["id", "link", "network_id", "type"], network),
        "services": services,
    }});
    let judge = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&schema).unwrap();
    let errors: Vec<String> = judge.iter_errors(document).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0], "{document}");
}

#[actix_rt::test]
async fn a_config_drive_tells_the_guest_about_itself() {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home";
    let api = Api::start().await;
    let key = json!({"keypair": {"name": "mine", "public_key": KEY}});
    assert_eq!(api.call("POST", "/os-keypairs", "2.1", USER, Some(key)).await.status, 200);
    let mut request = with("config_drive", json!(true));
    request["key_name"] = json!("mine");
    request["metadata"] = json!({"role": "web", "tier": "1"});
    request["user_data"] = json!("IyEvYmluL3No");
    let mut server = alive(&api, request).await;
    let id = server.request.instance;
    assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["config_drive"], "True");
    let files = on_drive(&server);
    let meta = json_of(&files, "openstack/latest/meta_data.json");
    assert_eq!((&meta["uuid"], &meta["name"]), (&json!(id), &json!("web")));
    assert_eq!((&meta["project_id"], &meta["availability_zone"]), (&json!("web"), &json!("nova")));
    assert_eq!((&meta["launch_index"], &meta["meta"]), (&json!(0), &json!({"role": "web", "tier": "1"})));
    assert_eq!(meta["public_keys"], json!({"mine": KEY}));
    assert_eq!(meta["keys"], json!([{"name": "mine", "type": "ssh", "data": KEY}]));
    assert_eq!(file(&files, "openstack/latest/user_data").unwrap(), b"#!/bin/sh");
    assert_eq!(file(&files, "openstack/2018-08-27/user_data").unwrap(), b"#!/bin/sh");
    assert_eq!(meta.get("admin_pass"), None, "the password was kept after the drive was made");
    // The password is kept until the drive is created, which then contains it.
    let files_with = drive(&server, &MetadataOptions::default(), Some("s3cret"));
    let about = json_of(&files_with, "openstack/latest/meta_data.json");
    assert_eq!(about["admin_pass"], "s3cret");
    // The drive has the label that guests look for.
    let image = GuestMetadata {
        server: &server,
        password: None,
        options: &MetadataOptions::default(),
        devices: &[],
        plugged: &[],
        floating_ip: None,
        said: None,
    }
    .config_drive()
    .unwrap();
    assert_eq!(&image[0x8000 + 40..0x8000 + 48], b"config-2");

    // With DHCP the guest gets its addresses by DHCP; without DHCP the metadata has them.
    let network = |files: &[(String, Vec<u8>)]| json_of(files, "openstack/latest/network_data.json");
    let with_dhcp = network(&files);
    is_network_data(&with_dhcp);
    let nic = server.nics[0].clone();
    let tap = format!("tap{}", &nic.port.to_string()[..11]);
    assert_eq!(
        with_dhcp,
        json!({
            "links": [{"id": tap, "vif_id": nic.port, "type": "phy", "mtu": 1500, "ethernet_mac_address": nic.mac}],
            "networks": [{"id": "network0", "link": tap, "network_id": nic.network, "type": "ipv4_dhcp"}],
            "services": [],
        })
    );
    server.nics[0].fixed_ips[0].dhcp = false;
    server.nics[0].fixed_ips[0].dns = vec!["9.9.9.9".to_owned()];
    let fixed = network(&on_drive(&server));
    is_network_data(&fixed);
    let one = &fixed["networks"][0];
    assert_eq!((&one["type"], &one["netmask"]), (&json!("ipv4"), &json!("255.255.255.0")));
    assert_eq!(one["ip_address"], *nic.fixed_ips[0].address);
    assert_eq!(one["routes"], json!([{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.0.1"}]));
    assert_eq!(fixed["services"], json!([{"type": "dns", "address": "9.9.9.9"}]));

    let plain = alive(&api, Api::wish("plain")).await;
    assert!(!plain.request.config_drive);
    assert!(file(&on_drive(&plain), "openstack/latest/user_data").is_none());
    api.stop().await;
}

/// Nova's `OPENSTACK_VERSIONS`, and the additions of each.
#[actix_rt::test]
async fn each_version_of_the_metadata_has_its_fields() {
    let api = Api::start().await;
    let server = alive(&api, with("config_drive", json!(true))).await;
    let files = on_drive(&server);
    let versions = [
        ("2012-08-10", 0),
        ("2013-04-04", 1),
        ("2013-10-17", 1),
        ("2015-10-15", 2),
        ("2016-06-30", 3),
        ("2016-10-06", 3),
        ("2017-02-22", 3),
        ("2018-08-27", 3),
        ("2020-10-14", 4),
        ("2025-04-04", 4),
        ("latest", 4),
    ];
    let keys = ["random_seed", "project_id", "devices", "dedicated_cpus"];
    let dated =
        [("vendor_data.json", "2013-10-17"), ("network_data.json", "2015-10-15"), ("vendor_data2.json", "2016-10-06")];
    for (version, has) in versions {
        let meta = json_of(&files, &format!("openstack/{version}/meta_data.json"));
        let found: Vec<&str> = keys.into_iter().filter(|key| meta.get(key).is_some()).collect();
        assert_eq!(found, keys[..has], "{version}");
        assert_eq!(meta["hostname"], "web.novalocal");
        for (name, since) in dated {
            let there = file(&files, &format!("openstack/{version}/{name}")).is_some();
            assert_eq!(there, version >= since, "{version} {name}");
        }
    }
    let latest = json_of(&files, "openstack/latest/meta_data.json");
    let seed = latest["random_seed"].as_str().unwrap().to_owned();
    assert_eq!(base64::engine::general_purpose::STANDARD.decode(&seed).unwrap().len(), 512);
    assert_ne!(json_of(&on_drive(&server), "openstack/latest/meta_data.json")["random_seed"], *seed);

    let folders: std::collections::BTreeSet<&str> =
        files.iter().filter_map(|(path, _)| path.strip_prefix("ec2/")?.split('/').next()).collect();
    assert_eq!(folders.into_iter().collect::<Vec<_>>(), ["2009-04-04", "latest"]);
    // The option `skipped_versions` leaves out only versions of EC2's tree.
    let skipped_versions = ["2018-08-27", "2017-02-22", "2009-04-04"].map(str::to_owned).to_vec();
    let files = drive(&server, &MetadataOptions { skipped_versions, ..MetadataOptions::default() }, None);
    for (version, _) in versions {
        assert!(file(&files, &format!("openstack/{version}/meta_data.json")).is_some(), "{version}");
    }
    let has = |version: &str| files.iter().any(|(path, _)| path.starts_with(&format!("ec2/{version}/")));
    assert_eq!([has("1.0"), has("2009-04-04")], [true, false]);
    api.stop().await;
}

#[actix_rt::test]
async fn the_ec2_metadata_has_amazons_form() {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home";
    let api = Api::start().await;
    let key = json!({"keypair": {"name": "mine", "public_key": KEY}});
    assert_eq!(api.call("POST", "/os-keypairs", "2.1", USER, Some(key)).await.status, 200);
    let mut request = with("config_drive", json!(true));
    (request["key_name"], request["user_data"]) = (json!("mine"), json!("IyEvYmluL3No"));
    let server = alive(&api, request).await;
    let all = MetadataOptions { skipped_versions: Vec::new(), ..MetadataOptions::default() };
    let files = drive(&server, &all, None);
    let of = |version: &str| json_of(&files, &format!("ec2/{version}/meta-data.json"));
    assert_eq!(
        of("1.0"),
        json!({
            "ami-id": format!("ami-{}", &server.root_image().unwrap().id.to_string()[..8]), "ami-launch-index": 0, "ami-manifest-path": "FIXME",
            "instance-id": format!("i-{:08x}", server.request.number), "hostname": "web.novalocal",
            "local-ipv4": server.nics[0].fixed_ips[0].address, "reservation-id": server.request.reservation,
            "security-groups": ["default"], "public-keys": {"0": {"_name": "0=mine", "openssh-key": KEY}},
        })
    );
    assert_eq!(of("2007-01-19")["local-hostname"], "web.novalocal");
    assert_eq!(of("2007-03-01").get("instance-type"), None);
    assert_eq!(of("2007-08-29")["instance-type"], *server.request.flavor.name);
    assert_eq!(of("2007-12-15")["block-device-mapping"], json!({"ami": "vda", "root": "/dev/vda"}));
    assert_eq!(of("2008-02-01")["placement"], json!({"availability-zone": "nova"}));
    assert_eq!(of("latest")["instance-action"], "none");
    assert_eq!(file(&files, "ec2/2009-04-04/user-data").unwrap(), b"#!/bin/sh");
    api.stop().await;
}

#[actix_rt::test]
async fn an_image_may_demand_a_config_drive() {
    let api = Api::start().await;
    for (demand, shown) in [("mandatory", "True"), ("optional", "")] {
        let image = api.image(&[("img_config_drive", demand)]).await;
        let id = api.server(USER, with("imageRef", json!(image))).await;
        assert_eq!(show(&api, &id).await["config_drive"], shown, "{demand}");
    }
    api.stop().await;
}

#[actix_rt::test]
async fn a_deployer_tells_all_guests_something() {
    let api = Api::start().await;
    let server = alive(&api, with("config_drive", json!(true))).await;
    let read = |options: &MetadataOptions, name: &str| {
        json_of(&drive(&server, options, None), &format!("openstack/latest/{name}"))
    };
    let silent = MetadataOptions::default();
    assert_eq!(read(&silent, "vendor_data.json"), json!({}));
    assert_eq!(read(&silent, "vendor_data2.json"), json!({"static": {}}));
    let said = json!({"ntp": ["10.0.0.1"]});
    let told = MetadataOptions { vendor_data: Some(Arc::new(said.clone())), domain: String::new(), ..silent };
    assert_eq!(read(&told, "vendor_data.json"), said);
    assert_eq!(read(&told, "vendor_data2.json"), json!({"static": said}));
    assert_eq!(read(&told, "meta_data.json")["hostname"], "web", "the host name has a domain without the option");
    let off = MetadataOptions { vendor_data: None, ..told };
    assert_eq!(read(&off, "vendor_data2.json"), json!({}));
    api.stop().await;
}

#[actix_rt::test]
async fn a_servers_address_stays_until_it_is_deleted() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("web")).await;
    let before = show(&api, &id).await["addresses"].take();
    assert!(before["private"][0]["addr"].is_string(), "{before}");
    for body in [
        json!({"reboot": {"type": "SOFT"}}),
        json!({"reboot": {"type": "HARD"}}),
        json!({"os-stop": null}),
        json!({"os-start": null}),
    ] {
        let path = format!("/servers/{id}/action");
        assert_eq!(api.call("POST", &path, "2.1", USER, Some(body)).await.status, 202);
        api.life.settled().await;
        assert_eq!(show(&api, &id).await["addresses"], before);
    }
    assert_eq!(api.world.network.holders().len(), 1);
    assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(api.world.network.holders(), [], "the address of the deleted server is left");
    api.stop().await;
}

#[actix_rt::test]
async fn a_soft_reboot_needs_a_running_guest_and_a_hard_one_does_not() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("web")).await;
    let reboot = async |kind: &str| {
        let body = Some(json!({"reboot": {"type": kind}}));
        assert_eq!(api.call("POST", &format!("/servers/{id}/action"), "2.1", USER, body).await.status, 202);
        api.life.settled().await;
        let calls = |call: DriverCall| api.world.fleet.calls(call);
        (calls(DriverCall::RebootSoft), calls(DriverCall::Redefine))
    };
    assert_eq!(reboot("SOFT").await, (1, 0));
    assert_eq!(reboot("HARD").await, (1, 1));
    assert_eq!(show(&api, &id).await["status"], "ACTIVE");
    // A stopped server has no running guest to ask.
    let stop = Some(json!({"os-stop": null}));
    assert_eq!(api.call("POST", &format!("/servers/{id}/action"), "2.1", USER, stop).await.status, 202);
    api.life.settled().await;
    let soft = Some(json!({"reboot": {"type": "SOFT"}}));
    assert_eq!(api.call("POST", &format!("/servers/{id}/action"), "2.1", USER, soft).await.status, 409);
    assert_eq!(reboot("HARD").await, (1, 2));
    assert_eq!(show(&api, &id).await["status"], "ACTIVE");
    api.stop().await;
}

/// A hard reboot makes the definition from the record of the server, and so does a start. After a rename, a soft reboot
/// keeps the definition that the host has.
#[actix_rt::test]
async fn a_hard_reboot_makes_the_definition_again() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("web")).await;
    let path = format!("/servers/{id}");
    let defined = || api.world.brakes.guest(id.parse().unwrap()).unwrap().display_name;
    let rename = async |name: &str| {
        let body = Some(json!({"server": {"name": name}}));
        assert_eq!(api.call("PUT", &path, "2.1", USER, body).await.status, 200);
    };
    let act = async |body: &Value| {
        let answer = api.call("POST", &format!("{path}/action"), "2.1", USER, Some(body.clone())).await;
        assert_eq!(answer.status, 202, "{body}");
        api.life.settled().await;
    };
    let (stop, start, hard) =
        (json!({"os-stop": null}), json!({"os-start": null}), json!({"reboot": {"type": "HARD"}}));
    rename("renamed").await;
    for (body, name) in
        [(&json!({"reboot": {"type": "SOFT"}}), "web"), (&stop, "web"), (&start, "renamed"), (&hard, "renamed")]
    {
        act(body).await;
        assert_eq!(defined(), name, "{body}");
    }
    rename("again").await;
    act(&hard).await;
    assert_eq!((defined(), show(&api, &id).await["status"].take()), ("again".to_owned(), json!("ACTIVE")));
    // If the host refuses the new definition, the guest starts as it is defined.
    let refused = FaultPlan::default().with(DriverCall::Redefine, FaultTrigger::Always, Effect::Refuse);
    api.world.fleet.set_all_faults(&refused);
    let calls = |call: DriverCall| api.world.fleet.calls(call);
    let before = calls(DriverCall::Start);
    act(&hard).await;
    assert_eq!((calls(DriverCall::Redefine), calls(DriverCall::RebootHard)), (4, 1));
    act(&stop).await;
    act(&start).await;
    assert_eq!((calls(DriverCall::Redefine), calls(DriverCall::Start)), (5, before + 1));
    assert_eq!(show(&api, &id).await["status"], "ACTIVE");
    api.stop().await;
}

#[actix_rt::test]
async fn a_disabled_host_gets_no_servers_and_a_dead_one_neither() {
    let api = Api::start().await;
    let services = api.get("/os-services?binary=nova-compute", "2.53").await["services"].take();
    let (one, other) = (services[0]["host"].as_str().unwrap(), services[1]["host"].as_str().unwrap());
    let down = json!({"forced_down": true});
    let path = format!("/os-services/{}", services[0]["id"].as_str().unwrap());
    assert_eq!(api.call("PUT", &path, "2.53", ADMIN, Some(down)).await.status, 200);
    for n in 0..3 {
        let id = api.server(USER, Api::wish(&format!("s{n}"))).await;
        let host = api.get(&format!("/servers/{id}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"].take();
        assert_eq!(host, other);
    }
    let path = format!("/os-services/{}", services[1]["id"].as_str().unwrap());
    assert_eq!(api.call("PUT", &path, "2.53", ADMIN, Some(json!({"status": "disabled"}))).await.status, 200);
    let id = api.server(USER, Api::wish("nowhere")).await;
    assert_eq!(show(&api, &id).await["status"], "ERROR", "neither {one} nor {other}");
    api.stop().await;
}

#[actix_rt::test]
async fn mappings_that_make_no_sense_are_refused() {
    let api = Api::start().await;
    let other = "4d1ab0a3-1a5b-4a4f-8d1a-1c9a4d3b2f10";
    let root = |key: &str, value: Value| {
        let mut root = json!({"source_type": "image", "destination_type": "local", "uuid": IMAGE, "boot_index": 0});
        root[key] = value;
        with("block_device_mapping_v2", json!([root]))
    };
    let mut both = root("boot_index", json!(0));
    both["block_device_mapping"] = json!([{"volume_id": other, "device_name": "vda"}]);
    let without_image = |mut request: Value| {
        request.as_object_mut().unwrap().remove("imageRef");
        request
    };
    for request in [
        root("source_type", json!("floppy")),
        root("destination_type", json!("remote")),
        // An image becomes a local disk only as the root disk, and only if it is the boot image.
        root("boot_index", json!(1)),
        root("boot_index", json!(-1)),
        root("boot_index", Value::Null),
        root("uuid", json!(other)),
        without_image(root("boot_index", json!(0))),
        both,
    ] {
        let answer = api.call("POST", "/servers", "2.1", USER, Some(json!({"server": request}))).await;
        assert_eq!(answer.status, 400, "{request}: {:?}", answer.body);
    }
    assert_eq!(names(&api, "").await, [""; 0], "a refused request created a server");
    let id = api.server(USER, root("boot_index", json!("0"))).await;
    // A booted image stays on a local disk.
    assert_eq!(show(&api, &id).await["os-extended-volumes:volumes_attached"], json!([]));
    api.stop().await;
}
