//! The operations that the Compute API passes on to the image, network and volume services, until the microversion that
//! removes them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use chronova_tests::compute_api::{ADMIN, Answer, Api};
use serde_json::{Value, json};

const USER: &str = "user:project";
const OTHER: &str = "other:elsewhere";

async fn image(api: &Api, owner: &str, body: Value) -> String {
    let made = api.ask("POST", "/image/v2/images", "2.1", owner, Some(body)).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    made.body["id"].as_str().unwrap().to_owned()
}

fn refused(answer: &Answer, status: u16, message: &str) {
    assert_eq!((answer.status, answer.message()), (status, message), "{:?}", answer.body);
}

#[actix_rt::test]
async fn images_show_until_2_35() {
    let api = Api::start().await;
    let own = image(&api, USER, json!({"name": "own", "min_ram": 64, "os_type": "linux"})).await;
    let shared = image(&api, ADMIN, json!({"name": "all", "visibility": "public"})).await;
    let hidden = image(&api, OTHER, json!({"name": "theirs", "visibility": "private"})).await;

    let names = async |query: &str| -> Vec<String> {
        let listed = api.call("GET", &format!("/images{query}"), "2.35", USER, None).await;
        assert_eq!(listed.status, 200, "{:?}", listed.body);
        let name = |image: &Value| image["name"].as_str().unwrap().to_owned();
        listed.body["images"].as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names("").await, ["all", "own"], "the list is not newest first, or has other projects' images");
    assert_eq!(names("?name=own").await, ["own"]);
    assert_eq!(names("?minRam=64").await, ["own"]);
    assert_eq!(names("?property-os_type=linux").await, ["own"]);
    assert_eq!(names("?property-os_type=windows&unknown=1").await, Vec::<String>::new());
    assert_eq!(names("?status=ACTIVE").await, Vec::<String>::new(), "an image without data is ACTIVE");
    assert_eq!(names(&format!("?limit=1&marker={shared}")).await, ["own"]);
    let page = api.call("GET", "/images/detail?limit=1", "2.1", USER, None).await.body;
    assert!(page["images_links"][0]["href"].as_str().unwrap().contains(&format!("marker={shared}")), "{page}");

    let shown = api.call("GET", &format!("/images/{own}"), "2.1", USER, None).await.body["image"].take();
    assert_eq!((&shown["status"], &shown["progress"], &shown["minRam"]), (&json!("SAVING"), &json!(25), &json!(64)));
    assert_eq!(shown["metadata"], json!({"os_type": "linux"}));
    assert!(shown.get("server").is_none(), "an uploaded image names a server");
    let server = uuid::Uuid::from_u128(7).to_string();
    let copy = image(&api, USER, json!({"name": "copy", "instance_uuid": server})).await;
    let of = api.call("GET", &format!("/images/{copy}"), "2.1", USER, None).await.body["image"]["server"].take();
    assert_eq!(of["id"], json!(server));
    assert!(of["links"][0]["href"].as_str().unwrap().ends_with(&format!("/servers/{server}")), "{of}");
    assert_eq!(names(&format!("?server={server}")).await, ["copy"]);
    let listed = api.call("GET", "/images/detail", "2.1", USER, None).await.body["images"].take();
    for (id, name, of) in [(&copy, "copy", Some(json!(server))), (&own, "own", None)] {
        let row = listed.as_array().unwrap().iter().find(|row| row["id"] == json!(id)).unwrap();
        assert_eq!((&row["name"], &row["status"]), (&json!(name), &json!("SAVING")), "{row}");
        assert_eq!(row.get("server").map(|server| server["id"].clone()), of, "{row}");
    }
    assert_eq!(api.call("DELETE", &format!("/images/{copy}"), "2.1", USER, None).await.status, 204);
    refused(&api.call("GET", &format!("/images/{hidden}"), "2.1", USER, None).await, 404, "Image not found.");
    refused(&api.call("GET", "/images/nonsense", "2.1", USER, None).await, 404, "Image not found.");
    assert_eq!(api.call("GET", "/images", "2.36", USER, None).await.status, 404);

    let kept = api.call("DELETE", &format!("/images/{shared}"), "2.1", USER, None).await;
    refused(&kept, 403, "You are not allowed to delete the image.");
    assert_eq!(api.call("DELETE", &format!("/images/{own}"), "2.1", USER, None).await.status, 204);
    refused(&api.call("GET", &format!("/images/{own}"), "2.1", USER, None).await, 404, "Image not found.");
    api.stop().await;
}

#[actix_rt::test]
async fn image_metadata_is_the_images_properties_until_2_38() {
    let api = Api::start().await;
    let own = image(&api, USER, json!({"name": "own", "a": "1", "b": "2"})).await;
    let shared = image(&api, ADMIN, json!({"name": "all", "visibility": "public"})).await;
    let path = format!("/images/{own}/metadata");
    let ask = async |method: &str, path: &str, body: Option<Value>| api.call(method, path, "2.38", USER, body).await;

    assert_eq!(ask("GET", &path, None).await.body, json!({"metadata": {"a": "1", "b": "2"}}));
    assert_eq!(ask("GET", &format!("{path}/a"), None).await.body, json!({"meta": {"a": "1"}}));
    refused(&ask("GET", &format!("{path}/z"), None).await, 404, "Metadata item was not found");
    let merged = ask("POST", &path, Some(json!({"metadata": {"b": "3", "c": "4"}}))).await;
    assert_eq!((merged.status, merged.body), (200, json!({"metadata": {"a": "1", "b": "3", "c": "4"}})));
    let one = ask("PUT", &format!("{path}/a"), Some(json!({"meta": {"a": "9"}}))).await;
    assert_eq!((one.status, one.body), (200, json!({"meta": {"a": "9"}})));
    let mismatch = ask("PUT", &format!("{path}/a"), Some(json!({"meta": {"b": "9"}}))).await;
    refused(&mismatch, 400, "Request body and URI mismatch");
    let replaced = ask("PUT", &path, Some(json!({"metadata": {"x": "y"}}))).await;
    assert_eq!((replaced.status, replaced.body), (200, json!({"metadata": {"x": "y"}})));
    assert_eq!(ask("DELETE", &format!("{path}/x"), None).await.status, 204);
    refused(&ask("DELETE", &format!("{path}/x"), None).await, 404, "Metadata item was not found");
    assert_eq!(ask("GET", &path, None).await.body, json!({"metadata": {}}));

    let not_ours = ask("POST", &format!("/images/{shared}/metadata"), Some(json!({"metadata": {"b": "3"}}))).await;
    refused(&not_ours, 403, &format!("Not authorized for image {shared}."));
    let many: serde_json::Map<String, Value> = (0..129).map(|n| (format!("k{n}"), json!("v"))).collect();
    refused(&ask("POST", &path, Some(json!({"metadata": many}))).await, 403, "Image metadata limit exceeded");
    assert_eq!(ask("POST", &path, Some(json!({"metadata": {"a": 1}}))).await.status, 400);
    assert_eq!(api.call("GET", &path, "2.39", USER, None).await.status, 404);
    api.stop().await;
}

#[actix_rt::test]
async fn networks_have_a_name_and_an_id_until_2_35() {
    let api = Api::start().await;
    let network = async |who: &str, name: &str| {
        let body = json!({"network": {"name": name}});
        let made = api.ask("POST", "/network/v2.0/networks", "2.1", who, Some(body)).await;
        made.body["network"]["id"].as_str().unwrap().to_owned()
    };
    let (own, theirs) = (network(USER, "own").await, network(OTHER, "theirs").await);
    let seen = api.call("GET", "/os-networks", "2.35", USER, None).await.body;
    assert_eq!(seen["networks"].as_array().unwrap().len(), 1);
    assert_eq!((&seen["networks"][0]["label"], &seen["networks"][0]["cidr"]), (&json!("own"), &Value::Null));
    assert!(seen["networks"][0].get("vlan").is_none(), "a user sees a field for administrators");
    let shown = api.call("GET", &format!("/os-networks/{own}"), "2.1", ADMIN, None).await.body;
    assert_eq!(shown["network"].get("vlan"), Some(&Value::Null));
    refused(&api.call("GET", &format!("/os-networks/{theirs}"), "2.1", USER, None).await, 404, "Network not found");
    let listed = api.call("GET", "/os-tenant-networks", "2.1", USER, None).await.body;
    assert_eq!(listed, json!({"networks": [{"id": own, "cidr": "None", "label": "own"}]}));
    let shown = api.call("GET", &format!("/os-tenant-networks/{own}"), "2.1", USER, None).await.body;
    assert_eq!(shown["network"]["label"], "own");
    let lost = api.call("GET", "/os-tenant-networks/nonsense", "2.1", USER, None).await;
    refused(&lost, 404, "Network not found");
    assert_eq!(api.call("GET", "/os-networks", "2.36", USER, None).await.status, 404);
    api.stop().await;
}

/// An operator's policy of the Volume API also decides on the old operations of the Compute API.
#[actix_rt::test]
async fn the_volume_services_policy_decides_on_volumes_and_snapshots() {
    let of_volumes = ["get_all", "get", "create", "delete"];
    let of_snapshots = ["get_all_snapshots", "get_snapshot", "create_snapshot", "delete_snapshot"];
    let rules = of_volumes.iter().chain(&of_snapshots);
    let policy: Vec<String> = rules.map(|rule| format!("'volume:{rule}': 'role:keeper'")).collect();
    let policy = policy.join("\n");
    let api = Api::start_with(&policy, None).await;
    let ask = async |roles: &str, method: &str, path: &str, body: Option<Value>| {
        api.ask_as(method, &format!("/compute/v2.1{path}"), "2.35", USER, Some(roles), body).await
    };
    let new_volume = Some(json!({"volume": {"size": 1}}));
    let made = ask("member,reader,keeper", "POST", "/os-volumes", new_volume.clone()).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let volume = made.body["volume"]["id"].as_str().unwrap().to_owned();
    api.life.settled().await;
    let new_snapshot = Some(json!({"snapshot": {"volume_id": volume}}));
    let made = ask("member,reader,keeper", "POST", "/os-snapshots", new_snapshot.clone()).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let snapshot = made.body["snapshot"]["id"].as_str().unwrap().to_owned();
    api.life.settled().await;

    let all = async || {
        let volumes = ask("keeper,reader", "GET", "/os-volumes/detail", None).await.body;
        (volumes, ask("keeper,reader", "GET", "/os-snapshots/detail", None).await.body)
    };
    let before = all().await;
    assert_eq!((&before.0["volumes"][0]["id"], &before.1["snapshots"][0]["id"]), (&json!(volume), &json!(snapshot)));
    let (one, copy) = (format!("/os-volumes/{volume}"), format!("/os-snapshots/{snapshot}"));
    for (method, path, body, rule) in [
        ("GET", "/os-volumes", None, "get_all"),
        ("GET", "/os-volumes/detail", None, "get_all"),
        ("GET", &*one, None, "get"),
        ("POST", "/os-volumes", new_volume, "create"),
        ("GET", "/os-snapshots", None, "get_all_snapshots"),
        ("GET", "/os-snapshots/detail", None, "get_all_snapshots"),
        ("GET", &*copy, None, "get_snapshot"),
        ("POST", "/os-snapshots", new_snapshot, "create_snapshot"),
        ("DELETE", &*copy, None, "delete_snapshot"),
        ("DELETE", &*one, None, "delete"),
    ] {
        let answer = ask("member,reader", method, path, body).await;
        refused(&answer, 403, &format!("Policy doesn't allow volume:{rule} to be performed."));
    }
    api.life.settled().await;
    assert_eq!(all().await, before, "a refused request had an effect");
    for path in [&copy, &one] {
        assert_eq!(ask("member,reader,keeper", "DELETE", path, None).await.status, 202);
        api.life.settled().await;
    }
    api.stop().await;
}

/// An operator's policy of the Network API also decides on the old operations of the Compute API.
#[actix_rt::test]
async fn the_network_services_policy_decides_on_groups_and_floating_addresses() {
    let of_groups = ["create_security_group", "update_security_group", "delete_security_group"];
    let others = ["create_security_group_rule", "delete_security_group_rule", "create_floatingip"];
    let policy: Vec<String> = of_groups.iter().chain(&others).map(|rule| format!("'{rule}': 'role:keeper'")).collect();
    let api = Api::start_with(&policy.join("\n"), None).await;
    let ask = async |roles: &str, method: &str, path: &str, body: Option<Value>| {
        api.ask_as(method, &format!("/compute/v2.1{path}"), "2.35", USER, Some(roles), body).await
    };
    let external = json!({"network": {"name": "public", "router:external": true}});
    let external = api.ask("POST", "/network/v2.0/networks", "2.1", ADMIN, Some(external)).await;
    assert_eq!(external.status, 201, "{:?}", external.body);
    let group = Some(json!({"security_group": {"name": "web", "description": "d"}}));
    let made = ask("member,reader,keeper", "POST", "/os-security-groups", group.clone()).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let id = made.body["security_group"]["id"].as_str().unwrap().to_owned();
    let rule = json!({"parent_group_id": id, "ip_protocol": "tcp", "from_port": 22, "to_port": 22});
    let rule = Some(json!({"security_group_rule": rule}));
    let added = ask("member,reader,keeper", "POST", "/os-security-group-rules", rule.clone()).await;
    assert_eq!(added.status, 200, "{:?}", added.body);
    let one = format!("/os-security-group-rules/{}", added.body["security_group_rule"]["id"].as_str().unwrap());
    let path = format!("/os-security-groups/{id}");
    for (method, path, body, rule) in [
        ("POST", "/os-security-groups", group.clone(), "create_security_group"),
        ("PUT", &*path, group, "update_security_group"),
        ("POST", "/os-security-group-rules", rule, "create_security_group_rule"),
        ("DELETE", &*one, None, "delete_security_group_rule"),
        ("DELETE", &*path, None, "delete_security_group"),
        ("POST", "/os-floating-ips", Some(json!({"pool": "public"})), "create_floatingip"),
    ] {
        let answer = ask("member,reader", method, path, body).await;
        refused(&answer, 403, &format!("Policy doesn't allow {rule} to be performed."));
    }
    assert_eq!(ask("member,reader,keeper", "DELETE", &one, None).await.status, 202);
    assert_eq!(ask("member,reader,keeper", "DELETE", &path, None).await.status, 202);
    api.stop().await;
}

#[actix_rt::test]
async fn security_groups_in_the_old_form_until_2_35() {
    let api = Api::start().await;
    let ask = async |method: &str, path: &str, body: Option<Value>| api.call(method, path, "2.35", USER, body).await;
    let group = |name: &str| Some(json!({"security_group": {"name": name, "description": "d"}}));
    let made = ask("POST", "/os-security-groups", group(" web ")).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let id = made.body["security_group"]["id"].as_str().unwrap().to_owned();
    let path = format!("/os-security-groups/{id}");
    assert_eq!(
        (&made.body["security_group"]["name"], &made.body["security_group"]["rules"]),
        (&json!(" web "), &json!([]))
    );
    refused(&ask("POST", "/os-security-groups", group(" ")).await, 400, "Security group name cannot be empty");
    assert_eq!(ask("POST", "/os-security-groups", group("default")).await.status, 400);

    let rule =
        async |body: Value| ask("POST", "/os-security-group-rules", Some(json!({"security_group_rule": body}))).await;
    let ssh =
        json!({"parent_group_id": id, "ip_protocol": "tcp", "from_port": 22, "to_port": "22", "cidr": "10.0.0.0/8"});
    let added = rule(ssh.clone()).await;
    assert_eq!(added.status, 200, "{:?}", added.body);
    let mut expected = json!({
        "parent_group_id": id, "ip_protocol": "tcp", "from_port": 22, "to_port": 22,
        "ip_range": {"cidr": "10.0.0.0/8"}, "group": {},
    });
    expected["id"] = added.body["security_group_rule"]["id"].clone();
    assert_eq!(added.body["security_group_rule"], expected);
    assert_eq!(rule(ssh).await.status, 400, "the same rule is accepted twice");
    let from_group = rule(json!({"parent_group_id": id, "group_id": id})).await;
    assert_eq!(from_group.body["security_group_rule"]["group"], json!({"name": " web ", "tenant_id": "project"}));
    let nothing = rule(json!({"parent_group_id": id})).await;
    refused(&nothing, 400, "Not enough parameters to build a valid rule.");
    assert_eq!(rule(json!({"parent_group_id": "nonsense"})).await.status, 400);
    // Only administrators list the resources of all projects.
    let lists = async |token: &str, query: &str| {
        let listed = api.call("GET", &format!("/os-security-groups{query}"), "2.35", token, None).await;
        assert_eq!(listed.status, 200, "{:?}", listed.body);
        listed.body["security_groups"].as_array().unwrap().iter().any(|group| group["id"] == *id)
    };
    assert!(lists(ADMIN, "?all_tenants=1").await && !lists(ADMIN, "").await);
    assert!(lists(USER, "").await && !lists("eve:other", "?all_tenants=1").await);
    let shown = ask("GET", &path, None).await.body;
    assert_eq!(shown["security_group"]["rules"].as_array().unwrap().len(), 2);
    let one = expected["id"].as_str().unwrap();
    assert_eq!(ask("DELETE", &format!("/os-security-group-rules/{one}"), None).await.status, 202);
    assert_eq!(ask("DELETE", &format!("/os-security-group-rules/{one}"), None).await.status, 404);

    let renamed = ask("PUT", &path, group("db")).await;
    assert_eq!((renamed.status, &renamed.body["security_group"]["name"]), (200, &json!("db")));
    let listed = ask("GET", "/os-security-groups", None).await.body;
    let names: Vec<_> =
        listed["security_groups"].as_array().unwrap().iter().map(|group| group["name"].clone()).collect();
    assert_eq!(names, ["db", "default"]);
    let second = ask("GET", "/os-security-groups?limit=1&offset=1", None).await.body;
    assert_eq!(second["security_groups"][0]["name"], "default");
    let hidden = api.call("GET", &path, "2.35", OTHER, None).await;
    refused(&hidden, 404, &format!("Security group {id} does not exist"));
    refused(&ask("GET", "/os-security-groups/7", None).await, 400, "Security group id should be uuid");
    assert_eq!(ask("DELETE", &path, None).await.status, 202);
    assert_eq!(ask("GET", &path, None).await.status, 404);
    assert_eq!(api.call("GET", "/os-security-groups", "2.36", USER, None).await.status, 404);
    api.stop().await;
}

#[actix_rt::test]
async fn a_servers_ports_get_and_lose_groups() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("a")).await;
    let group = json!({"security_group": {"name": "web", "description": ""}});
    let made = api.call("POST", "/os-security-groups", "2.1", USER, Some(group)).await;
    let id = made.body["security_group"]["id"].as_str().unwrap().to_owned();
    let act = async |verb: &str, name: &str| {
        let body = json!({verb: {"name": name}});
        api.call("POST", &format!("/servers/{server}/action"), "2.100", USER, Some(body)).await
    };
    let no_ports = format!("instance_id {server} could not be found as device id on any ports");
    refused(&act("addSecurityGroup", "web").await, 400, &no_ports);

    let network = json!({"network": {"name": "n"}});
    let network = api.ask("POST", "/network/v2.0/networks", "2.1", USER, Some(network)).await;
    let subnet = json!({"subnet": {
        "network_id": network.body["network"]["id"], "ip_version": 4, "cidr": "192.0.2.0/24",
    }});
    assert_eq!(api.ask("POST", "/network/v2.0/subnets", "2.1", USER, Some(subnet)).await.status, 201);
    let port = json!({"port": {"network_id": network.body["network"]["id"], "device_id": server}});
    let port = api.ask("POST", "/network/v2.0/ports", "2.1", USER, Some(port)).await;
    let port = port.body["port"]["id"].as_str().unwrap().to_owned();
    let groups = async || {
        let shown = api.ask("GET", &format!("/network/v2.0/ports/{port}"), "2.1", USER, None).await;
        shown.body["port"]["security_groups"].as_array().unwrap().clone()
    };
    assert_eq!(groups().await.len(), 1, "the port has not the default group alone");
    assert_eq!(act("addSecurityGroup", "web").await.status, 202);
    assert_eq!(act("addSecurityGroup", &id).await.status, 202, "adding the same group again is refused");
    assert!(groups().await.contains(&json!(id)) && groups().await.len() == 2);
    let unknown = "Security group nonsense not found for project project.";
    refused(&act("addSecurityGroup", "nonsense").await, 404, unknown);
    assert_eq!(act("removeSecurityGroup", "web").await.status, 202);
    assert!(!groups().await.contains(&json!(id)));
    let gone = format!("Security group {id} not associated with the instance {server}");
    refused(&act("removeSecurityGroup", "web").await, 404, &gone);
    let twin = json!({"security_group": {"name": "web", "description": ""}});
    api.call("POST", "/os-security-groups", "2.1", USER, Some(twin)).await;
    assert_eq!(act("addSecurityGroup", "web").await.status, 409, "the name of two groups is accepted");
    api.stop().await;
}
