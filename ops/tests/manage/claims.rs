//! Allocations that are lost or left: what `placement` heals, what it refuses, and what the log warns of.

use serde_json::{Value, json};

use super::site::{ManagedCloud, NOBODY};

/// A client of Placement has removed the provider of a host. The host's next report makes it again.
#[test]
fn a_host_without_a_provider_has_novas_codes() {
    let mut site = ManagedCloud::running_with("[DEFAULT]\nupdate_resources_interval = -1\n");
    let server = site.server("web");
    let shown = site.client().get(&format!("/compute/v2.1/servers/{server}")).unwrap().body;
    let host = shown["server"]["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned();
    let aggregate = json!({"aggregate": {"name": "fast"}});
    let made = site.client().post("/compute/v2.1/os-aggregates", &aggregate).unwrap().expect(200).body;
    let path = format!("/compute/v2.1/os-aggregates/{}/action", made["aggregate"]["id"]);
    site.client().post(&path, &json!({"add_host": {"host": host}})).unwrap().expect(200);
    let named = format!("/placement/resource_providers?name={host}");
    let provider = site.client().get(&named).unwrap().expect(200).text("/resource_providers/0/uuid");
    site.client().delete(&format!("/placement/allocations/{server}")).unwrap().expect(204);
    site.client().delete(&format!("/placement/resource_providers/{provider}")).unwrap().expect(204);
    let said = site.manage("placement heal_allocations", 2);
    assert!(said.contains(&format!("Compute host {host} could not be found.")), "{said}");
    let said = site.manage("placement sync_aggregates", 6);
    assert!(said.contains(&format!("in placement with uuid for the following hosts: {host}.")), "{said}");
    // As the message says, a restart of the service brings the provider back.
    site.cloud.stop();
    site.cloud.start();
    site.cloud.wait("the host has its provider again", |cloud| {
        let known = cloud.client().get(&named).unwrap().expect(200).body;
        known["resource_providers"].as_array().is_some_and(|all| !all.is_empty())
    });
    site.manage("placement heal_allocations", 0);
    site.manage("placement sync_aggregates", 0);
}

/// The old host's allocation belongs to the migration until the move is confirmed. Nova's program does not heal it.
#[test]
fn allocations_of_a_migration_are_not_healed() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    site.act(&server, &json!({"migrate": null}), "VERIFY_RESIZE");
    let migration = site.client().get("/compute/v2.1/os-migrations").unwrap().expect(200).text("/migrations/0/uuid");
    assert_ne!(site.allocations(&migration)["allocations"], json!({}));
    site.client().delete(&format!("/placement/allocations/{migration}")).unwrap().expect(204);
    let said = site.manage("placement heal_allocations --verbose", 4);
    assert!(said.contains(&format!("The allocation of instance {server} is up-to-date.")), "{said}");
    assert_eq!(site.allocations(&migration)["allocations"], json!({}));
}

#[test]
fn the_log_warns_of_allocations_that_nobody_needs() {
    const WORDS: &str = "a consumer has an allocation in Placement, but no server and no migration needs it";
    let mut site = ManagedCloud::running();
    let (server, provider) = (site.server("web"), site.provider());
    let theirs: Value = json!({
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE",
    });
    site.client().put_at(&format!("/placement/allocations/{NOBODY}"), &theirs).unwrap().expect(204);
    site.cloud.stop();
    assert!(!site.cloud.log().contains(WORDS), "{}", site.cloud.log());
    site.cloud.start();
    site.cloud.wait("the log has the warning", |cloud| cloud.log().contains(WORDS));
    let log = site.cloud.log();
    let warned: Vec<&str> = log.lines().filter(|line| line.contains(WORDS)).collect();
    assert!(warned.len() == 1 && warned[0].contains(NOBODY), "{log}");
    assert!(!warned[0].contains(&server), "{log}");
}
