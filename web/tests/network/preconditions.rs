//! `If-Match: revision_number=N`. The Networking API reference describes it under "If-Match". If the resource has
//! another revision by now, the request is answered 412 and changes nothing. Further tests in this file cover MAC
//! addresses, and collections that clients request.

use serde_json::{Value, json};

use super::world::World;

const BOB: &str = "bob:blue";

fn id(thing: &Value) -> String {
    thing["id"].as_str().unwrap().to_owned()
}

#[actix_web::test]
async fn a_change_counts_only_at_the_revision_that_it_names() {
    let world = World::new().await;
    let network = world.make(BOB, "/networks", "network", json!({"name": "n"})).await;
    let subnet = json!({"network_id": network["id"], "cidr": "10.0.0.0/24", "ip_version": 4});
    let subnet = world.make(BOB, "/subnets", "subnet", subnet).await;
    let port = world.make(BOB, "/ports", "port", json!({"network_id": network["id"]})).await;
    let router = world.make(BOB, "/routers", "router", json!({"name": "r"})).await;
    let group = world.make(BOB, "/security-groups", "security_group", json!({"name": "g"})).await;
    // The network comes last, because the port and the subnet use it.
    for (collection, key, thing) in [
        ("security-groups", "security_group", &group),
        ("routers", "router", &router),
        ("ports", "port", &port),
        ("subnets", "subnet", &subnet),
        ("networks", "network", &network),
    ] {
        let path = format!("/{collection}/{}", id(thing));
        let revision = world.get(BOB, &path).await[key]["revision_number"].as_u64().unwrap();
        let (now, other) = (format!("revision_number={revision}"), format!("revision_number={}", revision + 1));
        let named = |name: &str| Some(json!({key: {"name": name}}));

        let (status, body) = world.send_if(Some(&other), BOB, "PUT", &path, named("lost")).await;
        assert_eq!(status, 412, "{path}: {body}");
        let error = &body["NeutronError"];
        assert_eq!(error["type"], "RevisionNumberConstraintFailed", "{path}");
        let message = format!("Constrained to {}, but current revision is {revision}", revision + 1);
        assert_eq!(error["message"], message, "{path}");
        assert_ne!(world.get(BOB, &path).await[key]["name"], "lost", "{path}");
        assert_eq!(world.send_if(Some(&other), BOB, "DELETE", &path, None).await.0, 412, "{path}");
        assert_eq!(world.send_if(Some("revision_number=x"), BOB, "DELETE", &path, None).await.0, 400, "{path}");

        let (status, body) = world.send_if(Some(&now), BOB, "PUT", &path, named("kept")).await;
        assert_eq!((status, &body[key]["name"]), (200, &json!("kept")), "{path}: {body}");
        // The change has raised the revision, so the same request is refused now.
        assert_eq!(world.send_if(Some(&now), BOB, "PUT", &path, named("again")).await.0, 412, "{path}");
        assert_eq!(world.send_if(Some(&other), BOB, "DELETE", &path, None).await.0, 204, "{path}");
        assert_eq!(world.send_if(Some(&other), BOB, "DELETE", &path, None).await.0, 404, "{path}");
    }
    let extensions = world.get(BOB, "/extensions").await;
    assert!(extensions["extensions"].as_array().unwrap().iter().any(|one| one["alias"] == "revision-if-match"));
    world.end().await;
}

#[actix_web::test]
async fn a_change_of_tags_counts_only_at_the_revision_of_their_resource() {
    let world = World::new().await;
    let network = world.make(BOB, "/networks", "network", json!({"name": "n"})).await;
    let subnet = json!({"network_id": network["id"], "cidr": "10.0.0.0/24", "ip_version": 4});
    let subnet = world.make(BOB, "/subnets", "subnet", subnet).await;
    let port = world.make(BOB, "/ports", "port", json!({"network_id": network["id"]})).await;
    let router = world.make(BOB, "/routers", "router", json!({"name": "r"})).await;
    let group = world.make(BOB, "/security-groups", "security_group", json!({"name": "g"})).await;
    for (collection, key, thing) in [
        ("networks", "network", &network),
        ("subnets", "subnet", &subnet),
        ("ports", "port", &port),
        ("routers", "router", &router),
        ("security-groups", "security_group", &group),
    ] {
        let path = format!("/{collection}/{}", id(thing));
        let (tags, one) = (format!("{path}/tags"), format!("{path}/tags/one"));
        let set = |tag: &str| Some(json!({"tags": [tag]}));
        assert_eq!(world.send(BOB, "PUT", &tags, set("one")).await.0, 200, "{path}");
        let revision = world.get(BOB, &path).await[key]["revision_number"].as_u64().unwrap();
        let (now, other) = (format!("revision_number={revision}"), format!("revision_number={}", revision + 1));
        let two = format!("{path}/tags/two");
        for (method, path, body) in [
            ("PUT", &tags, set("two")),
            ("POST", &tags, set("two")),
            ("PUT", &two, None),
            ("DELETE", &one, None),
            ("DELETE", &tags, None),
        ] {
            let (status, body) = world.send_if(Some(&other), BOB, method, path, body).await;
            assert_eq!(status, 412, "{method} {path}: {body}");
            assert_eq!(world.get(BOB, &tags).await["tags"], json!(["one"]), "{method} {path}");
        }
        assert_eq!(world.send_if(Some(&now), BOB, "PUT", &tags, set("two")).await.0, 200, "{path}");
        assert_eq!(world.send_if(Some(&now), BOB, "DELETE", &tags, None).await.0, 412, "{path}: has been changed");
    }
    world.end().await;
}

#[actix_web::test]
async fn a_rule_goes_at_its_own_revision_and_interfaces_have_none() {
    let world = World::new().await;
    let group = world.make(BOB, "/security-groups", "security_group", json!({"name": "g"})).await;
    let rule = json!({"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"});
    let rule = world.make(BOB, "/security-group-rules", "security_group_rule", rule).await;
    let path = format!("/security-group-rules/{}", id(&rule));
    let (now, other) = (format!("revision_number={}", rule["revision_number"]), "revision_number=7");
    assert_eq!(world.send_if(Some(other), BOB, "DELETE", &path, None).await.0, 412);
    world.get(BOB, &path).await;
    assert_eq!(world.send_if(Some(&now), BOB, "DELETE", &path, None).await.0, 204);

    let network = world.make(BOB, "/networks", "network", json!({"name": "n"})).await;
    let subnet = json!({"network_id": network["id"], "cidr": "10.0.0.0/24", "ip_version": 4});
    let subnet = world.make(BOB, "/subnets", "subnet", subnet).await;
    let router = world.make(BOB, "/routers", "router", json!({"name": "r"})).await;
    let now = format!("revision_number={}", router["revision_number"]);
    let body = || Some(json!({"subnet_id": subnet["id"]}));
    let interfaces = format!("/ports?device_id={}", id(&router));
    for (action, held) in [("add_router_interface", 0), ("remove_router_interface", 1)] {
        let path = format!("/routers/{}/{action}", id(&router));
        let (status, refused) = world.send_if(Some(&now), BOB, "PUT", &path, body()).await;
        assert_eq!(status, 400, "{action}: {refused}");
        assert_eq!(world.get(BOB, &interfaces).await["ports"].as_array().unwrap().len(), held, "{action}");
        assert_eq!(world.send(BOB, "PUT", &path, body()).await.0, 200, "{action}");
    }
    let reset = world.send_if(Some(&now), "admin:admin", "DELETE", "/quotas/blue", None).await;
    assert_eq!(reset.0, 400, "quotas have no revision: {}", reset.1);
    world.end().await;
}

/// Neutron accepts every spelling of a MAC address that netaddr accepts, and always shows the same spelling.
#[actix_web::test]
async fn mac_addresses_have_several_spellings() {
    let world = World::new().await;
    let network = world.make(BOB, "/networks", "network", json!({"name": "n"})).await;
    for (text, shown) in [
        ("fa:16:3e:00:01:02", "fa:16:3e:00:01:02"),
        ("FA-16-3E-00-01-03", "fa:16:3e:00:01:03"),
        ("fa163e000104", "fa:16:3e:00:01:04"),
        ("fa16.3e00.0105", "fa:16:3e:00:01:05"),
        ("fa163e-000106", "fa:16:3e:00:01:06"),
        ("fa16:3e00:107", "fa:16:3e:00:01:07"),
        ("fa:16:3e:0:1:8", "fa:16:3e:00:01:08"),
        ("a163e000109", "0a:16:3e:00:01:09"),
        ("a163e-0010a", "0a:16:3e:00:01:0a"),
        ("11:22:33:44:55:66", "11:22:33:44:55:66"),
    ] {
        let port = json!({"network_id": network["id"], "mac_address": text});
        assert_eq!(world.make(BOB, "/ports", "port", port).await["mac_address"], shown, "{text}");
    }
    for text in [
        "fa163e0001",
        "fa163e:0102",
        "fa:16:3e:00:01",
        "fa:16:3e:00:01:02:03",
        "fa:16:3e:00:01:g0",
        "fa:16:3e:00:01:022",
        "fa16.3e00",
        "::::::",
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "fa.16.3e.00.01.02",
        "fa 16 3e 00 01 02",
        "+a:16:3e:00:01:02",
    ] {
        let port = json!({"port": {"network_id": network["id"], "mac_address": text}});
        assert_eq!(world.send(BOB, "POST", "/ports", Some(port)).await.0, 400, "{text}");
    }
    world.end().await;
}

/// `openstack project cleanup` and gophercloud request these collections.
#[actix_web::test]
async fn members_list_providers_and_agents_and_their_routers_ports_are_active() {
    let world = World::new().await;
    assert_eq!(world.get(BOB, "/service-providers").await, json!({"service_providers": []}));
    assert_eq!(world.get(BOB, "/agents").await, json!({"agents": []}));
    let network = world.make(BOB, "/networks", "network", json!({"name": "n"})).await;
    let subnet = json!({"network_id": network["id"], "cidr": "10.0.0.0/24", "ip_version": 4});
    let subnet = world.make(BOB, "/subnets", "subnet", subnet).await;
    let router = world.make(BOB, "/routers", "router", json!({"name": "r"})).await;
    let add = format!("/routers/{}/add_router_interface", id(&router));
    let (status, body) = world.send(BOB, "PUT", &add, Some(json!({"subnet_id": subnet["id"]}))).await;
    assert_eq!(status, 200, "{body}");
    let ports = world.get(BOB, &format!("/ports?device_id={}", id(&router))).await;
    assert_eq!((&ports["ports"][0]["status"], ports["ports"].as_array().unwrap().len()), (&json!("ACTIVE"), 1));
    world.end().await;
}
