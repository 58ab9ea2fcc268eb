//! Answers about the past equal the answers that were given at that time.
//!
//! Random traffic runs on a simulated fleet. Meanwhile the test sends random queries, and records the answers with
//! their positions. Later, and after a restart from a checkpoint, it repeats the queries with these positions and
//! times, and compares the answers byte for byte. A seed decides traffic and queries; every seed is printed.
//! `CHRONOVA_TIME_TRAVEL_SEED` repeats the run of one seed, `CHRONOVA_SOAK=1` runs many.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use actix_web::test;
use chronova_events::clock::{Clock, SystemClock};
use chronova_events::entropy::SplitMix;
use chronova_events::envelope::Timestamp;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints};
use chronova_projections::history::{History, HistoryOptions};
use chronova_tests::answers::{self, AnsweredRequest};
use chronova_tests::compute_api::{ADMIN, Api};
use chronova_tests::world::Setting;
use chronova_web::server::configure;
use serde_json::{Value, json};

const RUNS: u64 = 3;
const ROUNDS: usize = 4;
const REQUESTS_A_ROUND: usize = 12;
const PROJECTS: [&str; 2] = ["alice:web", "bob:db"];

struct Dice(SplitMix);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0.draw() % sides
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.roll(all.len() as u64)).unwrap()]
    }
}

/// A query: its service, path, microversion and token.
#[derive(Debug, Clone)]
struct Question {
    service: &'static str,
    path: String,
    version: &'static str,
    token: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: String,
}

struct Told {
    answer: Answer,
    position: Option<String>,
    as_of: Option<String>,
}

async fn ask(api: &Api, question: &Question, as_of: Option<&str>) -> Told {
    let Question { service, path, version, token } = question;
    let path = match as_of {
        Some(moment) => format!("{path}{}as_of={moment}", if path.contains('?') { '&' } else { '?' }),
        None => path.clone(),
    };
    let configured = configure(Arc::clone(&api.app), Arc::clone(&api.routers), None);
    let serving = test::init_service(actix_web::App::new().configure(configured)).await;
    let request = test::TestRequest::with_uri(&path)
        .insert_header(("X-Auth-Token", *token))
        .insert_header(("OpenStack-API-Version", format!("{service} {version}")));
    let response = test::call_service(&serving, request.to_request()).await;
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (position, as_of) = (header("X-Chronova-Position"), header("X-Chronova-As-Of"));
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = String::from_utf8(test::read_body(response).await.to_vec()).unwrap();
    let (method, bytes) = ("GET", body.as_bytes());
    let answered = AnsweredRequest { method, path: &path, asked: None, status, headers: &headers, body: bytes };
    answers::check(&api.routers, &answered).unwrap();
    Told { answer: Answer { status, body }, position, as_of }
}

/// Removes expected differences: links to the next page carry `as_of`, and the log has no measurements of hosts.
fn explained(answer: &Answer) -> Answer {
    let mut body = answer.body.clone();
    for (begin, ends) in [("as_of=", "&"), ("\"uptime\":", ",}"), ("\"disk_available_least\":", ",}")] {
        while let Some(at) = body.find(begin) {
            let length = body[at..].find(|letter| ends.contains(letter)).unwrap();
            // The ampersand is removed together with its parameter.
            body.replace_range(at..at + length + usize::from(ends == "&"), "");
        }
    }
    Answer { status: answer.status, body }
}

fn question(dice: &mut Dice, servers: &[String], hosts: &[String]) -> Question {
    let server = if servers.is_empty() { "no-such-server".to_owned() } else { dice.one_of(servers).clone() };
    let host = dice.one_of(hosts).clone();
    let compute =
        ["2.1", "2.3", "2.9", "2.19", "2.26", "2.47", "2.53", "2.71", "2.73", "2.75", "2.87", "2.88", "2.100"];
    let placement = ["1.9", "1.12", "1.28", "1.38"];
    let compute_path = |path: String| format!("/compute/v2.1{path}");
    let (service, path) = match dice.roll(26) {
        0 => ("compute", compute_path("/servers".into())),
        1 | 2 => ("compute", compute_path("/servers/detail?all_tenants=1".into())),
        3 => ("compute", compute_path("/servers/detail?status=ACTIVE&all_tenants=1".into())),
        4 => ("compute", compute_path("/servers/detail?sort_key=display_name&sort_dir=asc&all_tenants=1".into())),
        5 => ("compute", compute_path("/servers?limit=2&all_tenants=1".into())),
        6 => ("compute", compute_path("/servers/detail?deleted=True&all_tenants=1".into())),
        7 | 8 => ("compute", compute_path(format!("/servers/{server}"))),
        9 => ("compute", compute_path("/os-hypervisors".into())),
        10 => ("compute", compute_path("/os-hypervisors/detail".into())),
        11 => ("compute", compute_path(format!("/os-hypervisors/{host}"))),
        12 => ("placement", format!("/placement/resource_providers/{host}/allocations")),
        13 => ("placement", format!("/placement/resource_providers/{host}/usages")),
        14 => ("placement", format!("/placement/allocations/{server}")),
        15 => ("compute", compute_path("/flavors/detail?is_public=None".into())),
        16 => ("compute", compute_path("/os-aggregates".into())),
        17 => ("compute", compute_path("/os-server-groups?all_projects=1".into())),
        18 => ("compute", compute_path("/os-keypairs?user_id=alice".into())),
        19 => ("compute", compute_path(format!("/servers/{server}/os-instance-actions"))),
        20 => ("compute", compute_path(format!("/servers/{server}/metadata"))),
        21 => ("compute", compute_path(format!("/servers/{server}/ips"))),
        22 => ("placement", "/placement/resource_providers".into()),
        23 => ("placement", format!("/placement/resource_providers/{host}/inventories")),
        24 => ("placement", format!("/placement/resource_providers/{host}/traits")),
        _ => ("placement", format!("/placement/usages?project_id={}", dice.one_of(&["web", "db"]))),
    };
    let version = *if service == "compute" { dice.one_of(&compute) } else { dice.one_of(&placement) };
    // The queries run as an administrator, because by default only administrators may use `as_of`.
    Question { service, path, version, token: ADMIN }
}

async fn one(api: &Api, dice: &mut Dice, servers: &mut Vec<String>) {
    let token = *dice.one_of(&PROJECTS);
    if servers.len() < 3 || dice.roll(100) < 30 {
        let name = format!("server {}", dice.roll(50));
        let made = api.call("POST", "/servers", "2.90", token, Some(json!({"server": Api::wish(&name)}))).await;
        if let Some(id) = made.body["server"]["id"].as_str() {
            servers.push(id.to_owned());
        }
        return;
    }
    let path = format!("/servers/{}", dice.one_of(servers));
    let act = async |body: Value| api.call("POST", &format!("{path}/action"), "2.73", ADMIN, Some(body)).await;
    // Many requests are refused, and refusals are answers, too.
    match dice.roll(13) {
        // Zones and groups come from other read models than the servers that show them.
        10 => {
            let body = json!({"aggregate": {"name": format!("rack {}", dice.roll(3)), "availability_zone": "attic"}});
            drop(api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(body)).await);
        }
        11 => {
            let host = dice.one_of(&host_names(api)).clone();
            let verb = *dice.one_of(&["add_host", "remove_host"]);
            let path = format!("/os-aggregates/{}/action", 1 + dice.roll(3));
            drop(api.call("POST", &path, "2.1", ADMIN, Some(json!({verb: {"host": host}}))).await);
        }
        12 => {
            let body = json!({"server_group": {"name": "g", "policy": "soft-affinity"}});
            let made = api.call("POST", "/os-server-groups", "2.64", token, Some(body)).await;
            let group = made.body["server_group"]["id"].clone();
            let body = json!({"server": Api::wish("grouped"), "os:scheduler_hints": {"group": group}});
            let made = api.call("POST", "/servers", "2.90", token, Some(body)).await;
            servers.extend(made.body["server"]["id"].as_str().map(str::to_owned));
        }
        0 => drop(api.call("DELETE", &path, "2.1", ADMIN, None).await),
        1 => drop(act(json!({"os-stop": null})).await),
        2 => drop(act(json!({"os-start": null})).await),
        3 => drop(act(json!({"reboot": {"type": "HARD"}})).await),
        4 => drop(act(json!({"lock": {"locked_reason": "because"}})).await),
        5 => drop(act(json!({"unlock": null})).await),
        6 => {
            let body = json!({"server": {"name": format!("renamed {}", dice.roll(50)), "description": "new"}});
            drop(api.call("PUT", &path, "2.19", ADMIN, Some(body)).await);
        }
        7 => {
            let body = json!({"metadata": {"key": format!("{}", dice.roll(9))}});
            drop(api.call("POST", &format!("{path}/metadata"), "2.1", ADMIN, Some(body)).await);
        }
        8 => {
            let host = usize::try_from(dice.roll(2)).unwrap();
            match dice.roll(2) {
                0 => api.world.fleet.kill_host(host),
                _ => api.world.fleet.revive_host(host, false).unwrap(),
            }
        }
        _ => {
            let hosts = api.life.context().views.hosts.read(|view| view.all().map(|host| host.id).collect::<Vec<_>>());
            let state = dice.one_of(&[json!({"status": "disabled"}), json!({"status": "enabled"})]).clone();
            let path = format!("/os-services/{}", dice.one_of(&hosts));
            drop(api.call("PUT", &path, "2.53", ADMIN, Some(state)).await);
        }
    }
}

/// A query, its answer, and the moment for repeating the query.
struct Record {
    question: Question,
    answer: Answer,
    moment: String,
}

fn host_names(api: &Api) -> Vec<String> {
    api.life.context().views.hosts.read(|view| view.all().map(|host| host.hostname.clone()).collect())
}

fn hosts_of(api: &Api) -> Vec<String> {
    api.life.context().views.hosts.read(|view| view.all().map(|host| host.id.to_string()).collect())
}

/// Sends a few queries, and records the answers that belong to one position.
async fn record(api: &Api, dice: &mut Dice, servers: &[String], records: &mut Vec<Record>) {
    for _ in 0..dice.roll(4) {
        let question = question(dice, servers, &hosts_of(api));
        let told = ask(api, &question, None).await;
        assert!(told.as_of.is_none());
        if let Some(moment) = told.position {
            records.push(Record { question, answer: told.answer, moment });
        }
    }
}

/// Records answers with times. When no work is running, a time identifies the same state as a position.
async fn record_by_time(api: &Api, dice: &mut Dice, servers: &[String], records: &mut Vec<Record>) {
    for host in 0..2 {
        api.world.fleet.revive_host(host, false).unwrap();
    }
    api.life.hosts_up(2).await;
    api.life.settled().await;
    for _ in 0..3 {
        let question = question(dice, servers, &hosts_of(api));
        let told = ask(api, &question, None).await;
        let head = api.world.log.head();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now: Timestamp = SystemClock.now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let views = &api.life.context().views;
        if told.position == Some(head.to_string()) && api.world.log.head() == head && views.position() == head {
            records.push(Record { question, answer: told.answer, moment: now.to_string() });
        }
    }
}

async fn compare(api: &Api, records: &[Record], seed: u64, when: &str) {
    for record in records {
        let told = ask(api, &record.question, Some(&record.moment)).await;
        let (then, now) = (explained(&record.answer), explained(&told.answer));
        let Record { question, moment, .. } = record;
        assert_eq!(now, then, "seed {seed}, {when}, as of {moment}: {question:?}");
        assert!(told.as_of.is_some() && told.position.is_none());
        assert!(moment.contains('T') || told.as_of.as_ref() == Some(moment), "{moment}: {:?}", told.as_of);
    }
}

async fn run(seed: u64) {
    eprintln!("CHRONOVA_TIME_TRAVEL_SEED={seed}");
    let mut dice = Dice(SplitMix::new(seed));
    let api = Api::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = CheckpointOptions { spacing: 20, ..CheckpointOptions::default() };
    let checkpoints = Checkpoints::new(folder.path(), options, KeyRing::in_memory().unwrap());
    let (mut servers, mut records) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..REQUESTS_A_ROUND {
            one(&api, &mut dice, &mut servers).await;
            record(&api, &mut dice, &servers, &mut records).await;
            tokio::time::sleep(Duration::from_micros(dice.roll(2_000))).await;
            record(&api, &mut dice, &servers, &mut records).await;
        }
        record_by_time(&api, &mut dice, &servers, &mut records).await;
        checkpoints.save(&api.life.context().views.fork()).unwrap();
    }
    let by_time = records.iter().filter(|record| record.moment.contains('T')).count();
    assert!(records.len() > 40 && by_time > 3, "{} answers, {by_time} by time", records.len());
    compare(&api, &records, seed, "in the same life").await;

    // The next life starts from a checkpoint, and answers about the past from checkpoints first.
    let Api { world, life, .. } = api;
    life.stop().await;
    let views = checkpoints.open(&*world.log).await.unwrap().views;
    assert!(views.position().0 > 0);
    let life = world.begin(Setting { views: Some(views), ..Setting::default() }).await;
    let (store, live) = (Arc::clone(&world.log) as Arc<dyn EventStore>, Arc::clone(&life.context().views));
    let options = HistoryOptions { near: 0, held: 2, ..HistoryOptions::default() };
    let history = History::new(store, live, Some(Arc::clone(&checkpoints)), options);
    let api = Api::around(world, life, "", history);
    compare(&api, &records, seed, "after a restart").await;
    eprintln!("  {} answers, {by_time} of them by time, {} servers", records.len(), servers.len());
    api.stop().await;
}

#[actix_rt::test]
async fn answers_about_the_past_equal_the_answers_given_then() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("CHRONOVA_TIME_TRAVEL_SEED") {
        return Box::pin(run(seed)).await;
    }
    let runs = if std::env::var_os("CHRONOVA_SOAK").is_some() { 60 } else { RUNS };
    for seed in 1..=runs {
        Box::pin(run(seed)).await;
    }
}

fn about(service: &'static str, path: &str, version: &'static str, token: &'static str) -> Question {
    Question { service, path: path.to_owned(), version, token }
}

#[actix_rt::test]
async fn invalid_queries_of_the_past_are_refused() {
    let api = Api::start().await;
    let id = api.server("alice:web", Api::wish("one")).await;
    let list = about("compute", "/compute/v2.1/servers/detail?all_tenants=1", "2.100", ADMIN);
    let told = |as_of: &str| {
        let (api, list, as_of) = (&api, &list, as_of.to_owned());
        async move { ask(api, list, Some(&as_of)).await.answer }
    };
    // Before the first event lists are empty, and a server from later is not found.
    for nothing in ["0", "1970-01-01T00:00:00Z"] {
        let answer = told(nothing).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"servers":[]}"#));
        let show = about("compute", &format!("/compute/v2.1/servers/{id}"), "2.1", ADMIN);
        assert_eq!(ask(&api, &show, Some(nothing)).await.answer.status, 404);
        let hosts = about("compute", "/compute/v2.1/os-hypervisors/detail", "2.53", ADMIN);
        assert_eq!(ask(&api, &hosts, Some(nothing)).await.answer.body, r#"{"hypervisors":[]}"#);
        let usages = about("placement", "/placement/usages?project_id=web", "1.9", ADMIN);
        assert_eq!(ask(&api, &usages, Some(nothing)).await.answer.body, r#"{"usages":{}}"#);
    }
    let after = api.world.log.head().0 + 1_000;
    for (bad, words) in [
        ("soon", "2026-01-31T12:00:00Z"),
        ("-1", "whole number"),
        ("2999-01-01T00:00:00Z", "in the future"),
        (after.to_string().as_str(), "after the end of the log"),
        ("1&as_of=2", "once only"),
    ] {
        let answer = told(bad).await;
        assert!(answer.status == 400 && answer.body.contains(words), "{bad}: {answer:?}");
        assert!(answer.body.starts_with(r#"{"badRequest":"#), "{answer:?}");
    }
    // A user without the right gets a refusal; the live answer does not change.
    let own = about("compute", "/compute/v2.1/servers", "2.1", "alice:web");
    assert_eq!(ask(&api, &own, Some("1")).await.answer.status, 403);
    assert_eq!(ask(&api, &own, None).await.answer.status, 200);
    // `as_of` works at every microversion, in both spellings. Other operations refuse it at every microversion.
    for version in ["2.1", "2.74", "2.75", "2.100"] {
        let list = about("compute", "/compute/v2.1/servers/detail?all_tenants=1", version, ADMIN);
        assert_eq!(ask(&api, &list, Some("0")).await.answer.body, r#"{"servers":[]}"#);
        let full = about("compute", "/compute/v2.1/servers?chronova:as_of=0", version, ADMIN);
        assert_eq!(ask(&api, &full, None).await.answer.body, r#"{"servers":[]}"#);
    }
    for version in ["2.1", "2.75"] {
        let services = about("compute", "/compute/v2.1/os-services", version, ADMIN);
        let answer = ask(&api, &services, Some("0")).await.answer;
        assert!(answer.status == 400 && answer.body.contains("does not take as_of"), "{answer:?}");
    }
    // The pages of a past list stay in that past.
    let page = about("compute", "/compute/v2.1/servers?limit=1&all_tenants=1", "2.1", ADMIN);
    let head = api.world.log.head().to_string();
    let answer = ask(&api, &page, Some(&head)).await.answer;
    assert!(answer.body.contains(&format!("limit=1&all_tenants=1&as_of={head}&marker={id}")), "{answer:?}");
    api.stop().await;
}

#[actix_rt::test]
async fn a_policy_file_opens_the_past_to_others() {
    let api = Api::start_with("\"os_compute_api:chronova:as_of\": \"rule:project_reader_or_admin\"", None).await;
    let id = api.server("alice:web", Api::wish("one")).await;
    let others = api.server("bob:db", Api::wish("two")).await;
    let head = api.world.log.head().to_string();
    let own = about("compute", "/compute/v2.1/servers", "2.1", "alice:web");
    let told = ask(&api, &own, Some(&head)).await.answer;
    assert!(told.status == 200 && told.body.contains(&id) && !told.body.contains(&others), "{told:?}");
    let show = about("compute", &format!("/compute/v2.1/servers/{others}"), "2.1", "alice:web");
    assert_eq!(ask(&api, &show, Some(&head)).await.answer.status, 404);
    api.stop().await;
}

/// A policy file that allows `as_of` also allows it for volumes and key pairs. Each project still sees only its own.
#[actix_rt::test]
async fn the_past_of_volumes_and_keys_is_no_way_to_other_projects() {
    let api = Api::start_with("\"os_compute_api:chronova:as_of\": \"rule:project_reader_or_admin\"", None).await;
    let volume = "2.1, volume 3.59";
    let mut ids = Vec::new();
    for token in PROJECTS {
        let body = json!({"volume": {"size": 1, "name": token}});
        let made = api.ask("POST", "/volume/v3/volumes", volume, token, Some(body)).await;
        assert_eq!(made.status, 202, "{:?}", made.body);
        ids.push(made.body["volume"]["id"].as_str().unwrap().to_owned());
    }
    api.life.settled().await;
    let then = api.world.log.head().to_string();
    for (token, id) in PROJECTS.into_iter().zip(&ids) {
        let gone = api.ask("DELETE", &format!("/volume/v3/volumes/{id}"), volume, token, None).await;
        assert_eq!(gone.status, 202, "{:?}", gone.body);
    }
    api.life.settled().await;
    let (own, others) = (&ids[0], &ids[1]);
    for path in ["/volume/v3/volumes/detail", "/volume/v3/volumes/detail?all_tenants=1"] {
        let list = about("volume", path, "3.59", PROJECTS[0]);
        assert_eq!(ask(&api, &list, None).await.answer.body, r#"{"volumes":[]}"#);
        let told = ask(&api, &list, Some(&then)).await.answer;
        assert!(told.status == 200 && told.body.contains(own) && !told.body.contains(others), "{path}: {told:?}");
    }
    for (id, status) in [(own, 200), (others, 404)] {
        let show = about("volume", &format!("/volume/v3/volumes/{id}"), "3.59", PROJECTS[0]);
        assert_eq!(ask(&api, &show, Some(&then)).await.answer.status, status);
    }
    for (path, status) in [("/compute/v2.1/os-keypairs", 200), ("/compute/v2.1/os-keypairs?user_id=bob", 403)] {
        let keys = about("compute", path, "2.10", PROJECTS[0]);
        assert_eq!(ask(&api, &keys, Some(&then)).await.answer.status, status, "{path}");
    }
    api.stop().await;
}
