//! The network API as clients use it.

use serde_json::{Value, json};

use super::world::World;

const ADMIN: &str = "admin:admin";
const BOB: &str = "bob:blue";
const EVE: &str = "eve:red";

fn id(thing: &Value) -> String {
    thing["id"].as_str().unwrap().to_owned()
}

async fn network(world: &World, token: &str, name: &str) -> Value {
    world.make(token, "/networks", "network", json!({"name": name})).await
}

async fn subnet(world: &World, token: &str, network: &Value, cidr: &str) -> Value {
    let version = if cidr.contains(':') { 6 } else { 4 };
    let body = json!({"network_id": network["id"], "cidr": cidr, "ip_version": version});
    world.make(token, "/subnets", "subnet", body).await
}

#[actix_web::test]
async fn networks_and_subnets_come_and_go() {
    let world = World::new().await;
    let private = network(&world, BOB, "private").await;
    assert_eq!(
        (&private["status"], &private["mtu"], &private["project_id"]),
        (&json!("ACTIVE"), &json!(1500), &json!("blue"))
    );
    assert!(private.get("provider:network_type").is_none(), "a member sees a field for administrators");
    let v4 = subnet(&world, BOB, &private, "10.0.0.0/24").await;
    assert_eq!(v4["allocation_pools"], json!([{"start": "10.0.0.2", "end": "10.0.0.254"}]));
    assert_eq!((&v4["gateway_ip"], &v4["enable_dhcp"]), (&json!("10.0.0.1"), &json!(true)));

    let path = format!("/networks/{}", id(&private));
    let shown = world.get(ADMIN, &path).await;
    assert_eq!(shown["network"]["subnets"], json!([v4["id"]]));
    assert_eq!(shown["network"]["provider:network_type"], "local");
    let change = json!({"network": {"name": "renamed", "mtu": "1400"}});
    let (status, body) = world.send(BOB, "PUT", &path, Some(change)).await;
    assert_eq!((status, &body["network"]["mtu"], &body["network"]["revision_number"]), (200, &json!(1400), &json!(2)));

    let overlapping = json!({"subnet": {"network_id": private["id"], "cidr": "10.0.0.0/25", "ip_version": 4}});
    assert_eq!(world.refused(BOB, "POST", "/subnets", Some(overlapping)).await, (400, "InvalidInput".into()));
    let no_gateway = json!({"subnet": {"gateway_ip": null, "dns_nameservers": ["9.9.9.9"]}});
    let (status, body) = world.send(BOB, "PUT", &format!("/subnets/{}", id(&v4)), Some(no_gateway)).await;
    assert_eq!((status, &body["subnet"]["gateway_ip"]), (200, &Value::Null));

    assert_eq!(world.send(BOB, "DELETE", &path, None).await.0, 204);
    assert_eq!(world.refused(BOB, "GET", &path, None).await, (404, "NetworkNotFound".into()));
    let gone = world.refused(BOB, "GET", &format!("/subnets/{}", id(&v4)), None).await;
    assert_eq!(gone, (404, "SubnetNotFound".into()));
    world.end().await;
}

#[actix_web::test]
async fn ports_hold_addresses() {
    let world = World::new().await;
    let private = network(&world, BOB, "private").await;
    let v4 = subnet(&world, BOB, &private, "10.0.0.0/30").await;
    let ask = |extra: Value| {
        let mut body = json!({"network_id": private["id"]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"port": body})
    };
    let port = world.make(BOB, "/ports", "port", ask(json!({"name": "p", "dns_name": "web"}))["port"].clone()).await;
    assert_eq!(port["fixed_ips"], json!([{"subnet_id": v4["id"], "ip_address": "10.0.0.2"}]));
    assert_eq!((&port["status"], port["security_groups"].as_array().unwrap().len()), (&json!("DOWN"), 1));
    assert!(port.get("binding:host_id").is_none());
    assert_eq!(port["dns_assignment"][0]["hostname"], "web");

    let refused = |extra: Value| world.refused(BOB, "POST", "/ports", Some(ask(extra)));
    assert_eq!(refused(json!({})).await, (409, "IpAddressGenerationFailure".into()));
    let use_of = world.get(ADMIN, "/network-ip-availabilities?ip_version=4").await;
    let use_of = &use_of["network_ip_availabilities"][0];
    assert_eq!((&use_of["total_ips"], &use_of["used_ips"]), (&json!(1), &json!(1)));
    let taken = json!({"fixed_ips": [{"ip_address": "10.0.0.2"}]});
    assert_eq!(refused(taken).await, (409, "IpAddressInUse".into()));
    let outside = json!({"fixed_ips": [{"ip_address": "192.0.2.1"}]});
    assert_eq!(refused(outside).await, (400, "InvalidIpForNetwork".into()));
    let mac = json!({"mac_address": port["mac_address"], "fixed_ips": []});
    assert_eq!(refused(mac).await, (409, "MacAddressInUse".into()));
    assert_eq!(refused(json!({"binding:host_id": "h1"})).await, (403, "PolicyNotAuthorized".into()));
    assert_eq!(refused(json!({"colour": "red"})).await, (400, "HTTPBadRequest".into()));
    let unknown = json!({"security_groups": ["3d2f4a5c-0000-0000-0000-000000000000"]});
    assert_eq!(refused(unknown).await, (404, "SecurityGroupNotFound".into()));

    let path = format!("/ports/{}", id(&port));
    let bind = json!({"port": {"binding:host_id": "h1", "device_id": "d", "device_owner": "compute:nova"}});
    let (status, body) = world.send(ADMIN, "PUT", &path, Some(bind)).await;
    assert_eq!(
        (status, &body["port"]["status"], &body["port"]["binding:vif_type"]),
        (200, &json!("ACTIVE"), &json!("bridge"))
    );
    for (query, count) in [
        ("device_id=d", 1),
        ("device_id=x", 0),
        ("fixed_ips=ip_address%3D10.0.0.2", 1),
        ("fixed_ips=ip_address_substr%3D10.9", 0),
        ("fixed_ips=ip_address%3D10.0.0.9&fixed_ips=ip_address%3D10.0.0.2", 1),
        ("fixed_ips=ip_address%3D10.0.0.2&fixed_ips=subnet_id%3Dx", 0),
        ("network_id=3d2f4a5c-0000-0000-0000-000000000000", 0),
        ("status=ACTIVE&admin_state_up=True&fields=id", 1),
    ] {
        let ports = world.get(BOB, &format!("/ports?{query}")).await;
        assert_eq!(ports["ports"].as_array().unwrap().len(), count, "{query}: {ports}");
    }
    let delete_subnet = world.refused(BOB, "DELETE", &format!("/subnets/{}", id(&v4)), None).await;
    assert_eq!(delete_subnet, (409, "SubnetInUse".into()));
    let delete_network = world.refused(BOB, "DELETE", &format!("/networks/{}", id(&private)), None).await;
    assert_eq!(delete_network, (409, "NetworkInUse".into()));
    assert_eq!(world.send(BOB, "DELETE", &path, None).await.0, 204);
    assert_eq!(world.send(BOB, "POST", "/ports", Some(ask(json!({})))).await.0, 201, "the address is still taken");
    world.end().await;
}

#[actix_web::test]
async fn others_see_only_what_is_shared() {
    let world = World::new().await;
    let private = network(&world, BOB, "private").await;
    let path = format!("/networks/{}", id(&private));
    for method in ["GET", "PUT", "DELETE"] {
        let body = (method == "PUT").then(|| json!({"network": {"name": "mine"}}));
        assert_eq!(world.refused(EVE, method, &path, body).await, (404, "NetworkNotFound".into()));
    }
    assert_eq!(world.get(EVE, "/networks").await["networks"], json!([]));
    assert_eq!(world.get(ADMIN, "/networks").await["networks"][0]["id"], private["id"]);
    let share = json!({"network": {"shared": true}});
    assert_eq!(world.refused(BOB, "PUT", &path, Some(share.clone())).await, (403, "PolicyNotAuthorized".into()));
    assert_eq!(world.send(ADMIN, "PUT", &path, Some(share)).await.0, 200);
    assert_eq!(world.get(EVE, "/networks?shared=true").await["networks"][0]["name"], "private");
    assert_eq!(world.refused(EVE, "DELETE", &path, None).await, (403, "PolicyNotAuthorized".into()));
    subnet(&world, BOB, &private, "10.0.0.0/24").await;
    let port = world.make(EVE, "/ports", "port", json!({"network_id": private["id"]})).await;
    assert_eq!(port["project_id"], "red");
    let unshare = json!({"network": {"shared": false}});
    assert_eq!(world.refused(ADMIN, "PUT", &path, Some(unshare)).await, (409, "InvalidSharedSetting".into()));
    let listed = world.get(BOB, "/ports").await;
    assert_eq!(listed["ports"][0]["id"], port["id"], "the network's owner does not see the port of another project");
    world.end().await;
}

#[actix_web::test]
async fn security_groups_and_rules() {
    let world = World::new().await;
    let groups = world.get(BOB, "/security-groups").await;
    let default = groups["security_groups"][0].clone();
    assert_eq!((&default["name"], default["security_group_rules"].as_array().unwrap().len()), (&json!("default"), 4));
    assert_eq!(world.get(BOB, "/security-groups").await, groups, "the second list of the groups differs");

    let web = world.make(BOB, "/security-groups", "security_group", json!({"name": "web"})).await;
    assert_eq!(web["security_group_rules"].as_array().unwrap().len(), 2);
    // Administrators list the groups of all projects.
    let lists = async |token: &str| {
        let listed = world.get(token, "/security-groups").await;
        listed["security_groups"].as_array().unwrap().iter().any(|group| group["id"] == web["id"])
    };
    assert!(lists(BOB).await && lists(ADMIN).await && !lists(EVE).await);
    let rule = |extra: Value| {
        let mut body = json!({"security_group_id": web["id"], "direction": "ingress"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"security_group_rule": body})
    };
    let ssh =
        json!({"protocol": "tcp", "port_range_min": 22, "port_range_max": "22", "remote_ip_prefix": "192.0.2.9/24"});
    let (status, body) = world.send(BOB, "POST", "/security-group-rules", Some(rule(ssh.clone()))).await;
    let made = &body["security_group_rule"];
    assert_eq!((status, &made["ethertype"], &made["normalized_cidr"]), (201, &json!("IPv4"), &json!("192.0.2.0/24")));
    let refused = |extra: Value| world.refused(BOB, "POST", "/security-group-rules", Some(rule(extra)));
    assert_eq!(refused(ssh).await, (409, "SecurityGroupRuleExists".into()));
    assert_eq!(refused(json!({"protocol": "smoke"})).await, (400, "SecurityGroupRuleInvalidProtocol".into()));
    for unfiltered in ["gre", "dccp", "33", "112"] {
        let answer = refused(json!({"protocol": unfiltered})).await;
        assert_eq!(answer, (400, "SecurityGroupRuleInvalidProtocol".into()), "{unfiltered}");
    }
    let lite = json!({"protocol": "udplite", "port_range_min": 8, "port_range_max": 9});
    assert_eq!(refused(lite).await, (400, "SecurityGroupInvalidProtocolForPortRange".into()));
    let ports = json!({"protocol": "tcp", "port_range_min": 9, "port_range_max": 8});
    assert_eq!(refused(ports).await, (400, "SecurityGroupInvalidPortRange".into()));
    let without = json!({"port_range_min": 9, "port_range_max": 9});
    assert_eq!(refused(without).await, (400, "SecurityGroupProtocolRequiredWithPorts".into()));
    let mixed = json!({"ethertype": "IPv6", "remote_ip_prefix": "192.0.2.0/24"});
    assert_eq!(refused(mixed).await, (400, "SecurityGroupRuleParameterConflict".into()));

    let bulk = json!({"security_group_rules": [
        rule(json!({"protocol": "udp"}))["security_group_rule"],
        rule(json!({"protocol": "icmp", "port_range_min": 8}))["security_group_rule"],
    ]});
    let (status, body) = world.send(BOB, "POST", "/security-group-rules", Some(bulk)).await;
    assert_eq!((status, body["security_group_rules"].as_array().unwrap().len()), (201, 2));
    let listed =
        world.get(BOB, &format!("/security-group-rules?security_group_id={}&direction=ingress", id(&web))).await;
    assert_eq!(listed["security_group_rules"].as_array().unwrap().len(), 3);
    let path = format!("/security-group-rules/{}", id(made));
    assert_eq!(world.refused(EVE, "DELETE", &path, None).await, (404, "SecurityGroupRuleNotFound".into()));
    assert_eq!(world.send(BOB, "DELETE", &path, None).await.0, 204);

    let private = network(&world, BOB, "private").await;
    subnet(&world, BOB, &private, "10.0.0.0/24").await;
    let body = json!({"network_id": private["id"], "security_groups": [web["id"]]});
    let port = world.make(BOB, "/ports", "port", body).await;
    let group = format!("/security-groups/{}", id(&web));
    assert_eq!(world.refused(BOB, "DELETE", &group, None).await, (409, "SecurityGroupInUse".into()));
    let open = json!({"port": {"port_security_enabled": false}});
    let port_path = format!("/ports/{}", id(&port));
    let refused = world.refused(BOB, "PUT", &port_path, Some(open)).await;
    assert_eq!(refused, (409, "PortSecurityPortHasSecurityGroup".into()));
    let open = json!({"port": {"port_security_enabled": false, "security_groups": []}});
    assert_eq!(world.send(BOB, "PUT", &port_path, Some(open)).await.0, 200);
    assert_eq!(world.send(BOB, "DELETE", &group, None).await.0, 204);
    let default = format!("/security-groups/{}", id(&default));
    let refused = world.refused(BOB, "DELETE", &default, None).await;
    assert_eq!(refused, (409, "SecurityGroupCannotRemoveDefault".into()));
    world.end().await;
}

#[actix_web::test]
async fn quotas_are_shown_set_and_enforced() {
    let world = World::new().await;
    assert_eq!(world.get(BOB, "/quotas/blue").await["quota"]["port"], 500);
    assert_eq!(world.refused(BOB, "PUT", "/quotas/blue", Some(json!({"quota": {"port": 1}}))).await.0, 403);
    assert_eq!(world.refused(EVE, "GET", "/quotas/blue", None).await.0, 403);
    let limits = json!({"quota": {"network": 1, "security_group": 2, "security_group_rule": 7}});
    let (status, body) = world.send(ADMIN, "PUT", "/quotas/blue", Some(limits)).await;
    assert_eq!((status, &body["quota"]["network"]), (200, &json!(1)));
    network(&world, BOB, "one").await;
    let refused = world.refused(BOB, "POST", "/networks", Some(json!({"network": {}}))).await;
    assert_eq!(refused, (409, "OverQuota".into()));
    let details = world.get(BOB, "/quotas/blue/details").await;
    assert_eq!(details["quota"]["network"], json!({"limit": 1, "used": 1, "reserved": 0}));
    world.make(BOB, "/security-groups", "security_group", json!({"name": "web"})).await;
    let more = Some(json!({"security_group": {"name": "db"}}));
    assert_eq!(world.refused(BOB, "POST", "/security-groups", more).await, (409, "OverQuota".into()));
    assert_eq!(world.get(ADMIN, "/quotas").await["quotas"][0]["project_id"], "blue");
    assert_eq!(world.send(ADMIN, "DELETE", "/quotas/blue", None).await.0, 204);
    assert_eq!(world.get(BOB, "/quotas/blue").await["quota"]["network"], 100);
    assert_eq!(world.get(BOB, "/quotas/blue/default").await["quota"]["security_group_rule"], 100);
    world.end().await;
}

#[actix_web::test]
async fn listings_are_sorted_cut_and_narrowed() {
    let world = World::new().await;
    for name in ["c", "a", "b"] {
        network(&world, BOB, name).await;
    }
    let names = |body: &Value| -> Vec<String> {
        body["networks"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = world.get(BOB, "/networks?sort_key=name&sort_dir=desc&fields=name&fields=id").await;
    assert_eq!(names(&all), ["c", "b", "a"]);
    assert_eq!(all["networks"][0].as_object().unwrap().len(), 2);
    let first = world.get(BOB, "/networks?sort_key=name&limit=2").await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["networks_links"][0]["rel"], "next");
    let marker = first["networks"][1]["id"].as_str().unwrap();
    let second = world.get(BOB, &format!("/networks?sort_key=name&limit=2&marker={marker}")).await;
    assert_eq!(names(&second), ["c"]);
    assert_eq!(second["networks_links"][0]["rel"], "previous");
    let back = world.get(BOB, &format!("/networks?sort_key=name&limit=1&marker={marker}&page_reverse=True")).await;
    assert_eq!(names(&back), ["a"]);
    assert_eq!(names(&world.get(BOB, "/networks?name=a&name=b&sort_key=name").await), ["a", "b"]);
    for wrong in ["limit=-1", "marker=x", "sort_key=colour", "sort_key=name&sort_dir=up"] {
        assert_eq!(world.refused(BOB, "GET", &format!("/networks?{wrong}"), None).await.0, 400, "{wrong}");
    }
    world.end().await;
}

#[actix_web::test]
async fn tags_of_networks_subnets_ports_and_security_groups() {
    let world = World::new().await;
    let private = network(&world, BOB, "private").await;
    let v4 = subnet(&world, BOB, &private, "10.0.0.0/24").await;
    let port = world.make(BOB, "/ports", "port", json!({"network_id": private["id"]})).await;
    let web = world.make(BOB, "/security-groups", "security_group", json!({"name": "web"})).await;
    for (collection, thing) in [("networks", &private), ("subnets", &v4), ("ports", &port), ("security-groups", &web)] {
        let path = format!("/{collection}/{}/tags", id(thing));
        let (status, body) = world.send(BOB, "PUT", &path, Some(json!({"tags": ["red", "blue", "red"]}))).await;
        assert_eq!((status, &body["tags"]), (200, &json!(["blue", "red"])), "{path}");
        assert_eq!(world.send(BOB, "PUT", &format!("{path}/green"), None).await.0, 201);
        assert_eq!(world.send(BOB, "DELETE", &format!("{path}/blue"), None).await.0, 204);
        assert_eq!(world.refused(BOB, "GET", &format!("{path}/blue"), None).await, (404, "TagNotFound".into()));
        assert_eq!(world.refused(EVE, "PUT", &format!("{path}/x"), None).await.0, 404);
        let key = collection.replace('-', "_");
        for (query, count) in [("tags=red,green", 1), ("tags=blue", 0), ("tags-any=blue,red", 1), ("not-tags=red", 0)] {
            let listed = world.get(BOB, &format!("/{collection}?id={}&{query}", id(thing))).await;
            assert_eq!(listed[&key].as_array().unwrap().len(), count, "{collection} {query}");
        }
    }
    world.end().await;
}

#[actix_web::test]
async fn invalid_bodies_get_neutrons_messages() {
    let world = World::new().await;
    for (path, body, message) in [
        ("/networks", json!({}), "Unable to find 'network' in request body"),
        ("/networks", json!({"network": {"name": 5}}), "Invalid input for name. Reason: '5' is not a valid string."),
        (
            "/networks",
            json!({"network": {"admin_state_up": "perhaps"}}),
            "Invalid input for admin_state_up. Reason: 'perhaps' cannot be converted to boolean.",
        ),
        ("/networks", json!({"network": {"a": 1}}), "Unrecognized attribute(s) 'a'"),
        ("/subnets", json!({"subnet": {}}), "Failed to parse request. Required attribute 'network_id' not specified"),
        ("/ports", json!({"port": {}}), "Failed to parse request. Required attribute 'network_id' not specified"),
    ] {
        let (status, answer) = world.send(BOB, "POST", path, Some(body)).await;
        assert_eq!((status, answer["NeutronError"]["message"].as_str().unwrap()), (400, message));
    }
    let extensions = world.get(BOB, "/extensions").await;
    let aliases = extensions["extensions"].as_array().unwrap();
    assert!(aliases.iter().any(|extension| extension["alias"] == "security-group"));
    assert_eq!(world.get(BOB, "/extensions/net-mtu").await["extension"]["alias"], "net-mtu");
    assert_eq!(world.refused(BOB, "GET", "/extensions/magic", None).await, (404, "ExtensionNotFound".into()));
    assert_eq!(world.get(ADMIN, "/agents").await, json!({"agents": []}));
    world.end().await;
}
