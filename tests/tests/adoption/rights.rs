//! The account that reads running databases. It needs the right to read all tables, and no other right.

use std::path::Path;

use chronova::commands::adopt::{AdoptArgs, AdoptionReading, AdoptionSource};
use chronova::nova::schema::API_TABLES;

use super::given::no_args;
use super::live::{args_of, configured, read};
use super::mariadb::Mariadb;
use super::postgres::Postgres;

/// The columns that Nova's services write all the time.
const HEARTBEATS: &str = "UPDATE services SET report_count = '77', updated_at = '2026-11-26 10:00:00'";

/// The arguments with another account than that of Nova's own configuration.
fn args_as(account: &str, mariadb: &Mariadb, parent: &Path) -> AdoptArgs {
    let folder = parent.join(account);
    std::fs::create_dir(&folder).unwrap();
    args_of(&configured(&folder, |database| mariadb.url_of(account, database)))
}

async fn refusal(args: &AdoptArgs) -> String {
    let mut reading = AdoptionReading::open(args).await.unwrap();
    reading.begin().await.unwrap();
    let refused = reading.read().await.map(|_| ()).unwrap_err().to_string();
    reading.close().await;
    refused
}

/// Such an account sees the primary keys in few places. Without the keys, a heartbeat would count as the removal of one
/// row and the addition of another.
pub(super) async fn an_account_that_may_only_read_is_enough(mariadb: &Mariadb, parent: &Path) {
    mariadb.sql("CREATE USER reader@'%' IDENTIFIED BY 'r'; GRANT SELECT ON *.* TO reader@'%'");
    let args = args_as("reader:r", mariadb, parent);
    let (report, _) = read(&args, || mariadb.sql(&format!("USE nova; {HEARTBEATS}"))).await;
    assert!(report.is_clear(), "{}", report.json());
    mariadb.sql("UPDATE nova.services SET report_count = 1");
}

/// An account does not see the tables and columns that it may not read, so they would count as empty.
pub(super) async fn a_hidden_table_or_column_is_refused(mariadb: &Mariadb, parent: &Path) {
    mariadb.sql("CREATE USER half@'%' IDENTIFIED BY 'h'; GRANT SELECT ON nova_cell0.* TO half@'%'; GRANT SELECT ON nova.* TO half@'%'");
    mariadb.sql("GRANT SELECT ON placement.* TO half@'%'");
    for table in API_TABLES.iter().filter(|table| !matches!(table.name, "key_pairs" | "quotas")) {
        mariadb.sql(&format!("GRANT SELECT ON nova_api.{} TO half@'%'", table.name));
    }
    let args = args_as("half:h", mariadb, parent);
    let refused = refusal(&args).await;
    assert!(refused.contains("it has no table key_pairs, quotas, or the account may not read it"), "{refused}");
    assert!(refused.contains("Give an account with the right to SELECT in all tables"), "{refused}");
    mariadb
        .sql("GRANT SELECT ON nova_api.quotas TO half@'%'; GRANT SELECT (id, name) ON nova_api.key_pairs TO half@'%'");
    let refused = refusal(&args).await;
    assert!(refused.contains("the user has no right to read it") && refused.contains("key_pairs"), "{refused}");
}

/// In a Galera cluster, a member may be behind the member to which Nova writes.
pub(super) async fn each_connection_waits_for_the_cluster(mariadb: &Mariadb, args: &AdoptArgs) {
    mariadb.sql("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1");
    AdoptionReading::open(args).await.unwrap().close().await;
    mariadb.sql("SET GLOBAL general_log = 0");
    let waits = "SELECT COUNT(DISTINCT thread_id) FROM mysql.general_log WHERE argument LIKE '%wsrep_sync_wait = 1'";
    assert_eq!(mariadb.ask(waits), "4", "one for each database");
}

pub(super) async fn a_reader_of_postgresql_needs_all_tables(
    postgres: &Postgres,
    args: &AdoptArgs,
    url: impl Fn(&str) -> AdoptionSource,
) {
    let as_reader = |source: AdoptionSource| match source {
        AdoptionSource::Live(url) => AdoptionSource::Live(url.replace("//postgres@", "//reader@")),
        dump @ AdoptionSource::Dump(_) => dump,
    };
    postgres.sql("CREATE ROLE reader LOGIN");
    for database in ["nova_api", "nova_cell0", "nova", "placement"] {
        postgres.load(database, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
    }
    let args = AdoptArgs {
        api: args.api.clone().map(as_reader),
        cell0: args.cell0.clone().map(as_reader),
        cell: vec![as_reader(url("nova"))],
        placement: args.placement.clone().map(as_reader),
        ..no_args()
    };
    let (report, _) = read(&args, || postgres.load("nova", HEARTBEATS)).await;
    assert!(report.is_clear(), "{}", report.json());
    postgres.load("nova_api", "REVOKE SELECT ON key_pairs FROM reader");
    let refused = refusal(&args).await;
    assert!(refused.contains("it has no table key_pairs, or the account may not read it"), "{refused}");
}
