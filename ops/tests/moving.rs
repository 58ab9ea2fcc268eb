//! Moves a control plane from SQLite to a real PostgreSQL with `chronova log copy`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

use serde_json::json;

use crate::cloud::{Cloud, Furniture};
use crate::database::Postgres;

const FLEET: &str = "sim://2?latency_ms=1&vcpus=512&memory_mib=1048576&disk_gib=100000";
const HEAD: &str = "SELECT position || ':' || encode(hash, 'hex') FROM chronova_head";

/// A stopped control plane on SQLite that has one server.
fn on_sqlite() -> (Cloud, Furniture) {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let furniture = cloud.furnish();
    create(&cloud, &furniture, "one");
    cloud.wait("the server is active", |cloud| active(cloud) == 1);
    cloud.stop();
    (cloud, furniture)
}

fn create(cloud: &Cloud, furniture: &Furniture, name: &str) {
    let server = json!({"server": {
        "name": name,
        "imageRef": furniture.image,
        "flavorRef": furniture.flavor,
        "networks": [{"uuid": furniture.network}],
    }});
    cloud.client().post("/compute/v2.1/servers", &server).unwrap().expect(202);
}

fn active(cloud: &Cloud) -> usize {
    let list = cloud.client().get("/compute/v2.1/servers/detail?status=ACTIVE").unwrap().expect(200).body;
    list["servers"].as_array().unwrap().len()
}

/// Makes the configuration name the database from the next start on.
fn use_database(cloud: &Cloud, database: &Postgres) {
    let url = database.url();
    cloud.configure(&format!("[chronova]\nevent_store = {url}\nevent_store_asynchronous = true\n"));
}

fn command(cloud: &Cloud, words: &[&str]) -> (i32, String) {
    let config = cloud.folder.path().join("chronova.conf").display().to_string();
    cloud.command(&[words, &["--config-file", &config]].concat())
}

#[test]
fn a_control_plane_moves_from_sqlite_to_a_database() {
    let database = Postgres::new();
    let (mut cloud, furniture) = on_sqlite();
    let log = cloud.data().join("log.db");
    let source = log.display().to_string();
    let (code, output) = command(&cloud, &["log", "copy", &source]);
    assert!(code == 2 && output.contains("set [chronova] event_store"), "{code} {output}");
    let (code, head) = command(&cloud, &["audit", "head"]);
    assert_eq!(code, 0, "{head}");

    use_database(&cloud, &database);
    let (code, output) = command(&cloud, &["log", "copy", "/nowhere"]);
    assert!(code == 2 && output.contains("/nowhere"), "{code} {output}");
    // A log in PostgreSQL has no legal holds, so a copy would lose them.
    let (code, hold) = cloud.command(&["log", "hold", "add", "--project", "admin", "--reason", "case 12"]);
    assert_eq!(code, 0, "{hold}");
    let (code, output) = command(&cloud, &["log", "copy", &source]);
    assert!(code == 2 && output.contains("a legal hold keeps project admin (case 12)"), "{code} {output}");
    assert_eq!(cloud.command(&["log", "hold", "remove", hold.trim()]).0, 0);
    let (code, output) = command(&cloud, &["log", "copy", &source]);
    assert!(code == 0 && output.contains("(100 %)"), "{code} {output}");
    assert_eq!(database.sql(HEAD), head.trim());
    // A second copy finds that the database has all events.
    let (code, output) = command(&cloud, &["log", "copy", &source]);
    assert!(code == 0 && output.contains("already there") && !output.contains("\ncopied"), "{code} {output}");

    // The old log is still in the folder, so `serve` refuses to start.
    cloud.launch();
    cloud.wait("it refuses to start", |cloud| cloud.ended().is_some());
    std::fs::rename(&log, cloud.folder.path().join("old.db")).unwrap();
    let (code, output) = command(&cloud, &["audit", "verify", "--against", head.trim()]);
    assert!(code == 0 && output.contains("holds"), "{code} {output}");
    cloud.start();
    assert_eq!(active(&cloud), 1);
    create(&cloud, &furniture, "two");
    cloud.wait("the second server is active", |cloud| active(cloud) == 2);

    // The log in the database can be backed up while a member leads.
    let backups = cloud.folder.path().join("backups").display().to_string();
    let (code, output) = command(&cloud, &["backup", "create", &backups]);
    assert_eq!(code, 0, "{output}");
    let mut restored = Cloud::new(FLEET);
    let (code, output) = restored.command(&["backup", "restore", &backups]);
    assert_eq!(code, 0, "{output}");
    let (code, output) = restored.command(&["audit", "verify", "--against", head.trim()]);
    assert!(code == 0 && output.contains("holds"), "{code} {output}");
    restored.start();
    assert_eq!(active(&restored), 2);
    restored.stop();

    // A copy is refused while a member leads, and when the database has more events than the old log.
    let old = cloud.folder.path().join("old.db").display().to_string();
    let copy_old = |cloud: &Cloud| {
        std::fs::copy(cloud.data().join("log.db.keys"), format!("{old}.keys")).unwrap();
        command(cloud, &["log", "copy", &old])
    };
    let (code, output) = copy_old(&cloud);
    assert!(code == 2 && output.contains("a member leads"), "{code} {output}");
    cloud.stop();
    let before = database.sql(HEAD);
    let (code, output) = copy_old(&cloud);
    assert!(code == 2 && output.contains("another log"), "{code} {output}");
    assert_eq!(database.sql(HEAD), before);
}

#[test]
fn a_copy_never_writes_to_a_database_with_another_log() {
    let database = Postgres::new();
    let (first, _) = on_sqlite();
    use_database(&first, &database);
    let (code, output) = command(&first, &["log", "copy", &first.data().display().to_string()]);
    assert_eq!(code, 0, "{output}");
    let head = database.sql(HEAD);

    let (second, _) = on_sqlite();
    use_database(&second, &database);
    let (code, output) = command(&second, &["log", "copy", &second.data().display().to_string()]);
    assert!(code == 2 && output.contains("another log"), "{code} {output}");
    assert_eq!(database.sql(HEAD), head);

    // The copy does not replace other keys in the new data folder.
    let source = first.folder.path().join("old");
    std::fs::create_dir(&source).unwrap();
    for name in ["log.db", "log.db.keys"] {
        std::fs::rename(first.data().join(name), source.join(name)).unwrap();
    }
    let keys = first.data().join("log.db.keys");
    std::fs::copy(second.data().join("log.db.keys"), &keys).unwrap();
    let kept = std::fs::read(&keys).unwrap();
    let (code, output) = command(&first, &["log", "copy", &source.display().to_string()]);
    assert!(code == 2 && output.contains("holds other keys"), "{code} {output}");
    assert_eq!(std::fs::read(&keys).unwrap(), kept);
}
