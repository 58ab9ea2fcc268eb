//! The output of operators' commands, compared with golden files (`EXPECTORATE=overwrite cargo test` rewrites them).
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "anchored/mod.rs"]
mod anchored;
#[path = "forwarding/mod.rs"]
mod forwarding;
#[path = "past/mod.rs"]
mod past;

use chronova::commands::list_form::ListFormArgs;
use chronova::commands::{Exit, audit, inspect, rebuild};
use chronova_events::envelope::{Meta, NewEvent, Position, StreamId, Timestamp};
use chronova_events::erasure;
use chronova_events::instance::{self, InstanceEvent};
use chronova_events::registry::Event;
use chronova_events::sealed::DataSubject;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::audit_index::{IndexOptions, IndexProgress, IndexedLog};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints};
use chronova_projections::runner::catch_up;
use chronova_projections::views::Views;
use std::sync::Arc;

use crate::log::{self, DB, NOON, WEB, filled};

const NOW: Timestamp = Timestamp(NOON + 60_000_000);

async fn audited(store: &Arc<MemoryStore>, args: audit::AuditArgs) -> String {
    let mut out = Vec::new();
    assert_eq!(audit::run(&args, &**store, NOW, &mut out).await.unwrap(), Exit::Yes);
    String::from_utf8(out).unwrap()
}

async fn inspected(store: &Arc<MemoryStore>, words: &[&str], json: bool) -> (Exit, String) {
    let subject = words.iter().map(ToString::to_string).collect();
    let form = ListFormArgs { json, ..ListFormArgs::default() };
    let args = inspect::InspectArgs { subject, form, ..inspect::InspectArgs::default() };
    let mut out = Vec::new();
    let exit = inspect::run(&args, &**store, NOW, &mut out).await.unwrap();
    (exit, String::from_utf8(out).unwrap())
}

fn positions(lines: &str) -> Vec<u64> {
    let position = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["position"].as_u64().unwrap();
    lines.lines().map(position).collect()
}

#[tokio::test]
async fn audit_prints_the_log() {
    let store = filled().await;
    expectorate::assert_contents("tests/golden/audit.jsonl", &audited(&store, audit::AuditArgs::default()).await);
}

#[tokio::test]
async fn audit_filters() {
    let store = filled().await;
    let none = audit::AuditArgs::default;
    let all = positions(&audited(&store, none()).await);
    let first = |n: usize| all[..n].to_vec();
    assert_eq!(positions(&audited(&store, audit::AuditArgs { to_position: Some(3), ..none() }).await), first(3));
    let by_kind =
        audited(&store, audit::AuditArgs { kind: vec!["*_failed".into(), "process.step_stuck".into()], ..none() });
    let kinds: Vec<String> = by_kind
        .await
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["process.step_failed", "process.step_stuck", "instance.build_failed"]);
    let of_db = audited(&store, audit::AuditArgs { server: vec![DB.parse().unwrap()], ..none() }).await;
    assert!(of_db.contains("quota.reserved") && !of_db.contains("\"user\":\"bob\""), "{of_db}");
    let by_user = audited(&store, audit::AuditArgs { user: vec!["bob".into()], ..none() }).await;
    assert!(by_user.lines().all(|line| line.contains("\"user\":\"bob\"")) && !by_user.is_empty());
    let when = Some("58s".parse().unwrap());
    let since = audit::AuditTimeRange { since: when, until: None };
    let late = audited(&store, audit::AuditArgs { times: since, ..none() }).await;
    let until = audit::AuditTimeRange { since: None, until: when };
    let early = audited(&store, audit::AuditArgs { times: until, ..none() }).await;
    assert_eq!(positions(&early).len() + positions(&late).len(), all.len());
    let request = audited(&store, audit::AuditArgs { request_id: vec![WEB_REQUEST.into()], ..none() }).await;
    assert!(positions(&request).len() > 5);
    let host = |host: &str| audited(&store, audit::AuditArgs { host: vec![host.to_owned()], ..none() });
    let (by_name, by_id) = (host("h1").await, host(HOST).await);
    assert!(by_name.contains("host.registered") && by_name == by_id, "{by_name}");
    // With a server and a host, only events that concern both are listed.
    let server = || vec![WEB.parse().unwrap()];
    let of_web = positions(&audited(&store, audit::AuditArgs { server: server(), ..none() }).await);
    let both = audit::AuditArgs { server: server(), host: vec!["h1".to_owned()], ..none() };
    let (both, of_host) = (positions(&audited(&store, both).await), positions(&by_name));
    let expected: Vec<u64> = of_web.iter().copied().filter(|position| of_host.contains(position)).collect();
    assert!(both == expected && !both.is_empty() && both.len() < of_host.len().min(of_web.len()), "{both:?}");
}

#[tokio::test]
async fn audit_finds_a_host_by_each_name_that_it_had() {
    let store = filled().await;
    log::rename_host(&store, "node-1").await;
    let host = |host: &str| audited(&store, audit::AuditArgs { host: vec![host.to_owned()], ..Default::default() });
    let by_id = host(HOST).await;
    assert!(by_id.contains("host.capabilities_changed"), "{by_id}");
    for name in ["h1", "node-1"] {
        assert_eq!(host(name).await, by_id, "{name}");
    }
}

#[tokio::test]
async fn audit_finds_a_server_by_each_name_that_it_had() {
    let store = filled().await;
    log::add_one(&store).await;
    let server = |name: &str| audited(&store, audit::AuditArgs { server: vec![name.to_owned()], ..Default::default() });
    let by_id = server(WEB).await;
    assert!(by_id.contains("instance.renamed"), "{by_id}");
    for name in ["web-1", "later"] {
        assert_eq!(server(name).await, by_id, "{name}");
    }
    assert_ne!(server("db").await, by_id);
}

#[tokio::test]
async fn audit_refuses_ids_that_the_log_does_not_have() {
    let store = filled().await;
    let none = audit::AuditArgs::default;
    let unknown = "99999999-0000-0000-0000-000000000009";
    for (args, words) in [
        (audit::AuditArgs { user: vec!["alcie".into()], ..none() }, "no request of the user alcie"),
        (audit::AuditArgs { project: vec!["acne".into()], ..none() }, "no request in the project acne"),
        (audit::AuditArgs { server: vec![unknown.parse().unwrap()], ..none() }, unknown),
        (audit::AuditArgs { host: vec![unknown.into()], ..none() }, unknown),
        (audit::AuditArgs { host: vec!["h9".into()], ..none() }, "no host h9"),
        (audit::AuditArgs { server: vec!["web-9".into()], ..none() }, "no server web-9"),
    ] {
        let refused = audit::run(&args, &*store, NOW, &mut Vec::new()).await.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    // A user who is known but did nothing of this kind is no mistake.
    let nothing = audit::AuditArgs { user: vec!["alice".into()], kind: vec!["keypair".into()], ..none() };
    assert_eq!(audited(&store, nothing).await, "");
}

const HOST: &str = "33333333-0000-0000-0000-000000000003";

const WEB_REQUEST: &str = "req-00000000-0000-0000-0000-0000000000a1";

#[tokio::test]
async fn audit_makes_an_index_and_prints_the_same_with_it() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let path = folder.path().join("log.db.index");
    let args = |user: &str| audit::AuditArgs { user: vec![user.into()], ..Default::default() };
    let listed = async |args: &audit::AuditArgs| {
        let (log, mut out) = (audit::index::indexed(args, store.clone(), path.clone(), NOW).await, Vec::new());
        audit::run(args, &*log, NOW, &mut out).await.map(|_| String::from_utf8(out).unwrap())
    };
    assert_eq!(listed(&args("bob")).await.unwrap(), audited(&store, args("bob")).await);
    assert!(!path.exists(), "a short log needs no index");
    let name = |n: u32| InstanceEvent::from(instance::Renamed { name: format!("name-{n}") });
    let news = (0..4_200).map(|n| NewEvent::new(name(n), NOW, &Meta::system("test"))).collect();
    store.append(&StreamId::new("instance", DB), Expected::Any, news).await.unwrap();
    listed(&audit::AuditArgs::default()).await.unwrap();
    assert!(!path.exists(), "a listing without filters needs no index");
    for user in ["alice", "bob"] {
        assert_eq!(listed(&args(user)).await.unwrap(), audited(&store, args(user)).await);
        assert!(path.exists());
    }
    let refused = listed(&args("alcie")).await.unwrap_err().to_string();
    assert!(refused.contains("no request of the user alcie"), "{refused}");
    let mut out = Vec::new();
    audit::index::run(store.clone(), &path, &mut out).await.unwrap();
    let (text, all) = (String::from_utf8(out).unwrap(), store.head());
    assert!(
        text.ends_with(&format!("log.db.index: 4096 of {all} events; the rest is searched in the log\n")),
        "{text}"
    );
}

#[tokio::test]
async fn audit_keeps_the_names_of_servers_in_a_sealed_file() {
    let (keys, folder) = (KeyRing::in_memory().unwrap(), tempfile::tempdir().unwrap());
    let (store, path) = (MemoryStore::with_keys(Some(Arc::clone(&keys))), folder.path().join("log.db.names"));
    let add = async |noun: &str, key: &str, events: Vec<Event>| {
        let new = events.into_iter().map(|event| NewEvent::new(event, NOW, &Meta::system("test"))).collect();
        store.append(&StreamId::new(noun, key), Expected::Any, new).await.unwrap();
    };
    let name = |name: &str| Event::from(InstanceEvent::from(instance::Renamed { name: name.to_owned() }));
    add("instance", WEB, vec![name("web-1"), name("both")]).await;
    add("instance", DB, (0..4_200).map(|n| name(&format!("name-{n}"))).collect()).await;
    add("instance", DB, vec![name("both")]).await;
    // Only the first events are listed.
    let asked = |name: &str, names| audit::AuditArgs {
        server: vec![name.to_owned()],
        to_position: Some(3),
        names,
        ..Default::default()
    };
    let same = async |name: &str| {
        let (with, without) = (asked(name, Some(path.clone())), asked(name, None));
        let listed = audited(&store, with).await;
        assert!(!listed.is_empty() && listed == audited(&store, without).await, "{name}: {listed}");
    };
    same("web-1").await;
    assert!(!path.exists(), "the log has no key for the file yet");
    keys.current(&DataSubject::Caches).unwrap();
    for name in ["web-1", "name-7", "both", "name-4199", "web-1"] {
        same(name).await;
        assert!(path.exists());
    }
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 4_200 * 12 && !whole.windows(5).any(|bytes| bytes == b"web-1"), "a name can be read");
    add("instance", WEB, vec![name("newest")]).await;
    same("newest").await;
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    for damaged in [changed, whole[..whole.len() / 2].to_vec(), Vec::new()] {
        std::fs::write(&path, damaged).unwrap();
        same("name-7").await;
        assert!(std::fs::read(&path).unwrap().len() >= whole.len(), "a damaged file was not made again");
    }
    // An erasure destroys the key. While it is under way, the next key seals no names.
    let sealed = std::fs::read(&path).unwrap();
    let (first, last) = (erasure::samples().remove(0), erasure::samples().pop().unwrap());
    add("erasure", "main", vec![first.into()]).await;
    keys.destroy(&DataSubject::Caches, keys.next()).unwrap();
    keys.current(&DataSubject::Caches).unwrap();
    same("name-7").await;
    assert!(std::fs::read(&path).unwrap() == sealed, "names were written during an erasure");
    add("erasure", "main", vec![last.into()]).await;
    same("name-7").await;
    assert!(std::fs::read(&path).unwrap() != sealed, "the file was not made again after an erasure");
    let unknown = audit::run(&asked("web-9", Some(path.clone())), &*store, NOW, &mut Vec::new()).await.unwrap_err();
    assert!(unknown.to_string().contains("no server web-9"), "{unknown}");
    let (sealed, other) = (std::fs::read(&path).unwrap(), MemoryStore::with_keys(Some(Arc::clone(&keys))));
    let names = (0..4_300).map(|n| NewEvent::new(name(&format!("name-{n}")), NOW, &Meta::system("test"))).collect();
    other.append(&StreamId::new("instance", WEB), Expected::Any, names).await.unwrap();
    assert!(!audited(&other, asked("name-1", Some(path.clone()))).await.is_empty());
    assert!(std::fs::read(&path).unwrap() != sealed, "the file of another log was used");
}

#[tokio::test]
async fn audit_follows_until_the_requested_position() {
    let store = filled().await;
    let head = positions(&audited(&store, audit::AuditArgs::default()).await).len() as u64;
    let args =
        audit::AuditArgs { follow: true, from_position: Some(head), to_position: Some(head + 1), ..Default::default() };
    let (lines, ()) = tokio::join!(audited(&store, args), log::add_one(&store));
    assert_eq!(positions(&lines), [head, head + 1]);
}

#[tokio::test]
async fn inspect_shows_the_history_of_a_server() {
    let store = filled().await;
    let (exit, text) = inspected(&store, &["web-1"], false).await;
    assert_eq!(exit, Exit::Yes);
    expectorate::assert_contents("tests/golden/inspect_server.txt", &text);
    let (_, by_prefix) = inspected(&store, &["11111111"], false).await;
    assert_eq!(text, by_prefix);
    let (_, json) = inspected(&store, &["server", WEB], true).await;
    expectorate::assert_contents("tests/golden/inspect_server.json", &json);
}

#[tokio::test]
async fn inspect_shows_the_findings_of_reconcilers() {
    let store = filled().await;
    let (exit, text) = inspected(&store, &["reconcilers"], false).await;
    assert_eq!(exit, Exit::Yes);
    expectorate::assert_contents("tests/golden/inspect_reconcilers.txt", &text);
}

#[tokio::test]
async fn inspect_shows_failures_and_undoing() {
    let store = filled().await;
    expectorate::assert_contents("tests/golden/inspect_failed.txt", &inspected(&store, &["db"], false).await.1);
}

#[tokio::test]
async fn inspect_takes_processes_hosts_and_requests() {
    let store = filled().await;
    let (_, process) = inspected(&store, &["process", "0000a001-"], false).await;
    expectorate::assert_contents("tests/golden/inspect_process.txt", &process);
    let (_, host) = inspected(&store, &["host", "h1"], false).await;
    expectorate::assert_contents("tests/golden/inspect_host.txt", &host);
    let (_, request) = inspected(&store, &["request", WEB_REQUEST], false).await;
    expectorate::assert_contents("tests/golden/inspect_request.txt", &request);
}

/// `chronova inspect` finds events by the index that a running server keeps. The history is the same without it.
#[tokio::test]
async fn inspect_tells_the_same_by_the_index() {
    let store = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let log = Arc::clone(&store) as Arc<dyn EventStore>;
    let indexed = IndexedLog::new(log, folder.path().join("log.db.index"), IndexOptions { part: 8, block: 32 });
    while let IndexProgress::Behind(_) = indexed.extend().await.unwrap() {}
    let subjects: [&[&str]; 6] = [
        &["web-1"],
        &["db"],
        &["process", "0000a001-"],
        &["host", "h1"],
        &["request", WEB_REQUEST],
        &["scheduling", WEB],
    ];
    for words in subjects {
        let subject = words.iter().map(ToString::to_string).collect();
        let args = inspect::InspectArgs { subject, ..inspect::InspectArgs::default() };
        let mut out = Vec::new();
        inspect::run(&args, &*indexed, NOW, &mut out).await.unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), inspected(&store, words, false).await.1, "{words:?}");
    }
}

/// A host reports another name after its machine was renamed.
#[tokio::test]
async fn inspect_finds_a_host_by_its_newest_name() {
    let store = filled().await;
    log::rename_host(&store, "node-1").await;
    let (exit, renamed) = inspected(&store, &["host", "node-1"], false).await;
    assert_eq!(exit, Exit::Yes, "{renamed}");
    assert!(renamed.contains(&format!("host node-1 ({HOST})")), "{renamed}");
    assert_eq!(inspected(&store, &["host", "h1"], false).await.0, Exit::No);
}

#[tokio::test]
async fn inspect_reports_an_unknown_subject() {
    let store = filled().await;
    assert_eq!(inspected(&store, &["nobody"], false).await, (Exit::No, "no server nobody in the log\n".to_owned()));
    let args = inspect::InspectArgs { subject: vec!["table".into(), "x".into()], ..inspect::InspectArgs::default() };
    let refused = inspect::run(&args, &*store, NOW, &mut Vec::new()).await.unwrap_err().to_string();
    assert_eq!(refused, "`table` is none of server, process, host, request and scheduling");
}

#[tokio::test]
async fn inspect_shows_no_scheduling_decision_after_the_position() {
    let store = filled().await;
    let sample = instance::samples().into_iter().find(|event| matches!(event, InstanceEvent::Scheduled(_))).unwrap();
    let head = store.head().0;
    // Both decisions have the same time.
    for _ in 0..2 {
        let event = NewEvent::new(sample.clone(), NOW, &Meta::system("test"));
        store.append(&StreamId::new("instance", WEB), Expected::Any, vec![event]).await.unwrap();
    }
    for (position, decisions) in [(head, 0), (head + 1, 1), (head + 2, 2)] {
        let args = inspect::InspectArgs {
            subject: vec!["scheduling".into(), WEB.into()],
            as_of: Some(position.to_string().parse().unwrap()),
            ..inspect::InspectArgs::default()
        };
        let mut out = Vec::new();
        inspect::run(&args, &*store, NOW, &mut out).await.unwrap();
        let told = String::from_utf8(out).unwrap();
        assert_eq!(told.matches("  attempt ").count(), decisions, "at {position}: {told}");
    }
}

async fn inspected_then(store: &Arc<MemoryStore>, name: &str, as_of: &str) -> Result<(Exit, String), String> {
    let args = inspect::InspectArgs {
        subject: vec![name.into()],
        as_of: Some(as_of.parse().unwrap()),
        ..inspect::InspectArgs::default()
    };
    let mut out = Vec::new();
    let exit = inspect::run(&args, &**store, NOW, &mut out).await.map_err(|failure| failure.to_string())?;
    Ok((exit, String::from_utf8(out).unwrap()))
}

#[tokio::test]
async fn inspect_shows_the_history_as_of_a_moment() {
    let store = filled().await;
    let all = store.read_all(Position::START, 1_000).await.unwrap();
    let built = all.iter().find(|event| &*event.kind == "instance.build_succeeded").unwrap();
    let before = (built.position.0 - 1).to_string();
    let (exit, then) = inspected_then(&store, "web-1", &before).await.unwrap();
    assert_eq!(exit, Exit::Yes);
    expectorate::assert_contents("tests/golden/inspect_as_of.txt", &then);
    assert!(then.contains("BUILD") && !then.contains("build_succeeded"), "{then}");
    // A time gives the same history as a position, except for the first two lines.
    let lines = |text: &str| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    let (_, by_time) = inspected_then(&store, "web-1", &Timestamp(built.recorded_at.0 - 1).to_string()).await.unwrap();
    assert_eq!(lines(&by_time), lines(&then));
    let (exit, nobody) = inspected_then(&store, "web-1", "0").await.unwrap();
    assert!(exit == Exit::No && nobody.contains("as of position 0"), "{nobody}");
    assert!(inspected_then(&store, "web-1", "100000").await.unwrap_err().contains("after the end of the log"));
    assert!(inspected_then(&store, "web-1", "2999-01-01").await.unwrap_err().contains("in the future"));
}

async fn rebuilt(store: &Arc<MemoryStore>, checkpoints: &Checkpoints, replace: bool) -> (Exit, String) {
    let mut out = Vec::new();
    let exit =
        rebuild::run(&rebuild::RebuildArgs { replace, limit: 5 }, &**store, checkpoints, &mut out).await.unwrap();
    (exit, String::from_utf8(out).unwrap().replace(checkpoints.folder().to_str().unwrap(), "FOLDER"))
}

#[tokio::test]
async fn rebuild_compares_with_the_checkpoint() {
    let store = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let kept = &Checkpoints::new(folder.path(), CheckpointOptions::default(), KeyRing::in_memory().unwrap());
    let views = Views::new();
    catch_up(&*store, &views).await.unwrap();
    let (exit, text) = rebuilt(&store, kept, false).await;
    let (count, position) = (chronova_projections::checkpoint::count(), views.position());
    let expected = format!(
        "no checkpoint in FOLDER: nothing to compare\nthe log rebuilds {count} read models at position {position}\n"
    );
    assert_eq!((exit, text), (Exit::Yes, expected));
    kept.save(&views).unwrap();
    log::add_one(&store).await;
    let (exit, text) = rebuilt(&store, kept, false).await;
    assert_eq!(exit, Exit::Yes);
    assert!(text.starts_with("equal: ") && text.contains(&format!("at position {}", views.position())), "{text}");

    // These read models lack one event, as if the server had missed it.
    let (wrong, all) = (Views::new(), store.read_all(Position::START, 1_000).await.unwrap());
    let but_one: Vec<_> = all.into_iter().filter(|event| &*event.kind != "instance.build_succeeded").collect();
    wrong.apply(&but_one).unwrap();
    let file = kept.save(&wrong).unwrap().path;
    let (exit, text) = rebuilt(&store, kept, false).await;
    assert_eq!(exit, Exit::No);
    assert!(text.contains("different at position") && text.contains("  servers/by_id/"), "{text}");

    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let (exit, text) = rebuilt(&store, kept, false).await;
    assert_eq!(exit, Exit::No);
    assert!(text.contains("is not used: it is damaged or truncated"), "{text}");

    assert_eq!(rebuilt(&store, kept, true).await.0, Exit::Yes);
    assert!(rebuilt(&store, kept, false).await.1.starts_with("equal: "));

    // The checkpoint is newer than this log, as after a truncation of the log.
    let (exit, text) = rebuilt(&MemoryStore::new(), kept, false).await;
    assert_eq!(exit, Exit::No);
    assert!(text.contains("the log ends at 0"), "{text}");
}

#[tokio::test]
async fn audit_prints_the_forms_of_other_programs() {
    let store = filled().await;
    let printed = |output: audit::OutputFormat| {
        audited(&store, audit::AuditArgs { output, kind: vec!["instance.build_failed".into()], ..Default::default() })
    };
    let cadf: serde_json::Value = serde_json::from_str(&printed(audit::OutputFormat::Cadf).await).unwrap();
    for (field, value) in [
        ("typeURI", "http://schemas.dmtf.org/cloud/audit/1.0/event"),
        ("eventType", "activity"),
        ("action", "create"),
        ("outcome", "failure"),
    ] {
        assert_eq!(cadf[field], value, "{cadf}");
    }
    assert!(cadf["eventTime"].as_str().unwrap().ends_with("+0000"), "{cadf}");
    for resource in ["initiator", "target", "observer"] {
        assert!(cadf[resource]["id"].is_string() && cadf[resource]["typeURI"].is_string(), "{cadf}");
    }
    assert_eq!(cadf["reason"]["reasonCode"], "500");
    assert_eq!(cadf["attachments"][0]["content"]["kind"], "instance.build_failed");
    let syslog = printed(audit::OutputFormat::Syslog).await;
    assert!(syslog.starts_with("<108>1 2026-01-31T12:") && syslog.ends_with("}\n"), "{syslog}");
}
