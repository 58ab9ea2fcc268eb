//! Secure boot, emulated TPMs, machine types and limits of guests through the API, on simulated hosts that offer them.

use chronova_actors::instance::{CallerRights, InstanceRequest, InstanceRoot};
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::PowerAction;
use chronova_hypervisor::sim::DriverCall;
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::world::World;
use serde_json::{Value, json};

/// The owner of the servers. `ADMIN` is of another project.
const OWNER: &str = "u:p";

async fn flavor(api: &Api, id: &str, specs: Value) {
    api.flavor(id, 512, 1).await;
    let made = api
        .call("POST", &format!("/flavors/{id}/os-extra_specs"), "2.1", ADMIN, Some(json!({"extra_specs": specs})))
        .await;
    assert_eq!(made.status, 200, "{}", made.body);
}

async fn create(api: &Api, flavor: &str, properties: &[(&str, &str)]) -> Answer {
    let mut wish = Api::wish("secure");
    wish["flavorRef"] = json!(flavor);
    wish["imageRef"] = json!(api.image(properties).await);
    let answer = api.call("POST", "/servers", "2.1", OWNER, Some(json!({"server": wish}))).await;
    api.life.settled().await;
    answer
}

async fn built(api: &Api, flavor: &str, properties: &[(&str, &str)]) -> String {
    let made = create(api, flavor, properties).await;
    assert_eq!(made.status, 202, "{}", made.body);
    made.body["server"]["id"].as_str().unwrap().to_owned()
}

async fn status(api: &Api, id: &str) -> String {
    api.get(&format!("/servers/{id}"), "2.1").await["server"]["status"].as_str().unwrap().to_owned()
}

async fn act(api: &Api, token: &str, id: &str, body: Value) -> Answer {
    let answer = api.call("POST", &format!("/servers/{id}/action"), "2.95", token, Some(body)).await;
    api.life.settled().await;
    answer
}

#[actix_rt::test]
async fn a_contradictory_request_for_secure_boot_or_a_tpm_is_refused() {
    let api = Api::start_of(World::with_tpms(1), "", None).await;
    flavor(&api, "secure", json!({"os:secure_boot": "required"})).await;
    flavor(&api, "open", json!({"os:secure_boot": "disabled"})).await;
    flavor(&api, "old", json!({"hw:tpm_version": "1.2"})).await;
    let uefi = ("hw_firmware_type", "uefi");
    for (flavor, properties, words) in [
        ("secure", vec![], "hw_firmware_type = uefi"),
        ("open", vec![uefi, ("os_secure_boot", "required")], "both have to be the same"),
        ("old", vec![("hw_tpm_version", "2.0")], "both have to be the same"),
        ("old", vec![("hw_tpm_model", "tpm-crb")], "only with version 2.0"),
        ("1", vec![("hw_tpm_model", "tpm-tis")], "without a TPM version"),
        ("1", vec![("hw_locked_memory", "yes")], "page size"),
    ] {
        let refused = create(&api, flavor, &properties).await;
        assert_eq!(refused.status, 400, "{flavor} {properties:?}: {}", refused.body);
        assert!(refused.message().contains(words), "{}", refused.message());
    }
    let id = built(&api, "secure", &[uefi, ("hw_machine_type", "q35")]).await;
    assert_eq!(status(&api, &id).await, "ACTIVE");
    let given = api.world.brakes.guest(id.parse().unwrap()).unwrap().hardware;
    for pair in [("os:secure_boot", "required"), ("hw_machine_type", "q35"), uefi] {
        assert!(given.iter().any(|(name, value)| (name.as_str(), value.as_str()) == pair), "{pair:?}: {given:?}");
    }
    api.world.check().await;
    api.stop().await;
}

/// Hosts without the traits are not chosen.
#[actix_rt::test]
async fn a_host_without_secure_boot_or_a_tpm_is_not_chosen() {
    let api = Api::start().await;
    let uefi = ("hw_firmware_type", "uefi");
    for properties in [vec![uefi, ("os_secure_boot", "required")], vec![("hw_tpm_version", "2.0")]] {
        let id = built(&api, "1", &properties).await;
        let fault = api.life.fault(id.parse().unwrap());
        assert!(fault.contains("COMPUTE_SECURITY"), "{properties:?}: {fault}");
    }
    let id = built(&api, "1", &[uefi, ("os_secure_boot", "optional")]).await;
    assert_eq!(status(&api, &id).await, "ACTIVE", "an optional secure boot is required");
    api.world.check().await;
    api.stop().await;
}

/// As in Nova, the key manager gives the passphrase to users of the owner's project only, so only they can start the
/// guest.
#[actix_rt::test]
async fn a_server_with_a_tpm_is_started_and_moved_by_its_owner_alone() {
    let policy = "\"os_compute_api:os-migrate-server:migrate\": \"\"\n";
    let api = Api::start_of(World::with_tpms(2), policy, None).await;
    let id = built(&api, "1", &[("hw_tpm_version", "2.0"), ("hw_tpm_model", "tpm-crb")]).await;
    assert_eq!(status(&api, &id).await, "ACTIVE");
    let only = "Only users of project p start this server";
    let host = async || api.get(&format!("/servers/{id}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"].take();
    let home = host().await;
    // A move by an administrator fails before it stops the guest.
    assert_eq!(act(&api, ADMIN, &id, json!({"migrate": null})).await.status, 202);
    assert_eq!((status(&api, &id).await.as_str(), host().await), ("ACTIVE", home.clone()));
    assert_eq!(api.world.brakes.take_stops(), [], "the guest was stopped");
    assert!(api.life.fault(id.parse().unwrap()).contains(only), "{}", api.life.fault(id.parse().unwrap()));
    // A hard reboot by an administrator, or by Chronova after the host is back, fails in the same way.
    assert_eq!(act(&api, ADMIN, &id, json!({"reboot": {"type": "HARD"}})).await.status, 202);
    let (process, asker) = (ProcessId::random(), CallerRights { overrides_lock: true });
    let resume = InstanceRequest::Power { process, action: PowerAction::RebootHard, asker };
    let instance: InstanceId = id.parse().unwrap();
    api.life.context().gateway.send::<InstanceRoot>(&instance, resume, Meta::system("host-boot")).await.unwrap();
    api.life.settled().await;
    assert_eq!(status(&api, &id).await, "ACTIVE");
    assert!(api.life.fault(instance).contains(only), "{}", api.life.fault(instance));
    for call in [DriverCall::RebootHard, DriverCall::Redefine] {
        assert_eq!(api.world.fleet.calls(call), 0, "the guest was rebooted");
    }
    assert_eq!(act(&api, OWNER, &id, json!({"os-stop": null})).await.status, 202);
    assert_eq!(act(&api, ADMIN, &id, json!({"os-start": null})).await.status, 202);
    assert_eq!(status(&api, &id).await, "SHUTOFF");
    assert!(api.life.fault(id.parse().unwrap()).contains(only));
    for (body, accepted, after) in [
        (json!({"os-start": null}), 202, "ACTIVE"),
        (json!({"reboot": {"type": "HARD"}}), 202, "ACTIVE"),
        (json!({"migrate": null}), 202, "VERIFY_RESIZE"),
        (json!({"confirmResize": null}), 204, "ACTIVE"),
    ] {
        assert_eq!(act(&api, OWNER, &id, body.clone()).await.status, accepted, "{body}");
        assert_eq!(status(&api, &id).await, after, "{body}");
    }
    assert_ne!(host().await, home, "the server is still on its first host");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_wrong_or_lost_passphrase_is_a_clear_fault() {
    let api = Api::start_of(World::with_tpms(1), "", None).await;
    let id = built(&api, "1", &[("hw_tpm_version", "2.0")]).await;
    let after = async |words: &str| {
        act(&api, OWNER, &id, json!({"os-stop": null})).await;
        act(&api, OWNER, &id, json!({"os-start": null})).await;
        let shown = api.get(&format!("/servers/{id}"), "2.1").await["server"].take();
        assert_eq!(shown["status"], "SHUTOFF");
        let path = format!("/servers/{id}/os-instance-actions");
        let action = api.get(&path, "2.84").await["instanceActions"][0].take();
        let path = format!("{path}/{}", action["request_id"].as_str().unwrap());
        let events = api.get(&path, "2.84").await["instanceAction"]["events"].take();
        assert!(events.to_string().contains(words), "{words}: {events}");
    };
    api.world.keys.spoil();
    after("does not open").await;
    api.world.keys.lose();
    after("is lost").await;
    api.stop().await;
}

/// The machine type of a server is recorded with its first host. Another default of the operator does not change it.
#[actix_rt::test]
async fn a_server_keeps_the_machine_type_of_its_first_start() {
    let api = Api::start().await;
    let id = built(&api, "1", &[]).await;
    let other = built(&api, "1", &[("hw_machine_type", "q35")]).await;
    let recorded = |id: &str| {
        let now = api.life.instance_now(id.parse().unwrap());
        now.alive().and_then(|server| server.machine_type.clone())
    };
    assert_eq!((recorded(&id).as_deref(), recorded(&other).as_deref()), (Some("pc"), Some("q35")));
    let Api { mut world, life, .. } = api;
    life.stop().await;
    world.options.servers.machine_types = chronova_hypervisor::options::MachineTypes::parse(&["x86_64=q35".to_owned()]);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let instance = id.parse().unwrap();
    life.migrate(instance).await.unwrap();
    life.settled().await;
    let given = world.brakes.guest(instance).unwrap().hardware;
    let machines: Vec<_> = given.iter().filter(|(name, _)| name == "hw_machine_type").collect();
    assert_eq!(machines, [&("hw_machine_type".to_owned(), "pc".to_owned())], "the move changed the machine type");
    let fresh = chronova_events::ids::InstanceId::random();
    life.build(fresh).await.unwrap();
    life.settled().await;
    let now = life.instance_now(fresh);
    assert_eq!(now.alive().unwrap().machine_type.as_deref(), Some("q35"), "a new server does not have the new default");
    life.stop().await;
    world.check().await;
}

/// Placement has the class of virtual GPUs. Neither API names their type.
#[actix_rt::test]
async fn no_api_shows_the_type_of_a_virtual_gpu() {
    let api = Api::start_of(World::with_gpus(1, "nvidia-35*4"), "", None).await;
    flavor(&api, "gpu", json!({"resources:VGPU": "1"})).await;
    let id = built(&api, "gpu", &[]).await;
    assert_eq!(status(&api, &id).await, "ACTIVE");
    let of_placement = async |path: &str| {
        let shown = api.ask("GET", &format!("/placement{path}"), "2.1", ADMIN, None).await;
        assert_eq!(shown.status, 200, "{path}: {}", shown.body);
        shown.body.to_string()
    };
    let held = of_placement(&format!("/allocations/{id}")).await;
    assert!(held.contains("VGPU"), "{held}");
    let mut shown = vec![held, of_placement("/resource_providers").await];
    for path in
        ["/servers/detail?all_tenants=1".to_owned(), format!("/servers/{id}"), "/os-hypervisors/detail".to_owned()]
    {
        shown.push(api.get(&path, "2.87").await.to_string());
    }
    for text in shown {
        assert!(!text.contains(chronova_tests::gpus::TYPE), "{text}");
    }
    api.world.check().await;
    api.stop().await;
}

/// Extra specs `quota:` limit a guest on its host. The quotas of its project are something else.
#[actix_rt::test]
async fn limits_of_a_guest_are_no_quotas_of_its_project() {
    let api = Api::start().await;
    let used = async || {
        let limits = api.call("GET", "/limits", "2.1", OWNER, None).await.body["limits"]["absolute"].take();
        ["totalCoresUsed", "totalRAMUsed", "totalInstancesUsed"].map(|name| limits[name].as_u64().unwrap())
    };
    let quotas = async || api.get("/os-quota-sets/p", "2.1").await["quota_set"].take();
    let before = quotas().await;
    let specs = json!({"quota:cpu_quota": "10000", "quota:cpu_period": "20000", "quota:disk_total_iops_sec": "10"});
    flavor(&api, "limited", specs).await;
    assert_eq!(used().await, [0, 0, 0]);
    let id = built(&api, "limited", &[]).await;
    assert_eq!(status(&api, &id).await, "ACTIVE");
    assert_eq!(used().await, [1, 512, 1], "a limited CPU counts as a whole one");
    assert_eq!(quotas().await, before);
    assert!(
        before.as_object().unwrap().keys().all(|name| !name.contains("shares") && !name.contains("iops")),
        "{before}"
    );
    // A flavor without limits counts the same.
    built(&api, "1", &[]).await;
    assert_eq!(used().await, [2, 1024, 2]);
    api.world.check().await;
    api.stop().await;
}
