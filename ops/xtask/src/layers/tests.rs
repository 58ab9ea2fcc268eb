//! Tests each rule with a snippet that breaks it, and with a similar snippet that does not.

use super::judge;
use super::rules::RULES;
use super::tree::Text;

/// (rule, path, snippet that breaks the rule in this file)
const BREAKS: &[(&str, &str, &str)] = &[
    ("imports", "events/src/log.rs", "use chronova_hypervisor::driver::Driver;"),
    ("imports", "hypervisor/src/sim.rs", "fn f() { chronova_projections::Instances::new(); }"),
    ("imports", "projections/src/lib.rs", "use {chronova_events::ids, chronova_actors::gateway};"),
    ("imports", "actors/src/instance/decide.rs", "use chronova_projections::placement;"),
    ("imports", "actors/src/lib.rs", "use chronova_web::app::App;"),
    ("imports", "web/src/app.rs", "use chronova_tests::World;"),
    ("imports", "ops/xtask/src/main.rs", "use chronova_events::ids;"),
    ("actix", "actors/src/instance/mod.rs", "use actix::Addr;"),
    ("actix", "web/src/app.rs", "#[actix_rt::main] async fn main() {}"),
    ("actix", "events/src/store/memory.rs", "use actix;"),
    ("rusqlite", "events/src/store/memory.rs", "use rusqlite::Connection;"),
    ("rusqlite", "projections/src/checkpoint.rs", "fn f(c: &rusqlite::Connection) {}"),
    ("tokio-postgres", "events/src/store/sqlite/mod.rs", "use tokio_postgres::Client;"),
    ("virt", "hypervisor/src/sim/mod.rs", "use virt::connect::Connect;"),
    ("virt", "ops/src/main.rs", "fn f() { virt_sys::virInitialize(); }"),
    ("amqp", "actors/src/notifications/publisher.rs", "use lapin::Channel;"),
    ("eventstoredb", "web/src/app.rs", "use tonic::Status;"),
    ("eventstoredb", "events/src/store/sqlite/mod.rs", "fn f(client: &eventstore::Client) {}"),
    ("eventstoredb", "events/src/store/mod.rs", "use eventstore::Client;"),
    ("http", "web/src/app.rs", "use hyper::Request;"),
    ("http", "actors/src/process/guest.rs", "fn f(client: &hyper_util::client::legacy::Client) {}"),
    ("bincode", "events/src/registry.rs", "fn f() { bincode::serde::encode_to_vec(); }"),
    ("bincode", "projections/src/checkpoint.rs", "use bincode;"),
    ("pure", "actors/src/instance/decide.rs", "use std::time::{Duration, Instant};"),
    ("pure", "actors/src/instance/decide.rs", "fn f() { let id = InstanceId::random(); }"),
    ("pure", "actors/src/instance/decide.rs", "fn f(clock: &dyn T) { clock.now(); }"),
    ("pure", "actors/src/process/plan.rs", "async fn f() {}"),
    ("pure", "actors/src/process/plan.rs", "fn f() { x.await; }"),
    ("pure", "actors/src/process/plan.rs", "use std::fs;"),
    ("pure", "actors/src/process/plan.rs", "use std::net::TcpStream;"),
    ("pure", "events/src/instance/state.rs", "fn f() { chrono::Utc::now(); }"),
    ("pure", "events/src/instance/state.rs", "use tokio::sync::mpsc;"),
    ("pure", "events/src/instance/state.rs", "fn f() { std::env::var(\"X\"); }"),
    ("microversions", "web/src/compute/servers/handlers.rs", "fn f() { ctx.version.at_least(v(2, 53)); }"),
    ("microversions", "web/src/compute/servers.rs", "const A: M = Microversion::new(2, 9);"),
    ("unsafe", "events/src/store/memory.rs", "fn f() { unsafe { g() } }"),
    ("unsafe", "web/src/lib.rs", "#![allow(unsafe_code)]"),
    ("coordination", "actors/src/services/embedded/image/embedded.rs", "use std::sync::{Arc, Mutex};"),
    ("coordination", "actors/src/process/supervisor.rs", "use tokio::sync::Semaphore;"),
    ("coordination", "actors/src/host/mod.rs", "use std::sync::atomic::{AtomicU64, Ordering};"),
    ("coordination", "actors/src/services/embedded/network/floating_ips.rs", "use std::sync::LazyLock;"),
    ("wall-clock", "tests/tests/boot.rs", "fn f() { assert!(start.elapsed() < LIMIT); }"),
    (
        "wall-clock",
        "web/src/app.rs",
        "#[cfg(test)] mod tests { fn f() { assert_eq!(a, b.duration_since(c).as_secs(), \"x\"); } }",
    ),
];

/// (path, snippet that is allowed in this file)
const KEEPS: &[(&str, &str)] = &[
    ("actors/src/scheduler/proposal.rs", "use chronova_projections::placement;"),
    ("actors/src/instance/decide.rs", "use chronova_events::ids; #[cfg(test)] mod t { use chronova_projections::x; }"),
    ("tests/tests/boot.rs", "use chronova::config; use chronova_web::app::App;"),
    ("actors/src/shell/entity.rs", "use actix::prelude::*;"),
    ("web/src/app.rs", "use actix_web::App; // not actix::Addr\nconst S: &str = \"actix::Addr\";"),
    ("events/src/store/sqlite/writer.rs", "use rusqlite::Connection;"),
    ("events/src/store/postgres/link.rs", "use tokio_postgres::Client;"),
    ("events/src/store/sqlite.rs", "use rusqlite::Connection;"),
    ("events/tests/damage.rs", "use rusqlite::Connection;"),
    ("hypervisor/src/libvirt/connection.rs", "use virt::connect::Connect; fn f() { unsafe { g() } }"),
    ("hypervisor/src/sim/mod.rs", "fn f(virt: u8) { virt + self.virt.x() }"),
    ("actors/src/services/external/amqp/mod.rs", "use lapin::Connection;"),
    ("web/src/eventstoredb/service.rs", "use tonic::Status;"),
    ("web/src/eventstoredb/listener.rs", "use hyper::Request;"),
    ("actors/src/services/external/http/client.rs", "use hyper::Request;"),
    ("events/src/store/eventstoredb/remote.rs", "use eventstore::Client;"),
    ("events/src/codec.rs", "use bincode::config;"),
    ("actors/src/instance/decide.rs", "use std::collections::BTreeMap; fn f(now: Timestamp) { command.now; }"),
    ("actors/src/instance/decide.rs", "#[cfg(test)] mod tests { fn f() { InstanceId::random(); } }"),
    ("actors/src/instance/mod.rs", "use tokio::sync::mpsc; async fn f() { x.await; }"),
    ("actors/src/coordination/host_turns.rs", "use tokio::sync::Semaphore;"),
    ("actors/src/process/supervisor.rs", "#[cfg(test)] mod tests { use std::sync::Mutex; }"),
    ("web/src/rate.rs", "use std::sync::Mutex;"),
    ("web/src/compute/servers/views.rs", "field(\"a\").since(2, 53)"),
    ("web/src/compute/bodies/server.rs", "since(2, 53)"),
    ("web/src/compute/versions.rs", "pub fn embeds_flavor(v: Microversion) -> bool { v.at_least(v(2, 47)) }"),
    ("web/src/compute/servers.rs", "const ROUTES: &[Route] = &[get(\"a\", \"/b\").since(2, 53)]; fn f() { g(2, 3); }"),
    ("web/src/compute/filters.rs", "static FILTERS: [Filter; 1] = [Filter { name: \"a\", since: v(2, 5) }];"),
    ("events/src/network/state.rs", "use std::net::{IpAddr, Ipv4Addr};"),
    ("web/src/compute/servers.rs", "#[cfg(test)] mod tests { fn f() { v(2, 53); } }"),
    ("web/src/compute/servers.rs", "async fn show(ctx: Ctx) -> R {\n a;\n b;\n}"),
    ("tests/tests/boot.rs", "fn f() { let t = start.elapsed(); assert!(order); }"),
];

fn broken(path: &str, text: &str) -> Vec<&'static str> {
    judge(&[Text { path: path.to_owned(), text: text.to_owned() }]).iter().map(|finding| finding.rule).collect()
}

#[test]
fn every_rule_can_fail() {
    for (rule, path, text) in BREAKS {
        assert!(broken(path, text).contains(rule), "{rule} does not see `{text}` in {path}");
    }
    for rule in RULES {
        assert!(BREAKS.iter().any(|(name, _, _)| *name == rule.name), "no snippet breaks {}", rule.name);
    }
}

#[test]
fn allowed_snippets_cause_no_finding() {
    for (path, text) in KEEPS {
        assert_eq!(broken(path, text), Vec::<&str>::new(), "`{text}` is allowed in {path}");
    }
}

#[test]
fn manifests_keep_to_the_table() {
    assert_eq!(broken("events/Cargo.toml", "[dependencies]\nchronova-actors.workspace = true\n"), ["manifests"]);
    assert_eq!(broken("hypervisor/Cargo.toml", "chronova-web = { path = \"../web\" }\n"), ["manifests"]);
    for other in [
        "[dependencies.chronova-actors]\nworkspace = true\n",
        "[dev-dependencies.\"chronova-actors\"]\npath = \"../actors\"\n",
        "[target.'cfg(unix)'.dependencies.chronova-actors]\nworkspace = true\n",
        "[dependencies]\n  \"chronova-actors\" = { workspace = true }\n",
        "[dependencies]\nshell = { path = \"../actors\", package = \"chronova-actors\" }\n",
        "[dependencies.shell]\npackage=\"chronova-actors\"\n",
        "dependencies.chronova-actors.workspace = true\n",
    ] {
        assert_eq!(broken("events/Cargo.toml", other), ["manifests"], "{other}");
    }
    assert_eq!(
        broken("hypervisor/Cargo.toml", "name = \"chronova-hypervisor\"\nchronova-events.workspace = true\n"),
        [""; 0]
    );
}

#[test]
fn findings_name_file_and_line() {
    let found = judge(&[Text { path: "events/src/a.rs".to_owned(), text: "\n\nuse bincode;\n".to_owned() }]);
    assert_eq!(found[0].to_string(), "events/src/a.rs:3: `bincode`: bincode may be named only in the codec [bincode]");
}
