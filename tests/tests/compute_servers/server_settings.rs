//! Settings of operators and images that apply to servers: passwords, config drives, certificates, shutdown timeouts,
//! and the options of live migrations. Also the properties that a server keeps through all operations.

use std::sync::Arc;

use chronova_events::ids::{ImageId, InstanceId};
use chronova_hypervisor::capability::live_migration::MigrationPlan;
use chronova_hypervisor::driver::StopMode;
use chronova_tests::compute_api::{ADMIN, Answer, Api, IMAGE, NETWORK};
use chronova_tests::world::World;
use chronova_web::compute::{ComputeConfig, ComputeState};
use serde_json::{Value, json};

const OWNER: &str = "u:p";

async fn act(api: &Api, id: &str, version: &str, body: Value) -> Answer {
    let answer = api.call("POST", &format!("/servers/{id}/action"), version, ADMIN, Some(body)).await;
    api.life.settled().await;
    answer
}

/// Sends an action that must succeed. Returns the body of the answer.
async fn done(api: &Api, id: &str, version: &str, body: Value) -> Value {
    let answer = act(api, id, version, body.clone()).await;
    assert!(matches!(answer.status, 200 | 202 | 204), "{body}: {} {}", answer.status, answer.body);
    answer.body
}

async fn shown(api: &Api, id: &str) -> Value {
    api.get(&format!("/servers/{id}"), "2.46").await["server"].take()
}

async fn host(api: &Api, id: &str) -> String {
    shown(api, id).await["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned()
}

async fn create(api: &Api, version: &str, request: Value) -> Answer {
    let answer = api.call("POST", "/servers", version, OWNER, Some(json!({"server": request}))).await;
    api.life.settled().await;
    answer
}

fn id_of(made: &Answer) -> String {
    made.body["server"]["id"].as_str().unwrap_or_else(|| panic!("{} {}", made.status, made.body)).to_owned()
}

fn configure(api: &mut Api, config: ComputeConfig) {
    Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config);
}

async fn ends_well(api: Api) {
    let Api { world, life, .. } = api;
    life.settled().await;
    life.stop().await;
    world.check().await;
}

/// Sends all requests that generate a password (create, rebuild, rescue, evacuate). Returns the `adminPass` in the
/// answers.
async fn told(api: &Api, asked: Option<&str>) -> Vec<Value> {
    let with = |mut body: Value| {
        if let Some(password) = asked {
            body["adminPass"] = json!(password);
        }
        body
    };
    let made = create(api, "2.1", with(Api::wish("web"))).await;
    let id = id_of(&made);
    let rebuilt = done(api, &id, "2.1", json!({"rebuild": with(json!({"imageRef": IMAGE}))})).await;
    let rescued = done(api, &id, "2.1", json!({"rescue": with(json!({}))})).await;
    done(api, &id, "2.1", json!({"unrescue": null})).await;
    let home = host(api, &id).await;
    let index = (0..2).find(|host| api.world.fleet.hostname(*host) == home).unwrap();
    api.world.fleet.kill_host(index);
    api.life.hosts_up_of(1, 2).await;
    let evacuated = done(api, &id, "2.13", json!({"evacuate": with(json!({"onSharedStorage": false}))})).await;
    assert_eq!(shown(api, &id).await["status"], "ACTIVE");
    api.world.fleet.revive_host(index, false).unwrap();
    api.life.hosts_up(2).await;
    api.life.settled().await;
    [&made.body["server"], &rebuilt["server"], &rescued, &evacuated]
        .into_iter()
        .map(|answer| answer.get("adminPass").cloned().unwrap_or(Value::Null))
        .collect()
}

#[actix_rt::test]
async fn a_missing_password_is_generated_and_shown_if_the_option_allows_it() {
    let mut api = Api::start().await;
    assert_eq!(told(&api, Some("s3cret")).await, ["s3cret"; 4], "an answer has another password than the request");
    let made_up = told(&api, None).await;
    let words: std::collections::BTreeSet<&str> = made_up.iter().filter_map(Value::as_str).collect();
    assert_eq!(words.len(), 4, "two requests got the same password: {made_up:?}");
    assert!(words.iter().all(|word| word.len() == 12 && word.chars().all(|c| c.is_ascii_alphanumeric())), "{words:?}");
    // With `[api] enable_instance_password` off, no answer has a password.
    configure(&mut api, ComputeConfig { enable_instance_password: false, ..ComputeConfig::default() });
    assert_eq!(told(&api, None).await, [Value::Null, Value::Null, Value::Null, Value::Null]);
    assert_eq!(told(&api, Some("s3cret")).await, [Value::Null, Value::Null, Value::Null, Value::Null]);
    ends_well(api).await;
}

/// The quota bounds the number of servers in a request before anything is allocated for them. Without a quota limit, an
/// option bounds the number.
#[actix_rt::test]
async fn a_billion_servers_in_one_request_cost_nothing() {
    const BILLION: u32 = 1_000_000_000;
    let mut api = Api::start().await;
    let request = |min: u32| {
        let mut request = Api::wish("many");
        request["min_count"] = json!(min);
        request["max_count"] = json!(BILLION);
        request
    };
    let refused = create(&api, "2.1", request(BILLION)).await;
    let words = "Quota exceeded for cores, instances, ram: Requested 1000000000, 1000000000, 512000000000, but already used \
                 0, 0, 0 of 20, 10, 51200 cores, instances, ram";
    assert_eq!((refused.status, refused.message()), (403, words));
    let mut config = ComputeConfig { max_servers_per_request: 3, ..ComputeConfig::default() };
    for resource in ["cores", "instances", "ram"] {
        config.quota.insert(resource, -1);
    }
    configure(&mut api, config);
    let refused = create(&api, "2.1", request(1)).await;
    assert_eq!((refused.status, refused.message()), (400, "max_count must be at most 3: ask for the others later."));
    let mut three = request(1);
    three["max_count"] = json!(3);
    assert_eq!(create(&api, "2.1", three).await.status, 202);
    let list = api.call("GET", "/servers", "2.1", OWNER, None).await;
    let names: Vec<_> = list.body["servers"].as_array().unwrap().iter().map(|server| server["name"].clone()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    ends_well(api).await;
}

#[actix_rt::test]
async fn config_drives_can_be_forced_on_all_new_servers() {
    let mut api = Api::start().await;
    let drive = async |api: &Api, id: &str| {
        let spec = api.world.brakes.guest(id.parse().unwrap()).unwrap();
        (shown(api, id).await["config_drive"].clone(), spec.config_drive.is_some())
    };
    let before = api.server(OWNER, Api::wish("before")).await;
    assert_eq!(drive(&api, &before).await, (json!(""), false));
    configure(&mut api, ComputeConfig { force_config_drive: true, ..ComputeConfig::default() });
    let mut refuses = Api::wish("refuses");
    refuses["config_drive"] = json!(false);
    for request in [Api::wish("says nothing"), refuses] {
        let id = api.server(OWNER, request).await;
        assert_eq!(drive(&api, &id).await, (json!("True"), true));
    }
    // A server that was created before the option was set gets no config drive from any operation.
    done(&api, &before, "2.1", json!({"rebuild": {"imageRef": IMAGE}})).await;
    assert_eq!(drive(&api, &before).await, (json!(""), false));
    done(&api, &before, "2.1", json!({"reboot": {"type": "HARD"}})).await;
    assert_eq!(drive(&api, &before).await, (json!(""), false));
    ends_well(api).await;
}

#[actix_rt::test]
async fn trusted_certificates_are_taken_with_a_rebuild_and_by_whom_the_policy_lets() {
    let closed = "\"os_compute_api:servers:create:trusted_certs\": \"!\"\n\
                  \"os_compute_api:servers:rebuild:trusted_certs\": \"!\"\n";
    let (open, shut) = (Api::start().await, Api::start_with(closed, None).await);
    let certs = |mut body: Value| {
        body["trusted_image_certificates"] = json!(["cert-a", "cert-b"]);
        body
    };
    let id = open.server(OWNER, Api::wish("web")).await;
    let now = async |id: &str| {
        open.get(&format!("/servers/{id}"), "2.63").await["server"]["trusted_image_certificates"].take()
    };
    assert_eq!(now(&id).await, Value::Null);
    let rebuild = |body: Value| json!({"rebuild": body});
    let plain = || json!({"imageRef": IMAGE});
    let answer = done(&open, &id, "2.63", rebuild(certs(plain()))).await;
    assert_eq!(answer["server"]["trusted_image_certificates"], json!(["cert-a", "cert-b"]));
    assert_eq!(now(&id).await, json!(["cert-a", "cert-b"]));
    // The answer to a change of the server has the certificates, and so has the detailed list.
    for (version, has) in [("2.62", false), ("2.63", true)] {
        let renamed = Some(json!({"server": {"name": "renamed"}}));
        let changed = open.call("PUT", &format!("/servers/{id}"), version, OWNER, renamed).await;
        assert_eq!(changed.status, 200, "{}", changed.body);
        let listed = open.get("/servers/detail?all_tenants=1", version).await["servers"][0].take();
        let expected = has.then(|| json!(["cert-a", "cert-b"]));
        for shown in [&changed.body["server"], &listed] {
            assert_eq!(shown.get("trusted_image_certificates"), expected.as_ref(), "{version}: {shown}");
        }
    }
    done(&open, &id, "2.63", rebuild(plain())).await;
    assert_eq!(now(&id).await, json!(["cert-a", "cert-b"]), "a rebuild without certificates changed them");
    let mut none = plain();
    none["trusted_image_certificates"] = Value::Null;
    done(&open, &id, "2.63", rebuild(none)).await;
    assert_eq!(now(&id).await, Value::Null);
    // At most 50 certificates.
    for (count, status) in [(51, 400), (50, 202)] {
        let mut many = plain();
        many["trusted_image_certificates"] = (0..count).map(|number| json!(format!("cert-{number}"))).collect();
        let answer = act(&open, &id, "2.63", rebuild(many)).await;
        assert_eq!(answer.status, status, "{count} certificates: {}", answer.body);
    }
    assert_eq!(act(&open, &id, "2.62", rebuild(certs(plain()))).await.status, 400, "2.62 accepts certificates");
    let made = create(&open, "2.63", certs(Api::wish("certified"))).await;
    assert_eq!(now(&id_of(&made)).await, json!(["cert-a", "cert-b"]));

    // Each part has its own policy rule, which denies only that part.
    let denied =
        |rule: &str| format!("Policy doesn't allow os_compute_api:servers:{rule}:trusted_certs to be performed.");
    let made = create(&shut, "2.63", certs(Api::wish("certified"))).await;
    assert_eq!((made.status, made.message()), (403, denied("create").as_str()));
    let id = id_of(&create(&shut, "2.63", Api::wish("plain")).await);
    let refused = act(&shut, &id, "2.63", rebuild(certs(plain()))).await;
    assert_eq!((refused.status, refused.message()), (403, denied("rebuild").as_str()));
    done(&shut, &id, "2.63", rebuild(plain())).await;
    ends_well(open).await;
    ends_well(shut).await;
}

/// `[DEFAULT] shutdown_timeout`, and `os_shutdown_timeout` of an image: a stop, a resize, a shelving and a rescue first
/// ask the guest to shut down.
#[actix_rt::test]
async fn guests_get_time_to_shut_down() {
    let mut world = World::new(2);
    world.options.servers.shutdown_timeout = 7;
    world.options.volume.shared = true;
    let api = Api::start_of(world, "", None).await;
    api.flavor("2", 1024, 2).await;
    let image = api.image(&[("os_shutdown_timeout", "3")]).await;
    let volume = json!([{"source_type": "image", "uuid": image, "destination_type": "volume", "volume_size": 1,
        "boot_index": 0, "delete_on_termination": true}]);
    let own =
        |image: ImageId| json!({"name": "own", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "imageRef": image});
    let on_volume =
        json!({"name": "v", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "block_device_mapping_v2": volume});
    for (request, seconds, rescuable) in [(Api::wish("plain"), 7, true), (own(image), 3, true), (on_volume, 3, false)] {
        let id = api.server(OWNER, request).await;
        api.world.brakes.take_stops();
        let mut cases = vec![
            (json!({"os-stop": null}), Some(json!({"os-start": null}))),
            (json!({"resize": {"flavorRef": "2"}}), Some(json!({"revertResize": null}))),
            (json!({"shelve": null}), Some(json!({"unshelve": null}))),
        ];
        if rescuable {
            cases.push((json!({"rescue": null}), Some(json!({"unrescue": null}))));
        }
        for (body, back) in cases {
            done(&api, &id, "2.1", body.clone()).await;
            let stops = api.world.brakes.take_stops();
            assert_eq!(stops.first(), Some(&StopMode::Graceful { timeout_seconds: seconds }), "{body}: {stops:?}");
            if let Some(back) = back {
                done(&api, &id, "2.1", back).await;
            }
            api.world.brakes.take_stops();
        }
        // A stopped guest is not asked to shut down.
        done(&api, &id, "2.1", json!({"os-stop": null})).await;
        api.world.brakes.take_stops();
        done(&api, &id, "2.1", json!({"resize": {"flavorRef": "2"}})).await;
        let asked = |stop: &StopMode| matches!(stop, StopMode::Graceful { .. });
        assert!(!api.world.brakes.take_stops().iter().any(asked));
        done(&api, &id, "2.1", json!({"revertResize": null})).await;
    }
    ends_well(api).await;
}

/// `[libvirt] live_migration_...`: live migrations use the options that the operator configured.
#[actix_rt::test]
async fn live_migrations_use_the_operators_options() {
    let journey = async |change: &dyn Fn(&mut World)| -> (Option<MigrationPlan>, String) {
        let mut world = World::new(2);
        change(&mut world);
        let api = Api::start_of(world, "", None).await;
        let id = api.server(OWNER, Api::wish("web")).await;
        let live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
        assert_eq!(act(&api, &id, "2.34", live).await.status, 202);
        let fault = api.life.fault(id.parse().unwrap());
        let journey = api.world.brakes.migration_plans().pop();
        ends_well(api).await;
        (journey, fault)
    };
    let (plain, _) = journey(&|_| {}).await;
    let plain = plain.unwrap();
    assert!(
        !plain.auto_converge && !plain.post_copy && !plain.tls && !plain.tunnelled,
        "an option is on by default: {plain:?}"
    );
    assert_eq!((plain.stream, plain.bandwidth, plain.copied), (None, 0, vec!["vda".to_owned()]));
    let permitted = async |converge: bool, post_copy: bool| {
        let (journey, _) = journey(&|world| {
            world.options.live.permit_auto_converge = converge;
            world.options.live.permit_post_copy = post_copy;
        })
        .await;
        let journey = journey.unwrap();
        (journey.auto_converge, journey.post_copy)
    };
    assert_eq!(permitted(true, false).await, (true, false));
    assert_eq!(permitted(false, true).await, (false, true));
    assert_eq!(permitted(true, true).await, (true, true), "the driver does not get both options");
    let (secret, _) = journey(&|world| {
        let live = &mut world.options.live;
        (live.native_tls, live.scheme) = (true, Some("tls".to_owned()));
        (live.inbound_addr, live.bandwidth) = (Some("%s.migration".to_owned()), 9);
    })
    .await;
    let secret = secret.unwrap();
    assert!(secret.tls && secret.copied == ["vda"], "native TLS excludes the copied disks: {secret:?}");
    let stream = secret.stream.unwrap();
    assert!(stream.starts_with("sim-") && stream.ends_with(".migration"), "{stream}");
    assert_eq!(secret.bandwidth, 9);
    // A tunnelled migration cannot copy local disks. With shared storage it needs no migration address.
    let tunnel = |world: &mut World| {
        let live = &mut world.options.live;
        (live.tunnelled, live.inbound_addr) = (true, Some("10.0.0.9".to_owned()));
    };
    let (none, fault) = journey(&tunnel).await;
    assert_eq!(none, None);
    assert!(fault.contains("live_migration_tunnelled"), "{fault}");
    let (shared, _) = journey(&|world| {
        tunnel(world);
        world.fleet.share_storage(true);
    })
    .await;
    let shared = shared.unwrap();
    assert!(shared.tunnelled && shared.stream.is_none() && shared.copied.is_empty(), "{shared:?}");
    let by = |known: bool| {
        move |world: &mut World| {
            world.options.live.interface = Some("moves0".to_owned());
            if known {
                world.fleet.add_interface("moves0");
            }
        }
    };
    let (by_interface, _) = journey(&by(true)).await;
    assert!(by_interface.unwrap().stream.unwrap().starts_with("192.0.2."), "not the interface's address");
    let (none, fault) = journey(&by(false)).await;
    assert_eq!(none, None, "the move uses another interface");
    assert!(fault.contains("no address of interface moves0 (live_migration_interface)"), "{fault}");
}

/// The server stays on its host, and the refusal names the host that is too old.
#[actix_rt::test]
async fn guests_leave_with_native_tls_only_where_both_hosts_have_it() {
    for (old, tls, goes) in [
        (Some("source"), true, false),
        (Some("target"), true, false),
        (None, true, true),
        (Some("target"), false, true),
    ] {
        let mut world = World::new(2);
        world.options.live.native_tls = tls;
        let api = Api::start_of(world, "", None).await;
        let id = api.server(OWNER, Api::wish("web")).await;
        let home = host(&api, &id).await;
        let fleet = &api.world.fleet;
        let at = (0..2).find(|index| (fleet.hostname(*index) == home) == (old == Some("source"))).unwrap();
        if old.is_some() {
            fleet.refuse_tls(at, "it has libvirt 4.3.0");
        }
        let live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
        assert_eq!(act(&api, &id, "2.34", live).await.status, 202);
        api.life.settled().await;
        let now = shown(&api, &id).await;
        assert_eq!((&now["status"], now["OS-EXT-SRV-ATTR:host"] == home), (&json!("ACTIVE"), !goes), "{old:?} {tls}");
        let fault = api.life.fault(id.parse().unwrap());
        let told = format!("Migration pre-check error: host {}: it has libvirt 4.3.0.", api.world.fleet.hostname(at));
        assert_eq!(fault.contains(&told), !goes, "{old:?} {tls}: {fault}");
        assert_eq!(api.world.brakes.migration_plans().len(), usize::from(goes), "a refused move was started");
        if !goes {
            // The server is unchanged and shows no fault.
            let path = format!("/servers/{id}/os-instance-actions");
            let action = api.get(&path, "2.84").await["instanceActions"][0].take();
            let path = format!("{path}/{}", action["request_id"].as_str().unwrap());
            let events = api.get(&path, "2.84").await["instanceAction"]["events"].take();
            assert!(events.as_array().unwrap().iter().any(|event| event["details"] == told.as_str()), "{events}");
        }
        ends_well(api).await;
    }
}

/// Only administrators and managers may migrate a server, unless the operator's policy allows it to others.
#[actix_rt::test]
async fn a_policy_may_let_members_migrate() {
    for (policy, status) in [("", 403), ("'os_compute_api:os-migrate-server:migrate': 'role:member'", 202)] {
        let api = Api::start_with(policy, None).await;
        let id = api.server(OWNER, Api::wish("web")).await;
        let home = host(&api, &id).await;
        let path = format!("/servers/{id}/action");
        let answer = api.call("POST", &path, "2.56", OWNER, Some(json!({"migrate": null}))).await;
        assert_eq!(answer.status, status, "{policy}: {}", answer.body);
        api.life.settled().await;
        assert_eq!(host(&api, &id).await != home, status == 202, "{policy}");
        ends_well(api).await;
    }
}

#[actix_rt::test]
async fn a_policy_may_keep_members_from_making_images() {
    for (policy, status) in [("", 202), ("'os_compute_api:servers:create_image': 'role:admin'", 403)] {
        let api = Api::start_with(policy, None).await;
        let id = api.server(OWNER, Api::wish("web")).await;
        let body = json!({"createImage": {"name": "copy"}});
        let answer = api.call("POST", &format!("/servers/{id}/action"), "2.45", OWNER, Some(body)).await;
        assert_eq!(answer.status, status, "{policy}: {}", answer.body);
        api.life.settled().await;
        ends_well(api).await;
    }
}

#[actix_rt::test]
async fn a_cold_migration_changes_nothing_of_what_a_server_is() {
    let api = Api::start().await;
    let mut request = Api::wish("web");
    request["metadata"] = json!({"role": "front", "tier": "1"});
    request["tags"] = json!(["blue"]);
    let id = api.server(OWNER, request).await;
    let what = async || {
        let now = api.get(&format!("/servers/{id}"), "2.79").await["server"].take();
        let keys =
            ["id", "name", "addresses", "metadata", "tags", "image", "flavor", "created", "tenant_id", "user_id"];
        keys.map(|key| now[key].clone())
    };
    let (before, home) = (what().await, host(&api, &id).await);
    assert_eq!(before[3], json!({"role": "front", "tier": "1"}));
    assert!(before[2]["private"][0]["addr"].is_string(), "{}", before[2]);
    done(&api, &id, "2.56", json!({"migrate": null})).await;
    assert_ne!(host(&api, &id).await, home);
    assert_eq!(what().await, before, "the server changed before the confirmation");
    done(&api, &id, "2.1", json!({"confirmResize": null})).await;
    assert_eq!(what().await, before);
    ends_well(api).await;
}

/// A rebuild runs only the filters that are marked for rebuilds, on the server's own host, also if an administrator forced
/// the server there. A rebuild does not ask Placement.
#[actix_rt::test]
async fn a_rebuild_with_an_image_that_the_host_cannot_run_fails() {
    let api = Api::start_with("\"os_compute_api:servers:create:forced_host\": \"@\"", None).await;
    let mut forced = Api::wish("web");
    forced["availability_zone"] = json!("nova:sim-0001");
    let id = api.server(OWNER, forced).await;
    let (image, home) = (shown(&api, &id).await["image"].take(), host(&api, &id).await);
    let foreign = api.image(&[("hw_architecture", "s390x")]).await;
    assert_eq!(act(&api, &id, "2.1", json!({"rebuild": {"imageRef": foreign}})).await.status, 202);
    let now = shown(&api, &id).await;
    assert_eq!((&now["status"], &now["OS-EXT-SRV-ATTR:host"]), (&json!("ERROR"), &json!(home)));
    assert!(now["fault"]["message"].as_str().unwrap().contains("No valid host was found"), "{}", now["fault"]);
    assert_eq!(now["image"], image, "the failed rebuild changed the image");
    // All hosts are disabled, but a rebuild needs no new placement.
    let services = api.get("/os-services?binary=nova-compute", "2.53").await["services"].take();
    for service in services.as_array().unwrap() {
        let path = format!("/os-services/{}", service["id"].as_str().unwrap());
        assert_eq!(api.call("PUT", &path, "2.53", ADMIN, Some(json!({"status": "disabled"}))).await.status, 200);
    }
    let fitting = api.image(&[("hw_architecture", "x86_64")]).await;
    done(&api, &id, "2.1", json!({"rebuild": {"imageRef": fitting}})).await;
    let now = shown(&api, &id).await;
    assert_eq!((&now["status"], &now["image"]["id"]), (&json!("ACTIVE"), &json!(fitting)));
    ends_well(api).await;
}

#[actix_rt::test]
async fn servers_with_a_tpm_are_not_rescued_and_not_shelved() {
    let api = Api::start().await;
    // No host offers a TPM, so the server fails. The API refuses the requests before it considers the server's host.
    let image = api.image(&[("hw_tpm_version", "2.0")]).await;
    let mut request = Api::wish("tpm");
    request["imageRef"] = json!(image);
    let id = id_of(&create(&api, "2.1", request).await);
    for (action, version, body) in [
        ("rescue", "2.1", json!({"rescue": null})),
        ("shelve", "2.1", json!({"shelve": null})),
        ("live-migration", "2.34", json!({"os-migrateLive": {"host": null, "block_migration": "auto"}})),
        ("evacuate", "2.14", json!({"evacuate": {}})),
    ] {
        let refused = act(&api, &id, version, body).await;
        assert_eq!(refused.status, 400, "{action}: {}", refused.body);
        assert!(refused.message().contains("vTPM") && refused.message().contains(action), "{}", refused.message());
    }
    ends_well(api).await;
}

/// The quota `cores` counts vCPUs and dedicated CPUs, whether or not a host has room for them.
#[actix_rt::test]
async fn dedicated_cpus_count_as_cores() {
    let api = Api::start().await;
    let cores = async || {
        let limits = api.call("GET", "/limits", "2.1", OWNER, None).await.body;
        limits["limits"]["absolute"]["totalCoresUsed"].as_u64().unwrap()
    };
    for (id, vcpus, policy) in [("shared", 2, "shared"), ("dedicated", 3, "dedicated")] {
        let flavor = json!({"flavor": {"id": id, "name": id, "ram": 64, "vcpus": vcpus, "disk": 1}});
        assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
        let specs = json!({"extra_specs": {"hw:cpu_policy": policy}});
        let path = format!("/flavors/{id}/os-extra_specs");
        assert_eq!(api.call("POST", &path, "2.1", ADMIN, Some(specs)).await.status, 200);
        let mut request = Api::wish(id);
        request["flavorRef"] = json!(id);
        api.server(OWNER, request).await;
    }
    assert_eq!(cores().await, 5);
    // Both kinds use up the same quota.
    let narrow = json!({"quota_set": {"cores": 7}});
    assert_eq!(api.call("PUT", "/os-quota-sets/p", "2.1", ADMIN, Some(narrow)).await.status, 200);
    let mut request = Api::wish("more");
    request["flavorRef"] = json!("dedicated");
    let refused = create(&api, "2.1", request).await;
    assert_eq!(refused.status, 403);
    assert!(refused.message().contains("already used 5 of 7 cores"), "{}", refused.message());
    ends_well(api).await;
}

#[actix_rt::test]
async fn an_image_names_the_server_that_it_was_made_of() {
    let api = Api::start().await;
    let id = api.server(OWNER, Api::wish("web")).await;
    done(&api, &id, "2.1", json!({"os-stop": null})).await;
    let made = done(&api, &id, "2.45", json!({"createImage": {"name": "of-web"}})).await;
    let image: ImageId = made["image_id"].as_str().unwrap().parse().unwrap();
    let made = api.world.images.made()[&image].clone();
    let says = |key: &str| made.draft.properties.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    assert_eq!(says("instance_uuid"), Some(id.clone()));
    assert_eq!((made.draft.name.as_str(), made.bytes.is_some()), ("of-web", true));
    let _: InstanceId = id.parse().unwrap();
    ends_well(api).await;
}

/// A server keeps the flavor and key pair from its creation, even if they are changed or deleted later.
#[actix_rt::test]
async fn servers_keep_deleted_keys_and_flavors() {
    let api = Api::start().await;
    api.flavor("gone", 256, 1).await;
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8o0Xq3m3V1Xf0E3x9p1QnJm0lYy7m2xv9p7i2YxQwE u@h";
    let pair = json!({"keypair": {"name": "mine", "public_key": public}});
    let made = api.call("POST", "/os-keypairs", "2.1", OWNER, Some(pair)).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let mut request = Api::wish("kept");
    (request["key_name"], request["config_drive"], request["flavorRef"]) = (json!("mine"), json!(true), json!("gone"));
    let id = api.server(OWNER, request).await;
    assert_eq!(api.call("DELETE", "/os-keypairs/mine", "2.1", OWNER, None).await.status, 202);
    assert_eq!(api.call("DELETE", "/flavors/gone", "2.1", ADMIN, None).await.status, 202);
    let told = async || {
        let drive = api.world.brakes.guest(id.parse().unwrap()).unwrap().config_drive.unwrap();
        let has = drive.windows(public.len()).any(|part| part == public.as_bytes());
        let now = api.get(&format!("/servers/{id}"), "2.47").await["server"].take();
        (has, now["key_name"].clone(), now["flavor"]["ram"].clone(), now["status"].clone())
    };
    let whole = (true, json!("mine"), json!(256), json!("ACTIVE"));
    assert_eq!(told().await, whole);
    // The server keeps these values over a rebuild, a cold migration and an unshelve.
    for bodies in [
        vec![json!({"rebuild": {"imageRef": IMAGE}})],
        vec![json!({"migrate": null}), json!({"confirmResize": null})],
        vec![json!({"shelve": null}), json!({"shelveOffload": null}), json!({"unshelve": null})],
    ] {
        for body in &bodies {
            done(&api, &id, "2.1", body.clone()).await;
        }
        assert_eq!(told().await, whole, "{bodies:?}");
    }
    ends_well(api).await;
}

/// A server that no host can run ends in ERROR, with that reason.
#[actix_rt::test]
async fn an_image_of_another_architecture_is_refused() {
    let api = Api::start().await;
    let image = api.image(&[("hw_architecture", "s390x")]).await;
    let mut request = Api::wish("foreign");
    request["imageRef"] = json!(image);
    let now = shown(&api, &id_of(&create(&api, "2.1", request).await)).await;
    let fault = now["fault"]["message"].as_str().unwrap_or_default();
    assert_eq!(now["status"], "ERROR");
    assert!(fault.starts_with("No valid host was found. ") && fault.contains("s390x"), "{fault}");
    ends_well(api).await;
}

/// The guest decides what it does with a password. If it does nothing, nothing fails.
#[actix_rt::test]
async fn a_password_that_the_guest_ignores_is_no_error() {
    let api = Api::start().await;
    let mut request = Api::wish("s");
    request["adminPass"] = json!("s3cret-Word");
    let made = api.call("POST", "/servers", "2.1", "alice:web", Some(json!({"server": request}))).await;
    assert_eq!((made.status, &made.body["server"]["adminPass"]), (202, &json!("s3cret-Word")));
    api.life.settled().await;
    let path = format!("/servers/{}", made.body["server"]["id"].as_str().unwrap());
    let shown = api.get(&path, "2.1").await["server"].take();
    assert_eq!((&shown["status"], shown.get("fault"), shown.get("adminPass")), (&json!("ACTIVE"), None, None));
    let actions = api.get(&format!("{path}/os-instance-actions"), "2.1").await;
    assert_eq!(
        (&actions["instanceActions"][0]["action"], &actions["instanceActions"][0]["message"]),
        (&json!("create"), &Value::Null)
    );
    api.stop().await;
}
