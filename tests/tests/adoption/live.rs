//! `adopt` reads running databases: a MariaDB or PostgreSQL with the recorded cloud gives the log that the dumps give.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use chronova::commands::Exit;
use chronova::commands::adopt::{
    self, AdoptArgs, AdoptionChoices, AdoptionHistory, AdoptionReading, AdoptionReport, AdoptionSource, unrest,
};
use chronova::nova::database::TablesInMemory;
use chronova::nova::schema::{API_TABLES, CELL_TABLES, NovaTableUse, PLACEMENT_TABLES};
use chronova_events::envelope::{Position, Recorded};
use chronova_events::store::EventStore;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::sqlite::ReadOnlyLog;

use super::given::{Tables, folder, no_args};
use super::mariadb::{ACCOUNT, Mariadb};
use super::postgres::Postgres;
use super::written::{names, run};

const WEB: &str = "e7ee3d45-92a9-43a3-9ab0-40bd8d075433";

fn told(event: &Recorded) -> String {
    let Recorded { stream, revision, kind, recorded_at, meta, .. } = event;
    // Every adoption has its own correlation.
    let caused = (&meta.cause, &meta.request_id);
    format!("{stream} {revision:?} {kind} {recorded_at} {caused:?} {:?}", event.event().unwrap())
}

/// All events of a log, in the order of their streams. Streams are written in parallel, so positions vary.
async fn events(log: &dyn EventStore) -> Vec<String> {
    let all = log.read_all(Position::START, usize::MAX).await.unwrap();
    let mut told: Vec<String> = all.iter().map(|event| told(event)).collect();
    told.sort();
    told
}

async fn written(history: AdoptionHistory) -> Vec<String> {
    let log = MemoryStore::new();
    history.write(&*log).await.unwrap();
    events(&*log).await
}

/// Fails with the first event that differs.
fn assert_same(read: &[String], expected: &[String]) {
    let differs = read.iter().zip(expected).find(|(read, expected)| read != expected);
    assert!(differs.is_none(), "{differs:#?}");
    assert_eq!(read.len(), expected.len());
    assert!(read.len() > 30);
}

/// Only the tables of the list. The adoption reads no other table of a live database.
pub(super) fn only(tables: TablesInMemory, wanted: &[NovaTableUse]) -> TablesInMemory {
    TablesInMemory(tables.0.into_iter().filter(|(name, _)| wanted.iter().any(|table| table.name == name)).collect())
}

/// If the list lacked a table that the adoption reads, that table would be empty with a live database.
#[actix_rt::test]
async fn the_list_of_tables_has_each_table_that_is_adopted() {
    let Tables { api, cell0, cell, placement } = Tables::recorded();
    let listed = Tables {
        api: only(api, API_TABLES),
        cell0: only(cell0, CELL_TABLES),
        cell: only(cell, CELL_TABLES),
        placement: only(placement, PLACEMENT_TABLES),
    };
    let (report, history) = listed.judge();
    assert!(report.is_clear(), "{}", report.json());
    assert_same(&written(history).await, &written(Tables::recorded().judge().1).await);
}

/// Nova's configuration and Placement's, in a folder.
pub(super) fn configured(folder: &Path, url: impl Fn(&str) -> String) -> Vec<PathBuf> {
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let sections =
        format!("[api_database]\nconnection = {}\n[database]\nconnection = {}\n", url("nova_api"), url("nova"));
    let placement = format!("[placement_database]\nconnection = {}\n", url("placement"));
    vec![file("nova.conf", sections), file("placement.conf", placement)]
}

pub(super) async fn read(args: &AdoptArgs, between: impl FnOnce()) -> (AdoptionReport, AdoptionHistory) {
    let mut reading = AdoptionReading::open(args).await.unwrap();
    reading.begin().await.unwrap();
    let databases = reading.read().await.unwrap();
    between();
    reading.begin().await.unwrap();
    let changes = reading.changes(&databases).await.unwrap();
    reading.close().await;
    let (mut report, history) = adopt::judge(&databases, &AdoptionChoices::default());
    unrest(&mut report, &changes);
    (report, history)
}

/// Heartbeats and statistics of hosts do not count as changes. A change of a server in any of the databases does.
async fn changes_of_servers_are_seen(mariadb: &Mariadb, args: &AdoptArgs) {
    let (report, history) = read(args, || {
        mariadb.sql(
            "UPDATE nova.services SET report_count = report_count + 1, last_seen_up = NOW(), updated_at = NOW(); \
             UPDATE nova.compute_nodes SET updated_at = NOW(), free_ram_mb = 1, stats = '{}', running_vms = 7; \
             UPDATE nova.instance_info_caches SET updated_at = NOW()",
        );
    })
    .await;
    assert!(report.is_clear(), "{}", report.json());
    assert_same(&written(history).await, &written(Tables::recorded().judge().1).await);
    let (report, _) = read(args, || {
        mariadb.sql(&format!(
            "UPDATE nova.instances SET task_state = 'rebooting' WHERE uuid = '{WEB}'; \
             DELETE FROM placement.allocations WHERE consumer_id = '{WEB}'; \
             INSERT INTO nova_api.build_requests (project_id, instance_uuid, instance) VALUES ('p', '{WEB}', '{{}}')"
        ));
    })
    .await;
    assert!(!report.is_clear());
    let expected = format!("instances 1 ({WEB}) changed: task_state");
    assert!(report.reasons("cell 1")[0].contains(&expected), "{:?}", report.reasons("cell 1"));
    assert!(report.reasons("placement").iter().all(|reason| reason.ends_with(&format!("({WEB}) was removed"))));
    assert!(report.reasons("nova_api")[0].ends_with(&format!("({WEB}) was added")), "{:?}", report.reasons("nova_api"));
    mariadb.sql("DELETE FROM nova_api.build_requests");
    for (name, dump) in [("nova", "nova.sql"), ("placement", "placement.sql")] {
        mariadb.sql(&format!("DROP DATABASE {name}"));
        mariadb.load(&folder().join(dump));
    }
}

/// While Nova runs, a check is allowed, but an adoption that writes the log is refused.
async fn a_running_service_is_in_the_way(mariadb: &Mariadb, args: &AdoptArgs, parent: &Path) {
    mariadb.sql("UPDATE nova.services SET last_seen_up = UTC_TIMESTAMP() WHERE host = 'h1'");
    let data = parent.join("busy");
    let (exit, text) = run(args, &data).await;
    assert_eq!((exit, data.exists()), (Ok(Exit::No), false), "{text}");
    assert!(text.contains("nova-compute on h1 reported") && !text.contains("on h2 reported"), "{text}");
    let check = AdoptArgs { check: true, ..args_of(&args.nova_conf) };
    assert_eq!(run(&check, &data).await.0, Ok(Exit::Yes));
}

/// Each bad source is refused with its reason, and nothing is written. No message has the password.
async fn bad_sources_are_refused(mariadb: &Mariadb, args: &AdoptArgs, parent: &Path) {
    let data = parent.join("refused");
    let good = mariadb.url("placement");
    let wrong = |url: String| AdoptArgs { placement: Some(AdoptionSource::Live(url)), ..args_of(&args.nova_conf) };
    let cases = [
        (
            wrong(good.replace(ACCOUNT, "nova:guess")),
            "the user or the password is wrong: Access denied for user 'nova'",
        ),
        (wrong(good.replace("/placement", "/nothing")), "there is no such database: Unknown database 'nothing'"),
        (
            wrong(good.replace("/placement", "/nova")),
            "consumers, consumer_types, placement_aggregates, projects, resource_classes, \
             resource_provider_traits, traits, users, or the account may not read it: is it the database of placement?",
        ),
        (wrong(good.replace(&mariadb.port.to_string(), "1")), "the connection failed or was lost"),
        (wrong(format!("{good}&ssl_key=k")), "the address of placement: it has an option that is not supported"),
        (wrong("sqlite:///placement.db".to_owned()), "only mysql:// and postgresql:// can be read"),
        (
            AdoptArgs { nova_conf: args.nova_conf[..1].to_vec(), ..no_args() },
            "--nova-conf with a file that has [placement_database]",
        ),
        (AdoptArgs { max_memory: 0, ..args_of(&args.nova_conf) }, "its rows take more than 0 MiB of memory"),
    ];
    for (args, words) in cases {
        let (exit, _) = run(&args, &data).await;
        let reason = exit.unwrap_err();
        assert!(reason.contains(words), "{words}: {reason}");
        assert!(!reason.contains("s:c@r") && !reason.contains("s%3A") && !reason.contains("guess"), "{reason}");
    }
    mariadb.sql("ALTER TABLE placement.consumers RENAME COLUMN user_id TO owner_id");
    let (exit, _) = run(args, &data).await;
    let reason = exit.unwrap_err();
    assert!(
        reason.contains("consumers has no column user_id: its schema is not that of Zed or a later release"),
        "{reason}"
    );
    mariadb.sql("ALTER TABLE placement.consumers RENAME COLUMN owner_id TO user_id");
    // MariaDB ends every connection of the account `nova` between the two steps.
    let mut reading = AdoptionReading::open(args).await.unwrap();
    reading.begin().await.unwrap();
    mariadb.sql("KILL USER nova");
    let lost = reading.read().await.unwrap_err().to_string();
    assert!(lost.starts_with("nova_api (mysql://nova@127.0.0.1:") && lost.contains("connection"), "{lost}");
    assert!(!data.exists() && !parent.join("refused.adopting").exists());
}

pub(super) fn args_of(nova_conf: &[PathBuf]) -> AdoptArgs {
    AdoptArgs { nova_conf: nova_conf.to_vec(), ..no_args() }
}

#[actix_rt::test]
async fn a_running_nova_is_adopted_as_from_its_dumps() {
    let parent = tempfile::tempdir().unwrap();
    let mariadb = Mariadb::recorded(&folder());
    let args = args_of(&configured(parent.path(), |database| mariadb.url(database)));
    let (exit, text) = run(&args, &parent.path().join("data")).await;
    assert_eq!(exit, Ok(Exit::Yes), "{text}");
    assert!(names(parent.path()).contains(&"data".to_owned()));
    let log = ReadOnlyLog::open(parent.path().join("data/log.db")).unwrap();
    let from_dumps = written(Tables::recorded().judge().1).await;
    assert_same(&events(&*log).await, &from_dumps);
    drop(log);
    // One database is read through its socket, and the others from dumps.
    let by_socket = format!("mysql://root@/nova?unix_socket={}", mariadb.socket().display());
    let dump = |name: &str| Some(AdoptionSource::Dump(folder().join(name)));
    let mixed = AdoptArgs {
        api: dump("nova_api.sql"),
        cell0: dump("nova_cell0.sql"),
        cell: vec![AdoptionSource::Live(by_socket)],
        placement: dump("placement.sql"),
        ..no_args()
    };
    let (report, history) = read(&mixed, || ()).await;
    assert!(report.is_clear(), "{}", report.json());
    assert_same(&written(history).await, &from_dumps);
    super::rights::an_account_that_may_only_read_is_enough(&mariadb, parent.path()).await;
    super::rights::a_hidden_table_or_column_is_refused(&mariadb, parent.path()).await;
    super::rights::each_connection_waits_for_the_cluster(&mariadb, &args).await;
    a_running_service_is_in_the_way(&mariadb, &args, parent.path()).await;
    changes_of_servers_are_seen(&mariadb, &args).await;
    bad_sources_are_refused(&mariadb, &args, parent.path()).await;
}

/// The statements that create the recorded tables in PostgreSQL. Columns `id` have whole numbers, all others have text.
pub(super) fn as_postgres(tables: &TablesInMemory) -> String {
    let mut sql = String::new();
    for (name, table) in &tables.0 {
        let kind = |column: &String| if column == "id" { "bigint PRIMARY KEY" } else { "text" };
        let columns: Vec<String> =
            table.columns.iter().map(|column| format!("\"{column}\" {}", kind(column))).collect();
        let _ = writeln!(sql, "CREATE TABLE \"{name}\" ({});", columns.join(", "));
        for row in &table.rows {
            let value = |value: &Option<String>| match value {
                None => "NULL".to_owned(),
                Some(text) => format!("'{}'", text.replace('\'', "''")),
            };
            let _ = writeln!(
                sql,
                "INSERT INTO \"{name}\" VALUES ({});",
                row.iter().map(value).collect::<Vec<_>>().join(",")
            );
        }
    }
    sql
}

#[actix_rt::test]
async fn nova_on_postgresql_is_adopted_as_from_its_dumps() {
    let postgres = Postgres::new();
    let tables = Tables::recorded();
    let listed = [
        ("nova_api", only(tables.api, API_TABLES)),
        ("nova_cell0", only(tables.cell0, CELL_TABLES)),
        ("nova", only(tables.cell, CELL_TABLES)),
        ("placement", only(tables.placement, PLACEMENT_TABLES)),
    ];
    for (name, tables) in &listed {
        postgres.sql(&format!("CREATE DATABASE {name}"));
        postgres.load(name, &as_postgres(tables));
    }
    let folder = postgres.folder.path().display().to_string();
    let url = |name: &str| AdoptionSource::Live(format!("postgresql+psycopg2://postgres@/{name}?host={folder}"));
    let args = AdoptArgs {
        api: Some(url("nova_api")),
        cell0: Some(url("nova_cell0")),
        cell: vec![url("nova")],
        placement: Some(url("placement")),
        ..no_args()
    };
    let (report, history) = read(&args, || ()).await;
    assert!(report.is_clear(), "{}", report.json());
    assert_same(&written(history).await, &written(Tables::recorded().judge().1).await);
    let change = format!("UPDATE instances SET vm_state = 'stopped' WHERE uuid = '{WEB}'");
    let (report, _) = read(&args, || postgres.load("nova", &change)).await;
    assert_eq!(report.reasons("cell 1"), [format!("while it was read, instances 1 ({WEB}) changed: vm_state")]);
    super::rights::a_reader_of_postgresql_needs_all_tables(&postgres, &args, url).await;
    let args = AdoptArgs { placement: Some(url("nothing")), ..args };
    let refused = AdoptionReading::open(&args).await.unwrap_err().to_string();
    assert!(refused.contains("database \"nothing\" does not exist"), "{refused}");
}
