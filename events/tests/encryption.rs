//! TLS to a real PostgreSQL, with certificates that openssl creates for each test.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use chronova_events::envelope::{Position, StreamId};
use chronova_events::store::conformance::event;
use chronova_events::store::levels::EventLevels;
use chronova_events::store::postgres::{PostgresOptions, PostgresStore, ReadOnlyPostgres};
use chronova_events::store::{EventStore as _, Expected};

use crate::database::Postgres;

/// A database that listens on the loopback address, and the folder of its certificates.
struct SecureDatabase {
    database: Postgres,
    port: u16,
}

impl SecureDatabase {
    /// `served` is the name of the certificate that the database presents. `None`: the database has no TLS.
    fn new(served: Option<&str>) -> Self {
        let database = Postgres::new();
        // The port is free now, and no other test listens on a fixed port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let made = Self { database, port };
        for name in ["db.test", "other.test"] {
            made.certify(name);
        }
        let mut options = format!(" -c listen_addresses=127.0.0.1 -p {port}");
        if let Some(name) = served {
            let (certificate, key) = (made.file(name, "pem"), made.file(name, "key"));
            options.extend([" -c ssl=on -c ssl_cert_file=", &certificate, " -c ssl_key_file=", &key]);
        }
        made.database.stop();
        made.database.start_with(&options);
        made
    }

    fn file(&self, name: &str, kind: &str) -> String {
        self.database.folder.path().join(format!("{name}.{kind}")).display().to_string()
    }

    /// Creates a self-signed certificate, which is its own authority.
    fn certify(&self, name: &str) {
        let (key, certificate) = (self.file(name, "key"), self.file(name, "pem"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        openssl.args(["-days", "2", "-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &certificate]);
        assert!(openssl.stderr(Stdio::null()).status().unwrap().success());
        // The database refuses a key that another user owns.
        assert!(Command::new("chown").args(["postgres", &key, &certificate]).status().unwrap().success());
    }

    fn url(&self, more: &str) -> String {
        format!("host=db.test hostaddr=127.0.0.1 port={} user=postgres dbname=postgres {more}", self.port)
    }

    fn options(&self, more: &str) -> PostgresOptions {
        PostgresOptions {
            url: self.url(more),
            cell: "cell1".to_owned(),
            keys: None,
            allow_asynchronous: true,
            patience: Duration::from_mins(1),
            lease: Duration::from_secs(10),
            end_process: false,
            levels: EventLevels::default(),
        }
    }

    async fn refusal(&self, more: &str) -> String {
        PostgresStore::open(&self.options(more)).await.unwrap_err().to_string()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_written_and_read_over_tls() {
    let secure = SecureDatabase::new(Some("db.test"));
    let trusted = format!("sslmode=verify-full sslrootcert={}", secure.file("db.test", "pem"));
    for mode in ["sslmode=require", &trusted] {
        let store = PostgresStore::open(&secure.options(mode)).await.unwrap();
        store.append(&StreamId::new("process", "a"), Expected::Any, vec![event("1")]).await.unwrap();
        // The appender, the reader and the lease keeper have connections of their own.
        store.read_all(Position::START, 10).await.unwrap();
        let open = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl \
                    JOIN pg_stat_activity USING (pid) WHERE client_addr IS NOT NULL";
        let connections = secure.database.sql_at(secure.port, open);
        assert!(connections.ends_with("|0") && !connections.starts_with("0|"), "{mode}: {connections}");
        store.close().await;
    }
    let reader = ReadOnlyPostgres::open(&secure.url(&trusted), "cell1", &PathBuf::from("/nowhere")).await.unwrap();
    assert_eq!(reader.read_all(Position::START, 10).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_trusted_is_refused() {
    let secure = SecureDatabase::new(Some("db.test"));
    let other = secure.file("other.test", "pem");
    for mode in ["verify-full", "verify-ca", "require"] {
        let error = secure.refusal(&format!("sslmode={mode} sslrootcert={other}")).await;
        assert!(error.contains("UnknownIssuer"), "{mode}: {error}");
    }
    let error = secure.refusal("sslmode=verify-full sslrootcert=/nowhere.pem").await;
    assert!(error.contains("/nowhere.pem cannot be used"), "{error}");
    let key = secure.file("other.test", "key");
    let error = secure.refusal(&format!("sslmode=verify-full sslrootcert={key}")).await;
    assert!(error.contains("no certificate"), "{error}");
}

/// The certificate is trusted, but it belongs to another host.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_host_is_refused() {
    let secure = SecureDatabase::new(Some("other.test"));
    let error = secure.refusal(&format!("sslmode=verify-full sslrootcert={}", secure.file("other.test", "pem"))).await;
    assert!(error.contains("not valid for name \"db.test\""), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_tls_is_refused_where_tls_is_required() {
    let plain = SecureDatabase::new(None);
    for mode in
        ["sslmode=require".to_owned(), format!("sslmode=verify-full sslrootcert={}", plain.file("db.test", "pem"))]
    {
        let error = plain.refusal(&mode).await;
        assert!(error.contains("does not support TLS"), "{mode}: {error}");
    }
    PostgresStore::open(&plain.options("sslmode=prefer")).await.unwrap();
}

/// The first host refuses connections, so the next one is used.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_host_that_answers_is_used() {
    let secure = SecureDatabase::new(Some("db.test"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut options = secure.options("");
    options.url = format!(
        "postgresql://postgres@db.test:{closed},db.test:{}/postgres?hostaddr=127.0.0.1,127.0.0.1\
         &target_session_attrs=read-write&sslmode=verify-full&sslrootcert={}",
        secure.port,
        secure.file("db.test", "pem")
    );
    let store = PostgresStore::open(&options).await.unwrap();
    store.append(&StreamId::new("process", "a"), Expected::Any, vec![event("1")]).await.unwrap();
}
