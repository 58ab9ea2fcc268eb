//! The smaller resources: bare metal, shares, topology, usage audits, migrations of a server, availability zones.

use chronova_tests::compute_api::{ADMIN, Api, IMAGE};
use chronova_tests::world::World;
use serde_json::{Value, json};

use super::interfaces::{Cloud, USER, is};

#[actix_rt::test]
async fn there_is_no_bare_metal_service() {
    let api = Api::start().await;
    for path in ["/os-baremetal-nodes", "/os-baremetal-nodes/n"] {
        is(&api.call("GET", path, "2.35", ADMIN, None).await, 501, "The requested functionality is not supported.");
        is(&api.call("GET", path, "2.35", USER, None).await, 403, "os_compute_api:os-baremetal-nodes");
        assert_eq!(api.call("GET", path, "2.36", ADMIN, None).await.status, 404);
    }
    for (method, path, body, command) in [
        ("POST", "/os-baremetal-nodes", Some(json!({})), "node-create"),
        ("DELETE", "/os-baremetal-nodes/n", None, "node-delete"),
        ("POST", "/os-baremetal-nodes/n/action", Some(json!({"add_interface": {}})), "port-create"),
        ("POST", "/os-baremetal-nodes/n/action", Some(json!({"remove_interface": {}})), "port-delete"),
    ] {
        let words = format!("Command not supported. Please use Ironic command {command} to perform this action.");
        is(&api.call(method, path, "2.1", ADMIN, body).await, 400, &words);
    }
    api.stop().await;
}

#[actix_rt::test]
async fn shares_are_refused_where_no_host_can_pass_them_on() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    let path = format!("/servers/{server}/shares");
    let share = "e8debdc0-447a-4376-a10a-4cd9122d7986";
    let create = async |body: Value| api.call("POST", &path, "2.97", USER, Some(json!({"share": body}))).await;
    let one = format!("{path}/{share}");
    assert_eq!(api.call("GET", &path, "2.97", USER, None).await.body, json!({"shares": []}));
    assert_eq!(api.call("GET", &path, "2.96", USER, None).await.status, 404);
    is(&create(json!({"share_id": share})).await, 409, "Cannot 'create share' instance");
    is(&api.call("DELETE", &one, "2.97", USER, None).await, 409, "Cannot 'delete share' instance");
    let stop = Some(json!({"os-stop": null}));
    assert_eq!(api.call("POST", &format!("/servers/{server}/action"), "2.1", USER, stop).await.status, 202);
    api.life.settled().await;
    is(&create(json!({"share_id": share})).await, 409, "either compute or instance are not configured correctly.");
    is(&create(json!({"share_id": "x"})).await, 400, "is not a 'uuid'");
    is(&create(json!({"share_id": share, "tag": "a b"})).await, 400, "does not match");
    for method in ["GET", "DELETE"] {
        is(&api.call(method, &one, "2.97", USER, None).await, 404, &format!("Share {share} could not be found."));
    }
    is(&api.call("GET", &format!("{path}?a=b"), "2.97", USER, None).await, 400, "Additional properties");
    api.stop().await;
}

#[actix_rt::test]
async fn servers_without_numa_have_an_empty_topology_and_none_is_migrating() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    let path = format!("/servers/{server}/topology");
    assert_eq!(api.call("GET", &path, "2.78", USER, None).await.body, json!({"nodes": [], "pagesize_kb": null}));
    assert_eq!(api.call("GET", &path, "2.77", USER, None).await.status, 404);
    is(&api.call("GET", &format!("{path}?a=b"), "2.102", USER, None).await, 400, "Additional properties");
    let none = "11111111-2222-3333-4444-555555555555";
    is(&api.call("GET", &format!("/servers/{none}/topology"), "2.78", USER, None).await, 404, "Instance");
    let path = format!("/servers/{server}/migrations");
    assert_eq!(api.get(&path, "2.23").await, json!({"migrations": []}));
    let words = format!("In-progress live migration 7 is not found for server {server}.");
    is(&api.call("GET", &format!("{path}/7"), "2.23", ADMIN, None).await, 404, &words);
    assert_eq!(api.call("GET", &path, "2.22", ADMIN, None).await.status, 404);
    api.stop().await;
}

#[actix_rt::test]
async fn no_host_reports_usage_by_itself() {
    let api = Api::start().await;
    let logs = api.get("/os-instance_usage_audit_log", "2.1").await["instance_usage_audit_logs"].take();
    assert_eq!((&logs["num_hosts"], &logs["overall_status"]), (&json!(2), &json!("0 of 2 hosts done. 0 errors.")));
    assert_eq!((logs["hosts_not_run"].as_array().unwrap().len(), &logs["log"]), (2, &json!({})));
    let one = api.get("/os-instance_usage_audit_log/2012-07-05%2010:00:00", "2.1").await;
    let one = &one["instance_usage_audit_log"];
    assert_eq!(
        (&one["period_beginning"], &one["period_ending"]),
        (&json!("2012-06-01 00:00:00"), &json!("2012-07-01 00:00:00"))
    );
    is(
        &api.call("GET", "/os-instance_usage_audit_log/soon", "2.1", ADMIN, None).await,
        400,
        "Invalid timestamp for date soon",
    );
    is(
        &api.call("GET", "/os-instance_usage_audit_log", "2.1", USER, None).await,
        403,
        "os-instance-usage-audit-log:list",
    );
    api.stop().await;
}

/// The zones of hosts, networks and volumes share neither names nor meaning.
#[actix_rt::test]
async fn zones_of_hosts_networks_and_volumes_are_independent() {
    let mut world = World::new(2);
    world.options.volume.availability_zone = "shelf".to_owned();
    let cloud = Cloud::start_in(world).await;
    let api = &cloud.api;
    let north = json!({"aggregate": {"name": "n", "availability_zone": "north"}});
    assert_eq!(api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(north)).await.status, 200);
    let add = json!({"add_host": {"host": api.world.fleet.hostname(0)}});
    assert_eq!(api.call("POST", "/os-aggregates/1/action", "2.1", ADMIN, Some(add)).await.status, 200);
    // Each service lists its own zones, under its own name.
    for (path, list, name, zones) in [
        ("/compute/v2.1/os-availability-zone", "availabilityZoneInfo", "zoneName", vec!["north", "nova"]),
        ("/network/v2.0/availability_zones", "availability_zones", "name", vec!["nova"]),
        ("/volume/v3/web/os-availability-zone", "availabilityZoneInfo", "zoneName", vec!["shelf"]),
    ] {
        let body = api.ask("GET", path, "2.1", USER, None).await.body;
        let seen: Vec<&str> = body[list].as_array().unwrap().iter().map(|zone| zone[name].as_str().unwrap()).collect();
        assert_eq!(seen, zones, "{path}");
    }
    // A server uses a network and a volume of other zones.
    let far = json!({"network": {"name": "far", "availability_zone_hints": ["east"]}});
    let far = cloud.neutron("POST", "/networks", Some(far)).await.body["network"].take();
    assert_eq!((&far["availability_zone_hints"], &far["availability_zones"]), (&json!(["east"]), &json!(["nova"])));
    let subnet = json!({"subnet": {"network_id": far["id"], "cidr": "10.9.0.0/24", "ip_version": 4}});
    assert_eq!(cloud.neutron("POST", "/subnets", Some(subnet)).await.status, 201);
    let mut request = json!({"name": "web", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": far["id"]}],
        "availability_zone": "north"});
    let server = api.server(USER, request.clone()).await;
    let volume = api.life.data_volume(("web", "alice"), Some(&server), 1).await.to_string();
    let attach = json!({"volumeAttachment": {"volumeId": volume}});
    let attached =
        api.call("POST", &format!("/servers/{server}/os-volume_attachments"), "2.60", USER, Some(attach)).await;
    assert_eq!(attached.status, 200, "{:?}", attached.body);
    api.life.settled().await;
    let shown = cloud.show(&server).await;
    assert_eq!((&shown["status"], &shown["OS-EXT-AZ:availability_zone"]), (&json!("ACTIVE"), &json!("north")));
    assert_eq!(cloud.addresses(&server, "far").await.len(), 1);
    assert_eq!(shown["os-extended-volumes:volumes_attached"][0]["id"], *volume);
    // The zones of networks and volumes are no zones of hosts.
    for zone in ["east", "shelf"] {
        request["availability_zone"] = json!(zone);
        let nowhere = api.call("POST", "/servers", "2.1", USER, Some(json!({"server": request}))).await;
        is(&nowhere, 400, "The requested availability zone is not available");
    }
    cloud.api.stop().await;
}
