//! Servers with encrypted memory on simulated hosts that offer it. Real guests need AMD's processors.

use chronova_events::ids::InstanceId;
use chronova_hypervisor::sim::SimUri;
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";
const CLASS: &str = "MEM_ENCRYPTION_CONTEXT";
const PROPERTIES: &[(&str, &str)] =
    &[("hw_firmware_type", "uefi"), ("hw_machine_type", "q35"), ("hw_mem_encryption", "true")];

/// Hosts that can each have this many guests with encrypted memory.
async fn start(hosts: usize, sev: u32) -> Api {
    let uri = SimUri { sev, vcpus: 8, memory_mib: 8192, disk_gib: 100, ..SimUri::new(hosts) };
    let mut world = World::of(uri);
    world.options.volume.shared = true;
    Api::start_of(world, "", None).await
}

async fn create(api: &Api, name: &str, properties: &[(&str, &str)]) -> String {
    let mut wish = Api::wish(name);
    wish["imageRef"] = json!(api.image(properties).await);
    api.server(OWNER, wish).await
}

async fn shown(api: &Api, id: &str) -> (String, String) {
    let server = api.get(&format!("/servers/{id}"), "2.46").await["server"].take();
    let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("OS-EXT-SRV-ATTR:host"))
}

async fn act(api: &Api, id: &str, body: Value) -> Answer {
    let answer = api.call("POST", &format!("/servers/{id}/action"), "2.90", ADMIN, Some(body)).await;
    api.life.settled().await;
    answer
}

/// The number of the class in each of the server's allocations.
async fn slots(api: &Api, id: &str) -> Vec<Value> {
    let held = api.ask("GET", &format!("/placement/allocations/{id}"), "2.1", ADMIN, None).await.body;
    held["allocations"].as_object().unwrap().values().map(|held| held["resources"][CLASS].clone()).collect()
}

#[actix_rt::test]
async fn hosts_offer_slots_for_encrypted_guests_and_each_guest_takes_one() {
    let api = start(2, 1).await;
    for host in 0..2 {
        let host = api.world.fleet.uri().host_id(host);
        let path = format!("/placement/resource_providers/{host}");
        let shown = api.ask("GET", &format!("{path}/inventories"), "2.1", ADMIN, None).await.body;
        let line = &shown["inventories"][CLASS];
        assert_eq!((&line["total"], &line["allocation_ratio"]), (&json!(1), &json!(1.0)), "{shown}");
        let id = chronova_events::ids::ProviderId(host.0);
        let is_sev = |traits: &std::collections::BTreeSet<String>| traits.contains("HW_CPU_X86_AMD_SEV");
        assert!(api.life.context().views.placement.read(|view| is_sev(&view.ledger.providers[&id].traits)));
    }
    let (one, two) = (create(&api, "one", PROPERTIES).await, create(&api, "two", PROPERTIES).await);
    let (first, second) = (shown(&api, &one).await, shown(&api, &two).await);
    assert_eq!((first.0.as_str(), second.0.as_str()), ("ACTIVE", "ACTIVE"));
    assert_ne!(first.1, second.1, "a host has two guests and one slot");
    assert_eq!(slots(&api, &one).await, [json!(1)]);
    let three = create(&api, "three", PROPERTIES).await;
    assert_eq!(shown(&api, &three).await.0, "ERROR");
    let fault = api.life.fault(three.parse().unwrap());
    assert!(fault.contains("No valid host was found"), "{fault}");
    let plain = create(&api, "plain", &[]).await;
    assert_eq!(shown(&api, &plain).await.0, "ACTIVE", "a guest without encryption needs no slot");
    assert_eq!(slots(&api, &plain).await, [Value::Null]);
    // A deleted server gives its slot back.
    assert_eq!(api.call("DELETE", &format!("/servers/{one}"), "2.1", OWNER, None).await.status, 204);
    api.life.settled().await;
    // An image may insist on the kind of encryption.
    let insisting = [PROPERTIES, &[("trait:HW_CPU_X86_AMD_SEV", "required")]].concat();
    let four = create(&api, "four", &insisting).await;
    assert_eq!(shown(&api, &four).await, ("ACTIVE".to_owned(), first.1));
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_host_without_encryption_is_not_chosen() {
    let api = start(2, 0).await;
    let id = create(&api, "one", PROPERTIES).await;
    assert_eq!(shown(&api, &id).await.0, "ERROR");
    let fault = api.life.fault(id.parse().unwrap());
    assert!(fault.contains("No valid host was found"), "{fault}");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_server_with_encrypted_memory_does_all_but_live_moves_and_suspension() {
    let api = start(2, 2).await;
    let id = create(&api, "one", PROPERTIES).await;
    let home = shown(&api, &id).await.1;
    for (body, operation) in [
        (json!({"os-migrateLive": {"host": null, "block_migration": "auto"}}), "live-migration"),
        (json!({"suspend": null}), "suspend"),
    ] {
        let refused = act(&api, &id, body).await;
        assert_eq!(refused.status, 400, "{operation}: {}", refused.body);
        assert!(refused.message().contains(&format!("Operation '{operation}' not supported")), "{}", refused.message());
    }
    assert_eq!(shown(&api, &id).await, ("ACTIVE".to_owned(), home.clone()));
    for (body, accepted, status) in [
        (json!({"migrate": null}), 202, "VERIFY_RESIZE"),
        (json!({"confirmResize": null}), 204, "ACTIVE"),
        (json!({"createImage": {"name": "snap"}}), 202, "ACTIVE"),
        (json!({"pause": null}), 202, "PAUSED"),
        (json!({"unpause": null}), 202, "ACTIVE"),
        (json!({"reboot": {"type": "HARD"}}), 202, "ACTIVE"),
        (json!({"shelve": null}), 202, "SHELVED"),
        (json!({"unshelve": null}), 202, "ACTIVE"),
    ] {
        let done = act(&api, &id, body.clone()).await;
        assert_eq!(done.status, accepted, "{body}: {}", done.body);
        let now = shown(&api, &id).await.0;
        assert!(now.starts_with(status), "{body}: {now}");
        if status == "ACTIVE" {
            assert_eq!(slots(&api, &id).await, [json!(1)], "{body}");
        }
        if body.get("confirmResize").is_some() {
            assert_ne!(shown(&api, &id).await.1, home, "the server did not move");
        }
    }
    let log = act(&api, &id, json!({"os-getConsoleOutput": {}})).await;
    assert_eq!(log.status, 200, "{}", log.body);
    let volume = api.life.data_volume(("p", "u"), Some(&id), 1).await.to_string();
    let request = json!({"volumeAttachment": {"volumeId": volume}});
    let path = format!("/servers/{id}/os-volume_attachments");
    let attached = api.call("POST", &path, "2.79", OWNER, Some(request)).await;
    assert_eq!(attached.status, 200, "{}", attached.body);
    api.life.settled().await;
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_server_with_encrypted_memory_leaves_a_dead_host() {
    let api = start(2, 1).await;
    let id = create(&api, "one", PROPERTIES).await;
    let home = shown(&api, &id).await.1;
    let instance: InstanceId = id.parse().unwrap();
    let old = api.life.host_of(&api.world, instance).unwrap();
    api.world.fleet.kill_host(old);
    let is_up = async |wanted: bool| {
        let is = |context: &chronova_actors::process::context::StepContext| {
            context.views.hosts.read(|hosts| hosts.named(&home).is_some_and(|host| host.up == wanted))
        };
        assert!(api.life.until(is).await);
    };
    is_up(false).await;
    let asked = act(&api, &id, json!({"evacuate": {}})).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    let (status, host) = shown(&api, &id).await;
    assert_eq!(status, "ACTIVE");
    assert_ne!(host, home);
    assert_eq!(slots(&api, &id).await, [json!(1)]);
    let given = api.world.brakes.guest(instance).unwrap().hardware;
    assert!(given.contains(&("hw_mem_encryption".to_owned(), "true".to_owned())), "{given:?}");
    api.world.fleet.revive_host(old, true).unwrap();
    is_up(true).await;
    api.life.settled().await;
    api.world.check().await;
    api.stop().await;
}
