//! The SQL of `export nova` on a real MariaDB. A file of SQL changes everything or nothing. The export lists the
//! changes that SQL cannot express.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use chronova::commands::Exit;
use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::instance::InstanceRoot;
use chronova_events::envelope::{Cause, Meta, NewEvent, Position, StreamId, Timestamp};
use chronova_events::ids::{ConsumerId, FlavorId, HostId, InstanceId, ProcessId, ProjectId, ProviderId, UserId};
use chronova_events::instance::{
    FlavorSnapshot, GuestPasswordPosted, InstanceEvent, MoveKind, MoveRequested, Placed, Renamed, ResizeConfirmed,
    Resized,
};
use chronova_events::ledger::{Allocation, Claimed, LedgerEvent, TraitCreated};
use chronova_events::registry::Event;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};

use super::exported::export;
use super::given::{Tables, folder};
use super::mariadb::Mariadb;

const WEB: &str = "e7ee3d45-92a9-43a3-9ab0-40bd8d075433";
const H1: &str = "a261fc0e-0f9f-4de8-bba7-d4bf39a559a3";
const H2: &str = "f5c502ad-8e91-4963-bdd0-d3ff5a0b3afc";
/// A time after the adoption.
const LATE: Timestamp = Timestamp(1_795_700_000_000_000);

fn id(text: &str) -> uuid::Uuid {
    text.parse().unwrap()
}

/// The adopted log.
async fn adopted() -> Arc<MemoryStore> {
    let log = MemoryStore::new();
    Tables::recorded().judge().1.write(&*log).await.unwrap();
    log
}

async fn append(log: &MemoryStore, stream: &StreamId, event: impl Into<Event>, meta: &Arc<Meta>) {
    log.append(stream, Expected::Any, vec![NewEvent::new(event, LATE, meta)]).await.unwrap();
}

async fn change(log: &MemoryStore, event: impl Into<InstanceEvent>) {
    let stream = InstanceRoot::stream(&InstanceId(id(WEB)));
    append(log, &stream, event.into(), &Meta::system("test")).await;
}

fn placed(host: &str, hostname: &str) -> Placed {
    let process = ProcessId(id(WEB));
    Placed {
        process,
        host: HostId(id(host)),
        hostname: hostname.to_owned(),
        attempt: 1,
        availability_zone: "nova".to_owned(),
    }
}

fn flavor(memory_mib: u64) -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("2"),
        name: "m1.micro".to_owned(),
        vcpus: 1,
        memory_mib,
        root_gib: 4,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: vec![("hw:cpu_sockets".to_owned(), "1".to_owned())],
    }
}

/// Adds a resize to this host, and its confirmation, to the log.
async fn resized(log: &MemoryStore, host: &str, hostname: &str) {
    let process = ProcessId(id(H2));
    let requested = MoveRequested {
        process,
        kind: MoveKind::Resize,
        source: placed(H1, "h1"),
        old_flavor: flavor(128),
        new_flavor: flavor(192),
        host: None,
        disk_config: None,
    };
    change(log, requested).await;
    change(log, Resized { process, placed: placed(host, hostname) }).await;
    change(log, ResizeConfirmed { process, migration: process }).await;
}

fn text(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

const NAME: &str = "SELECT CONCAT(display_name, ' ', IFNULL(host, 'NULL')) FROM nova.instances WHERE uuid = ";

#[actix_rt::test]
async fn a_file_changes_everything_or_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let mariadb = Mariadb::recorded(&folder());
    let name = || mariadb.ask(&format!("{NAME}'{WEB}'"));
    assert_eq!(name(), "web1 h1");
    // A letter of four bytes, which Nova's usual tables cannot keep.
    let log = adopted().await;
    change(&log, Renamed { name: "rocket \u{1f680} one".to_owned() }).await;
    let out = parent.path().join("letters");
    assert_eq!(export(&*log, &out, false).await.0, Exit::Yes);
    let refused = mariadb.try_load("nova", &out.join("cells.sql")).unwrap_err();
    assert!(refused.contains("Incorrect string value") && refused.contains("display_name"), "{refused}");
    assert_eq!(name(), "web1 h1", "the text was cut");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&out), mode(&out.join("cells.sql"))), (0o700, 0o600));
    // The host is of another cell, so its name would be NULL in this cell.
    let log = adopted().await;
    resized(&log, H2, "h2").await;
    let out = parent.path().join("moved");
    assert_eq!(
        export(&*log, &out, false).await,
        (Exit::Yes, format!("1 changes of servers and consumers are in {}\n", out.display()))
    );
    mariadb.sql(&format!("UPDATE nova.compute_nodes SET deleted = id WHERE uuid = '{H2}'"));
    let refused = mariadb.try_load("nova", &out.join("cells.sql")).unwrap_err();
    assert!(refused.contains(&format!("server {WEB} is on h2, a host of another cell")), "{refused}");
    assert_eq!(name(), "web1 h1");
    mariadb.load_into("nova_cell0", &out.join("cells.sql"));
    mariadb.sql(&format!("UPDATE nova.compute_nodes SET deleted = 0 WHERE uuid = '{H2}'"));
    mariadb.load_into("nova", &out.join("cells.sql"));
    assert_eq!(name(), "web1 h2");
    // The scheduler of Nova reads the flavor in the request spec.
    mariadb.load_into("nova_api", &out.join("nova_api.sql"));
    let value = |path: &str| {
        let of = format!("$.\"nova_object.data\".flavor.\"nova_object.data\".{path}");
        mariadb
            .ask(&format!("SELECT JSON_VALUE(spec, '{of}') FROM nova_api.request_specs WHERE instance_uuid = '{WEB}'"))
    };
    let number = mariadb.ask("SELECT id FROM nova_api.flavors WHERE flavorid = '2'");
    assert_eq!((value("memory_mb"), value("flavorid"), value("id")), ("192".to_owned(), "2".to_owned(), number));
    let kept = format!(
        "SELECT JSON_VALUE(spec, '$.\"nova_object.data\".instance_uuid') FROM nova_api.request_specs WHERE instance_uuid = '{WEB}'"
    );
    assert_eq!(mariadb.ask(&kept), WEB);
}

/// The export names a change that the SQL cannot express. A partial export then writes nothing about that server or its
/// allocations.
#[actix_rt::test]
async fn what_is_not_written_is_listed_and_left_whole() {
    let parent = tempfile::tempdir().unwrap();
    let log = adopted().await;
    change(&log, GuestPasswordPosted { password: "x".to_owned() }).await;
    let ledger = StreamId::from_stored("ledger-cell");
    let all = log.read_all(Position::START, usize::MAX).await.unwrap();
    let ledger =
        all.iter().find(|event| event.stream.category() == "ledger").map_or(ledger, |event| event.stream.clone());
    let claimed = Claimed {
        consumer: ConsumerId::new(WEB),
        project: ProjectId::new("p"),
        user: UserId::new("u"),
        consumer_type: Some("INSTANCE".to_owned()),
        allocations: vec![Allocation { provider: ProviderId(id(H1)), resources: vec![("VCPU".to_owned(), 7)] }],
    };
    append(&log, &ledger, LedgerEvent::from(claimed), &Meta::system("test")).await;
    // A user's change in Placement.
    let user = all.iter().find(|event| matches!(event.meta.cause, Cause::User { .. })).unwrap().meta.clone();
    append(&log, &ledger, LedgerEvent::from(TraitCreated { name: "CUSTOM_GOLD".to_owned() }), &user).await;
    let out = parent.path().join("partial");
    let (exit, told) = export(&*log, &out, false).await;
    assert_eq!((exit, out.exists()), (Exit::No, false));
    assert!(
        told.contains(&format!("server {WEB} (web1): the SQL cannot express a change of the password of its guest")),
        "{told}"
    );
    assert!(told.contains("1 events ledger.trait_created: repeat the change in Nova"), "{told}");
    assert_eq!(export(&*log, &out, true).await.0, Exit::Yes);
    for file in ["cells.sql", "nova_api.sql", "placement.sql"] {
        assert!(!text(&out, file).contains(WEB), "{file} changes a part of the server");
    }
    // Nova does not have a host that was added here.
    let log = adopted().await;
    resized(&log, "00000000-0000-4000-8000-000000000003", "h3").await;
    let (exit, told) = export(&*log, &parent.path().join("added"), false).await;
    assert_eq!(exit, Exit::No);
    assert!(told.contains("it is on h3, a host that was added here"), "{told}");
}
