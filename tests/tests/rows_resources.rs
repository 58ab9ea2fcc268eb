//! Flavors, key pairs, quotas, services and hypervisors through the API, with the changes of each microversion.
//!
//! Source: the history of the Compute API. The rows of `docs/requirements` name most of these tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use chronova_events::ids::HostId;
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use serde_json::{Value, json};

const USER: &str = "alice:web";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home";

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn put(api: &Api, path: &str, version: &str, body: Value) -> Answer {
    api.call("PUT", path, version, ADMIN, Some(body)).await
}

#[actix_rt::test]
async fn key_pairs_of_one_user_and_of_others() {
    let api = Api::start().await;
    let make = async |version: &str, token: &str, keypair: Value| {
        api.call("POST", "/os-keypairs", version, token, Some(json!({"keypair": keypair}))).await
    };
    let list = async |version: &str, token: &str, query: &str| {
        let answer = api.call("GET", &format!("/os-keypairs{query}"), version, token, None).await;
        assert_eq!(answer.status, 200, "{query}: {:?}", answer.body);
        let pairs = answer.body["keypairs"].as_array().unwrap().clone();
        let names: Vec<String> = pairs.iter().map(|k| k["keypair"]["name"].as_str().unwrap().to_owned()).collect();
        (names, answer.body)
    };
    let remove = async |version: &str, token: &str, name: &str| {
        api.call("DELETE", &format!("/os-keypairs/{name}"), version, token, None).await.status
    };
    // Imported and generated key pairs; the status codes of 2.2.
    let imported = json!({"name": "c", "public_key": KEY});
    let made = make("2.1", USER, imported.clone()).await;
    assert_eq!((made.status, made.body["keypair"].get("type")), (200, None));
    assert!(made.body["keypair"].get("private_key").is_none());
    assert_eq!(make("2.1", USER, imported).await.status, 409);
    let made = make("2.2", USER, json!({"name": "b", "type": "ssh"})).await;
    assert_eq!((made.status, &made.body["keypair"]["type"]), (201, &json!("ssh")));
    assert!(made.body["keypair"]["private_key"].as_str().unwrap().starts_with("-----BEGIN OPENSSH PRIVATE KEY-----"));
    assert_eq!(make("2.1", USER, json!({"name": "x", "type": "ssh"})).await.status, 400);
    assert_eq!(make("2.2", USER, json!({"name": "x", "type": "gpg"})).await.status, 400);
    make("2.2", USER, json!({"name": "a"})).await;
    let plain = make("2.2", USER, json!({"name": "d"})).await;
    assert_eq!((plain.status, &plain.body["keypair"]["type"]), (201, &json!("ssh")), "the default type is not ssh");
    assert_eq!((remove("2.1", USER, "d").await, remove("2.2", USER, "c").await), (202, 204));
    assert_eq!(remove("2.2", USER, "c").await, 404);

    // The list is sorted by name, with pages from 2.35 on.
    assert_eq!(list("2.1", USER, "").await.0, ["a", "b"]);
    assert_eq!(list("2.34", USER, "?limit=1").await.0, ["a", "b"], "2.34 pages the list");
    let (names, page) = list("2.35", USER, "?limit=1").await;
    assert_eq!((names.as_slice(), &page["keypairs_links"][0]["rel"]), (&["a".to_owned()][..], &json!("next")));
    assert_eq!(list("2.35", USER, "?limit=1&marker=a").await.0, ["b"]);
    assert_eq!(api.call("GET", "/os-keypairs?marker=zz", "2.35", USER, None).await.status, 400);

    // From 2.10 on administrators see key pairs of other users.
    assert_eq!(list("2.9", ADMIN, "?user_id=alice").await.0, [""; 0]);
    assert_eq!(list("2.10", ADMIN, "?user_id=alice").await.0, ["a", "b"]);
    let show = async |token: &str| api.call("GET", "/os-keypairs/a?user_id=alice", "2.10", token, None).await.status;
    assert_eq!((show(ADMIN).await, show("bob:web").await), (200, 403));
    assert_eq!(make("2.10", ADMIN, json!({"name": "e", "user_id": "alice"})).await.body["keypair"]["user_id"], "alice");
    assert_eq!(make("2.10", "bob:web", json!({"name": "f", "user_id": "alice"})).await.status, 403);
    assert_eq!(make("2.9", ADMIN, json!({"name": "f", "user_id": "alice"})).await.status, 400);
    assert_eq!(list("2.1", "bob:web", "").await.0, [""; 0], "another user of the project sees the key pairs");
    let gone = api.call("DELETE", "/os-keypairs/e?user_id=alice", "2.10", ADMIN, None).await.status;
    assert_eq!((gone, list("2.1", USER, "").await.0.len()), (204, 2));

    // From 2.92 on key pairs are not generated, and names may have `@` and dots.
    assert_eq!(make("2.91", USER, json!({"name": "i"})).await.status, 201);
    assert_eq!(make("2.92", USER, json!({"name": "g"})).await.status, 400);
    assert_eq!(make("2.91", USER, json!({"name": "g@home.net", "public_key": KEY})).await.status, 400);
    assert_eq!(make("2.92", USER, json!({"name": "g@home.net", "public_key": KEY})).await.status, 201);
    assert_eq!(make("2.92", USER, json!({"name": "h", "public_key": "nonsense"})).await.status, 400);
    // A user may use one key pair for many servers, in any project.
    for token in [USER, "alice:web", "alice:other"] {
        let mut request = Api::wish("keyed");
        request["key_name"] = json!("g@home.net");
        let id = api.server(token, request).await;
        assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["key_name"], "g@home.net");
    }
    api.stop().await;
}

#[actix_rt::test]
async fn key_pairs_and_metadata_have_limits() {
    let api = Api::start().await;
    let limits = json!({"quota_set": {"key_pairs": 1, "metadata_items": 2}});
    assert_eq!(put(&api, "/os-quota-sets/web", "2.1", limits).await.status, 200);
    let key = async |name: &str| {
        let body = json!({"keypair": {"name": name, "public_key": KEY}});
        api.call("POST", "/os-keypairs", "2.1", USER, Some(body)).await
    };
    assert_eq!(key("a").await.status, 200);
    let over = key("b").await;
    assert_eq!((over.status, over.message()), (403, "Quota exceeded, too many key pairs."));
    // Each user of the project has the whole limit.
    let theirs = json!({"keypair": {"name": "a", "public_key": KEY}});
    assert_eq!(api.call("POST", "/os-keypairs", "2.1", "bob:web", Some(theirs)).await.status, 200);
    let request = |metadata: Value| {
        let mut request = Api::wish("x");
        request["metadata"] = metadata;
        json!({"server": request})
    };
    let too_much = request(json!({"a": "1", "b": "2", "c": "3"}));
    let over = api.call("POST", "/servers", "2.1", USER, Some(too_much)).await;
    assert_eq!((over.status, over.message()), (403, "Maximum number of metadata items exceeds 2"));
    let made = api.call("POST", "/servers", "2.1", USER, Some(request(json!({"a": "1", "b": "2"})))).await;
    assert_eq!(made.status, 202);
    api.life.settled().await;
    let id = made.body["server"]["id"].as_str().unwrap();
    let shown = api.get(&format!("/servers/{id}"), "2.1").await;
    assert_eq!(shown["server"]["metadata"], json!({"a": "1", "b": "2"}), "the metadata is not that of the request");
    let more = Some(json!({"metadata": {"c": "3"}}));
    assert_eq!(api.call("POST", &format!("/servers/{id}/metadata"), "2.1", USER, more).await.status, 403);
    api.stop().await;
}

#[actix_rt::test]
async fn flavors_are_made_shown_and_shared() {
    let api = Api::start().await;
    let make = async |version: &str, token: &str, flavor: Value| {
        api.call("POST", "/flavors", version, token, Some(json!({"flavor": flavor}))).await
    };
    let small = json!({"name": "small", "ram": 64, "vcpus": 2, "disk": 3});
    let refused = make("2.1", USER, small.clone()).await;
    let words = "Policy doesn't allow os_compute_api:os-flavor-manage:create to be performed.";
    assert_eq!((refused.status, refused.message()), (403, words));
    // Without an id, or with `auto`, the id is a UUID.
    let made = make("2.1", ADMIN, small).await.body["flavor"].take();
    assert!(uuid::Uuid::parse_str(made["id"].as_str().unwrap()).is_ok());
    assert_eq!(
        (&made["vcpus"], &made["ram"], &made["disk"], &made["OS-FLV-EXT-DATA:ephemeral"], &made["swap"]),
        (&json!(2), &json!(64), &json!(3), &json!(0), &json!(""))
    );
    assert_eq!((&made["rxtx_factor"], &made["os-flavor-access:is_public"]), (&json!(1.0), &json!(true)));
    let auto = json!({"id": "auto", "name": "auto", "ram": 64, "vcpus": 1, "disk": 0});
    let auto = make("2.1", ADMIN, auto).await.body["flavor"].take();
    assert!(uuid::Uuid::parse_str(auto["id"].as_str().unwrap()).is_ok());
    let whole = json!({"id": 77, "name": "whole", "ram": 64, "vcpus": 1, "disk": 0, "swap": 5,
        "OS-FLV-EXT-DATA:ephemeral": 6, "rxtx_factor": 2.5});
    let whole = make("2.1", ADMIN, whole).await.body["flavor"].take();
    assert_eq!((&whole["id"], &whole["swap"], &whole["rxtx_factor"]), (&json!("77"), &json!(5), &json!(2.5)));
    assert_eq!((&whole["name"], &whole["OS-FLV-EXT-DATA:ephemeral"]), (&json!("whole"), &json!(6)));
    let uuid = "8fe3ae13-5b2d-4f43-9b2a-0c5d6a9f7d11";
    let own = json!({"id": uuid, "name": "own", "ram": 64, "vcpus": 1, "disk": 0});
    assert_eq!(make("2.1", ADMIN, own).await.body["flavor"]["id"], uuid);
    for (bad, why) in [
        (json!({"name": "small", "ram": 64, "vcpus": 2, "disk": 3}), 409),
        (json!({"id": "77", "name": "other", "ram": 64, "vcpus": 2, "disk": 3}), 409),
        (json!({"name": "x", "ram": 0, "vcpus": 2, "disk": 3}), 400),
        (json!({"name": "x", "ram": 64, "vcpus": 2}), 400),
    ] {
        assert_eq!(make("2.1", ADMIN, bad.clone()).await.status, why, "{bad}");
    }
    // Descriptions come with 2.55.
    let described = |text: String| json!({"name": "told", "ram": 64, "vcpus": 1, "disk": 1, "description": text});
    assert_eq!(make("2.54", ADMIN, described("d".into())).await.status, 400);
    assert_eq!(make("2.55", ADMIN, described("d".repeat(65_536))).await.status, 400);
    assert_eq!(make("2.55", ADMIN, described("a\u{7}b".into())).await.status, 400);
    let told = make("2.55", ADMIN, described("d".repeat(65_535))).await;
    assert_eq!(told.status, 200);
    let path = format!("/flavors/{}", told.body["flavor"]["id"].as_str().unwrap());
    let change = json!({"flavor": {"description": "short"}});
    assert_eq!(put(&api, &path, "2.54", change.clone()).await.status, 404);
    assert_eq!(put(&api, &path, "2.55", change).await.body["flavor"]["description"], "short");
    for list in ["/flavors", "/flavors/detail"] {
        let told = |body: &Value| {
            let mut flavors = body["flavors"].as_array().unwrap().iter();
            flavors.find(|flavor| flavor["name"] == "told").unwrap().get("description").cloned()
        };
        assert_eq!(told(&api.get(list, "2.54").await), None);
        assert_eq!(told(&api.get(list, "2.55").await), Some(json!("short")));
    }
    assert!(api.get(&path, "2.54").await["flavor"].get("description").is_none());
    assert_eq!(api.get(&path, "2.55").await["flavor"]["description"], "short");

    // Only projects on the access list use a private flavor.
    let private =
        json!({"id": "p", "name": "private", "ram": 64, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": false});
    make("2.1", ADMIN, private).await;
    let sees = async |token: &str| {
        let listed = api.call("GET", "/flavors", "2.1", token, None).await.body["flavors"].take();
        let listed = listed.as_array().unwrap().iter().any(|flavor| flavor["id"] == "p");
        let shown = api.call("GET", "/flavors/p", "2.1", token, None).await.status == 200;
        let mut request = Api::wish("x");
        request["flavorRef"] = json!("p");
        let usable = api.call("POST", "/servers", "2.1", token, Some(json!({"server": request}))).await.status == 202;
        assert!(listed == shown && shown == usable, "{token}: {listed} {shown} {usable}");
        listed
    };
    let access = async |flavor: &str, version: &str, verb: &str, tenant: &str| {
        let path = format!("/flavors/{flavor}/action");
        api.call("POST", &path, version, ADMIN, Some(json!({verb: {"tenant": tenant}}))).await.status
    };
    assert!(!sees(USER).await);
    assert_eq!(access("p", "2.7", "addTenantAccess", "web").await, 200);
    assert_eq!(access("p", "2.7", "addTenantAccess", "web").await, 409);
    assert!(sees(USER).await && !sees("bob:other").await);
    assert_eq!(access("p", "2.7", "removeTenantAccess", "web").await, 200);
    assert!(!sees(USER).await);
    assert_eq!(access("1", "2.7", "addTenantAccess", "web").await, 409, "a public flavor has an access list");
    assert_eq!(access("1", "2.6", "addTenantAccess", "web").await, 200);
    api.life.settled().await;
    api.stop().await;
}

#[actix_rt::test]
async fn extra_specs_show_if_the_policy_allows_it() {
    for (policy, shown) in [("", true), ("'os_compute_api:os-flavor-extra-specs:index': '!'", false)] {
        let api = Api::start_with(policy, None).await;
        let specs = Some(json!({"extra_specs": {"hw:cpu_policy": "shared"}}));
        assert_eq!(api.call("POST", "/flavors/1/os-extra_specs", "2.1", ADMIN, specs).await.status, 200);
        let id = api.server(USER, Api::wish("one")).await;
        let get = async |path: &str, version: &str| api.call("GET", path, version, USER, None).await.body;
        let flavor = async |version: &str| get("/flavors/1", version).await["flavor"].take();
        assert!(flavor("2.60").await.get("extra_specs").is_none());
        let has = flavor("2.61").await.get("extra_specs").cloned();
        assert_eq!(has, shown.then(|| json!({"hw:cpu_policy": "shared"})));
        let listed = get("/flavors/detail", "2.61").await["flavors"][0].take();
        assert_eq!(listed.get("extra_specs").is_some(), shown);
        let made = json!({"flavor": {"name": "new", "ram": 1, "vcpus": 1, "disk": 1}});
        let made = api.call("POST", "/flavors", "2.61", ADMIN, Some(made)).await.body["flavor"].take();
        assert_eq!(made.get("extra_specs").is_some(), shown);
        let told = put(&api, "/flavors/1", "2.61", json!({"flavor": {"description": "d"}})).await;
        assert_eq!(told.body["flavor"].get("extra_specs").is_some(), shown);
        // A server shows the flavor itself from 2.47 on.
        let path = format!("/servers/{id}");
        let of_server = async |version: &str| get(&path, version).await["server"]["flavor"].take();
        assert_eq!(keys(&of_server("2.46").await), ["id", "links"]);
        let mut wanted = vec!["vcpus", "ram", "disk", "ephemeral", "swap", "original_name"];
        wanted.extend(shown.then_some("extra_specs"));
        let embedded = of_server("2.47").await;
        assert_eq!(keys(&embedded), wanted);
        assert_eq!(embedded["original_name"], "m1.1");
        assert_eq!(get("/servers/detail", "2.47").await["servers"][0]["flavor"], embedded);
        assert!(of_server("2.55").await.get("description").is_none());
        api.stop().await;
    }
}

#[actix_rt::test]
async fn quotas_and_limits_hold_what_their_version_knows() {
    let api = Api::start().await;
    let has = async |path: &str, top: &str, version: &str, key: &str| {
        let body = api.get(path, version).await;
        let body = if top == "absolute" { &body["limits"]["absolute"] } else { &body[top] };
        body.get(key).is_some()
    };
    let (sets, classes) = ("/os-quota-sets/web", "/os-quota-class-sets/default");
    // Each row has the last version that shows these names.
    for (path, top, last, names) in [
        (sets, "quota_set", 35, &["fixed_ips", "floating_ips", "security_groups", "security_group_rules"][..]),
        (sets, "quota_set", 56, &["injected_files", "injected_file_content_bytes", "injected_file_path_bytes"]),
        (classes, "quota_class_set", 49, &["fixed_ips", "floating_ips", "security_groups", "security_group_rules"]),
        (
            classes,
            "quota_class_set",
            56,
            &["injected_files", "injected_file_content_bytes", "injected_file_path_bytes"],
        ),
        ("/limits", "absolute", 35, &["maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules"]),
        ("/limits", "absolute", 35, &["totalFloatingIpsUsed", "totalSecurityGroupsUsed"]),
        ("/limits", "absolute", 38, &["maxImageMeta"]),
        ("/limits", "absolute", 56, &["maxPersonality", "maxPersonalitySize"]),
    ] {
        for name in names {
            assert!(has(path, top, &format!("2.{last}"), name).await, "{name} at 2.{last}");
            assert!(!has(path, top, &format!("2.{}", last + 1), name).await, "{name} from 2.{}", last + 1);
        }
    }
    for name in ["server_groups", "server_group_members"] {
        assert!(
            !has(classes, "quota_class_set", "2.49", name).await && has(classes, "quota_class_set", "2.50", name).await
        );
    }
    // The default limits of the cloud and of a project.
    let wanted = json!({"cores": 20, "instances": 10, "key_pairs": 100, "metadata_items": 128, "ram": 51_200,
        "server_group_members": 10, "server_groups": 10});
    for (path, top) in [(sets, "quota_set"), ("/os-quota-sets/web/defaults", "quota_set"), (classes, "quota_class_set")]
    {
        let mut shown = api.get(path, "2.57").await[top].take();
        shown.as_object_mut().unwrap().remove("id");
        assert_eq!(shown, wanted, "{path}");
    }
    assert_eq!(api.get("/limits", "2.1").await["limits"]["rate"], json!([]), "the answer has rate limits");
    // Later versions cannot set quotas that they no longer have.
    for (last, name) in [(35, "fixed_ips"), (56, "injected_files")] {
        let limit = json!({"quota_set": {name: 5}});
        assert_eq!(put(&api, sets, &format!("2.{last}"), limit.clone()).await.status, 200, "{name}");
        assert_eq!(put(&api, sets, &format!("2.{}", last + 1), limit).await.status, 400, "{name}");
    }
    // Quotas of other services are not taken here.
    for name in ["volumes", "gigabytes", "port", "network"] {
        assert_eq!(put(&api, sets, "2.57", json!({"quota_set": {name: 5}})).await.status, 400, "{name}");
    }
    // A limit below the usage needs `force`, at every version.
    api.server(USER, Api::wish("one")).await;
    api.server(USER, Api::wish("two")).await;
    for version in ["2.35", "2.36", "2.57", "2.93"] {
        let low = |force: bool| json!({"quota_set": {"instances": 1, "force": force}});
        assert_eq!(put(&api, sets, version, low(false)).await.status, 400, "{version}");
        assert_eq!(put(&api, sets, version, low(true)).await.body["quota_set"]["instances"], 1, "{version}");
    }
    let used = api.get(&format!("{sets}/detail"), "2.57").await;
    assert_eq!(used["quota_set"]["instances"], json!({"limit": 1, "in_use": 2, "reserved": 0}));
    let refused = api.call("PUT", sets, "2.57", USER, Some(json!({"quota_set": {"cores": 99}}))).await;
    assert_eq!(refused.status, 403);
    assert_eq!(api.call("GET", "/os-quota-sets/other", "2.57", USER, None).await.status, 403);
    assert_eq!(api.call("DELETE", sets, "2.57", ADMIN, None).await.status, 202);
    assert_eq!(api.get(sets, "2.57").await["quota_set"]["instances"], 10);
    api.stop().await;
}

#[actix_rt::test]
async fn services_are_listed_switched_and_forced_down() {
    let api = Api::start().await;
    let list =
        async |version: &str, query: &str| api.get(&format!("/os-services{query}"), version).await["services"].take();
    let all = list("2.1", "").await;
    let line = |service: &Value| {
        ["binary", "host", "zone", "status", "state"].map(|key| service[key].as_str().unwrap().to_owned())
    };
    let lines: Vec<_> = all.as_array().unwrap().iter().map(line).collect();
    let own = |binary: &str| [binary, "chronova", "internal", "enabled", "up"].map(str::to_owned);
    assert_eq!(lines[..2], [own("nova-conductor"), own("nova-scheduler")]);
    let compute =
        |line: &[String; 5]| [&line[0], &line[2], &line[3], &line[4]] == ["nova-compute", "nova", "enabled", "up"];
    assert!(lines[2..].iter().all(compute), "{lines:?}");
    assert!(all.as_array().unwrap().iter().all(|s| s["id"].is_u64() && s["updated_at"].is_string()));
    assert_eq!(list("2.1", "?binary=nova-compute").await.as_array().unwrap().len(), 2);
    let host = all[2]["host"].as_str().unwrap();
    assert_eq!(list("2.1", &format!("?host={host}")).await.as_array().unwrap().len(), 1);
    assert_eq!(api.call("GET", "/os-services", "2.1", USER, None).await.status, 403);

    // Until 2.52 host and binary name a service. A reason for disabling is stored and shown.
    let one = async |version: &str| list(version, &format!("?host={host}")).await[0].take();
    let by_verb = async |version: &str, verb: &str, extra: Value| {
        let mut body = json!({"host": host, "binary": "nova-compute"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        put(&api, &format!("/os-services/{verb}"), version, body).await
    };
    let disabled = by_verb("2.1", "disable-log-reason", json!({"disabled_reason": "new fans"})).await;
    assert_eq!(disabled.body["service"]["disabled_reason"], "new fans");
    assert_eq!(
        (&one("2.1").await["status"], &one("2.1").await["disabled_reason"]),
        (&json!("disabled"), &json!("new fans"))
    );
    assert_eq!(by_verb("2.1", "enable", json!({})).await.status, 200);
    assert_eq!((&one("2.1").await["status"], &one("2.1").await["disabled_reason"]), (&json!("enabled"), &Value::Null));
    assert_eq!(by_verb("2.1", "disable", json!({})).await.status, 200);
    assert_eq!(by_verb("2.1", "enable", json!({})).await.status, 200);
    let nobody = json!({"host": "nowhere", "binary": "nova-compute"});
    assert_eq!(put(&api, "/os-services/enable", "2.1", nobody).await.status, 404);
    // Services show `forced_down` from 2.11 on.
    assert!(one("2.10").await.get("forced_down").is_none());
    assert_eq!(one("2.11").await["forced_down"], false);
    assert_eq!(by_verb("2.10", "force-down", json!({"forced_down": true})).await.status, 400);
    assert_eq!(by_verb("2.11", "force-down", json!({"forced_down": true})).await.status, 200);
    assert_eq!((&one("2.11").await["forced_down"], &one("2.11").await["state"]), (&json!(true), &json!("down")));
    // From 2.53 on an id names a service.
    let id = one("2.53").await["id"].as_str().unwrap().to_owned();
    assert!(uuid::Uuid::parse_str(&id).is_ok());
    let by_id = async |body: Value| put(&api, &format!("/os-services/{id}"), "2.53", body).await;
    let up = by_id(json!({"forced_down": false})).await;
    assert_eq!((up.status, &up.body["service"]["state"]), (200, &json!("up")));
    let off = by_id(json!({"status": "disabled", "disabled_reason": "dust"})).await;
    assert_eq!(keys(&off.body["service"]), keys(&one("2.53").await), "the answer is not the whole service");
    assert_eq!(off.body["service"]["disabled_reason"], "dust");
    for bad in [json!({}), json!({"disabled_reason": "x"}), json!({"status": "enabled", "disabled_reason": "x"})] {
        assert_eq!(by_id(bad.clone()).await.status, 400, "{bad}");
    }
    assert_eq!(by_verb("2.53", "enable", json!({})).await.status, 400);
    assert_eq!(put(&api, "/os-services/7", "2.53", json!({"status": "enabled"})).await.status, 400);

    // Servers go where services are enabled.
    let names: Vec<String> =
        all.as_array().unwrap()[2..].iter().map(|s| s["host"].as_str().unwrap().to_owned()).collect();
    let other = names.iter().find(|name| *name != host).unwrap();
    for n in 0..3 {
        let id = api.server(USER, Api::wish(&format!("s{n}"))).await;
        assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"], **other);
    }
    // Zones: users see names, administrators hosts too.
    let zones = api.call("GET", "/os-availability-zone", "2.1", USER, None).await;
    let wanted = json!([{"zoneName": "nova", "zoneState": {"available": true}, "hosts": null}]);
    assert_eq!(zones.body["availabilityZoneInfo"], wanted);
    assert_eq!(api.call("GET", "/os-availability-zone/detail", "2.1", USER, None).await.status, 403);
    let zones = api.get("/os-availability-zone/detail", "2.1").await;
    // Hosts of a disabled service are not listed.
    assert!(zones["availabilityZoneInfo"][1]["hosts"][host].is_null());
    api.stop().await;
}

#[actix_rt::test]
async fn hypervisors_are_listed_found_and_shown() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("one")).await;
    let host = api.get(&format!("/servers/{id}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"].take();
    let host = host.as_str().unwrap();
    let list = async |version: &str, query: &str| api.get(&format!("/os-hypervisors{query}"), version).await;
    let status = async |path: &str, version: &str| api.call("GET", path, version, ADMIN, None).await.status;
    let ids = |body: &Value| -> Vec<String> {
        let text = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        body["hypervisors"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect()
    };
    // Ids are numbers until 2.52, and UUIDs from 2.53 on.
    let (numbers, uuids) = (ids(&list("2.52", "").await), ids(&list("2.53", "").await));
    assert!(numbers.iter().all(|n| n.parse::<u64>().is_ok()) && uuids.iter().all(|n| uuid::Uuid::parse_str(n).is_ok()));
    for (version, right, wrong, code) in [("2.52", &numbers, &uuids, 404), ("2.53", &uuids, &numbers, 400)] {
        assert_eq!(status(&format!("/os-hypervisors/{}", right[0]), version).await, 200);
        assert_eq!(status(&format!("/os-hypervisors/{}", wrong[0]), version).await, code);
        let detail = list(version, "/detail").await;
        let service = &detail["hypervisors"][0]["service"]["id"];
        assert_eq!(service.is_string(), version == "2.53");
    }
    // The UUIDs equal those of the resource providers with the same names.
    let providers = api.ask("GET", "/placement/resource_providers", "1.39", ADMIN, None).await.body;
    let pair = |one: &Value, id: &str, name: &str| (one[id].clone().to_string(), one[name].clone().to_string());
    let sorted = |mut pairs: Vec<(String, String)>| {
        pairs.sort();
        pairs
    };
    let known =
        providers["resource_providers"].as_array().unwrap().iter().map(|one| pair(one, "uuid", "name")).collect();
    let hypervisors = list("2.53", "").await;
    let shown = hypervisors["hypervisors"].as_array().unwrap().iter();
    assert_eq!(sorted(shown.map(|one| pair(one, "id", "hypervisor_hostname")).collect()), sorted(known));
    // Pages from 2.33 on.
    assert_eq!(ids(&list("2.32", "?limit=1").await).len(), 2);
    for version in ["2.33", "2.53"] {
        let page = list(version, "?limit=1").await;
        let marker = ids(&page)[0].clone();
        assert_eq!((ids(&page).len(), &page["hypervisors_links"][0]["rel"]), (1, &json!("next")), "{version}");
        let rest = list(version, &format!("?limit=1&marker={marker}")).await;
        assert_ne!(ids(&rest)[0], marker);
        let unknown = format!("/os-hypervisors?marker={}", uuid::Uuid::nil());
        assert_eq!(status(&unknown, version).await, 400, "{version}");
    }
    // The search is a path until 2.52, and a parameter from 2.53 on.
    let search = list("2.52", &format!("/{host}/search")).await;
    assert_eq!(search["hypervisors"][0]["hypervisor_hostname"], host);
    let servers = list("2.52", &format!("/{host}/servers")).await;
    assert_eq!(servers["hypervisors"][0]["servers"][0]["uuid"], *id);
    for gone in ["search", "servers"] {
        assert_eq!(status(&format!("/os-hypervisors/{host}/{gone}"), "2.53").await, 404);
    }
    let found = list("2.53", &format!("?hypervisor_hostname_pattern={host}&with_servers=true")).await;
    assert_eq!(found["hypervisors"][0]["servers"][0]["uuid"], *id);
    assert_eq!(status("/os-hypervisors?hypervisor_hostname_pattern=nothing", "2.53").await, 404);
    assert_eq!(status(&format!("/os-hypervisors?hypervisor_hostname_pattern={host}&limit=1"), "2.53").await, 400);
    let detail = list("2.53", &format!("/detail?hypervisor_hostname_pattern={host}&with_servers=true")).await;
    assert_eq!(detail["hypervisors"][0]["servers"][0]["uuid"], *id);
    // An empty list of servers shows from 2.75 on.
    let empty = uuids.iter().find(|uuid| found["hypervisors"][0]["id"] != **uuid).unwrap();
    let show = async |version: &str, query: &str| list(version, &format!("/{empty}{query}")).await["hypervisor"].take();
    assert!(show("2.74", "?with_servers=true").await.get("servers").is_none());
    assert_eq!(show("2.75", "?with_servers=true").await["servers"], json!([]));
    for path in ["", "/detail"] {
        let all = list("2.75", &format!("{path}?with_servers=true")).await;
        assert!(all["hypervisors"].as_array().unwrap().iter().all(|one| one["servers"].is_array()), "{path}: {all}");
    }
    // The CPU is a text of JSON until 2.27, an object until 2.87.
    let of_number = list("2.27", &format!("/{}", numbers[0])).await["hypervisor"].take();
    let text = of_number["cpu_info"].as_str().unwrap();
    let parsed: Value = serde_json::from_str(text).unwrap();
    let object = list("2.28", &format!("/{}", numbers[0])).await["hypervisor"]["cpu_info"].take();
    assert!(object.is_object());
    assert_eq!(parsed, object);
    // 2.88 removes the fields that Placement has.
    let moved = [
        "current_workload",
        "cpu_info",
        "vcpus",
        "vcpus_used",
        "free_disk_gb",
        "local_gb",
        "local_gb_used",
        "disk_available_least",
        "free_ram_mb",
        "memory_mb",
        "memory_mb_used",
        "running_vms",
    ];
    let (old, new) = (show("2.87", "").await, show("2.88", "").await);
    assert!(moved.iter().all(|key| old.get(*key).is_some() && new.get(*key).is_none()));
    assert!(old.get("uptime").is_none() && new.get("uptime").is_some());
    for (version, has_moved) in [("2.87", true), ("2.88", false)] {
        let details = list(version, "/detail").await["hypervisors"].take();
        for one in details.as_array().unwrap() {
            assert!(moved.iter().all(|key| one.get(*key).is_some() == has_moved), "{version}: {one}");
            assert_eq!(one.get("uptime").is_some(), !has_moved, "{version}: {one}");
        }
    }
    // The uptime comes with a heartbeat.
    let other = HostId(empty.parse().unwrap());
    let reported = || api.life.context().fleet.member(other).and_then(|member| member.usage().0.uptime_seconds);
    api.life.until(|_| reported().is_some()).await;
    let told = list("2.87", &format!("/{empty}/uptime")).await["hypervisor"].take();
    assert!(told["id"] == *empty && told["uptime"].as_str().unwrap().starts_with("up "), "{told}");
    for (path, last) in [("/os-hypervisors/statistics".to_owned(), 87), (format!("/os-hypervisors/{empty}/uptime"), 87)]
    {
        assert_ne!(status(&path, &format!("2.{last}")).await, 404, "{path}");
        assert_eq!(status(&path, &format!("2.{}", last + 1)).await, 404, "{path}");
    }
    let sums = list("2.87", "/statistics").await["hypervisor_statistics"].take();
    assert_eq!((&sums["count"], &sums["running_vms"], &sums["vcpus_used"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!(api.call("GET", "/os-hypervisors", "2.1", USER, None).await.status, 403);
    api.stop().await;
}

#[actix_rt::test]
async fn usage_adds_up_in_pages() {
    let api = Api::start().await;
    for (token, name) in [(USER, "a"), (USER, "b"), ("bob:other", "c")] {
        api.server(token, Api::wish(name)).await;
    }
    let window = "start=2020-01-01T00:00:00&end=2100-01-01T00:00:00";
    let list =
        async |version: &str, query: &str| api.get(&format!("/os-simple-tenant-usage?{window}{query}"), version).await;
    let all = list("2.40", "&detailed=1").await["tenant_usages"].take();
    let of =
        |project: &str| all.as_array().unwrap().iter().find(|usage| usage["tenant_id"] == project).unwrap().clone();
    let web = of("web");
    assert_eq!(web["server_usages"].as_array().unwrap().len(), 2);
    let (hours, memory) = (web["total_hours"].as_f64().unwrap(), web["total_memory_mb_usage"].as_f64().unwrap());
    assert!(hours > 0.0, "the servers have no hours");
    assert!((memory - hours * 512.0).abs() < 1e-6, "not 512 MiB for each hour");
    assert!((web["total_vcpus_usage"].as_f64().unwrap() - hours).abs() < 1e-9, "not one CPU for each hour");
    assert!((web["total_local_gb_usage"].as_f64().unwrap() - hours).abs() < 1e-9, "not one GiB for each hour");
    assert!(list("2.40", "").await["tenant_usages"][0].get("server_usages").is_none());
    // A page is limited by its number of servers, so a project may span two pages.
    let mut seen = Vec::new();
    let mut marker = String::new();
    loop {
        let page = list("2.40", &format!("&detailed=1&limit=1{marker}")).await;
        let Some(usage) = page["tenant_usages"].get(0) else { break };
        assert_eq!(page["tenant_usages_links"][0]["rel"], "next");
        let id = usage["server_usages"][0]["instance_id"].as_str().unwrap();
        seen.push(usage["tenant_id"].as_str().unwrap().to_owned());
        marker = format!("&marker={id}");
    }
    seen.sort();
    assert_eq!(seen, ["other", "web", "web"]);
    let own = api.call("GET", &format!("/os-simple-tenant-usage/web?{window}&limit=1"), "2.40", USER, None).await;
    assert_eq!(own.body["tenant_usage"]["server_usages"].as_array().unwrap().len(), 1);
    assert_eq!(own.body["tenant_usage_links"][0]["rel"], "next");
    let first = own.body["tenant_usage"]["server_usages"][0]["instance_id"].as_str().unwrap();
    let path = format!("/os-simple-tenant-usage/web?{window}&limit=1&marker={first}");
    let rest = api.call("GET", &path, "2.40", USER, None).await.body["tenant_usage"]["server_usages"].take();
    assert_eq!(rest.as_array().unwrap().len(), 1, "{rest}");
    assert_ne!(rest[0]["instance_id"], first, "the page begins with its marker");
    let later = api.get("/os-simple-tenant-usage?start=2019-01-01T00:00:00&end=2019-02-01T00:00:00", "2.1").await;
    assert_eq!(later["tenant_usages"], json!([]));
    assert_eq!(api.call("GET", "/os-simple-tenant-usage", "2.1", USER, None).await.status, 403);
    assert_eq!(api.call("GET", "/os-simple-tenant-usage/other", "2.1", USER, None).await.status, 403);
    api.stop().await;
}

#[actix_rt::test]
async fn servers_keep_the_flavor_they_were_made_with() {
    let api = Api::start().await;
    let listed = api.get("/flavors?is_public=none", "2.1").await["flavors"].take();
    assert_eq!(listed.as_array().unwrap().len(), 1, "there are other flavors than the created one");
    let specs = |value: &str| Some(json!({"extra_specs": {"hw:cpu_policy": value}}));
    assert_eq!(api.call("POST", "/flavors/1/os-extra_specs", "2.1", ADMIN, specs("shared")).await.status, 200);
    let id = api.server(USER, Api::wish("one")).await;
    let path = format!("/servers/{id}");
    let before = api.get(&path, "2.47").await["server"]["flavor"].take();
    assert_eq!(before["extra_specs"], json!({"hw:cpu_policy": "shared"}));
    assert_eq!(api.call("POST", "/flavors/1/os-extra_specs", "2.1", ADMIN, specs("dedicated")).await.status, 200);
    assert_eq!(api.call("DELETE", "/flavors/1/os-extra_specs/hw:cpu_policy", "2.1", ADMIN, None).await.status, 200);
    // Only the description can change. A flavor in use can be deleted.
    let other = json!({"flavor": {"description": "d", "ram": 1}});
    assert_eq!(put(&api, "/flavors/1", "2.55", other).await.status, 400);
    assert_eq!(api.call("DELETE", "/flavors/1", "2.1", ADMIN, None).await.status, 202);
    assert_eq!(api.call("GET", "/flavors/1", "2.1", ADMIN, None).await.status, 404);
    assert_eq!(api.get(&path, "2.47").await["server"]["flavor"], before);
    for action in [json!({"os-stop": null}), json!({"os-start": null})] {
        assert_eq!(api.call("POST", &format!("{path}/action"), "2.1", USER, Some(action)).await.status, 202);
        api.life.settled().await;
    }
    assert_eq!(api.get(&path, "2.1").await["server"]["status"], "ACTIVE");
    api.stop().await;
}
