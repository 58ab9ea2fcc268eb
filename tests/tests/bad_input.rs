//! Bad input gets Nova's status and fault key, and a message with the reason. It changes nothing.
//!
//! Source: nova `api/openstack/wsgi.py` (fault keys), `api/validation`, the API guide on microversions and faults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use actix_web::test::{TestRequest, call_service, init_service, read_body};
use chronova_tests::answers::{self, AnsweredRequest};
use chronova_tests::compute_api::{ADMIN, Api, IMAGE};
use chronova_web::server::configure;
use serde_json::{Value, json};

const USER: &str = "alice:web";

/// Sends a request of any form; returns status and body.
async fn raw(api: &Api, request: TestRequest) -> (u16, Value) {
    let configured = configure(Arc::clone(&api.app), Arc::clone(&api.routers), None);
    let service = init_service(actix_web::App::new().configure(configured)).await;
    let request = request.to_request();
    let (method, path) = (request.method().to_string(), request.uri().to_string());
    let response = call_service(&service, request).await;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = read_body(response).await;
    let answered =
        AnsweredRequest { method: &method, path: &path, asked: None, status, headers: &headers, body: &body };
    answers::check(&api.routers, &answered).unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

fn post(path: &str, token: Option<&str>, version: &str) -> TestRequest {
    let request = TestRequest::post().uri(&format!("/compute/v2.1{path}"));
    let request = request.insert_header(("OpenStack-API-Version", format!("compute {version}")));
    let request = request.insert_header(("Content-Type", "application/json"));
    match token {
        Some(token) => request.insert_header(("X-Auth-Token", token)),
        None => request,
    }
}

#[track_caller]
fn is((status, body): (u16, Value), expected: u16, key: &str, words: &str) {
    let fault = &body[key];
    assert_eq!((status, &fault["code"]), (expected, &json!(expected)), "{body}");
    assert!(fault["message"].as_str().unwrap().contains(words), "{body}");
}

/// All that refused requests could have changed: servers, flavors, keys, and the use of quota.
async fn visible(api: &Api) -> Vec<Value> {
    let mut all = vec![api.get("/servers?all_tenants=1", "2.1").await, api.get("/flavors/detail", "2.1").await];
    for token in [USER, "bob:other", "carol:big"] {
        for path in ["/os-keypairs", "/limits"] {
            all.push(api.call("GET", path, "2.1", token, None).await.body);
        }
    }
    all
}

#[actix_rt::test]
async fn bad_requests_get_novas_answer() {
    let api = Api::start().await;
    let before = visible(&api).await;
    assert!(before.iter().all(Value::is_object), "{before:?}");
    let server_request = json!({"server": Api::wish("x")});
    let send = async |token, version, body: Value| raw(&api, post("/servers", token, version).set_json(body)).await;

    let torn = raw(&api, post("/servers", Some(USER), "2.1").set_payload("{\"server\": ")).await;
    is(torn, 400, "badRequest", "Malformed request body");
    let mut unknown = server_request.clone();
    unknown["server"]["colour"] = json!("blue");
    is(send(Some(USER), "2.50", unknown).await, 400, "badRequest", "'colour' was unexpected");
    is(send(Some(USER), "two", server_request.clone()).await, 400, "badRequest", "two");
    is(send(Some(USER), "2.999", server_request.clone()).await, 406, "computeFault", "2.999");
    let (status, body) = send(None, "2.1", server_request.clone()).await;
    assert_eq!(status, 401, "{body}");
    api.life.settled().await;
    assert_eq!(visible(&api).await, before);

    let mine = api.server(USER, Api::wish("mine")).await;
    let before = visible(&api).await;
    for (method, path) in [("GET", format!("/servers/{mine}")), ("DELETE", format!("/servers/{mine}"))] {
        let answer = api.call(method, &path, "2.1", "bob:other", None).await;
        is((answer.status, answer.body), 404, "itemNotFound", "could not be found");
    }
    assert_eq!(api.get(&format!("/servers/{mine}"), "2.1").await["server"]["status"], "ACTIVE");

    let many = json!({"server": {"min_count": 20, "name": "x", "flavorRef": "1", "imageRef": server_request["server"]["imageRef"],
        "networks": server_request["server"]["networks"]}});
    is(send(Some(USER), "2.1", many).await, 403, "forbidden", "Quota exceeded for cores, instances: Requested 20, 20");

    let twin = json!({"flavor": {"id": "1", "name": "twin", "ram": 64, "vcpus": 1, "disk": 0}});
    let twin = raw(&api, post("/flavors", Some(ADMIN), "2.1").set_json(twin)).await;
    is(twin, 409, "conflictingRequest", "already exists");
    api.life.settled().await;
    assert_eq!(visible(&api).await, before);
    for expected in [200, 409] {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGsr6i3xIGfN1JhmdCL1ViFV1ZmuQ7XfYk7FJJYCxm1r k";
        let pair = json!({"keypair": {"name": "k", "public_key": key}});
        let (status, body) = raw(&api, post("/os-keypairs", Some(USER), "2.1").set_json(pair)).await;
        assert_eq!(status, expected, "{body}");
        assert_eq!(body.get("conflictingRequest").is_some(), expected == 409);
    }

    let keys = api.call("GET", "/os-keypairs", "2.1", USER, None).await.body;
    assert_eq!(keys["keypairs"].as_array().unwrap().len(), 1);

    api.flavor("giant", 9_000_000, 1).await;
    let before = visible(&api).await;
    let giant = json!({"name": "giant", "flavorRef": "giant", "imageRef": server_request["server"]["imageRef"]});
    let placed = api.call("POST", "/servers", "2.1", "carol:big", Some(json!({"server": giant}))).await;
    is((placed.status, placed.body), 403, "forbidden", "Quota exceeded for ram");
    api.life.settled().await;
    assert_eq!(visible(&api).await, before);
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn scheduler_hints_are_bounded() {
    let api = Api::start().await;
    let send = async |hints: Value| {
        let body = json!({"server": Api::wish("x"), "os:scheduler_hints": hints});
        raw(&api, post("/servers", Some(USER), "2.1").set_json(body)).await
    };
    let ids = |count: u128| (1..=count).map(|n| uuid::Uuid::from_u128(n).to_string()).collect::<Vec<_>>();
    for hint in ["different_host", "same_host"] {
        let words = format!("the scheduler hint {hint} has 101 servers, more than 100");
        is(send(json!({hint: ids(101)})).await, 400, "badRequest", &words);
        assert_eq!(send(json!({hint: ids(100)})).await.0, 202);
    }
    let nested = |levels: usize| "[\"not\",".repeat(levels - 1) + "[]" + &"]".repeat(levels - 1);
    let long = |length: usize| format!("[\"=\", \"{}\", 1]", "x".repeat(length - 12));
    let words = "the scheduler hint query has more than 2048 characters";
    is(send(json!({"query": long(2_049)})).await, 400, "badRequest", words);
    let words = "the scheduler hint query is nested more than 16 levels deep";
    is(send(json!({"query": nested(17)})).await, 400, "badRequest", words);
    for query in [long(2_048), nested(16)] {
        assert_eq!(send(json!({"query": query})).await.0, 202);
    }
    api.life.settled().await;
    api.stop().await;
}

/// An unsupported feature is refused instead of silently ignored.
#[actix_rt::test]
async fn hardware_and_certificates_that_are_not_provided_are_refused() {
    let mut api = Api::start().await;
    Arc::get_mut(&mut api.app).unwrap().compute.config.unchecked_certificates = false;
    let id = api.server(USER, Api::wish("plain")).await;
    let create = async |server_request: Value| {
        let answer = api.call("POST", "/servers", "2.63", USER, Some(json!({"server": server_request}))).await;
        (answer.status, answer.body)
    };
    let act = async |body: Value| {
        let answer = api.call("POST", &format!("/servers/{id}/action"), "2.63", USER, Some(body)).await;
        (answer.status, answer.body)
    };
    let with = |key: &str, value: Value| {
        let mut server_request = Api::wish("x");
        server_request[key] = value;
        server_request
    };
    let words = "leave out trusted_image_certificates";
    is(create(with("trusted_image_certificates", json!(["a"]))).await, 409, "conflictingRequest", words);
    let rebuild = json!({"rebuild": {"imageRef": IMAGE, "trusted_image_certificates": ["a"]}});
    is(act(rebuild).await, 409, "conflictingRequest", words);
    let (status, body) = create(with("trusted_image_certificates", Value::Null)).await;
    assert_eq!(status, 202, "a request without certificates is refused: {body}");

    for (number, spec, value) in [(21, "hw:virtio_packed_ring", "True"), (22, "hw:sound_model", "ich9")] {
        let flavor = number.to_string();
        api.flavor(&flavor, 512, 1).await;
        let specs = json!({"extra_specs": {spec: value, "hw:mem_page_size": "small"}});
        let made = api.call("POST", &format!("/flavors/{flavor}/os-extra_specs"), "2.1", ADMIN, Some(specs)).await;
        assert_eq!(made.status, 200, "{:?}", made.body);
        is(create(with("flavorRef", json!(flavor))).await, 400, "badRequest", spec);
        is(act(json!({"resize": {"flavorRef": flavor}})).await, 400, "badRequest", spec);
        let property = spec.replace(':', "_");
        let image = api.image(&[(&property, value)]).await;
        is(create(with("imageRef", json!(image))).await, 400, "badRequest", &property);
        is(act(json!({"rebuild": {"imageRef": image}})).await, 400, "badRequest", &property);
    }
    let off = json!({"extra_specs": {"hw:locked_memory": "false", "hw:virtio_packed_ring": "false"}});
    api.flavor("23", 512, 1).await;
    api.call("POST", "/flavors/23/os-extra_specs", "2.1", ADMIN, Some(off)).await;
    let (status, body) = create(with("flavorRef", json!("23"))).await;
    assert_eq!(status, 202, "{body}");
    api.life.settled().await;
    // Only the accepted requests have an effect.
    let listed = api.call("GET", "/servers", "2.1", USER, None).await.body;
    let name = |server: &Value| server["name"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = listed["servers"].as_array().unwrap().iter().map(name).collect();
    names.sort();
    assert_eq!(names, ["plain", "x", "x"]);
    let actions = api.get(&format!("/servers/{id}/os-instance-actions"), "2.1").await;
    assert_eq!(actions["instanceActions"].as_array().unwrap().len(), 1, "a refused action is recorded: {actions}");
    api.world.check().await;
    api.stop().await;
}
