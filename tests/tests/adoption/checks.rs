//! Obstacles stop an adoption before anything is written. The operator can leave out what has an obstacle.

use std::path::Path;

use chronova::commands::Exit;
use chronova::commands::adopt::{AdoptArgs, AdoptedThing, AdoptionSource, AdoptionVerdict};
use chronova::nova::database::TablesInMemory;
use chronova_events::envelope::Position;
use chronova_events::store::EventStore;
use chronova_events::store::memory::MemoryStore;
use serde_json::json;

use super::dumps::mysql;
use super::given::{Tables, add, no_args, set};
use super::written::{names, run};

const WEB: &str = "e7ee3d45-92a9-43a3-9ab0-40bd8d075433";
const DB: &str = "44b43f74-d5b3-4298-9c19-639f27993b59";
const OLD: &str = "555e52b6-108a-4e4d-801e-af68c8d5923c";
const BAD: &str = "faef78ab-964d-4c1f-bc28-13a9d62751f4";

/// The value of a column of a row.
type Column<'a> = &'a dyn Fn(&str) -> Option<String>;

fn is(id: &'static str) -> impl Fn(Column<'_>) -> bool {
    move |row| row("uuid").as_deref() == Some(id)
}

#[test]
fn everything_of_the_recorded_cloud_is_adopted() {
    let (report, history) = Tables::recorded().judge();
    assert!(report.is_clear(), "{}", report.json());
    let of = |thing| report.verdicts().filter(|(found, ..)| *found == thing).count();
    assert_eq!((of(AdoptedThing::Server), of(AdoptedThing::Host), of(AdoptedThing::Consumer)), (4, 2, 3));
    assert_eq!((of(AdoptedThing::Flavor), of(AdoptedThing::Group), of(AdoptedThing::Keypair)), (3, 1, 1));
    assert!(history.len() > 30);
}

/// Writes the tables as dumps. Returns the arguments of an adoption from them.
fn dumped(tables: &Tables, folder: &Path) -> AdoptArgs {
    let write = |name: &str, tables: &TablesInMemory| {
        let path = folder.join(name);
        let text: String = tables.0.iter().map(|(name, table)| mysql(name, table)).collect();
        std::fs::write(&path, text).unwrap();
        AdoptionSource::Dump(path)
    };
    AdoptArgs {
        api: Some(write("api.sql", &tables.api)),
        cell0: Some(write("cell0.sql", &tables.cell0)),
        cell: vec![write("cell.sql", &tables.cell)],
        placement: Some(write("placement.sql", &tables.placement)),
        ..no_args()
    }
}

/// Each case is the server or host with the obstacle, the expected message, and the change of the rows.
#[actix_rt::test]
async fn obstacles_are_named_and_nothing_is_written() {
    type Change = fn(&mut Tables);
    let cases: &[(&str, &str, Change)] = &[
        (WEB, "task_state is rebooting", |tables| {
            set(&mut tables.cell, "instances", "task_state", Some("rebooting"), is(WEB));
        }),
        (WEB, "its host h1 (node h9) is not adopted", |tables| {
            set(&mut tables.cell, "instances", "node", Some("h9"), is(WEB));
        }),
        (WEB, "it has no host (instances.host is NULL)", |tables| {
            set(&mut tables.cell, "instances", "host", None, is(WEB));
        }),
        (OLD, "its request spec is missing", |tables| {
            let specs = tables.api.0.get_mut("request_specs").unwrap();
            specs.rows.retain(|row| !row.contains(&Some(OLD.to_owned())));
        }),
        (OLD, "it is on a host, but has no allocation", |tables| {
            let held = tables.placement.0.get_mut("allocations").unwrap();
            held.rows.retain(|row| !row.contains(&Some(OLD.to_owned())));
        }),
        (BAD, "two cells have it", |tables| {
            set(&mut tables.cell0, "instances", "uuid", Some(WEB), is(BAD));
            set(&mut tables.cell0, "instance_extra", "instance_uuid", Some(WEB), |_| true);
        }),
        (DB, "by iscsi: only rbd can be taken over", |tables| {
            let at = |row: &dyn Fn(&str) -> Option<String>| row("instance_uuid").as_deref() == Some(DB);
            let info = r#"{"driver_volume_type": "iscsi", "data": {}}"#;
            set(&mut tables.cell, "block_device_mapping", "connection_info", Some(info), at);
        }),
        (DB, "is being attached (block_device_mapping has no connection_info)", |tables| {
            let at = |row: &dyn Fn(&str) -> Option<String>| row("instance_uuid").as_deref() == Some(DB);
            set(&mut tables.cell, "block_device_mapping", "connection_info", None, at);
        }),
        (WEB, "is of the kind hw_veb (direct)", |tables| {
            let cache = tables.cell.0.get_mut("instance_info_caches").unwrap();
            for value in cache.rows.iter_mut().flatten().flatten() {
                *value = value.replace(r#""type": "ovs""#, r#""type": "hw_veb""#);
                *value = value.replace(r#""vnic_type": "normal""#, r#""vnic_type": "direct""#);
            }
        }),
        ("h1", "there is no service nova-compute of this host", |tables| {
            set(&mut tables.cell, "services", "host", Some("h7"), |row| row("host").as_deref() == Some("h1"));
        }),
        ("h1", "Placement has no provider with its UUID", |tables| {
            let other = "00000000-0000-4000-8000-000000000009";
            set(&mut tables.cell, "compute_nodes", "uuid", Some(other), |row| row("host").as_deref() == Some("h1"));
        }),
        (OLD, "vm_state is `limbo`", |tables| {
            set(&mut tables.cell, "instances", "vm_state", Some("limbo"), is(OLD));
        }),
    ];
    // Without an obstacle, the dumps are adopted.
    let parent = tempfile::tempdir().unwrap();
    let (exit, text) = run(&dumped(&Tables::recorded(), parent.path()), &parent.path().join("data")).await;
    assert_eq!(exit, Ok(Exit::Yes), "{text}");
    for (id, words, change) in cases {
        let mut tables = Tables::recorded();
        change(&mut tables);
        let parent = tempfile::tempdir().unwrap();
        let (exit, text) = run(&dumped(&tables, parent.path()), &parent.path().join("data")).await;
        assert_eq!(exit, Ok(Exit::No), "{words}: {text}");
        assert!(text.ends_with("nothing was written\n"), "{words}: {text}");
        assert_eq!(names(parent.path()), ["api.sql", "cell.sql", "cell0.sql", "placement.sql"], "{words}");
        let (report, _) = tables.judge();
        assert!(!report.is_clear(), "{words}");
        // This change gives the server BAD the id of WEB, so the report has the obstacle under WEB.
        let id = if *words == "two cells have it" { WEB } else { id };
        let reasons = report.reasons(id);
        assert!(reasons.iter().any(|reason| reason.contains(words)), "{words}: {reasons:?}");
    }
}

#[test]
fn an_allocation_without_a_server_is_an_obstacle_and_can_be_left_out() {
    let orphan = "00000000-0000-4000-8000-000000000007";
    let with_orphan = || {
        let mut tables = Tables::recorded();
        for (table, column) in [("consumers", "uuid"), ("allocations", "consumer_id")] {
            let table = tables.placement.0.get_mut(table).unwrap();
            let at = table.columns.iter().position(|name| name == column).unwrap();
            let mut row = table.rows.iter().find(|row| row[at].as_deref() == Some(OLD)).unwrap().clone();
            row[at] = Some(orphan.to_owned());
            table.rows.push(row);
        }
        tables
    };
    let (report, _) = with_orphan().judge();
    assert!(!report.is_clear());
    assert!(report.reasons(orphan)[0].starts_with("orphan allocation"), "{:?}", report.reasons(orphan));
    let (report, _) = with_orphan().judge_without(&[orphan]);
    assert!(report.is_clear(), "{}", report.json());
}

#[test]
fn a_server_that_is_left_out_takes_its_allocation_and_its_membership_along() {
    let (report, _) = Tables::recorded().judge_without(&[WEB]);
    assert!(report.is_clear(), "{}", report.json());
    let left: Vec<_> = report
        .verdicts()
        .filter(|(_, _, verdict)| *verdict == AdoptionVerdict::LeftOut)
        .map(|(thing, ..)| thing)
        .collect();
    assert_eq!(left, [AdoptedThing::Consumer, AdoptedThing::Server]);
}

#[test]
fn leaving_out_an_unknown_id_is_refused() {
    let (report, _) = Tables::recorded().judge_without(&["web1"]);
    assert!(!report.is_clear());
    assert_eq!(report.json()["unknown"], json!(["web1"]));
}

#[actix_rt::test]
async fn the_same_databases_make_the_same_history() {
    let mut kinds: Vec<Vec<String>> = Vec::new();
    for _ in 0..2 {
        let (_, history) = Tables::recorded().judge();
        let log = MemoryStore::new();
        history.write(&*log).await.unwrap();
        let all = log.read_all(Position::START, usize::MAX).await.unwrap();
        let told = |event: &chronova_events::envelope::Recorded| {
            format!("{} {} {} {:?}", event.stream, event.kind, event.recorded_at, event.event().unwrap())
        };
        let mut told: Vec<String> = all.iter().map(|event| told(event)).collect();
        // The adoption writes streams in parallel, so the order of the events varies.
        told.sort();
        kinds.push(told);
    }
    assert_eq!(kinds[0], kinds[1]);
}

/// Without this check, an adoption could lose the hosts of a forgotten cell without servers.
#[test]
fn every_cell_is_given_with_all_tables() {
    let mut tables = Tables::recorded();
    add(&mut tables.api, "cell_mappings", &[("uuid", "00000000-0000-4000-8000-000000000009"), ("name", "cell2")]);
    let (report, _) = tables.clone().judge();
    assert!(!report.is_clear());
    assert_eq!(report.reasons("cell_mappings"), ["it names 2 cells besides cell 0, and 1 are given"]);
    let (report, _) = tables.judge_without(&["cell_mappings"]);
    assert!(report.is_clear(), "{}", report.json());
    let mut tables = Tables::recorded();
    tables.cell.0.remove("tags");
    tables.placement.0.remove("traits");
    let (report, _) = tables.judge();
    assert_eq!(report.reasons("cell 1"), ["the database has no table tags"]);
    assert_eq!(report.reasons("placement"), ["the database has no table traits"]);
}

/// While a server moves, its migration has the allocation of the host that it leaves.
#[test]
fn a_server_that_is_left_out_takes_the_allocations_of_its_migration_along() {
    let migration = "00000000-0000-4000-8000-000000000008";
    let mut tables = Tables::recorded();
    let is_held = |row: Column<'_>| row("consumer_id").as_deref() == Some(WEB);
    assert!(set(&mut tables.placement, "allocations", "consumer_id", Some(migration), is_held) > 0);
    set(&mut tables.placement, "consumers", "uuid", Some(migration), is(WEB));
    let moving = [
        ("id", "1"),
        ("uuid", migration),
        ("instance_uuid", WEB),
        ("status", "migrating"),
        ("source_compute", "h1"),
        ("migration_type", "live-migration"),
        ("created_at", "2026-11-26 10:00:00"),
        ("deleted", "0"),
    ];
    add(&mut tables.cell, "migrations", &moving);
    let (report, _) = tables.clone().judge();
    assert_eq!(report.reasons(migration), Vec::<&str>::new(), "the server is the obstacle, not its migration");
    assert!(!report.is_clear());
    let (report, _) = tables.judge_without(&[WEB]);
    assert!(report.is_clear(), "{}", report.json());
    assert_eq!(report.reasons(migration), ["its server is left out"]);
}
