//! The sample answers of the contract: a running control plane returns the same keys and the same JSON types at that
//! microversion. [`UNCOMPARED_SAMPLES`] and [`UNCALLED_OPERATIONS`] are the exceptions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use chronova_tests::compute_api::{ADMIN, Api, IMAGE, contract, read};
use chronova_tests::volumes::{nth_volume, snapshot_of};
use serde_json::{Value, json};

/// Objects whose keys are data.
const FREE: &[&str] =
    &["log", "metadata", "extra_specs", "properties", "addresses", "scheduler_hints", "meta", "hosts", "rules"];

/// Samples that this test leaves out, and why.
const UNCOMPARED_SAMPLES: &[(&str, &str)] = &[
    ("os-migrations/", "a test that stops a migration midway compares those that are under way"),
    ("os-volumes/os-volumes-post-resp", "the test has already attached the sample's new volume"),
    ("v2.69/", "all hosts belong to the one cell that answers"),
    ("down-cell", "all hosts belong to the one cell that answers"),
    ("os-server-diagnostics/server-diagnostics-get-resp", "before 2.48 the keys depend on the hypervisor"),
    ("os-quota-sets-noop/", "quotas are enforced"),
    ("extensions-list-resp-v21-compatible", "it lists the extensions of the API before microversions"),
];

/// Operations that this test does not call, and why.
const UNCALLED_OPERATIONS: &[(&str, &str)] = &[
    ("hypervisors.search", "2.53 removed it; the test compares the list of hypervisors instead"),
    ("hypervisors.servers", "2.53 removed it; the test compares the list of hypervisors instead"),
    ("versionsV21.show", "the test of the version documents compares it"),
    ("assisted_volume_snapshots.create", "no volume service calls it in this test"),
    ("baremetal_nodes.index", "there is no bare metal service"),
    ("baremetal_nodes.show", "there is no bare metal service"),
    ("console_auth_tokens.show", "its samples since 2.99 show a SPICE console"),
    ("evacuate.evacuate", "it needs a host that is down; another test has one"),
    ("flavor_access.removeTenantAccess", "another sample adds the access, and the samples have no fixed order"),
    ("hosts.reboot", "the API does not switch hosts on or off, as in Nova with libvirt"),
    ("hosts.shutdown", "the API does not switch hosts on or off, as in Nova with libvirt"),
    ("hosts.startup", "the API does not switch hosts on or off, as in Nova with libvirt"),
    ("hosts.update", "the API does not switch hosts on or off, as in Nova with libvirt"),
    ("remote_consoles.create", "only VNC consoles are enabled here"),
    ("remote_consoles.os-getSPICEConsole", "only VNC consoles are enabled here"),
    ("remote_consoles.os-getSerialConsole", "only VNC consoles are enabled here"),
    ("server_migrations.index", "a test that stops a migration midway compares it"),
    ("server_migrations.show", "a test that stops a migration midway compares it"),
    ("server_shares.create", "there is no share service"),
    ("server_shares.show", "there is no share service"),
];

/// Whether answer and sample may differ at this path; the comments give the reasons.
fn tolerated(operation: &str, path: &str) -> bool {
    match (operation, path) {
        // The link to the next page exists only if there is such a page.
        (_, path) if path.ends_with("_links") || path.ends_with("/links") => true,
        // A hypervisor without servers has no list of them.
        ("hypervisors.servers", path) if path.ends_with("/servers") => true,
        // Only failed servers have a fault.
        (_, path) if path.ends_with("/fault") => true,
        // Only some images have this property.
        ("images.detail", path) if path.starts_with("/images[]/OS-DCF") => true,
        _ => false,
    }
}

fn compare(path: &str, sample: &Value, ours: &Value, wrong: &mut Vec<String>) {
    match (sample, ours) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(sample), Value::Object(ours)) => {
            if FREE.iter().any(|free| path.ends_with(&format!("/{free}"))) {
                return;
            }
            for key in sample.keys().filter(|key| !ours.contains_key(*key)) {
                wrong.push(format!("{path}/{key} is missing"));
            }
            for key in ours.keys().filter(|key| !sample.contains_key(*key)) {
                wrong.push(format!("{path}/{key} is not in the sample"));
            }
            for (key, value) in sample {
                if let Some(ours) = ours.get(key) {
                    compare(&format!("{path}/{key}"), value, ours, wrong);
                }
            }
        }
        (Value::Array(sample), Value::Array(ours)) => {
            if let (Some(sample), Some(ours)) = (sample.first(), ours.first()) {
                compare(&format!("{path}[]"), sample, ours, wrong);
            }
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_)) => {}
        (sample, ours) => wrong.push(format!("{path}: {ours} instead of {sample}")),
    }
}

/// The user and the project that own the volumes.
const OF_VOLUMES: &str = "user:admin";

struct Seeded {
    server: String,
    request: String,
    port: String,
}

/// The host of the server of the samples: the first of the list, because lists are compared by their first element.
async fn busy_host(api: &Api) -> String {
    let hypervisors = api.get("/os-hypervisors", "2.1").await;
    hypervisors["hypervisors"][0]["hypervisor_hostname"].as_str().unwrap().to_owned()
}

/// Creates a server and the other resources of the samples. Returns the server's id, the id of its first request, and
/// its port.
async fn seed(api: &Api) -> Seeded {
    let mut server_request = Api::wish("new-server-test");
    server_request["metadata"] = json!({"foo": "Foo Value"});
    server_request["accessIPv4"] = json!("1.2.3.4");
    server_request["accessIPv6"] = json!("80fe::");
    let busy = busy_host(api).await;
    server_request["availability_zone"] = json!(format!("nova:{busy}"));
    let server = api.server(ADMIN, server_request).await;
    let private = json!({"flavor": {"id": "10", "name": "private", "ram": 1, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": false}});
    api.call("POST", "/flavors", "2.1", ADMIN, Some(private)).await;
    let specs = json!({"extra_specs": {"hw:numa_nodes": "1"}});
    api.call("POST", "/flavors/10/os-extra_specs", "2.1", ADMIN, Some(specs)).await;
    api.call("POST", "/flavors/10/action", "2.1", ADMIN, Some(json!({"addTenantAccess": {"tenant": "p"}}))).await;
    api.call("POST", "/os-keypairs", "2.1", ADMIN, Some(json!({"keypair": {"name": "keypair-test"}}))).await;
    for (name, zone) in [("name", Some("nova")), ("other", None)] {
        let aggregate = json!({"aggregate": {"name": name, "availability_zone": zone}});
        api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(aggregate)).await;
    }
    let host = json!({"add_host": {"host": busy}});
    api.call("POST", "/os-aggregates/1/action", "2.1", ADMIN, Some(host)).await;
    let group = json!({"server_group": {"name": "test", "policies": ["anti-affinity"]}});
    api.call("POST", "/os-server-groups", "2.1", ADMIN, Some(group)).await;
    let image = json!({"id": IMAGE, "name": "i", "kernel_id": "nokernel", "auto_disk_config": "True"});
    let made = api.ask("POST", "/image/v2/images", "2.1", ADMIN, Some(image)).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let network = json!({"network": {"name": "private"}});
    let made = api.ask("POST", "/network/v2.0/networks", "2.1", ADMIN, Some(network)).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let public = json!({"network": {"name": "public", "router:external": true, "project_id": "operators"}});
    let made = api.ask("POST", "/network/v2.0/networks", "2.1", ADMIN, Some(public)).await;
    let subnet = json!({"network_id": made.body["network"]["id"], "cidr": "172.24.4.0/24", "ip_version": 4});
    let made = api.ask("POST", "/network/v2.0/subnets", "2.1", ADMIN, Some(json!({"subnet": subnet}))).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let id = server.parse().unwrap();
    api.life.volume_beside(id, 1).await;
    let attach = json!({"volumeAttachment": {"volumeId": nth_volume(id, 1), "tag": "foo"}});
    let attached =
        api.call("POST", &format!("/servers/{server}/os-volume_attachments"), "2.49", ADMIN, Some(attach)).await;
    assert_eq!(attached.status, 200, "{:?}", attached.body);
    api.life.settled().await;
    api.life.snapshot_volume(nth_volume(id, 1), true).await.unwrap();
    api.life.settled().await;
    let ports = api.get(&format!("/servers/{server}/os-interface"), "2.1").await;
    let actions = api.get(&format!("/servers/{server}/os-instance-actions"), "2.1").await;
    Seeded {
        port: ports["interfaceAttachments"][0]["port_id"].as_str().unwrap().to_owned(),
        request: actions["instanceActions"][0]["request_id"].as_str().unwrap().to_owned(),
        server,
    }
}

/// The request whose answer should be like the sample: method, path, user, body.
async fn question(
    api: &Api,
    seeded: &Seeded,
    operation: &str,
    sample: &str,
    version: &str,
) -> Option<(&'static str, String, &'static str, Option<Value>)> {
    let Seeded { server, request, port } = seeded;
    let minor: u32 = version.split_once('.').unwrap().1.parse().unwrap();
    let get = |path: String| Some(("GET", path, ADMIN, None));
    let fresh = uuid::Uuid::new_v4().simple().to_string();
    let hypervisor = || async {
        let list = api.get("/os-hypervisors", version).await;
        let hypervisors = list["hypervisors"].as_array().unwrap().clone();
        let mut with_servers = None;
        for hypervisor in &hypervisors {
            let id = hypervisor["id"].to_string().trim_matches('"').to_owned();
            if minor >= 53 {
                let shown = api.get(&format!("/os-hypervisors/{id}?with_servers=true"), version).await;
                if shown["hypervisor"]["servers"].as_array().is_some_and(|list| !list.is_empty()) {
                    with_servers = Some(id.clone());
                }
            }
        }
        let first = hypervisors[0]["id"].to_string().trim_matches('"').to_owned();
        with_servers.unwrap_or(first)
    };
    let servers = sample.contains("with-servers");
    match operation {
        "extension_info.index" => get("/extensions".into()),
        "extension_info.show" => get("/extensions/os-agents".into()),
        "flavors.index" => get("/flavors".into()),
        "flavors.detail" => get("/flavors/detail".into()),
        "flavors.show" => get("/flavors/1".into()),
        "flavors.create" => Some((
            "POST",
            "/flavors".into(),
            ADMIN,
            Some(json!({"flavor": {"name": fresh, "ram": 1024, "vcpus": 2, "disk": 10}})),
        )),
        "flavors.update" => Some(("PUT", "/flavors/1".into(), ADMIN, Some(json!({"flavor": {"description": "d"}})))),
        "flavor_access.index" => get("/flavors/10/os-flavor-access".into()),
        "flavor_access.addTenantAccess" => {
            Some(("POST", "/flavors/10/action".into(), ADMIN, Some(json!({"addTenantAccess": {"tenant": fresh}}))))
        }
        "flavor_access.removeTenantAccess" => None,
        "flavors_extraspecs.index" => get("/flavors/10/os-extra_specs".into()),
        "flavors_extraspecs.show" => get("/flavors/10/os-extra_specs/hw:numa_nodes".into()),
        "flavors_extraspecs.create" => Some((
            "POST",
            "/flavors/10/os-extra_specs".into(),
            ADMIN,
            Some(json!({"extra_specs": {"hw:cpu_policy": "shared", "hw:numa_nodes": "1"}})),
        )),
        "flavors_extraspecs.update" => {
            Some(("PUT", "/flavors/10/os-extra_specs/hw:numa_nodes".into(), ADMIN, Some(json!({"hw:numa_nodes": "2"}))))
        }
        "limits.index" => get("/limits".into()),
        "attach_interfaces.index" => get(format!("/servers/{server}/os-interface")),
        "attach_interfaces.show" => get(format!("/servers/{server}/os-interface/{port}")),
        "attach_interfaces.create" => {
            let sent = json!({"interfaceAttachment": {}});
            Some(("POST", format!("/servers/{server}/os-interface"), ADMIN, Some(sent)))
        }
        "remote_consoles.os-getVNCConsole" => {
            let sent = json!({"os-getVNCConsole": {"type": "novnc"}});
            Some(("POST", format!("/servers/{server}/action"), ADMIN, Some(sent)))
        }
        // Only VNC consoles are enabled here.
        "remote_consoles.create" if sample.contains("vnc") => {
            let sent = json!({"remote_console": {"protocol": "vnc", "type": "novnc"}});
            Some(("POST", format!("/servers/{server}/remote-consoles"), ADMIN, Some(sent)))
        }
        "console_auth_tokens.show" if minor < 99 => {
            let sent = json!({"remote_console": {"protocol": "vnc", "type": "novnc"}});
            let path = format!("/servers/{server}/remote-consoles");
            let made = api.call("POST", &path, "2.6", ADMIN, Some(sent)).await.body["remote_console"]["url"].take();
            get(format!("/os-console-auth-tokens/{}", made.as_str()?.split("token%3D").nth(1)?))
        }
        "server_external_events.create" => {
            let event = json!({"name": "network-changed", "tag": "foo", "server_uuid": server});
            Some(("POST", "/os-server-external-events".into(), ADMIN, Some(json!({"events": [event]}))))
        }
        "instance_usage_audit_log.index" => get("/os-instance_usage_audit_log".into()),
        "instance_usage_audit_log.show" => get("/os-instance_usage_audit_log/2012-07-05%2010:00:00".into()),
        "server_topology.index" => get(format!("/servers/{server}/topology")),
        "server_shares.index" => get(format!("/servers/{server}/shares")),
        "floating_ips.index" => get("/os-floating-ips".into()),
        "floating_ips.create" => Some(("POST", "/os-floating-ips".into(), ADMIN, Some(json!({"pool": "public"})))),
        "floating_ips.show" => {
            let pool = Some(json!({"pool": "public"}));
            let made = api.call("POST", "/os-floating-ips", version, ADMIN, pool).await;
            get(format!("/os-floating-ips/{}", made.body["floating_ip"]["id"].as_str().unwrap()))
        }
        "floating_ip_pools.index" => get("/os-floating-ip-pools".into()),
        "availability_zone.index" => get("/os-availability-zone".into()),
        "availability_zone.detail" => get("/os-availability-zone/detail".into()),
        "console_output.os-getConsoleOutput" => Some((
            "POST",
            format!("/servers/{server}/action"),
            ADMIN,
            Some(json!({"os-getConsoleOutput": {"length": 50}})),
        )),
        "hypervisors.index" => {
            get(if servers { "/os-hypervisors?with_servers=true" } else { "/os-hypervisors" }.into())
        }
        "hypervisors.detail" => {
            let query = if servers { "?with_servers=true" } else { "" };
            get(format!("/os-hypervisors/detail{query}"))
        }
        "hypervisors.show" => {
            let query = if servers { "?with_servers=true" } else { "" };
            get(format!("/os-hypervisors/{}{query}", hypervisor().await))
        }
        "hypervisors.statistics" => (minor < 88).then(|| ("GET", "/os-hypervisors/statistics".into(), ADMIN, None)),
        "hypervisors.uptime" if minor < 88 => get(format!("/os-hypervisors/{}/uptime", hypervisor().await)),
        "hypervisors.search" if minor < 53 => get("/os-hypervisors/sim/search".into()),
        "hypervisors.servers" if minor < 53 => get("/os-hypervisors/sim/servers".into()),
        "instance_actions.index" => get(format!("/servers/{server}/os-instance-actions")),
        "instance_actions.show" => {
            let who = if sample.contains("non-admin") { "user:admin" } else { ADMIN };
            Some(("GET", format!("/servers/{server}/os-instance-actions/{request}"), who, None))
        }
        "keypairs.index" => get("/os-keypairs".into()),
        "keypairs.show" => get("/os-keypairs/keypair-test".into()),
        "keypairs.create" => {
            let mut keypair = json!({"name": fresh});
            if sample.contains("import") {
                keypair["public_key"] = json!(KEY);
            }
            Some(("POST", "/os-keypairs".into(), ADMIN, Some(json!({"keypair": keypair}))))
        }
        "servers.index" => get("/servers".into()),
        "servers.detail" => Some(("GET", "/servers/detail".into(), who(sample, "servers"), None)),
        "servers.show" if sample.contains("get-resp-rescue") => {
            let other = api.server("many:many", Api::wish("rescued")).await;
            let path = format!("/servers/{other}/action");
            api.call("POST", &path, "2.1", "many:many", Some(json!({"rescue": null}))).await;
            api.life.settled().await;
            Some((
                "GET",
                format!("/servers/{other}"),
                if who(sample, "server") == ADMIN { ADMIN } else { "many:many" },
                None,
            ))
        }
        "servers.show" => Some(("GET", format!("/servers/{server}"), who(sample, "server"), None)),
        "servers.update" => {
            let name = json!({"server": {"name": "new-server-test"}});
            Some(("PUT", format!("/servers/{server}"), who(sample, "server"), Some(name)))
        }
        "servers.create" => {
            let mut server_request = Api::wish("made");
            if sample.contains("multiple-create-post-resp") {
                server_request["return_reservation_id"] = json!(true);
            }
            Some(("POST", "/servers".into(), "many:many", Some(json!({"server": server_request}))))
        }
        "quota_sets.show" => get("/os-quota-sets/admin".into()),
        "quota_sets.defaults" => get("/os-quota-sets/admin/defaults".into()),
        "quota_sets.detail" => get("/os-quota-sets/admin/detail".into()),
        "quota_sets.update" => Some((
            "PUT",
            "/os-quota-sets/many".into(),
            ADMIN,
            Some(json!({"quota_set": {"instances": 90, "cores": 90, "ram": 99_999}})),
        )),
        "quota_classes.update" => {
            let limits = json!({"quota_class_set": {"key_pairs": 100}});
            Some(("PUT", "/os-quota-class-sets/other".into(), ADMIN, Some(limits)))
        }
        "quota_classes.show" => get("/os-quota-class-sets/default".into()),
        "security_groups.ServerSecurityGroup.index" => get(format!("/servers/{server}/os-security-groups")),
        "images.index" => get("/images".into()),
        "images.detail" => get("/images/detail".into()),
        "images.show" => get(format!("/images/{IMAGE}")),
        "image_metadata.index" => get(format!("/images/{IMAGE}/metadata")),
        "image_metadata.show" => get(format!("/images/{IMAGE}/metadata/kernel_id")),
        "image_metadata.create" => {
            Some(("POST", format!("/images/{IMAGE}/metadata"), ADMIN, Some(json!({"metadata": {"a": "b"}}))))
        }
        "image_metadata.update_all" => {
            let all = json!({"metadata": {"kernel_id": "nokernel", "auto_disk_config": "True"}});
            Some(("PUT", format!("/images/{IMAGE}/metadata"), ADMIN, Some(all)))
        }
        "image_metadata.update" => {
            let one = json!({"meta": {"auto_disk_config": "True"}});
            Some(("PUT", format!("/images/{IMAGE}/metadata/auto_disk_config"), ADMIN, Some(one)))
        }
        "networks.index" => get("/os-networks".into()),
        "networks.show" => {
            let all = api.get("/os-networks", "2.35").await;
            get(format!("/os-networks/{}", all["networks"][0]["id"].as_str()?))
        }
        "server_diagnostics.index" => get(format!("/servers/{server}/diagnostics")),
        "server_password.index" => get(format!("/servers/{server}/os-server-password")),
        "versionsV21.show" => None,
        "security_groups.show" | "security_groups.SecurityGroupRules.create" => {
            let all = api.get("/os-security-groups", "2.35").await;
            let id = all["security_groups"][0]["id"].as_str()?.to_owned();
            if operation.ends_with("show") {
                return get(format!("/os-security-groups/{id}"));
            }
            let rule = json!({"parent_group_id": id, "ip_protocol": "tcp", "from_port": 22, "to_port": 22, "cidr": "10.0.0.0/24"});
            Some(("POST", "/os-security-group-rules".into(), ADMIN, Some(json!({"security_group_rule": rule}))))
        }
        "tenant_networks.index" => get("/os-tenant-networks".into()),
        "security_groups.SecurityGroup.index" => get("/os-security-groups".into()),
        "security_groups.SecurityGroup.create" => {
            let group = json!({"security_group": {"name": fresh, "description": "d"}});
            Some(("POST", "/os-security-groups".into(), ADMIN, Some(group)))
        }
        "server_tags.index" => get(format!("/servers/{server}/tags")),
        "server_tags.update_all" => {
            Some(("PUT", format!("/servers/{server}/tags"), ADMIN, Some(json!({"tags": ["baz"]}))))
        }
        "services.index" => get("/os-services".into()),
        "services.update" => service_update(api, sample, version).await,
        "simple_tenant_usage.index" => {
            let detailed = u8::from(!sample.ends_with("usage-get.json"));
            get(format!(
                "/os-simple-tenant-usage?detailed={detailed}&start=2020-01-01T00:00:00&end=2100-01-01T00:00:00"
            ))
        }
        "simple_tenant_usage.show" => {
            get("/os-simple-tenant-usage/admin?start=2020-01-01T00:00:00&end=2100-01-01T00:00:00".into())
        }
        "ips.index" => get(format!("/servers/{server}/ips")),
        "ips.show" => get(format!("/servers/{server}/ips/private")),
        "aggregates.index" => get("/os-aggregates".into()),
        "aggregates.show" => get("/os-aggregates/1".into()),
        "aggregates.create" => {
            let sent = json!({"aggregate": {"name": fresh, "availability_zone": "london"}});
            Some(("POST", "/os-aggregates".into(), ADMIN, Some(sent)))
        }
        "aggregates.update" => {
            Some(("PUT", "/os-aggregates/1".into(), ADMIN, Some(json!({"aggregate": {"name": fresh}}))))
        }
        "aggregates.set_metadata" => {
            let metadata = json!({"set_metadata": {"metadata": {"key": "value"}}});
            Some(("POST", "/os-aggregates/1/action".into(), ADMIN, Some(metadata)))
        }
        "aggregates.add_host" | "aggregates.remove_host" => Some(host_in_aggregate(api, operation).await),
        "hosts.index" => get("/os-hosts".into()),
        "hosts.show" => {
            let services = api.get("/os-services?binary=nova-compute", "2.1").await;
            get(format!("/os-hosts/{}", services["services"][0]["host"].as_str()?))
        }
        "server_groups.index" => get("/os-server-groups".into()),
        "server_groups.show" => {
            let id = api.get("/os-server-groups", version).await["server_groups"][0]["id"].clone();
            get(format!("/os-server-groups/{}", id.as_str()?))
        }
        "server_groups.create" => {
            let group = match minor < 64 {
                true => json!({"name": "test", "policies": ["anti-affinity"]}),
                false => json!({"name": "test", "policy": "anti-affinity", "rules": {"max_server_per_host": 3}}),
            };
            Some(("POST", "/os-server-groups".into(), "many:many", Some(json!({"server_group": group}))))
        }
        "servers.rebuild" => work(api, server, who(sample, "server"), json!({"rebuild": {"imageRef": IMAGE}})).await,
        "servers.createImage" => work(api, server, ADMIN, json!({"createImage": {"name": "i"}})).await,
        "create_backup.createBackup" => {
            let backup = json!({"createBackup": {"name": "b", "backup_type": "weekly", "rotation": 1}});
            work(api, server, ADMIN, backup).await
        }
        "rescue.rescue" => {
            let other = api.server("many:many", Api::wish("rescued")).await;
            work(api, &other, "many:many", json!({"rescue": null})).await
        }
        "volume_attachments.index" => get(format!("/servers/{server}/os-volume_attachments")),
        "volume_attachments.show" => {
            get(format!("/servers/{server}/os-volume_attachments/{}", nth_volume(server.parse().unwrap(), 1)))
        }
        "volume_attachments.create" => {
            let id = server.parse().unwrap();
            api.life.volume_beside(id, 100 + minor).await;
            let sent = json!({"volumeAttachment": {"volumeId": nth_volume(id, 100 + minor)}});
            Some(("POST", format!("/servers/{server}/os-volume_attachments"), ADMIN, Some(sent)))
        }
        "volumes.index" | "volumes.detail" => {
            // Volumes for a new server are in use once its build has ended.
            api.life.settled().await;
            let path = if operation == "volumes.index" { "/os-volumes" } else { "/os-volumes/detail" };
            Some(("GET", path.into(), OF_VOLUMES, None))
        }
        "volumes.show" => get(format!("/os-volumes/{}", nth_volume(server.parse().unwrap(), 1))),
        "volumes.create" => {
            let sent = json!({"volume": {"size": 1, "display_name": "v", "metadata": {}}});
            Some(("POST", "/os-volumes".into(), OF_VOLUMES, Some(sent)))
        }
        "snapshots.index" => Some(("GET", "/os-snapshots".into(), OF_VOLUMES, None)),
        "snapshots.detail" => Some(("GET", "/os-snapshots/detail".into(), OF_VOLUMES, None)),
        "snapshots.show" => get(format!("/os-snapshots/{}", snapshot_of(nth_volume(server.parse().unwrap(), 1)))),
        "snapshots.create" => {
            let of = nth_volume(server.parse().unwrap(), 1);
            let sent = json!({"snapshot": {"volume_id": of, "force": true, "display_name": "s"}});
            Some(("POST", "/os-snapshots".into(), OF_VOLUMES, Some(sent)))
        }
        "server_metadata.index" => get(format!("/servers/{server}/metadata")),
        "server_metadata.show" => get(format!("/servers/{server}/metadata/foo")),
        _ => None,
    }
}

/// Waits until no operation is running. Returns the request of an action on the server.
async fn work(
    api: &Api,
    server: &str,
    who: &'static str,
    body: Value,
) -> Option<(&'static str, String, &'static str, Option<Value>)> {
    api.life.settled().await;
    Some(("POST", format!("/servers/{server}/action"), who, Some(body)))
}

/// Prepares a host of the second aggregate so that the operation succeeds. Returns the operation's request.
async fn host_in_aggregate(api: &Api, operation: &str) -> (&'static str, String, &'static str, Option<Value>) {
    let hypervisors = api.get("/os-hypervisors", "2.1").await;
    let host = hypervisors["hypervisors"][1]["hypervisor_hostname"].clone();
    let path = "/os-aggregates/2/action";
    let (verb, opposite) =
        if operation.ends_with("add_host") { ("add_host", "remove_host") } else { ("remove_host", "add_host") };
    api.call("POST", path, "2.1", ADMIN, Some(json!({opposite: {"host": host}}))).await;
    ("POST", path.to_owned(), ADMIN, Some(json!({verb: {"host": host}})))
}

/// The user of a sample: an administrator or an ordinary user.
fn who(sample: &str, key: &str) -> &'static str {
    let sample = read(&contract().unwrap().join("api-samples").join(sample));
    let server = sample[key].get(0).unwrap_or(&sample[key]);
    if server.get("OS-EXT-SRV-ATTR:host").is_some() { ADMIN } else { "user:admin" }
}

async fn service_update(
    api: &Api,
    sample: &str,
    version: &str,
) -> Option<(&'static str, String, &'static str, Option<Value>)> {
    let services = api.get("/os-services?binary=nova-compute", version).await;
    // The requests change a host without servers.
    let busy = busy_host(api).await;
    let idle = services["services"].as_array()?.iter().find(|service| service["host"] != busy.as_str())?;
    let (id, host) = (&idle["id"], &idle["host"]);
    let verb = ["disable-log", "disable", "enable", "force-down"].into_iter().find(|verb| sample.contains(verb))?;
    let by_id = id.is_string();
    let (path, mut body) = match (by_id, verb) {
        (true, "disable-log") => (String::new(), json!({"status": "disabled", "disabled_reason": "test2"})),
        (true, "disable") => (String::new(), json!({"status": "disabled"})),
        (true, "enable") => (String::new(), json!({"status": "enabled"})),
        (true, _) => (String::new(), json!({"forced_down": true})),
        (false, "disable-log") => ("disable-log-reason".into(), json!({"disabled_reason": "test2"})),
        (false, "force-down") => ("force-down".into(), json!({"forced_down": true})),
        (false, verb) => (verb.to_owned(), json!({})),
    };
    if by_id {
        return Some(("PUT", format!("/os-services/{}", id.as_str()?), ADMIN, Some(body)));
    }
    body["host"] = host.clone();
    body["binary"] = json!("nova-compute");
    Some(("PUT", format!("/os-services/{path}"), ADMIN, Some(body)))
}

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home";

/// Whether this status is a success in the contract at that version.
fn succeeds_with(operations: &Value, operation: &str, version: &str, status: u16) -> bool {
    let minor = |version: &str| version.strip_prefix("2.").unwrap().parse::<u32>().unwrap();
    let at = minor(version);
    let mut of_operation = operations["operations"].as_array().unwrap().iter().filter(|known| known["id"] == operation);
    of_operation.any(|known| {
        known["success"].as_array().unwrap().iter().any(|band| {
            at >= minor(band["min"].as_str().unwrap())
                && band["max"].as_str().is_none_or(|max| at <= minor(max))
                && band["codes"].as_array().unwrap().contains(&json!(status))
        })
    })
}

#[actix_rt::test]
async fn answers_look_like_the_samples() {
    let Some(contract) = contract() else { return };
    let samples = read(&contract.join("api-samples-map.json"));
    let api = Api::start().await;
    let lift = json!({"quota_set": {"instances": -1, "cores": -1, "ram": -1}});
    api.call("PUT", "/os-quota-sets/many", "2.1", ADMIN, Some(lift)).await;
    let seeded = seed(&api).await;
    let operations = read(&contract.join("operations.json"));
    let (mut wrong, mut compared, mut unasked) = (Vec::new(), 0, Vec::new());
    let mut excused = BTreeSet::new();
    for (sample, about) in samples["samples"].as_object().unwrap() {
        let operation = about["operation"].as_str().unwrap_or_default();
        let left_out = about["kind"] != "response" || UNCOMPARED_SAMPLES.iter().any(|(part, _)| sample.contains(part));
        // Samples without an operation: version documents and removed operations.
        if left_out || about["removed"] == true || about["operation"].is_null() {
            continue;
        }
        let version = about["version"].as_str().unwrap();
        let Some((method, path, who, body)) = question(&api, &seeded, operation, sample, version).await else {
            excused.insert(operation.to_owned());
            if !UNCALLED_OPERATIONS.iter().any(|(known, _)| *known == operation) {
                unasked.push(format!("{sample} ({operation})"));
            }
            continue;
        };
        let answer = api.call(method, &path, version, who, body).await;
        compared += 1;
        if answer.status >= 300 {
            wrong.push(format!("{sample}: {method} {path} answers {} {}", answer.status, answer.body));
            continue;
        }
        if !succeeds_with(&operations, operation, version, answer.status) {
            wrong.push(format!("{sample}: {method} {path} at {version} answers {}", answer.status));
        }
        let mut here = Vec::new();
        compare("", &read(&contract.join("api-samples").join(sample)), &answer.body, &mut here);
        here.retain(|line| !tolerated(operation, line.split([' ', ':']).next().unwrap_or_default()));
        wrong.extend(here.into_iter().map(|line| format!("{sample} ({operation} at {version}): {line}")));
    }
    eprintln!("{compared} samples compared");
    api.stop().await;
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        unasked.is_empty(),
        "{} samples are not compared, and `UNCALLED_OPERATIONS` does not name their operations:\n{}",
        unasked.len(),
        unasked.join("\n")
    );
    let idle: Vec<&str> =
        UNCALLED_OPERATIONS.iter().map(|(known, _)| *known).filter(|known| !excused.contains(*known)).collect();
    assert_eq!(idle, Vec::<&str>::new(), "these entries of `UNCALLED_OPERATIONS` match no sample any more");
    assert!(compared > 290, "only {compared} samples were compared");
}
