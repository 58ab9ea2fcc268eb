//! The round trip: adopt, change, export, load into the databases of Nova, adopt again. The servers are the same.

use std::path::Path;

use chronova::commands::Exit;
use chronova::commands::adopt::compare::{AnswerDifferences, compare_answers};
use chronova::commands::export_nova::{self, NovaExportArgs};
use chronova_events::store::EventStore;
use serde_json::{Value, json};

use super::given::{AdoptedCloud, AdoptedHostDriver, folder};
use super::hosts::{act, cloud, settled};
use super::live::{args_of, configured, read};
use super::mariadb::Mariadb;

const WEB: &str = "e7ee3d45-92a9-43a3-9ab0-40bd8d075433";
const DB: &str = "44b43f74-d5b3-4298-9c19-639f27993b59";
const OLD: &str = "555e52b6-108a-4e4d-801e-af68c8d5923c";

pub(super) async fn export(log: &dyn EventStore, out: &Path, partial: bool) -> (Exit, String) {
    let (args, mut told) = (NovaExportArgs { out: out.to_owned(), partial }, Vec::new());
    let exit = export_nova::run(&args, log, &mut told).await.unwrap();
    (exit, String::from_utf8(told).unwrap())
}

async fn put(cloud: &AdoptedCloud, path: &str, body: Value) {
    let (status, answer) = cloud.ask("PUT", &format!("/compute/v2.1{path}"), "2.93", Some(body)).await;
    assert_eq!(status, 200, "{path}: {answer}");
}

/// The answers about all servers, including deleted ones, and about their allocations.
async fn seen(cloud: &AdoptedCloud) -> Value {
    let mut seen = json!({
        "live": cloud.compute("/servers/detail?all_tenants=1", "2.93").await["servers"],
        "deleted": cloud.compute("/servers/detail?all_tenants=1&deleted=true", "2.93").await["servers"],
    });
    // Nova's times have whole seconds.
    for server in seen["deleted"].as_array_mut().unwrap() {
        let at = server["OS-SRV-USG:terminated_at"].as_str().unwrap_or_default();
        server["OS-SRV-USG:terminated_at"] = json!(at.split('.').next());
    }
    for id in [WEB, DB, OLD] {
        seen[id] = cloud.get(&format!("/placement/allocations/{id}"), "1.28").await;
    }
    seen
}

/// The cloud that the databases of Nova have now.
async fn adopted_again(mariadb: &Mariadb, folder: &Path) -> Value {
    let args = args_of(&configured(folder, |database| mariadb.url(database)));
    let (report, history) = read(&args, || ()).await;
    assert!(report.is_clear(), "{}", report.json());
    let cloud = AdoptedCloud::on(history, vec![AdoptedHostDriver::silent("h1"), AdoptedHostDriver::silent("h2")]).await;
    let seen = seen(&cloud).await;
    cloud.stop().await;
    seen
}

fn differences(theirs: &Value, ours: &Value) -> AnswerDifferences {
    let mut found = AnswerDifferences::new();
    compare_answers("seen", theirs, ours, &mut found);
    // The generation of a provider counts changes, and Chronova counts other changes than Nova.
    found.retain(|(_, path), _| !path.ends_with(".{id}.generation"));
    found
}

#[actix_rt::test]
async fn what_changed_since_the_adoption_goes_back_into_novas_databases() {
    let parent = tempfile::tempdir().unwrap();
    let (cloud, _) = cloud().await;
    let (exit, told) = export(&*cloud.log, &parent.path().join("nothing"), false).await;
    // Nova had not recorded the machine type of one server.
    assert_eq!((exit, told.starts_with("1 changes of servers and consumers")), (Exit::Yes, true), "{told}");
    let name = r#"it's \ "new" ✓"#;
    put(&cloud, &format!("/servers/{WEB}"), json!({"server": {"name": name, "description": "a \\ b"}})).await;
    put(&cloud, &format!("/servers/{WEB}/metadata"), json!({"metadata": {"k 1": "v' \\"}})).await;
    put(&cloud, &format!("/servers/{WEB}/tags"), json!({"tags": ["blue", "red"]})).await;
    assert_eq!(act(&cloud, WEB, json!({"os-stop": null})).await, 202);
    assert_eq!(act(&cloud, DB, json!({"lock": {"locked_reason": "kept"}})).await, 202);
    let (deleted, _) = cloud.ask("DELETE", &format!("/compute/v2.1/servers/{OLD}"), "2.93", None).await;
    assert_eq!(deleted, 204);
    settled(&cloud).await;
    let changed = seen(&cloud).await;
    let out = parent.path().join("sql");
    let (exit, told) = export(&*cloud.log, &out, false).await;
    assert_eq!(exit, Exit::Yes, "{told}");
    let mariadb = Mariadb::recorded(&folder());
    // Without the statements, the databases have the cloud before the changes.
    let before = differences(&changed, &adopted_again(&mariadb, parent.path()).await);
    assert!(before.keys().any(|(_, path)| path.ends_with("[].name")), "{before:#?}");
    for (database, file) in
        [("nova_cell0", "cells"), ("nova", "cells"), ("nova_api", "nova_api"), ("placement", "placement")]
    {
        mariadb.load_into(database, &out.join(format!("{file}.sql")));
    }
    let left = differences(&changed, &adopted_again(&mariadb, parent.path()).await);
    assert!(left.is_empty(), "{left:#?}");
    // No statement can express the next change. The export lists it, and writes nothing unless `partial` is set.
    let flavor = json!({"flavor": {"name": "new", "ram": 64, "vcpus": 1, "disk": 1}});
    let (status, _) = cloud.ask("POST", "/compute/v2.1/flavors", "2.93", Some(flavor)).await;
    assert_eq!(status, 200);
    settled(&cloud).await;
    let out = parent.path().join("more");
    let (exit, told) = export(&*cloud.log, &out, false).await;
    assert_eq!((exit, out.exists()), (Exit::No, false));
    assert!(told.starts_with("not written: 1 events flavor."), "{told}");
    assert_eq!((export(&*cloud.log, &out, true).await.0, out.exists()), (Exit::Yes, true));
    cloud.stop().await;
}
