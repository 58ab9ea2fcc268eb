//! The command `adopt` writes the whole log or nothing, and can undo an adoption.

use std::path::Path;
use std::sync::Arc;

use chronova::commands::adopt::{self, AdoptArgs, AdoptionSource};
use chronova::commands::{DataDir, Exit, LogPlace};
use chronova_events::envelope::{Cause, Meta, NewEvent, Position, StreamId, Timestamp};
use chronova_events::flavor::{FlavorDescribed, FlavorEvent};
use chronova_events::ids::{FlavorId, UserId};
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use serde_json::Value;

use super::given::{Tables, folder, no_args};

pub(super) fn dump_args() -> AdoptArgs {
    let file = |name: &str| Some(AdoptionSource::Dump(folder().join(name)));
    AdoptArgs {
        api: file("nova_api.sql"),
        cell0: file("nova_cell0.sql"),
        cell: file("nova.sql").into_iter().collect(),
        placement: file("placement.sql"),
        ..no_args()
    }
}

fn place(data: &Path) -> LogPlace {
    LogPlace { data: DataDir(data.to_owned()), ..LogPlace::none() }
}

pub(super) async fn run(args: &AdoptArgs, data: &Path) -> (Result<Exit, String>, String) {
    let mut out = Vec::new();
    let exit = adopt::run(args, &place(data), &mut out).await.map_err(|failure| failure.to_string());
    (exit, String::from_utf8(out).unwrap())
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A dump in which a server has a task, which is an obstacle.
fn busy(parent: &Path) -> AdoptionSource {
    let dump = std::fs::read_to_string(folder().join("nova.sql")).unwrap();
    let settled = "'True',NULL,NULL,NULL,0,0,0,0,1,0,NULL,'h1',0";
    assert!(dump.contains(settled));
    let path = parent.join("busy.sql");
    std::fs::write(&path, dump.replace(settled, "'True','rebooting',NULL,NULL,0,0,0,0,1,0,NULL,'h1',0")).unwrap();
    AdoptionSource::Dump(path)
}

#[actix_rt::test]
async fn a_log_is_written_at_once_and_never_over_another() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let check = AdoptArgs { check: true, ..dump_args() };
    let (exit, text) = run(&check, &data).await;
    assert_eq!(exit, Ok(Exit::Yes));
    assert!(text.contains("server        e7ee3d45-92a9-43a3-9ab0-40bd8d075433 web1"), "{text}");
    assert!(names(parent.path()).is_empty(), "the check wrote something");
    // A leftover of a killed run.
    std::fs::create_dir(parent.path().join("data.adopting")).unwrap();
    std::fs::write(parent.path().join("data.adopting/log.db"), b"half").unwrap();
    let (exit, text) = run(&dump_args(), &data).await;
    assert_eq!(exit, Ok(Exit::Yes), "{text}");
    assert_eq!(names(parent.path()), ["data"]);
    let expected = Tables::recorded().judge().1.len();
    {
        let log = ReadOnlyLog::open(data.join("log.db")).unwrap();
        let all = log.read_all(Position::START, usize::MAX).await.unwrap();
        assert_eq!(all.len(), expected);
        let name = all.iter().find(|event| &*event.kind == "instance.build_requested").unwrap();
        assert!(name.event().is_ok(), "its personal fields cannot be read");
    }
    let (exit, _) = run(&dump_args(), &data).await;
    assert!(exit.unwrap_err().contains("is not empty"));
    let store = SqliteStore::open(data.join("log.db"), &SqliteOptions::default()).unwrap();
    store.verify().await.unwrap();
    store.close().await;
}

#[actix_rt::test]
async fn nothing_is_written_where_something_stands_in_the_way() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let blocked = AdoptArgs { cell: vec![busy(parent.path())], ..dump_args() };
    let (exit, text) = run(&blocked, &data).await;
    assert_eq!(exit, Ok(Exit::No), "{text}");
    assert!(text.contains("task_state is rebooting (cell 1); wait until it is done"), "{text}");
    assert!(text.ends_with("nothing was written\n"), "{text}");
    assert_eq!(names(parent.path()), ["busy.sql"]);
    let json =
        AdoptArgs { output: adopt::ReportForm::Json, check: true, cell: vec![busy(parent.path())], ..dump_args() };
    let (exit, text) = run(&json, &data).await;
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((exit, &report["clear"]), (Ok(Exit::No), &Value::Bool(false)));
    let web = "e7ee3d45-92a9-43a3-9ab0-40bd8d075433";
    let without = AdoptArgs { leave_out: vec![web.to_owned()], cell: vec![busy(parent.path())], ..dump_args() };
    let (exit, text) = run(&without, &data).await;
    assert_eq!(exit, Ok(Exit::Yes), "{text}");
}

#[actix_rt::test]
async fn an_adoption_is_undone_until_the_first_change() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let undo = AdoptArgs { undo: true, ..dump_args() };
    let adopt = async || assert_eq!(run(&dump_args(), &data).await.0, Ok(Exit::Yes));
    adopt().await;
    let (exit, text) = run(&undo, &data).await;
    assert_eq!(exit, Ok(Exit::Yes), "{text}");
    assert_eq!(names(parent.path()), ["data.undone"]);
    adopt().await;
    let store = SqliteStore::open(data.join("log.db"), &SqliteOptions::default()).unwrap();
    let change = async |meta| {
        let described = FlavorDescribed { flavor: FlavorId::new("1"), description: Some("small".to_owned()) };
        let event = NewEvent::new(FlavorEvent::from(described), Timestamp(1), &meta);
        store.append(&StreamId::new("flavor", "catalogue"), Expected::Any, vec![event]).await.unwrap();
    };
    // An event of the host watch does not count as a change. An event of a process does.
    change(Meta::system("host-watch")).await;
    // A user who looks at a console changes nothing.
    let cause = Cause::User { user: UserId::new("u"), project: None, roles: Vec::new(), source: None };
    let meta = Arc::new(Meta { cause, ..(*Meta::system("")).clone() });
    let token = NewEvent::new(chronova_events::console::samples().remove(0), Timestamp(1), &meta);
    store.append(&StreamId::new("console", "1"), Expected::Any, vec![token]).await.unwrap();
    change(Meta::system("host-watch").by_process(chronova_events::ids::ProcessId::random(), None)).await;
    store.close().await;
    drop(store);
    let (exit, text) = run(&undo, &data).await;
    assert_eq!(exit, Ok(Exit::No), "{text}");
    assert!(text.starts_with("it was changed since it was adopted: flavor.described of flavor-catalogue"), "{text}");
    assert_eq!(names(parent.path()), ["data", "data.undone"]);
}
