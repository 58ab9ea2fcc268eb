//! The change of each microversion of the Compute API: answers and requests at the version before and at the version
//! itself.
//!
//! Source: the history of the Compute API. The rows of `docs/requirements` name these tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use chronova_tests::compute_api::{ADMIN, Answer, Api, IMAGE, NETWORK};
use serde_json::{Value, json};

const USER: &str = "alice:web";

fn before(minor: u32) -> String {
    format!("2.{}", minor - 1)
}

fn at(minor: u32) -> String {
    format!("2.{minor}")
}

async fn unlimited(api: &Api) {
    let limits = json!({"quota_set": {"instances": -1, "cores": -1, "ram": -1}});
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(limits)).await.status, 200);
}

async fn post(api: &Api, version: &str, token: &str, server: Value) -> Answer {
    api.call("POST", "/servers", version, token, Some(json!({"server": server}))).await
}

fn with(key: &str, value: Value) -> Value {
    let mut server_request = Api::wish("x");
    server_request[key] = value;
    server_request
}

#[actix_rt::test]
async fn fields_of_servers_come_with_their_versions() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("one")).await;
    let one = format!("/servers/{id}");
    let listed = "/servers/detail?all_tenants=1".to_owned();
    let show = async |path: &str, version: &str, token: &str| {
        let token = if token == USER { "alice:web" } else { ADMIN };
        let path = if token == ADMIN { path.to_owned() } else { path.replace("?all_tenants=1", "") };
        let answer = api.call("GET", &path, version, token, None).await;
        assert_eq!(answer.status, 200, "{path}: {:?}", answer.body);
        let body = answer.body;
        if body["server"].is_object() { body["server"].clone() } else { body["servers"][0].clone() }
    };
    // The first version, the field, whether only administrators see it, whether lists show it.
    for (minor, field, for_admins, in_lists) in [
        (3, "OS-EXT-SRV-ATTR:reservation_id", true, true),
        (3, "OS-EXT-SRV-ATTR:launch_index", true, true),
        (3, "OS-EXT-SRV-ATTR:ramdisk_id", true, true),
        (3, "OS-EXT-SRV-ATTR:kernel_id", true, true),
        (3, "OS-EXT-SRV-ATTR:root_device_name", true, true),
        (3, "OS-EXT-SRV-ATTR:user_data", true, true),
        (3, "OS-EXT-SRV-ATTR:hostname", true, true),
        (9, "locked", false, true),
        (16, "host_status", true, true),
        (19, "description", false, true),
        (26, "tags", false, true),
        (63, "trusted_image_certificates", false, true),
        (71, "server_groups", false, false),
        (73, "locked_reason", false, true),
    ] {
        for path in [&one, &listed] {
            let shown_here = in_lists || *path == one;
            assert!(show(path, &before(minor), ADMIN).await.get(field).is_none(), "{field} before 2.{minor}");
            assert_eq!(show(path, &at(minor), ADMIN).await.get(field).is_some(), shown_here, "{field} from 2.{minor}");
            let for_users = shown_here && !for_admins;
            assert_eq!(show(path, &at(minor), USER).await.get(field).is_some(), for_users, "{field} for users");
        }
    }
    // The answers to an update and to a rebuild have `locked`, too.
    for (version, has) in [("2.8", false), ("2.9", true)] {
        let update = Some(json!({"server": {"name": "one"}}));
        let updated = api.call("PUT", &one, version, USER, update).await;
        let rebuild = Some(json!({"rebuild": {"imageRef": IMAGE}}));
        let rebuilt = api.call("POST", &format!("{one}/action"), version, USER, rebuild).await;
        assert_eq!((updated.status, rebuilt.status), (200, 202), "{version}");
        for answer in [updated, rebuilt] {
            let locked = answer.body["server"].get("locked").cloned();
            assert_eq!(locked, has.then(|| json!(false)), "{version}: {}", answer.body);
        }
        api.life.settled().await;
    }
    assert_eq!(show(&one, "2.16", ADMIN).await["host_status"], "UP");
    assert_eq!(show(&one, "2.1", USER).await["security_groups"], json!([{"name": "default"}]));
    let hostname = "OS-EXT-SRV-ATTR:hostname";
    assert!(show(&one, "2.89", USER).await.get(hostname).is_none());
    assert_eq!(show(&one, "2.90", USER).await[hostname], "one");

    // The kernel and the ramdisk are those that the image names. Administrators find servers by them.
    let (own, ramdisk) = ("155d900f-4e14-4e4c-a73d-069cbf4541e6", "9d0d5b3c-2f8a-4f3e-9b57-3f1f0f5a6c21");
    for (kernel, expected) in [("nokernel", ["", ""]), (own, [own, ramdisk])] {
        let image = api.image(&[("kernel_id", kernel), ("ramdisk_id", ramdisk)]).await;
        let id = api.server(USER, with("imageRef", json!(image))).await;
        let shown = api.get(&format!("/servers/{id}"), "2.3").await["server"].take();
        let parts = (&shown["OS-EXT-SRV-ATTR:kernel_id"], &shown["OS-EXT-SRV-ATTR:ramdisk_id"]);
        assert_eq!(parts, (&json!(expected[0]), &json!(expected[1])));
    }
    for filter in [format!("kernel_id={own}"), format!("ramdisk_id={ramdisk}")] {
        let found = api.get(&format!("/servers?all_tenants=1&{filter}"), "2.3").await["servers"].take();
        assert_eq!(found.as_array().map(Vec::len), Some(1), "{filter}: {found}");
    }
    api.stop().await;
}

#[actix_rt::test]
async fn new_servers_take_what_their_version_knows() {
    let api = Api::start().await;
    unlimited(&api).await;
    let nic = |extra: Value| {
        let mut nic = json!({"uuid": NETWORK});
        nic.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        with("networks", json!([nic]))
    };
    let root = |extra: Value| {
        let mut root = json!({"source_type": "image", "destination_type": "local", "uuid": IMAGE, "boot_index": 0});
        root.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        with("block_device_mapping_v2", json!([root]))
    };
    let tag = json!({"tag": "one"});
    let file = json!([{"path": "/a", "contents": "YQ=="}]);
    // The request, the versions that refuse it, and those that accept it.
    let cases: Vec<(Value, &[u32], &[u32])> = vec![
        (with("description", json!("d")), &[1, 18], &[19]),
        (with("tags", json!(["a"])), &[51], &[52]),
        (with("personality", file), &[57, 93], &[1, 56]),
        (with("trusted_image_certificates", json!(["a"])), &[62], &[63]),
        (with("hostname", json!("a-host")), &[89], &[90]),
        (nic(tag.clone()), &[31, 37, 41], &[32, 36, 42]),
        (root(tag), &[31, 33, 41], &[32, 42]),
    ];
    for (server_request, refused, taken) in cases {
        for minor in refused {
            let answer = post(&api, &at(*minor), USER, server_request.clone()).await;
            let unexpected = answer.message().contains("was unexpected)") || answer.message().contains("is not valid");
            assert!(
                answer.status == 400 && unexpected,
                "{server_request} at 2.{minor}: {} {}",
                answer.status,
                answer.message()
            );
        }
        for minor in taken {
            let answer = post(&api, &at(*minor), USER, server_request.clone()).await;
            assert_eq!(answer.status, 202, "{server_request} at 2.{minor}: {}", answer.message());
        }
    }
    let described = post(&api, "2.19", USER, with("description", json!("d"))).await;
    let id = described.body["server"]["id"].as_str().unwrap();
    assert_eq!(api.get(&format!("/servers/{id}"), "2.19").await["server"]["description"], "d");
    let too_many: Vec<String> = (0..51).map(|n| format!("cert-{n}")).collect();
    let answer = post(&api, "2.63", USER, with("trusted_image_certificates", json!(too_many))).await;
    assert_eq!((answer.status, answer.message().contains("is too long")), (400, true), "{}", answer.message());
    let many: Vec<String> = (0..51).map(|n| n.to_string()).collect();
    for bad in [json!(["a,b"]), json!(["a/b"]), json!([""]), json!(["x".repeat(61)]), json!(many)] {
        let answer = post(&api, "2.52", USER, with("tags", bad.clone())).await;
        assert_eq!(answer.status, 400, "{bad}: {}", answer.message());
    }
    // The API returns the accepted tags; a repeated tag counts once.
    let server_request = with("tags", json!(["b", "a", "b"]));
    let id = post(&api, "2.52", USER, server_request).await.body["server"]["id"].as_str().unwrap().to_owned();
    let mut tags = api.get(&format!("/servers/{id}"), "2.52").await["server"]["tags"].take();
    tags.as_array_mut().unwrap().sort_by_key(Value::to_string);
    assert_eq!(tags, json!(["a", "b"]));
    api.life.settled().await;
    api.stop().await;
}

#[actix_rt::test]
async fn only_administrators_may_request_a_destination() {
    let api = Api::start().await;
    let service = api.get("/os-services?binary=nova-compute", "2.1").await["services"][1].clone();
    let host = service["host"].as_str().unwrap();
    for (version, server_request, rule) in [
        ("2.1", with("availability_zone", json!(format!("nova:{host}"))), "os_compute_api:servers:create:forced_host"),
        ("2.1", with("availability_zone", json!(format!("nova::{host}"))), "os_compute_api:servers:create:forced_host"),
        ("2.74", with("host", json!(host)), "compute:servers:create:requested_destination"),
        ("2.74", with("hypervisor_hostname", json!(host)), "compute:servers:create:requested_destination"),
    ] {
        let refused = post(&api, version, USER, server_request.clone()).await;
        let words = format!("Policy doesn't allow {rule} to be performed.");
        assert_eq!((refused.status, refused.message()), (403, words.as_str()), "{server_request}");
        let made = post(&api, version, ADMIN, server_request.clone()).await;
        assert_eq!(made.status, 202, "{server_request}: {}", made.message());
        api.life.settled().await;
        let id = made.body["server"]["id"].as_str().unwrap();
        let shown = api.get(&format!("/servers/{id}"), "2.1").await;
        assert_eq!(shown["server"]["OS-EXT-SRV-ATTR:host"], host, "{server_request}");
    }
    for name in ["host", "hypervisor_hostname"] {
        for zone in [format!("nova:{host}"), format!("nova:{host}:{host}")] {
            let mut both = with("availability_zone", json!(zone));
            both[name] = json!(host);
            let refused = post(&api, "2.74", ADMIN, both).await;
            let says = refused.message().contains("together with 'host' or 'hypervisor_hostname'");
            assert!(refused.status == 400 && says, "{name} {zone}: {} {}", refused.status, refused.message());
        }
    }
    let mut same = with("host", json!(host));
    same["hypervisor_hostname"] = json!(host);
    assert_eq!(post(&api, "2.74", ADMIN, same).await.status, 202);
    api.life.settled().await;
    // A host forced by `zone:host` is used, even against the filters.
    let service = json!({"host": host, "binary": "nova-compute"});
    assert_eq!(api.call("PUT", "/os-services/disable", "2.1", ADMIN, Some(service)).await.status, 200);
    let requested = api.server(ADMIN, with("host", json!(host))).await;
    let shown = api.get(&format!("/servers/{requested}"), "2.1").await["server"].take();
    assert_eq!(shown["status"], "ERROR", "the filters apply to a requested host: {shown}");
    let node = post(&api, "2.1", ADMIN, with("availability_zone", json!(format!("nova:{host}:other")))).await;
    assert_eq!((node.status, node.message()), (400, "Compute host other could not be found."));
    let whole = with("availability_zone", json!(format!("nova:{host}:{host}")));
    assert_eq!(post(&api, "2.1", USER, whole.clone()).await.status, 403);
    let id = api.server(ADMIN, whole).await;
    let shown = api.get(&format!("/servers/{id}"), "2.1").await["server"].take();
    assert_eq!((&shown["status"], &shown["OS-EXT-SRV-ATTR:host"]), (&json!("ACTIVE"), &json!(host)));
    let for_users = api.call("GET", "/servers/detail", "2.1", "bob:admin", None).await.body["servers"][0].take();
    assert!(for_users.is_object() && for_users.get("OS-EXT-SRV-ATTR:host").is_none(), "a user sees the host");
    assert_eq!(post(&api, "2.1", ADMIN, with("availability_zone", json!("nova:a:b:c"))).await.status, 400);
    let unknown = post(&api, "2.74", ADMIN, with("host", json!("nowhere"))).await;
    assert_eq!((unknown.status, unknown.message()), (400, "Compute host nowhere could not be found."));
    assert_eq!(post(&api, "2.73", ADMIN, with("host", json!(host))).await.status, 400);
    api.stop().await;
}

#[actix_rt::test]
async fn filters_of_servers_come_with_their_versions() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("one")).await;
    let count = async |version: &str, query: &str| {
        let answer = api.call("GET", &format!("/servers?{query}"), version, USER, None).await;
        assert_eq!(answer.status, 200, "{query} at {version}: {:?}", answer.body);
        let detail = api.call("GET", &format!("/servers/detail?{query}"), version, USER, None).await;
        let (names, all) = (answer.body["servers"].as_array().unwrap(), detail.body["servers"].as_array().unwrap());
        assert_eq!(names.len(), all.len(), "{query} at {version}");
        all.len()
    };
    // None of these filters matches a server. A filter that users may not use at that version is ignored.
    for (minor, query) in [
        (5, "ip6=fe80"),
        (26, "tags=none"),
        (26, "tags-any=none"),
        (66, "changes-before=1999-01-01T00:00:00Z"),
        (73, "locked=true"),
        (83, "availability_zone=none"),
        (83, "config_drive=true"),
        (83, "key_name=none"),
        (83, "created_at=1999"),
        (83, "launched_at=1999"),
        (83, "terminated_at=1999"),
        (83, "power_state=4"),
        (83, "task_state=none"),
        (83, "vm_state=none"),
        (83, "progress=77"),
        (83, "user_id=nobody"),
    ] {
        assert_eq!(count(&before(minor), query).await, usize::from(minor <= 75 || minor == 83), "{query}");
        assert_eq!(count(&at(minor), query).await, 0, "{query} at 2.{minor}");
    }
    assert_eq!(count("2.66", "changes-before=2999-01-01T00:00:00Z").await, 1);
    assert_eq!(count("2.83", "vm_state=active&user_id=alice&power_state=1").await, 1);
    let reversed = "/servers?changes-since=2020-01-02T00:00:00Z&changes-before=2020-01-01T00:00:00Z";
    assert_eq!(api.call("GET", reversed, "2.66", USER, None).await.status, 400);

    // Locked servers, and their reasons.
    let other = api.server(USER, Api::wish("two")).await;
    let act = async |version: &str, body: Value| {
        api.call("POST", &format!("/servers/{id}/action"), version, USER, Some(body)).await.status
    };
    assert_eq!(act("2.72", json!({"lock": {"locked_reason": "audit"}})).await, 202, "2.72 does not ignore the body");
    assert_eq!(act("2.73", json!({"lock": {"reason": "audit"}})).await, 400);
    assert_eq!(act("2.73", json!({"lock": {"locked_reason": "audit"}})).await, 202);
    let names = async |query: &str| {
        let answer = api.call("GET", &format!("/servers?{query}"), "2.73", USER, None).await;
        assert_eq!(answer.status, 200, "{query}: {:?}", answer.body);
        let servers = answer.body["servers"].as_array().unwrap().clone();
        servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("locked=true").await, ["one"]);
    assert_eq!(names("locked=false").await, ["two"]);
    assert_eq!(names("sort_key=locked&sort_dir=desc").await, ["one", "two"]);
    assert_eq!(names("sort_key=locked&sort_dir=asc").await, ["two", "one"]);
    let path = format!("/servers/{id}");
    let put = api.call("PUT", &path, "2.73", USER, Some(json!({"server": {"name": "one"}}))).await;
    let rebuild = Some(json!({"rebuild": {"imageRef": IMAGE}}));
    let rebuilt = api.call("POST", &format!("{path}/action"), "2.73", ADMIN, rebuild).await;
    for answer in [put, rebuilt] {
        let told = ["locked", "locked_reason"].map(|key| answer.body["server"][key].clone());
        assert_eq!(told, [json!(true), json!("audit")], "{}", answer.body);
    }
    api.life.settled().await;
    assert_eq!(api.get(&format!("/servers/{other}"), "2.73").await["server"]["locked_reason"], Value::Null);
    api.stop().await;
}

#[actix_rt::test]
async fn from_2_75_nothing_unknown_is_taken_and_changes_answer_in_full() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("one")).await;
    for path in ["/servers", "/servers/detail", "/flavors", "/os-keypairs", "/limits", "/os-quota-sets/web"] {
        let ask = async |version: &str| api.call("GET", &format!("{path}?unknown=1"), version, USER, None).await.status;
        assert_eq!((ask("2.74").await, ask("2.75").await), (200, 400), "{path}");
    }
    let path = format!("/servers/{id}");
    let unknown = Some(json!({"server": {"name": "a", "unknown": 1}}));
    assert_eq!(api.call("PUT", &path, "2.75", USER, unknown).await.status, 400);
    assert_eq!(post(&api, "2.75", USER, with("unknown", json!(1))).await.status, 400);
    let change = |name: &str| Some(json!({"server": {"name": name}}));
    let put = async |version: &str| api.call("PUT", &path, version, USER, change("a")).await.body["server"].take();
    let shown = api.call("GET", &path, "2.75", USER, None).await.body["server"].take();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&put("2.75").await), keys(&shown));
    assert!(keys(&put("2.74").await).len() < keys(&shown).len());
    let flavor = async |version: &str| api.get("/flavors/1", version).await["flavor"]["swap"].take();
    assert_eq!((flavor("2.74").await, flavor("2.75").await), (json!(""), json!(0)));
    api.stop().await;
}

#[actix_rt::test]
async fn tags_are_set_read_and_removed() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("one")).await;
    let other = api.server(USER, Api::wish("two")).await;
    let ask = async |method: &str, path: &str, body: Option<Value>| {
        api.call(method, &format!("/servers/{id}/tags{path}"), "2.26", USER, body).await
    };
    assert_eq!(api.call("GET", &format!("/servers/{id}/tags"), "2.25", USER, None).await.status, 404);
    let tags = |list: &[&str]| Some(json!({"tags": list}));
    assert_eq!(ask("PUT", "", tags(&["red", "blau \u{1f600}"])).await.body, json!({"tags": ["red", "blau \u{1f600}"]}));
    assert_eq!(ask("PUT", "", tags(&["red", "blue"])).await.status, 200);
    assert_eq!(ask("GET", "", None).await.body["tags"].as_array().unwrap().len(), 2, "the old list is not replaced");
    assert_eq!((ask("GET", "/red", None).await.status, ask("GET", "/green", None).await.status), (204, 404));
    assert_eq!((ask("PUT", "/green", None).await.status, ask("PUT", "/green", None).await.status), (201, 204));
    assert_eq!(api.get(&format!("/servers/{id}"), "2.26").await["server"]["tags"].as_array().unwrap().len(), 3);
    for bad in [&["a,b"][..], &["a/b"], &[""], &["x".repeat(61).as_str()]] {
        assert_eq!(ask("PUT", "", tags(bad)).await.status, 400, "{bad:?}");
    }
    assert_eq!(ask("PUT", "/a,b", None).await.status, 400);
    let many: Vec<String> = (0..51).map(|n| format!("{n:060}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(ask("PUT", "", tags(&many)).await.status, 400);
    assert_eq!(ask("PUT", "", tags(&many[..50])).await.status, 200);
    assert_eq!(ask("PUT", "/one-more", None).await.status, 400);
    assert_eq!(ask("PUT", "", tags(&["red", "blue"])).await.status, 200);
    let path = format!("/servers/{other}/tags");
    assert_eq!(api.call("PUT", &path, "2.26", USER, tags(&["blue"])).await.status, 200);

    let names = async |query: &str| {
        let answer = api.call("GET", &format!("/servers?{query}"), "2.26", USER, None).await;
        let servers = answer.body["servers"].as_array().unwrap().clone();
        servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("tags=red,blue").await, ["one"]);
    assert_eq!(names("tags-any=red,blue").await, ["two", "one"]);
    assert_eq!(names("not-tags=red,blue").await, ["two"], "not both");
    assert_eq!(names("not-tags-any=red").await, ["two"]);
    assert_eq!(names("tags=blue&not-tags-any=red").await, ["two"]);

    assert_eq!((ask("DELETE", "/red", None).await.status, ask("DELETE", "/red", None).await.status), (204, 404));
    assert_eq!(ask("DELETE", "", None).await.status, 204);
    assert_eq!(ask("GET", "", None).await.body, json!({"tags": []}));
    api.stop().await;
}

#[actix_rt::test]
async fn actions_of_servers_show_what_their_version_and_the_policy_let() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("one")).await;
    for action in ["os-stop", "os-start"] {
        let body = Some(json!({action: null}));
        assert_eq!(api.call("POST", &format!("/servers/{id}/action"), "2.1", USER, body).await.status, 202);
        api.life.settled().await;
    }
    let path = format!("/servers/{id}/os-instance-actions");
    let list = async |query: &str, version: &str| {
        let answer = api.call("GET", &format!("{path}{query}"), version, USER, None).await;
        assert_eq!(answer.status, 200, "{query} at {version}: {:?}", answer.body);
        let actions = answer.body["instanceActions"].as_array().unwrap().clone();
        let names = actions.iter().map(|action| action["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        (names, answer.body)
    };
    let (names, all) = list("", "2.58").await;
    assert_eq!(names, ["start", "stop", "create"]);
    let (names, page) = list("?limit=2", "2.58").await;
    assert_eq!(
        (names.as_slice(), &page["links"][0]["rel"]),
        (&["start".to_owned(), "stop".into()][..], &json!("next"))
    );
    let marker = page["instanceActions"][1]["request_id"].as_str().unwrap();
    assert_eq!(list(&format!("?limit=2&marker={marker}"), "2.58").await.0, ["create"]);
    let changed = all["instanceActions"][1]["updated_at"].as_str().unwrap();
    assert_eq!(list(&format!("?changes-since={changed}"), "2.58").await.0, ["start", "stop"]);
    assert_eq!(list(&format!("?changes-before={changed}"), "2.66").await.0, ["stop", "create"]);
    assert_eq!(api.call("GET", &format!("{path}?limit=1"), "2.57", USER, None).await.body, list("", "2.57").await.1);
    assert_eq!(api.call("GET", &format!("{path}?changes-before={changed}"), "2.65", USER, None).await.status, 400);

    let create = all["instanceActions"][2]["request_id"].as_str().unwrap().to_owned();
    let event = async |version: &str, token: &str| {
        let answer = api.call("GET", &format!("{path}/{create}"), version, token, None).await;
        answer.body["instanceAction"]["events"].get(0).cloned()
    };
    assert!(event("2.50", USER).await.is_none() && event("2.50", ADMIN).await.is_some());
    for (version, token, traceback, host, host_id) in [
        ("2.51", USER, false, false, false),
        ("2.51", ADMIN, true, false, false),
        ("2.61", ADMIN, true, false, false),
        ("2.62", USER, false, false, true),
        ("2.62", ADMIN, true, true, true),
    ] {
        let event = event(version, token).await.unwrap();
        let has = |key: &str| event.get(key).is_some();
        let seen = (has("traceback"), has("host"), has("hostId"));
        assert_eq!(seen, (traceback, host, host_id), "{version} {token}: {event}");
    }
    assert_eq!(event("2.62", USER).await.unwrap()["hostId"].as_str().unwrap().len(), 56);

    // Events of failed actions have details, from 2.84 on, for administrators.
    api.flavor("huge", 900_000, 1).await;
    let lift = json!({"quota_set": {"ram": -1}});
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(lift)).await.status, 200);
    let failed = api.server(USER, with("flavorRef", json!("huge"))).await;
    let fault = api.get(&format!("/servers/{failed}"), "2.84").await["server"]["fault"]["message"].take();
    let path = format!("/servers/{failed}/os-instance-actions");
    let request = api.get(&path, "2.84").await["instanceActions"][0].take();
    assert_eq!((&request["action"], &request["message"]), (&json!("create"), &json!("Error")));
    let path = format!("{path}/{}", request["request_id"].as_str().unwrap());
    let event = async |version: &str| api.get(&path, version).await["instanceAction"]["events"][0].take();
    let failed = event("2.84").await;
    assert_eq!(failed["result"], "Error");
    let details = failed["details"].as_str().unwrap();
    assert!(details.starts_with(fault.as_str().unwrap()) && details.contains(" left"), "{details}: {fault}");
    assert!(event("2.83").await.get("details").is_none());
    api.stop().await;
}

/// Nova's schema allows no null host of an event. An event without a compute host has the host of the conductor.
#[actix_rt::test]
async fn every_event_of_an_action_names_a_host() {
    let api = Api::start().await;
    api.flavor("huge", 900_000, 1).await;
    let lift = json!({"quota_set": {"ram": -1}});
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(lift)).await.status, 200);
    let (homeless, placed) =
        (api.server(USER, with("flavorRef", json!("huge"))).await, api.server(USER, Api::wish("one")).await);
    let home = api.get(&format!("/servers/{placed}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"].take();
    for id in [&homeless, &placed] {
        assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.1", USER, None).await.status, 204);
        api.life.settled().await;
    }
    let conductor = api.get("/os-services?binary=nova-conductor", "2.53").await["services"][0]["host"].take();
    for (id, expected) in [(&homeless, &conductor), (&placed, &home)] {
        let path = format!("/servers/{id}/os-instance-actions");
        let actions = api.get(&path, "2.84").await["instanceActions"].take();
        assert_eq!(actions.as_array().unwrap().len(), 2, "{actions}");
        for action in actions.as_array().unwrap() {
            let path = format!("{path}/{}", action["request_id"].as_str().unwrap());
            let events = api.get(&path, "2.84").await["instanceAction"]["events"].take();
            assert_ne!(events, json!([]), "{action}");
            for event in events.as_array().unwrap() {
                assert!(event["host"].as_str().is_some_and(|host| !host.is_empty()), "{event}");
                assert_eq!(event["hostId"].as_str().map(str::len), Some(56), "{event}");
            }
            let whole = events.as_array().unwrap().last().unwrap();
            assert_eq!(&whole["host"], expected, "{whole}");
        }
    }
    api.stop().await;
}

/// From 2.62 on an event has the name of its host, for users whom the rule for events permits.
#[actix_rt::test]
async fn the_policy_decides_who_sees_the_host_of_an_event() {
    for (policy, sees) in [("", false), ("'os_compute_api:os-instance-actions:events': 'role:member'", true)] {
        let api = Api::start_with(policy, None).await;
        let id = api.server(USER, Api::wish("one")).await;
        let path = format!("/servers/{id}/os-instance-actions");
        let create = api.get(&path, "2.62").await["instanceActions"][0]["request_id"].take();
        let path = format!("{path}/{}", create.as_str().unwrap());
        let host = api.get(&format!("/servers/{id}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"].take();
        for version in ["2.61", "2.62"] {
            let events = api.call("GET", &path, version, USER, None).await.body["instanceAction"]["events"].take();
            let whole = events.as_array().unwrap().last().unwrap();
            assert_eq!(whole.get("hostId").is_some(), version == "2.62", "{version} with {policy:?}: {whole}");
            let wanted = (sees && version == "2.62").then_some(&host);
            assert_eq!(whole.get("host"), wanted, "{version} with {policy:?}");
        }
        api.stop().await;
    }
}

#[actix_rt::test]
async fn removed_operations_answer_404_after_their_last_version() {
    let api = Api::start().await;
    let id = api.server(ADMIN, Api::wish("one")).await;
    let get = async |path: &str, version: &str| api.call("GET", path, version, ADMIN, None).await.status;
    // Proxies of other services end with 2.35, `os-hosts` with 2.42, the statistics of hypervisors with 2.87.
    for (last, path) in [
        (35, "/images"),
        (35, "/images/detail"),
        (35, "/os-networks"),
        (35, "/os-tenant-networks"),
        (35, "/os-floating-ips"),
        (35, "/os-floating-ip-pools"),
        (35, "/os-security-groups"),
        (35, "/os-volumes"),
        (35, "/os-snapshots"),
        (35, "/os-baremetal-nodes"),
        (42, "/os-hosts"),
        (87, "/os-hypervisors/statistics"),
    ] {
        assert_ne!(get(path, &at(last)).await, 404, "{path} at 2.{last}");
        assert_eq!(get(path, &at(last + 1)).await, 404, "{path} from 2.{}", last + 1);
    }
    let rule = Some(json!({"security_group_rule": {}}));
    assert_eq!(api.call("POST", "/os-security-group-rules", "2.36", ADMIN, rule).await.status, 404);
    for action in ["addFixedIp", "removeFixedIp", "addFloatingIp", "removeFloatingIp"] {
        let act = async |version: &str| {
            api.call("POST", &format!("/servers/{id}/action"), version, ADMIN, Some(json!({action: null}))).await.status
        };
        assert_ne!(act("2.43").await, 404, "{action}");
        assert_eq!(act("2.44").await, 404, "{action}");
    }
    // Operations that Nova has removed answer 410 at every version.
    for path in [
        "/os-fping",
        "/os-security-group-default-rules",
        "/os-fixed-ips/10.0.0.1",
        "/os-floating-ips-bulk",
        "/os-floating-ip-dns",
        "/os-cells",
        "/os-certificates/x",
        "/os-cloudpipe",
        "/os-agents",
        "/servers/x/os-virtual-interfaces",
        "/servers/x/consoles",
    ] {
        for version in ["2.1", "2.35", "2.36", "2.44", "2.93"] {
            assert_eq!(get(path, version).await, 410, "{path} at {version}");
        }
    }
    // No operation changes cells, networks or the default rules.
    let cell = || Some(json!({"cell": {"name": "c"}}));
    for (method, path, body) in [
        ("POST", "/os-cells", cell()),
        ("GET", "/os-cells/c", None),
        ("PUT", "/os-cells/c", cell()),
        ("DELETE", "/os-cells/c", None),
        ("POST", "/os-cells/sync_instances", Some(json!({}))),
        ("POST", "/os-networks/add", Some(json!({"id": null}))),
        ("POST", "/os-networks/x/action", Some(json!({"disassociate": null}))),
        ("POST", "/os-security-group-default-rules", Some(json!({}))),
        ("DELETE", "/os-security-group-default-rules/x", None),
    ] {
        for version in ["2.1", "2.93"] {
            let gone = api.call(method, path, version, ADMIN, body.clone()).await;
            assert_eq!(gone.status, 410, "{method} {path} at {version}");
        }
    }
    for path in ["/os-networks", "/os-tenant-networks"] {
        for version in ["2.1", "2.35", "2.36", "2.93"] {
            let made = api.call("POST", path, version, ADMIN, Some(json!({"network": {}}))).await;
            let gone = api.call("DELETE", &format!("{path}/x"), version, ADMIN, None).await;
            assert_eq!((made.status, gone.status), (410, 410), "{path} at {version}");
            let words = "This resource is no longer available. No forwarding address is given.";
            assert_eq!(made.body["computeFault"]["message"], words, "novaclient's functional tests expect these words");
        }
    }
    api.stop().await;
}

/// Versions without pages silently truncate long lists of usage, those of one project and those of all.
#[actix_rt::test]
async fn usage_is_truncated_in_versions_without_pages() {
    let mut api = Api::start().await;
    for (token, name) in [(USER, "a"), (USER, "b"), (USER, "c"), ("bob:other", "d")] {
        api.server(token, Api::wish(name)).await;
    }
    assert_eq!(api.app.config.max_limit, 1000, "the default is not Nova's");
    Arc::get_mut(&mut api.app).unwrap().config.max_limit = 2;
    let window = "start=2020-01-01T00:00:00&end=2100-01-01T00:00:00";
    let (all, one) = ("/os-simple-tenant-usage", "/os-simple-tenant-usage/web");
    for version in ["2.1", "2.39", "2.40"] {
        let usage = api.get(&format!("{one}?{window}"), version).await;
        assert_eq!(usage["tenant_usage"]["server_usages"].as_array().unwrap().len(), 2, "{version}");
        assert_eq!(usage.get("tenant_usage_links").is_some(), version == "2.40");
        let usages = api.get(&format!("{all}?{window}&detailed=1"), version).await;
        let servers = |usage: &Value| usage["server_usages"].as_array().unwrap().len();
        let count: usize = usages["tenant_usages"].as_array().unwrap().iter().map(servers).sum();
        assert_eq!(count, 2, "{version}: {usages}");
        assert_eq!(usages.get("tenant_usages_links").is_some(), version == "2.40");
    }
    let older = api.get(&format!("{one}?{window}&limit=1"), "2.39").await;
    assert_eq!(older["tenant_usage"]["server_usages"].as_array().unwrap().len(), 2, "2.39 knows no limit");
    api.stop().await;
}
