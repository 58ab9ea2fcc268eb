//! At SIGHUP a running control plane reads log level, policy and certificates again, and adds new hosts. A mistake
//! changes nothing. Hosts are added and removed without a restart.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

use std::path::Path;

use serde_json::{Value, json};

use crate::cloud::{Cloud, Furniture};
use crate::tls::{certificates, curl};

const SERVERS: &str = "/compute/v2.1/servers";

fn log(cloud: &Cloud) -> String {
    std::fs::read_to_string(cloud.folder.path().join("log")).unwrap_or_default()
}

/// Sends SIGHUP, and waits until the log contains the text `what` this many times.
fn hang_up(cloud: &mut Cloud, what: &str, times: usize) {
    cloud.signal("HUP");
    cloud.wait(what, |cloud| log(cloud).matches(what).count() == times);
}

const READ: &str = "read again on SIGHUP";

/// The last line that names the parts that were read.
fn last_read(cloud: &Cloud) -> String {
    log(cloud).lines().rfind(|line| line.contains(READ)).unwrap_or_default().trim_end().to_owned()
}

/// Waits until the host is a resource provider. Returns the provider's id.
fn provider_of_the_host(cloud: &mut Cloud) -> String {
    let mut provider = String::new();
    cloud.wait("the host is a resource provider", |cloud| {
        let found = cloud.client().get("/placement/resource_providers?name=sim-0001").unwrap().expect(200).body;
        found["resource_providers"][0]["uuid"].as_str().unwrap_or_default().clone_into(&mut provider);
        !provider.is_empty()
    });
    provider
}

#[test]
fn a_hang_up_reads_policy_and_log_level_again() {
    let mut cloud = Cloud::new("sim://1");
    let policy = cloud.folder.path().join("policy.yaml");
    std::fs::write(&policy, "{}\n").unwrap();
    cloud.configure(&format!("[oslo_policy]\npolicy_file = {}\n", policy.display()));
    // The variable would override the configured level.
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.start();
    let status = |cloud: &Cloud| cloud.client().get(SERVERS).unwrap().status;
    assert_eq!(status(&cloud), 200);
    std::fs::write(&policy, "\"os_compute_api:servers:index\": \"!\"\n").unwrap();
    assert_eq!(status(&cloud), 200, "the changed file took effect before SIGHUP");
    hang_up(&mut cloud, READ, 1);
    assert!(last_read(&cloud).ends_with("SIGHUP: log level, policy"), "{}", last_read(&cloud));
    assert_eq!(status(&cloud), 403);
    std::fs::write(&policy, "\"os_compute_api:servers:index\": \"role:\n  - broken").unwrap();
    hang_up(&mut cloud, READ, 2);
    assert!(last_read(&cloud).ends_with("SIGHUP: log level"), "the log names a part that was not read");
    assert_eq!(status(&cloud), 403, "a policy that cannot be read replaced the policy in force");
    assert!(log(&cloud).contains("the policy stays as it was"));
    std::fs::write(&policy, "{}\n").unwrap();
    cloud.configure("[DEFAULT]\ndebug = true\n");
    assert!(!log(&cloud).contains("DEBUG"));
    hang_up(&mut cloud, READ, 3);
    assert_eq!(status(&cloud), 200);
    // Each step of a process writes a line of the level DEBUG.
    let goods = cloud.furnish();
    let server =
        json!({"name": "s", "imageRef": goods.image, "flavorRef": goods.flavor, "networks": [{"uuid": goods.network}]});
    cloud.client().post(SERVERS, &json!({"server": server})).unwrap().expect(202);
    cloud.wait("a line of the level DEBUG is written", |cloud| log(cloud).contains("DEBUG"));
    cloud.configure("[api]\nauth_strategy = nonsense\n");
    hang_up(&mut cloud, "the configuration is not valid, and nothing was read from it", 1);
    assert_eq!(status(&cloud), 200);
    cloud.stop();
}

/// The files of `[compute] provider_config_location` are read once, at the start.
#[test]
fn a_changed_provider_config_takes_effect_at_the_next_start() {
    let mut cloud = Cloud::new("sim://1");
    let folder = cloud.folder.path().join("providers");
    std::fs::create_dir(&folder).unwrap();
    let write = |class: &str| {
        let entry = format!(
            "{{identification: {{uuid: $COMPUTE_NODE}}, inventories: {{additional: [{class}: {{total: 4}}]}}}}"
        );
        let text = format!("meta: {{schema_version: '1.0'}}\nproviders:\n  - {entry}\n");
        std::fs::write(folder.join("a.yaml"), text).unwrap();
    };
    write("CUSTOM_OLD");
    cloud.configure(&format!("[compute]\nprovider_config_location = {}\n", folder.display()));
    cloud.configure("[DEFAULT]\nsync_power_state_interval = 1\n");
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.start();
    let provider = provider_of_the_host(&mut cloud);
    let inventories = format!("/placement/resource_providers/{provider}/inventories");
    let custom = |cloud: &Cloud| -> Vec<String> {
        let shown = cloud.client().get(&inventories).unwrap().expect(200).body;
        let classes = shown["inventories"].as_object().unwrap().keys();
        classes.filter(|class| class.starts_with("CUSTOM_")).cloned().collect()
    };
    cloud.wait("the host has the addition", |cloud| custom(cloud) == ["CUSTOM_OLD"]);
    write("CUSTOM_NEW");
    hang_up(&mut cloud, READ, 1);
    // The next comparison of the host with the log brings the addition back.
    cloud.client().delete(&format!("{inventories}/CUSTOM_OLD")).unwrap().expect(204);
    cloud.wait("the host has an addition again", |cloud| !custom(cloud).is_empty());
    assert_eq!(custom(&cloud), ["CUSTOM_OLD"], "the changed file was read");
    cloud.stop();
    cloud.start();
    cloud.wait("the host has the new addition alone", |cloud| custom(cloud) == ["CUSTOM_NEW"]);
    cloud.stop();
}

/// A client of Placement has removed traits that the host reports, and has added a trait that the host does not report.
#[test]
fn hosts_report_their_traits_again_at_a_hang_up() {
    let mut cloud = Cloud::new("sim://1");
    cloud.configure("[DEFAULT]\nupdate_resources_interval = -1\n");
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.start();
    let provider = provider_of_the_host(&mut cloud);
    let path = format!("/placement/resource_providers/{provider}/traits");
    let shown = |cloud: &Cloud| cloud.client().get(&path).unwrap().expect(200).body;
    let has = |shown: &Value, name: &str| shown["traits"].as_array().unwrap().iter().any(|known| known == name);
    cloud.wait("the host is up", |cloud| names(cloud) == ["sim-0001"]);
    let before = shown(&cloud);
    assert!(has(&before, "COMPUTE_NODE") && !has(&before, "COMPUTE_REMOTE_MANAGED_PORTS"), "{before}");
    let others = json!({"resource_provider_generation": before["resource_provider_generation"],
        "traits": ["HW_GPU_API_VULKAN", "COMPUTE_REMOTE_MANAGED_PORTS"]});
    cloud.client().put_at(&path, &others).unwrap().expect(200);
    hang_up(&mut cloud, READ, 1);
    cloud.wait("the host has its own traits", |cloud| has(&shown(cloud), "COMPUTE_NODE"));
    cloud.wait("the host lacks the trait of others", |cloud| !has(&shown(cloud), "COMPUTE_REMOTE_MANAGED_PORTS"));
    let after = shown(&cloud);
    assert!(has(&after, "HW_GPU_API_VULKAN"), "a trait of a client is gone: {after}");
    let mut own = before["traits"].as_array().unwrap().iter().filter_map(Value::as_str);
    assert!(own.all(|name| has(&after, name)), "a trait of the host is missing: {after}");
    cloud.stop();
}

/// A migration under way follows the changed value, too: `a_migration_under_way_follows_a_changed_timeout`.
#[test]
fn a_hang_up_changes_the_timeout_of_live_migrations() {
    const CHANGED: &str = "live_migration_completion_timeout is now";
    let mut cloud = Cloud::new("sim://1");
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.start();
    hang_up(&mut cloud, READ, 1);
    cloud.configure("[libvirt]\nlive_migration_completion_timeout = 5\n");
    hang_up(&mut cloud, CHANGED, 1);
    assert!(log(&cloud).contains(&format!("{CHANGED} 5 seconds for each GiB")), "{}", log(&cloud));
    cloud.replace("live_migration_completion_timeout = 5", "live_migration_completion_timeout = 0");
    hang_up(&mut cloud, CHANGED, 2);
    assert!(log(&cloud).contains(&format!("{CHANGED} 0 seconds")), "{}", log(&cloud));
    cloud.stop();
}

#[test]
fn a_hang_up_exchanges_the_certificate() {
    let mut cloud = Cloud::new("sim://1");
    let folder = cloud.folder.path().to_owned();
    if let Err(reason) = certificates(&folder) {
        return println!("skipped: no certificates can be made: {reason}");
    }
    let copy = |from: &str, to: &str| {
        std::fs::copy(folder.join(from), folder.join(to)).unwrap();
    };
    let show = |name: &str| {
        copy(&format!("{name}.pem"), "shown.pem");
        copy(&format!("{name}.key"), "shown.key");
    };
    show("server");
    let at = |name: &str| folder.join(name).display().to_string();
    cloud.configure(&format!("[wsgi]\nssl_cert_file = {}\nssl_key_file = {}\n", at("shown.pem"), at("shown.key")));
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.launch();
    let url = format!("https://{}/healthz", cloud.address());
    let trusts = |folder: &Path, authority: &str| curl(folder, &["--cacert", authority], &url).0 == 0;
    cloud.wait("it answers over TLS", |_| trusts(&folder, "authority.pem"));
    assert!(!trusts(&folder, "stranger.pem"));
    show("foreign");
    hang_up(&mut cloud, READ, 1);
    assert!(last_read(&cloud).ends_with("SIGHUP: log level, policy, certificates"), "{}", last_read(&cloud));
    assert!(
        trusts(&folder, "stranger.pem") && !trusts(&folder, "authority.pem"),
        "the server does not show the new certificate"
    );
    copy("server.pem", "shown.pem");
    hang_up(&mut cloud, READ, 2);
    assert!(last_read(&cloud).ends_with("SIGHUP: log level, policy"), "the log names a part that was not read");
    assert!(trusts(&folder, "stranger.pem"), "a certificate without its key replaced the one in use");
    assert!(log(&cloud).contains("the certificate stays as it was"));
    cloud.stop();
}

/// The name, state and service of each host.
fn hosts(cloud: &Cloud) -> Vec<(String, String, String)> {
    let answer = cloud.client().get("/compute/v2.1/os-hypervisors/detail").unwrap().expect(200);
    let text = |host: &Value, at: &str| host.pointer(at).and_then(Value::as_str).unwrap().to_owned();
    let all = answer.body["hypervisors"].as_array().unwrap().iter();
    all.map(|host| (text(host, "/hypervisor_hostname"), text(host, "/state"), text(host, "/service/id"))).collect()
}

fn names(cloud: &Cloud) -> Vec<String> {
    let mut names: Vec<String> = hosts(cloud).into_iter().map(|(name, ..)| name).collect();
    names.sort();
    names
}

/// Requests servers on this host until it builds one; returns that server's id. A host without an agent builds none.
fn builds_on(cloud: &mut Cloud, goods: &Furniture, host: &str) -> String {
    let server = json!({"server": {"name": "s", "imageRef": goods.image, "flavorRef": goods.flavor,
        "networks": "none", "host": host}});
    let mut id = String::new();
    cloud.wait(&format!("{host} takes a server"), |cloud| {
        let client = cloud.client();
        let made = client.post(SERVERS, &server).unwrap();
        if made.status != 202 {
            return false;
        }
        id = made.text("/server/id");
        let mut status = String::new();
        cloud.wait("the build of the server has ended", |_| {
            status = client.get(&format!("{SERVERS}/{id}")).unwrap().expect(200).text("/server/status");
            status != "BUILD"
        });
        if status != "ACTIVE" {
            client.delete(&format!("{SERVERS}/{id}")).unwrap().expect(204);
        }
        status == "ACTIVE"
    });
    id
}

#[test]
fn hosts_are_added_and_removed_while_the_control_plane_runs() {
    const HOSTS: &str = "/chronova/v1/hosts";
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let goods = cloud.furnish();
    let add = |cloud: &Cloud, uri: &str| cloud.client().post(HOSTS, &json!({"host": {"uri": uri}})).unwrap();
    let remove = |cloud: &Cloud, host: &str| cloud.client().delete(&format!("{HOSTS}/{host}")).unwrap();
    for uri in ["more", "xen:///", "sim://0", "", "qemu:/// x"] {
        let refused = add(&cloud, uri).expect(400);
        assert!(!refused.body.to_string().contains("internal"), "{uri}: {}", refused.body);
    }
    for body in [json!({}), json!({"host": {}}), json!({"host": {"uri": "sim://1", "more": 1}}), json!({"host": 7})] {
        cloud.client().post(HOSTS, &body).unwrap().expect(400);
    }
    add(&cloud, "sim://1").expect(409);
    add(&cloud, "sim://1?name=more").expect(202);
    // The log has an accepted host, so a kill does not lose it.
    cloud.kill();
    cloud.start();
    let server = builds_on(&mut cloud, &goods, "more-0001");
    assert_eq!(names(&cloud), ["more-0001", "sim-0001"]);
    add(&cloud, "sim://1?name=more").expect(409);

    let refused = remove(&cloud, "more-0001").expect(409);
    assert!(refused.body.to_string().contains("takes new servers"), "{}", refused.body);
    let service = hosts(&cloud).into_iter().find(|(name, ..)| name == "more-0001").unwrap().2;
    let disabled = json!({"status": "disabled"});
    cloud.client().put_at(&format!("/compute/v2.1/os-services/{service}"), &disabled).unwrap().expect(200);
    let refused = remove(&cloud, "more-0001").expect(409);
    assert!(refused.body.to_string().contains("has servers"), "{}", refused.body);
    assert_eq!(names(&cloud).len(), 2);
    cloud.client().delete(&format!("{SERVERS}/{server}")).unwrap().expect(204);
    cloud.wait("the host is removed", |cloud| remove(cloud, "more-0001").status == 204);
    remove(&cloud, "more-0001").expect(404);
    cloud.kill();
    cloud.start();
    builds_on(&mut cloud, &goods, "sim-0001");
    assert_eq!(names(&cloud), ["sim-0001"]);
    // The host can be added again.
    add(&cloud, "sim://1?name=more").expect(202);
    builds_on(&mut cloud, &goods, "more-0001");
    let (_, told) = cloud.command(&["audit", "--kind", "fleet", "-o", "csv"]);
    assert_eq!(told.matches("fleet.hypervisor_added").count(), 2, "{told}");
    assert_eq!(told.matches("fleet.hypervisor_removed").count(), 1, "{told}");
    cloud.stop();
    let (code, text) = cloud.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{text}");
}

/// Placement has a provider with the name of a new host. The log says so, and the host is registered later.
#[test]
fn a_host_whose_name_is_taken_is_logged_and_tried_again() {
    const FAILED: &str = "registering the host failed, retrying";
    let mut cloud = Cloud::new("sim://1?name=first");
    cloud.configure("[DEFAULT]\nreport_interval = 1\n");
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.start();
    cloud.wait("the first host is known", |cloud| names(cloud) == ["first-0001"]);
    // A provider with the host's name and another id.
    cloud.client().post("/placement/resource_providers", &json!({"name": "first-0001"})).unwrap().expect(409);
    let provider = json!({"name": "sim-0001"});
    let made = cloud.client().post("/placement/resource_providers", &provider).unwrap().expect(200);
    cloud.stop();
    cloud.replace("sim://1?name=first", "sim://1");
    cloud.start();
    let tries = |cloud: &Cloud| log(cloud).lines().filter(|line| line.contains(FAILED)).count();
    cloud.wait("the host is tried again", |cloud| tries(cloud) > 1);
    let line = log(&cloud).lines().find(|line| line.contains(FAILED)).unwrap().to_owned();
    assert!(line.contains("ERROR") && line.matches("sim-0001").count() > 1, "the reason is missing: {line}");
    assert_eq!(names(&cloud), ["first-0001"], "the host has taken over the provider");
    cloud.client().delete(&format!("/placement/resource_providers/{}", made.text("/uuid"))).unwrap().expect(204);
    cloud.wait("the host is known", |cloud| names(cloud) == ["first-0001", "sim-0001"]);
    cloud.stop();
}

/// A removed host stays away after restarts, although the configuration file names it.
#[test]
fn a_removed_host_of_the_configuration_stays_removed() {
    let mut cloud = Cloud::new("sim://2");
    cloud.start();
    cloud.wait("both hosts are known", |cloud| names(cloud).len() == 2);
    let goods = cloud.furnish();
    let service = hosts(&cloud).into_iter().find(|(name, ..)| name == "sim-0002").unwrap().2;
    let disabled = json!({"status": "disabled"});
    cloud.client().put_at(&format!("/compute/v2.1/os-services/{service}"), &disabled).unwrap().expect(200);
    cloud.client().delete("/chronova/v1/hosts/sim-0002").unwrap().expect(204);
    for _ in 0..2 {
        builds_on(&mut cloud, &goods, "sim-0001");
        assert_eq!(names(&cloud), ["sim-0001"]);
        cloud.stop();
        cloud.start();
    }
    assert!(log(&cloud).contains("remove it from [chronova] hypervisors"), "{}", log(&cloud));
}

#[test]
fn a_hang_up_adds_the_hosts_that_are_new_in_the_configuration() {
    let mut cloud = Cloud::new("sim://1");
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.start();
    let goods = cloud.furnish();
    cloud.replace("hypervisors = sim://1", "hypervisors = sim://1 sim://1?name=more xen:///");
    hang_up(&mut cloud, READ, 1);
    builds_on(&mut cloud, &goods, "more-0001");
    cloud.wait("the log names the mistake", |cloud| log(cloud).contains("the host is not added"));
    assert_eq!(names(&cloud), ["more-0001", "sim-0001"]);
    // A host that could not be added is tried again, the others are not.
    hang_up(&mut cloud, "the host is not added", 2);
    assert_eq!(log(&cloud).matches("the host is added from the configuration").count(), 1, "{}", log(&cloud));
    // A host that the file no longer names stays, and is not added again.
    cloud.replace("sim://1 sim://1?name=more xen:///", "sim://1");
    hang_up(&mut cloud, READ, 3);
    cloud.replace("hypervisors = sim://1", "hypervisors = sim://1 sim://1?name=more");
    hang_up(&mut cloud, "the host is there already", 1);
    assert_eq!(names(&cloud), ["more-0001", "sim-0001"]);
    let said = log(&cloud);
    let line = said.lines().find(|line| line.contains("the host is there already")).unwrap();
    assert!(line.contains("INFO"), "{line}");
    assert_eq!(said.matches("the host is not added").count(), 2, "a host that is there is an error: {said}");
    cloud.stop();
    cloud.start();
    builds_on(&mut cloud, &goods, "more-0001");
    assert_eq!(names(&cloud), ["more-0001", "sim-0001"]);
    let (_, told) = cloud.command(&["audit", "--kind", "fleet", "-o", "csv"]);
    assert_eq!(told.matches("fleet.hypervisor_added").count(), 1, "{told}");
}
