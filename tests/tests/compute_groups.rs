//! Host aggregates, availability zones and server groups through the API: policy, refusals with their messages, and the
//! effects on servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use chronova_events::ids::ImageId;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::services::NO_IMAGE;
use chronova_tests::world::World;
use serde_json::{Value, json};

const USER: &str = "alice:web";

fn is(answer: &Answer, status: u16, words: &str) {
    assert!(answer.status == status && answer.message() == words, "{} {}", answer.status, answer.body);
}

/// The names of the two hosts.
async fn hosts(api: &Api) -> (String, String) {
    let list = api.get("/os-services?binary=nova-compute", "2.53").await;
    let host = |at: usize| list["services"][at]["host"].as_str().unwrap().to_owned();
    (host(0), host(1))
}

async fn aggregate(api: &Api, name: &str, zone: Option<&str>) -> u64 {
    let request = json!({"aggregate": {"name": name, "availability_zone": zone}});
    let made = api.call("POST", "/os-aggregates", "2.41", ADMIN, Some(request)).await;
    assert_eq!(made.status, 200, "{}", made.body);
    made.body["aggregate"]["id"].as_u64().unwrap()
}

async fn act(api: &Api, id: u64, body: Value) -> Answer {
    api.call("POST", &format!("/os-aggregates/{id}/action"), "2.41", ADMIN, Some(body)).await
}

async fn add(api: &Api, id: u64, host: &str) -> Answer {
    act(api, id, json!({"add_host": {"host": host}})).await
}

async fn zone_of(api: &Api, server: &str) -> Value {
    api.get(&format!("/servers/{server}"), "2.1").await["server"]["OS-EXT-AZ:availability_zone"].clone()
}

#[actix_rt::test]
async fn aggregates_are_made_changed_and_removed() {
    let api = Api::start().await;
    let (h0, _) = hosts(&api).await;
    let make = async |who: &str, body: Value| {
        api.call("POST", "/os-aggregates", "2.1", who, Some(json!({"aggregate": body}))).await
    };
    let denied = make(USER, json!({"name": "a"})).await;
    is(&denied, 403, "Policy doesn't allow os_compute_api:os-aggregates:create to be performed.");
    let made = make(ADMIN, json!({"name": "a", "availability_zone": "north"})).await;
    let shown = &made.body["aggregate"];
    assert_eq!((made.status, &shown["id"], &shown["availability_zone"]), (200, &json!(1), &json!("north")));
    assert!(shown.get("uuid").is_none() && shown.get("hosts").is_none() && shown.get("metadata").is_none());
    is(&make(ADMIN, json!({"name": "a"})).await, 409, "Aggregate a already exists.");
    assert_eq!(make(ADMIN, json!({"name": "a", "availability_zone": "x:y"})).await.status, 400);
    assert_eq!(make(ADMIN, json!({"name": ""})).await.status, 400);
    // Users may also not change a zone or remove it.
    for (method, path, body) in [
        ("PUT", "/os-aggregates/1", json!({"aggregate": {"availability_zone": "south"}})),
        ("POST", "/os-aggregates/1/action", json!({"set_metadata": {"metadata": {"availability_zone": "south"}}})),
        ("POST", "/os-aggregates/1/action", json!({"add_host": {"host": h0}})),
        ("DELETE", "/os-aggregates/1", Value::Null),
    ] {
        let sent = Some(body).filter(|body| !body.is_null());
        let denied = api.call(method, path, "2.1", USER, sent).await;
        assert_eq!(denied.status, 403, "{method} {path}: {}", denied.body);
    }

    let shown = api.get("/os-aggregates/1", "2.41").await["aggregate"].clone();
    assert!(shown["uuid"].is_string() && shown["updated_at"].is_null() && shown["deleted"] == false, "{shown}");
    assert_eq!((&shown["hosts"], &shown["metadata"]), (&json!([]), &json!({"availability_zone": "north"})));
    assert!(shown["created_at"].is_string() && shown["deleted_at"].is_null(), "{shown}");
    let mut keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "availability_zone",
            "created_at",
            "deleted",
            "deleted_at",
            "hosts",
            "id",
            "metadata",
            "name",
            "updated_at",
            "uuid"
        ]
    );
    assert_eq!(api.get("/os-aggregates", "2.41").await["aggregates"], json!([shown]));
    assert!(api.get("/os-aggregates", "2.40").await["aggregates"][0].get("uuid").is_none());
    assert_eq!(api.get("/os-aggregates", "2.41").await["aggregates"][0]["uuid"], shown["uuid"]);
    assert_eq!(api.call("GET", "/os-aggregates", "2.41", USER, None).await.status, 403);
    let own = json!({"aggregate": {"name": "x", "uuid": "6ba7b810-9dad-41d1-80b4-00c04fd430c8"}});
    assert_eq!(
        api.call("POST", "/os-aggregates", "2.41", ADMIN, Some(own)).await.status,
        400,
        "a request sets the UUID"
    );
    let show = async |id: &str| api.call("GET", &format!("/os-aggregates/{id}"), "2.1", ADMIN, None).await;
    is(&show("9").await, 404, "Aggregate 9 could not be found.");
    is(&show("x").await, 400, "Invalid input received: id must be an integer");

    assert_eq!(aggregate(&api, "b", None).await, 2);
    let update = async |id: u64, body: Value| {
        api.call("PUT", &format!("/os-aggregates/{id}"), "2.1", ADMIN, Some(json!({"aggregate": body}))).await
    };
    assert_eq!(update(2, json!({"name": " bee "})).await.body["aggregate"]["name"], "bee");
    is(&update(2, json!({"name": "a"})).await, 409, "Aggregate a already exists.");
    assert_eq!(update(2, json!({})).await.status, 400);
    assert_eq!(update(2, json!({"availability_zone": "x:y"})).await.status, 400);
    is(&update(9, json!({"name": "x"})).await, 404, "Aggregate 9 could not be found.");
    is(
        &update(1, json!({"availability_zone": null})).await,
        400,
        "Cannot update aggregate 1. Reason: Aggregate a does not support empty named availability zone.",
    );

    let set = act(&api, 2, json!({"set_metadata": {"metadata": {"ssd": "true", "gpu": "no"}}})).await;
    assert_eq!(set.body["aggregate"]["metadata"], json!({"gpu": "no", "ssd": "true"}));
    let set = act(&api, 2, json!({"set_metadata": {"metadata": {"gpu": null}}})).await;
    assert_eq!(set.body["aggregate"]["metadata"], json!({"ssd": "true"}));
    assert!(set.body["aggregate"]["updated_at"].is_string());
    let long = json!({"set_metadata": {"metadata": {"filter_tenant_id": "p".repeat(256)}}});
    assert_eq!(act(&api, 2, long).await.status, 400);

    assert_eq!(add(&api, 2, &h0).await.body["aggregate"]["hosts"], json!([h0]));
    is(&add(&api, 2, &h0).await, 409, &format!("Aggregate 2 already has host {h0}."));
    is(&add(&api, 2, "nowhere").await, 404, "Compute host nowhere could not be found.");
    is(&add(&api, 9, &h0).await, 404, "Aggregate 9 could not be found.");
    let delete = async |id: u64| api.call("DELETE", &format!("/os-aggregates/{id}"), "2.1", ADMIN, None).await;
    is(&delete(2).await, 400, "Cannot remove host from aggregate 2. Reason: Host aggregate is not empty.");
    let remove = async |id: u64, host: &str| act(&api, id, json!({"remove_host": {"host": host}})).await;
    assert_eq!(remove(2, &h0).await.body["aggregate"]["hosts"], json!([]));
    is(&remove(2, &h0).await, 404, &format!("Cannot remove host {h0} in aggregate 2"));
    is(&remove(2, "nowhere").await, 404, "Cannot remove host nowhere in aggregate 2");
    assert_eq!(delete(2).await.status, 200);
    is(&delete(2).await, 404, "Aggregate 2 could not be found.");
    assert_eq!(aggregate(&api, "c", None).await, 3, "the number of a deleted aggregate is given again");
    api.stop().await;
}

#[actix_rt::test]
async fn a_host_is_in_one_zone_and_its_servers_stay_in_it() {
    let api = Api::start().await;
    let (h0, h1) = hosts(&api).await;
    let north = aggregate(&api, "n", Some("north")).await;
    let south = aggregate(&api, "s", Some("south")).await;
    let plain = aggregate(&api, "p", None).await;
    assert_eq!(add(&api, north, &h0).await.status, 200);
    assert_eq!(add(&api, plain, &h0).await.status, 200);
    let other = "One or more hosts already in availability zone(s) ['north']";
    is(&add(&api, south, &h0).await, 409, &format!("Cannot add host to aggregate {south}. Reason: {other}."));
    let metadata = json!({"set_metadata": {"metadata": {"availability_zone": "south"}}});
    let refused = act(&api, plain, metadata).await;
    is(&refused, 400, &format!("Cannot update metadata of aggregate {plain}. Reason: {other}."));

    // Servers on both hosts: one per zone.
    let mut request = Api::wish("north");
    request["availability_zone"] = json!("north");
    request["host"] = json!(h0);
    let in_north = api.server(ADMIN, request.clone()).await;
    assert_eq!(zone_of(&api, &in_north).await, "north");
    request["availability_zone"] = json!("south");
    let nowhere = api.call("POST", "/servers", "2.74", ADMIN, Some(json!({"server": request}))).await;
    is(&nowhere, 400, "The requested availability zone is not available");
    let mut request = Api::wish("elsewhere");
    request["host"] = json!(h1);
    let elsewhere = api.server(ADMIN, request).await;
    assert_eq!(zone_of(&api, &elsewhere).await, "nova");

    let would_move = |done: &str, from: &str, to: &str| {
        format!(
            "The host cannot be {done} the aggregate as the availability zone of the host would change from '{from}' to \
             '{to}' but the host already has 1 instance(s). Changing the AZ of an existing instance is not supported by \
             this action. Move the instances away from this host then try again. If you need to move the instances \
             between AZs then you can use shelve_offload and unshelve to achieve this."
        )
    };
    let reason = would_move("added to", "None", "south");
    is(&add(&api, south, &h1).await, 409, &format!("Cannot add host to aggregate {south}. Reason: {reason}."));
    let reason = would_move("removed from", "north", "None");
    let refused = act(&api, north, json!({"remove_host": {"host": h0}})).await;
    is(&refused, 409, &format!("Cannot remove host from aggregate {north}. Reason: {reason}."));
    let rename = json!({"aggregate": {"availability_zone": "east"}});
    let refused = api.call("PUT", &format!("/os-aggregates/{north}"), "2.1", ADMIN, Some(rename.clone())).await;
    let occupied = "One or more hosts contain instances in this zone";
    is(&refused, 400, &format!("Cannot update aggregate {north}. Reason: {occupied}."));
    assert_eq!(act(&api, plain, json!({"remove_host": {"host": h0}})).await.status, 200);

    assert_eq!(api.call("DELETE", &format!("/servers/{in_north}"), "2.1", ADMIN, None).await.status, 204);
    api.life.settled().await;
    let renamed = api.call("PUT", &format!("/os-aggregates/{north}"), "2.1", ADMIN, Some(rename)).await;
    assert_eq!(renamed.body["aggregate"]["availability_zone"], "east");
    api.stop().await;
}

#[actix_rt::test]
async fn zones_are_where_the_services_are() {
    let api = Api::start().await;
    let (h0, h1) = hosts(&api).await;
    let zones = async || -> Vec<(String, bool)> {
        let list = api.call("GET", "/os-availability-zone", "2.1", USER, None).await.body;
        let zone = |zone: &Value| {
            assert!(zone["hosts"].is_null());
            (zone["zoneName"].as_str().unwrap().to_owned(), zone["zoneState"]["available"].as_bool().unwrap())
        };
        list["availabilityZoneInfo"].as_array().unwrap().iter().map(zone).collect()
    };
    let are = |pairs: &[(&str, bool)]| pairs.iter().map(|(zone, up)| ((*zone).to_owned(), *up)).collect::<Vec<_>>();
    assert_eq!(zones().await, are(&[("nova", true)]));
    let north = aggregate(&api, "n", Some("north")).await;
    assert_eq!(zones().await, are(&[("nova", true)]), "a zone without hosts is listed");
    add(&api, north, &h0).await;
    assert_eq!(zones().await, are(&[("north", true), ("nova", true)]));
    // Metadata alone makes a zone of an aggregate with hosts.
    let plain = aggregate(&api, "s", None).await;
    add(&api, plain, &h1).await;
    assert_eq!(zones().await, are(&[("north", true), ("nova", true)]), "an aggregate without the key is a zone");
    let named = act(&api, plain, json!({"set_metadata": {"metadata": {"availability_zone": "south"}}})).await;
    assert_eq!(named.status, 200, "{}", named.body);
    assert_eq!(zones().await, are(&[("north", true), ("south", true)]));
    assert_eq!(act(&api, plain, json!({"remove_host": {"host": h1}})).await.status, 200);
    let services = api.get("/os-services?binary=nova-compute", "2.1").await;
    let listed: Vec<_> = services["services"].as_array().unwrap().iter().map(|s| (&s["host"], &s["zone"])).collect();
    assert_eq!(listed, [(&json!(h0), &json!("north")), (&json!(h1), &json!("nova"))]);

    let disable = json!({"host": h0, "binary": "nova-compute"});
    assert_eq!(api.call("PUT", "/os-services/disable", "2.1", ADMIN, Some(disable)).await.status, 200);
    assert_eq!(zones().await, are(&[("nova", true), ("north", false)]));
    let detail = api.get("/os-availability-zone/detail", "2.1").await;
    let detail: Vec<_> = detail["availabilityZoneInfo"].as_array().unwrap().clone();
    let names: Vec<_> = detail.iter().map(|zone| zone["zoneName"].as_str().unwrap()).collect();
    assert_eq!(names, ["internal", "nova", "north"]);
    assert_eq!(detail[1]["hosts"][h1.as_str()]["nova-compute"]["active"], true);
    assert!(detail[2]["hosts"].is_null());
    let mut request = Api::wish("x");
    request["availability_zone"] = json!("north");
    let closed = api.call("POST", "/servers", "2.1", ADMIN, Some(json!({"server": request}))).await;
    is(&closed, 400, "The requested availability zone is not available");
    api.stop().await;
}

/// `[DEFAULT] default_availability_zone`: hosts without a zone are in this zone. Users see it like any other zone.
#[actix_rt::test]
async fn hosts_without_a_zone_are_in_the_configured_default_zone() {
    let mut world = World::new(2);
    assert_eq!(world.options.servers.availability_zone, "nova");
    world.options.servers.availability_zone = "rest".to_owned();
    let api = Api::start_of(world, "", None).await;
    let (h0, h1) = hosts(&api).await;
    let north = aggregate(&api, "n", Some("north")).await;
    assert_eq!(add(&api, north, &h0).await.status, 200);
    let zones = api.call("GET", "/os-availability-zone", "2.1", USER, None).await.body;
    let zone = |name: &str| json!({"zoneName": name, "zoneState": {"available": true}, "hosts": null});
    assert_eq!(zones["availabilityZoneInfo"], json!([zone("north"), zone("rest")]));
    let services = api.get("/os-services?binary=nova-compute", "2.1").await;
    let listed: Vec<_> = services["services"].as_array().unwrap().iter().map(|s| (&s["host"], &s["zone"])).collect();
    assert_eq!(listed, [(&json!(h0), &json!("north")), (&json!(h1), &json!("rest"))]);
    let mut request = Api::wish("there");
    request["availability_zone"] = json!("rest");
    let server = api.server(USER, request).await;
    let shown = api.get(&format!("/servers/{server}"), "2.1").await["server"].take();
    assert_eq!((&shown["OS-EXT-SRV-ATTR:host"], zone_of(&api, &server).await), (&json!(h1), json!("rest")));
    api.stop().await;
}

#[actix_rt::test]
async fn images_are_brought_to_the_hosts_of_an_aggregate() {
    let api = Api::start().await;
    let (h0, _) = hosts(&api).await;
    let id = aggregate(&api, "a", None).await;
    add(&api, id, &h0).await;
    let image = chronova_tests::compute_api::IMAGE;
    let ask = async |id: u64, version: &str, images: &[&str]| {
        let images: Vec<_> = images.iter().map(|id| json!({"id": id})).collect();
        api.call("POST", &format!("/os-aggregates/{id}/images"), version, ADMIN, Some(json!({"cache": images}))).await
    };
    is(&ask(id, "2.81", &[image, image]).await, 400, "Duplicate images in request");
    is(&ask(9, "2.81", &[image]).await, 404, "Aggregate 9 could not be found.");
    assert_eq!(ask(id, "2.80", &[image]).await.status, 404);
    assert_eq!(ask(id, "2.81", &[]).await.status, 400);
    let holds = |host: usize| api.world.fleet.images(host).len();
    assert_eq!((holds(0), holds(1)), (0, 0));
    assert_eq!(ask(id, "2.81", &[image]).await.status, 202);
    api.life.until(|_| holds(0) + holds(1) == 1).await;
    assert_eq!(api.world.fleet.hostname(usize::from(holds(1) == 1)), h0, "another host fetched the image");
    api.stop().await;
}

/// One of two hosts cannot fetch the image. The request is accepted, and the other host has the image.
#[actix_rt::test]
async fn a_host_that_cannot_fetch_an_image_does_not_hinder_the_others() {
    let api = Api::start().await;
    let (h0, h1) = hosts(&api).await;
    let id = aggregate(&api, "a", None).await;
    add(&api, id, &h0).await;
    add(&api, id, &h1).await;
    let fault = FaultPlan::default().with(DriverCall::EnsureImage, FaultTrigger::Always, Effect::Refuse);
    api.world.fleet.set_faults(0, fault);
    let ask = async || {
        let images = json!({"cache": [{"id": chronova_tests::compute_api::IMAGE}]});
        let path = format!("/os-aggregates/{id}/images");
        assert_eq!(api.call("POST", &path, "2.81", ADMIN, Some(images)).await.status, 202);
    };
    let holds = |host: usize| api.world.fleet.images(host).len();
    ask().await;
    api.life.until(|_| holds(1) == 1 && api.world.fleet.calls(DriverCall::EnsureImage) >= 2).await;
    assert_eq!(holds(0), 0);
    let servers = api.get("/servers?all_tenants=1", "2.1").await;
    assert_eq!(servers["servers"], json!([]), "the hosts needed a server");
    // The next request brings the image to the host that failed.
    api.world.fleet.set_faults(0, FaultPlan::default());
    ask().await;
    api.life.until(|_| holds(0) == 1).await;
    assert_eq!(holds(1), 1);
    api.stop().await;
}

/// The aggregate and the images are checked before the answer. A host that cannot keep an image fails only after the
/// answer, and hinders no other host.
#[actix_rt::test]
async fn several_images_are_brought_to_all_hosts_of_an_aggregate_that_can_keep_them() {
    let api = Api::start().await;
    let (h0, h1) = hosts(&api).await;
    let id = aggregate(&api, "a", None).await;
    for host in [&h0, &h1] {
        assert_eq!(add(&api, id, host).await.status, 200);
    }
    let images = [api.image_of(b"one", &[]).await, api.image_of(b"two", &[]).await, api.image_of(b"three", &[]).await];
    let ask = async |ids: &[ImageId]| {
        let images: Vec<_> = ids.iter().map(|id| json!({"id": id.to_string()})).collect();
        let body = Some(json!({"cache": images}));
        api.call("POST", &format!("/os-aggregates/{id}/images"), "2.81", ADMIN, body).await
    };
    let holds = |host: usize| api.world.fleet.images(host).len();
    is(&ask(&[images[0], NO_IMAGE]).await, 400, &format!("Image {NO_IMAGE} could not be found."));
    assert_eq!((holds(0), holds(1)), (0, 0), "a refused request brought images");
    let cannot = FaultPlan::default().with(DriverCall::EnsureImage, FaultTrigger::Always, Effect::Refuse);
    api.world.fleet.set_faults(0, cannot);
    assert_eq!(ask(&images).await.status, 202);
    api.life.until(|_| holds(1) == 3).await;
    let asked = || api.world.fleet.calls_of(0, DriverCall::EnsureImage);
    api.life.until(|_| asked() == 3).await;
    assert_eq!(holds(0), 0);
    // A later request brings what is missing.
    api.world.fleet.set_faults(0, FaultPlan::default());
    assert_eq!(ask(&images[..2]).await.status, 202);
    api.life.until(|_| holds(0) == 2).await;
    assert_eq!(holds(1), 3);
    api.stop().await;
}

async fn group(api: &Api, who: &str, version: &str, body: Value) -> Answer {
    api.call("POST", "/os-server-groups", version, who, Some(json!({"server_group": body}))).await
}

#[actix_rt::test]
async fn server_groups_look_as_their_version_has_them() {
    let api = Api::start().await;
    let made = group(&api, USER, "2.1", json!({"name": "old", "policies": ["affinity"]})).await;
    let shown = &made.body["server_group"];
    assert_eq!((made.status, &shown["policies"], &shown["metadata"]), (200, &json!(["affinity"]), &json!({})));
    assert!(shown.get("project_id").is_none() && shown["members"] == json!([]));
    let id = shown["id"].as_str().unwrap().to_owned();
    // Groups show their project and their user from 2.13 on.
    for (version, has) in [("2.12", false), ("2.13", true)] {
        let one = api.get(&format!("/os-server-groups/{id}"), version).await["server_group"].take();
        let listed = api.call("GET", "/os-server-groups", version, USER, None).await.body["server_groups"][0].take();
        for shown in [one, listed] {
            let told = ["project_id", "user_id"].map(|key| shown.get(key).cloned());
            assert_eq!(told, ["web", "alice"].map(|word| has.then(|| json!(word))), "{version}: {shown}");
        }
    }
    let soft = json!({"name": "soft", "policies": ["soft-affinity"]});
    assert_eq!(group(&api, USER, "2.14", soft.clone()).await.status, 400);
    assert_eq!(group(&api, USER, "2.15", soft).await.status, 200);
    let apart = json!({"name": "apart", "policies": ["soft-anti-affinity"]});
    assert_eq!(group(&api, USER, "2.14", apart.clone()).await.status, 400);
    let made = group(&api, USER, "2.15", apart).await;
    assert_eq!((made.status, &made.body["server_group"]["policies"]), (200, &json!(["soft-anti-affinity"])));
    let path = format!("/os-server-groups/{}", made.body["server_group"]["id"].as_str().unwrap());
    assert_eq!(api.call("DELETE", &path, "2.15", USER, None).await.status, 204);
    let two = json!({"name": "two", "policies": ["affinity", "anti-affinity"]});
    assert_eq!(group(&api, USER, "2.15", two).await.status, 400);
    let rules =
        |policy: &str, most: Value| json!({"name": "new", "policy": policy, "rules": {"max_server_per_host": most}});
    is(&group(&api, USER, "2.64", rules("affinity", json!(2))).await, 400, "Only anti-affinity policy supports rules.");
    assert_eq!(group(&api, USER, "2.64", rules("anti-affinity", json!(0))).await.status, 400);
    let made = group(&api, USER, "2.64", rules("anti-affinity", json!("3"))).await.body["server_group"].clone();
    assert_eq!((&made["policy"], &made["rules"]), (&json!("anti-affinity"), &json!({"max_server_per_host": 3})));
    assert!(made.get("policies").is_none() && made.get("metadata").is_none());
    assert_eq!((&made["project_id"], &made["user_id"]), (&json!("web"), &json!("alice")));
    assert_eq!(group(&api, USER, "2.63", json!({"name": "new", "policy": "affinity"})).await.status, 400);
    assert_eq!(group(&api, USER, "2.64", json!({"name": "old", "policies": ["affinity"]})).await.status, 400);
    let path = format!("/os-server-groups/{}", made["id"].as_str().unwrap());
    for (version, fields) in [("2.63", [true, false]), ("2.64", [false, true])] {
        let one = api.get(&path, version).await["server_group"].clone();
        let list = api.call("GET", "/os-server-groups", version, USER, None).await.body["server_groups"].clone();
        let listed = list.as_array().unwrap().iter().find(|group| group["id"] == made["id"]).unwrap();
        for shown in [&one, listed] {
            let has = |names: [&str; 2]| names.map(|name| shown.get(name).is_some());
            assert_eq!(
                [has(["policies", "metadata"]), has(["policy", "rules"])],
                fields.map(|is| [is; 2]),
                "{version}"
            );
        }
    }

    let names = async |who: &str, query: &str| -> Vec<String> {
        let list = api.call("GET", &format!("/os-server-groups{query}"), "2.64", who, None).await.body;
        list["server_groups"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(USER, "").await, ["old", "soft", "new"]);
    assert_eq!(names(USER, "?limit=1&offset=1").await, ["soft"]);
    assert_eq!(names("bob:other", "?all_projects=true").await, Vec::<String>::new());
    assert_eq!(names(ADMIN, "").await, Vec::<String>::new());
    assert_eq!(names(ADMIN, "?all_projects=true").await, ["old", "soft", "new"]);

    let ask = async |method: &str, who: &str, id: &str| {
        api.call(method, &format!("/os-server-groups/{id}"), "2.1", who, None).await
    };
    assert_eq!(ask("GET", ADMIN, &id).await.status, 200);
    is(
        &ask("GET", "bob:other", &id).await,
        403,
        "Policy doesn't allow os_compute_api:os-server-groups:show to be performed.",
    );
    is(&ask("GET", USER, "x").await, 404, "Instance group x could not be found.");
    assert_eq!(ask("DELETE", USER, &id).await.status, 204);
    is(&ask("DELETE", USER, &id).await, 404, &format!("Instance group {id} could not be found."));

    let limits = json!({"quota_set": {"server_groups": 3}});
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(limits)).await.status, 200);
    let another = async || group(&api, USER, "2.64", json!({"name": "n", "policy": "affinity"})).await;
    assert_eq!(another().await.status, 200);
    is(&another().await, 403, "Quota exceeded, too many server groups.");
    let limits = api.call("GET", "/limits", "2.1", USER, None).await.body;
    assert_eq!(limits["limits"]["absolute"]["totalServerGroupsUsed"], 3);
    let detail = api.get("/os-quota-sets/web/detail", "2.1").await;
    assert_eq!(detail["quota_set"]["server_groups"], json!({"limit": 3, "in_use": 3, "reserved": 0}));
    api.stop().await;
}

#[actix_rt::test]
async fn servers_join_their_group_and_leave_it() {
    let api = Api::start().await;
    let make = async |who: &str| -> String {
        let made = group(&api, who, "2.64", json!({"name": "g", "policy": "soft-anti-affinity"})).await;
        made.body["server_group"]["id"].as_str().unwrap().to_owned()
    };
    let (own, other) = (make(ADMIN).await, make(USER).await);
    let ask = async |who: &str, group: &str, count: u32| {
        let mut request = Api::wish("member");
        request["min_count"] = json!(count);
        request["networks"] = json!("none");
        let body = json!({"server": request, "os:scheduler_hints": {"group": group}});
        api.call("POST", "/servers", "2.71", who, Some(body)).await
    };
    let unknown = "7a1c7e5a-0000-4000-8000-000000000000";
    is(&ask(ADMIN, unknown, 1).await, 400, &format!("Instance group {unknown} could not be found."));
    is(&ask("bob:other", &own, 1).await, 400, &format!("Instance group {own} could not be found."));
    assert_eq!(ask(ADMIN, "not-a-uuid", 1).await.status, 400);
    let made = ask(ADMIN, &own, 1).await;
    assert_eq!(made.status, 202, "{}", made.body);
    api.life.settled().await;
    let server = made.body["server"]["id"].as_str().unwrap().to_owned();
    let members = async |group: &str| {
        api.get(&format!("/os-server-groups/{group}"), "2.64").await["server_group"]["members"].clone()
    };
    assert_eq!(members(&own).await, json!([server]));
    assert_eq!(api.get(&format!("/servers/{server}"), "2.71").await["server"]["server_groups"], json!([own]));
    assert!(api.get(&format!("/servers/{server}"), "2.70").await["server"].get("server_groups").is_none());
    // The answers to an update and to a rebuild have the groups, too.
    for (version, groups) in [("2.70", None), ("2.71", Some(json!([own])))] {
        let path = format!("/servers/{server}");
        let update = Some(json!({"server": {"name": "member"}}));
        let updated = api.call("PUT", &path, version, ADMIN, update).await;
        let rebuild = Some(json!({"rebuild": {"imageRef": chronova_tests::compute_api::IMAGE}}));
        let rebuilt = api.call("POST", &format!("{path}/action"), version, ADMIN, rebuild).await;
        for answer in [updated, rebuilt] {
            assert_eq!(answer.body["server"].get("server_groups"), groups.as_ref(), "{version}: {}", answer.body);
        }
        api.life.settled().await;
    }
    let hosts = api.life.context().views.server_groups.read(|groups| groups.hosts(own.parse().unwrap()));
    assert_eq!(hosts.values().copied().collect::<Vec<_>>(), [1], "the view does not have the member's host");

    let limits = json!({"quota_set": {"server_group_members": 2}});
    assert_eq!(api.call("PUT", "/os-quota-sets/admin", "2.1", ADMIN, Some(limits)).await.status, 200);
    is(&ask(ADMIN, &own, 2).await, 403, "Quota exceeded, too many servers in group");
    let used = api.get("/os-quota-sets/admin/detail", "2.1").await["quota_set"]["instances"]["in_use"].clone();
    assert_eq!(used, 1, "a refused request uses quota");
    assert_eq!(ask(ADMIN, &own, 1).await.status, 202);
    assert_eq!(ask(ADMIN, &other, 1).await.status, 202, "an administrator must be able to use any group");
    api.life.settled().await;

    assert_eq!(api.call("DELETE", &format!("/servers/{server}"), "2.1", ADMIN, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(members(&own).await.as_array().unwrap().len(), 1);
    let kept = api.life.context().views.server_groups.read(|groups| groups.members(own.parse().unwrap()).count());
    assert_eq!(kept, 1, "the deleted server is still a member");
    let last = members(&own).await[0].as_str().unwrap().to_owned();
    assert_eq!(api.call("DELETE", &format!("/os-server-groups/{own}"), "2.1", ADMIN, None).await.status, 204);
    assert_eq!(api.get(&format!("/servers/{last}"), "2.71").await["server"]["server_groups"], json!([]));
    api.stop().await;
}

/// A crash between the join of the group and the request for the server leaves a member without a server.
#[actix_rt::test]
async fn members_without_a_server_are_removed() {
    use chronova_actors::server_group::{ServerGroupCommand, ServerGroupRoot};
    use chronova_events::envelope::Meta;
    use chronova_events::ids::{InstanceId, ProjectId, ServerGroupId, UserId};

    let api = Api::start().await;
    let made = group(&api, ADMIN, "2.64", json!({"name": "g", "policy": "affinity"})).await;
    let id: ServerGroupId = made.body["server_group"]["id"].as_str().unwrap().parse().unwrap();
    let instances = vec![InstanceId::random()];
    let join = ServerGroupCommand::Join { group: id, user: UserId::new("admin"), instances, limit: -1 };
    let project = ProjectId::new("admin");
    api.life.context().gateway.send::<ServerGroupRoot>(&project, join, Meta::system("test")).await.unwrap();
    api.life.until(|context| context.views.server_groups.read(|groups| groups.members(id).count() == 1)).await;
    assert_eq!(api.get(&format!("/os-server-groups/{id}"), "2.64").await["server_group"]["members"], json!([]));
    api.life.until(|context| context.views.server_groups.read(|groups| groups.members(id).count() == 0)).await;
    api.stop().await;
}

/// Soft policies have no filter, only a weigher.
#[actix_rt::test]
async fn soft_policies_group_or_spread_members() {
    for (policy, ram, apart) in [("soft-affinity", 0.5, false), ("soft-anti-affinity", -0.5, true)] {
        let mut world = World::new(2);
        // Without the policy the scheduler would choose the opposite.
        world.options.scheduler.multipliers.ram = ram;
        world.options.scheduler.multipliers.cpu = 0.0;
        world.options.scheduler.multipliers.disk = 0.0;
        let api = Api::start_of(world, "", None).await;
        let made = group(&api, USER, "2.64", json!({"name": "g", "policy": policy})).await;
        let id = made.body["server_group"]["id"].clone();
        let mut found = Vec::new();
        for name in ["one", "two", "three"] {
            let request = json!({"server": Api::wish(name), "os:scheduler_hints": {"group": id}});
            let made = api.call("POST", "/servers", "2.64", USER, Some(request)).await;
            assert_eq!(made.status, 202, "{}", made.body);
            api.life.settled().await;
            let path = format!("/servers/{}", made.body["server"]["id"].as_str().unwrap());
            let shown = api.get(&path, "2.1").await["server"].take();
            assert_eq!(shown["status"], "ACTIVE", "{policy}: a soft policy must refuse no server");
            found.push(shown["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned());
        }
        assert_eq!(found[0] != found[1], apart, "{policy}: {found:?}");
        assert!(apart || found[1] == found[2], "{policy}: {found:?}");
        api.stop().await;
    }
}

/// Only administrators create zones; every user may request one. A zone's name is free text.
#[actix_rt::test]
async fn an_ordinary_user_may_request_a_zone() {
    let api = Api::start().await;
    let (h0, h1) = hosts(&api).await;
    let zones = [("north", &h0), ("Süd, Rack 7", &h1)];
    for (zone, host) in zones {
        let id = aggregate(&api, zone, Some(zone)).await;
        assert_eq!(add(&api, id, host).await.status, 200);
    }
    for (zone, host) in zones {
        let mut request = Api::wish("zoned");
        request["availability_zone"] = json!(zone);
        let server = api.server(USER, request).await;
        let shown = api.get(&format!("/servers/{server}"), "2.1").await["server"].take();
        assert_eq!((&shown["OS-EXT-SRV-ATTR:host"], zone_of(&api, &server).await), (&json!(host), json!(zone)));
    }
    let mut request = Api::wish("nowhere");
    request["availability_zone"] = json!("west");
    let refused = api.call("POST", "/servers", "2.1", USER, Some(json!({"server": request}))).await;
    is(&refused, 400, "The requested availability zone is not available");
    api.stop().await;
}
