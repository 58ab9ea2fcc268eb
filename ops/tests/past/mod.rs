//! The commands that show states of the past: `audit diff` and `audit roles`.

use std::sync::Arc;

use chronova::commands::audit::diff::{self, StateDiffArgs};
use chronova::commands::audit::past::PastReader;
use chronova::commands::audit::roles::{self, ProjectRolesArgs};
use chronova::commands::audit::servers::{self, PastServersArgs};
use chronova::commands::{CommandFailure, Exit};
use chronova_events::envelope::{Meta, NewEvent, Position, StreamId, Timestamp};
use chronova_events::identity::{
    DomainCreated, Grant, IdentityEvent, IdentityScope, ProjectAttributes, ProjectCreated, RoleCreated, RoleGranted,
    RoleImplied, RoleRevoked, UserAttributes, UserCreated,
};
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints};
use chronova_projections::runner::catch_up;
use chronova_projections::views::Views;
use serde_json::Value;

use super::NOW;
use crate::log::{DB, WEB, filled};

/// Runs the commands on a log with checkpoints.
struct PastAsker<'a> {
    store: &'a MemoryStore,
    checkpoints: Arc<Checkpoints>,
}

impl<'a> PastAsker<'a> {
    fn new(store: &'a MemoryStore, folder: &tempfile::TempDir) -> Self {
        let keys = KeyRing::in_memory().unwrap();
        Self { store, checkpoints: Checkpoints::new(folder.path(), CheckpointOptions::default(), keys) }
    }

    fn reader(&self) -> PastReader<'_> {
        PastReader { store: self.store, checkpoints: &self.checkpoints, now: NOW }
    }

    async fn diff(&self, args: StateDiffArgs) -> Result<(Exit, String), CommandFailure> {
        let mut out = Vec::new();
        let exit = diff::run(&args, self.reader(), &mut out).await?;
        Ok((exit, String::from_utf8(out).unwrap()))
    }

    async fn roles(&self, project: &str, at: Option<&str>, json: bool) -> Result<String, CommandFailure> {
        let at = at.map(|at| at.parse().unwrap());
        let args = ProjectRolesArgs { project: project.into(), at, since: None, until: None, json };
        let mut out = Vec::new();
        assert_eq!(roles::run(&args, self.reader(), &mut out).await?, Exit::Yes);
        Ok(String::from_utf8(out).unwrap())
    }
}

impl PastAsker<'_> {
    async fn servers(&self, args: PastServersArgs) -> Result<String, CommandFailure> {
        let mut out = Vec::new();
        assert_eq!(servers::run(&args, self.reader(), &mut out).await?, Exit::Yes);
        Ok(String::from_utf8(out).unwrap())
    }
}

#[tokio::test]
async fn audit_servers_shows_what_ran_on_a_host() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let asker = PastAsker::new(&store, &folder);
    let at = |position: u64| Some(position.to_string().parse().unwrap());
    let on = |host: &str, at| PastServersArgs { at, host: Some(host.into()), project: None, json: false };
    let placed = position_of(&store, "instance.placed").await;
    let before = asker.servers(on("h1", at(placed - 1))).await.unwrap();
    assert!(before.starts_with("0 servers at position "), "{before}");
    let then = asker.servers(on("h1", at(placed))).await.unwrap();
    assert!(then.starts_with("1 servers at ") && then.contains(&format!("web-1 ({WEB})  BUILD  on h1")), "{then}");
    let host = "33333333-0000-0000-0000-000000000003";
    assert_eq!(asker.servers(on(host, at(placed))).await.unwrap(), then);
    let unknown = asker.servers(on("h9", at(placed))).await.unwrap_err().to_string();
    assert!(unknown.contains("no host h9 at position"), "{unknown}");
    let of = |project: &str| PastServersArgs { at: None, host: None, project: Some(project.into()), json: true };
    let all: Value = serde_json::from_str(&asker.servers(of("acme")).await.unwrap()).unwrap();
    assert_eq!(all["servers"].as_array().unwrap().len(), 2);
    let none: Value = serde_json::from_str(&asker.servers(of("other")).await.unwrap()).unwrap();
    assert_eq!(none["servers"], serde_json::json!([]));
}

fn between(from: u64, to: Option<u64>) -> StateDiffArgs {
    let moment = |position: u64| position.to_string().parse().unwrap();
    StateDiffArgs { from: moment(from), to: to.map(moment), server: None, access: false, json: false }
}

async fn position_of(store: &MemoryStore, kind: &str) -> u64 {
    let all = store.read_all(Position::START, 1_000).await.unwrap();
    all.iter().find(|event| &*event.kind == kind).unwrap().position.0
}

#[tokio::test]
async fn audit_diff_compares_the_fleet_at_two_moments() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let asked = PastAsker::new(&store, &folder);
    let (exit, all) = asked.diff(between(0, None)).await.unwrap();
    assert_eq!(exit, Exit::No);
    for item in ["+ host h1 (", &format!("+ server web-1 ({WEB})"), &format!("+ server db ({DB})"), "3 differences"] {
        assert!(all.contains(item), "{item}: {all}");
    }
    let built = position_of(&store, "instance.build_succeeded").await;
    let (_, one) = asked.diff(between(built - 1, Some(built))).await.unwrap();
    assert!(one.contains(&format!("~ server web-1 ({WEB})")) && one.contains("BUILD -> ACTIVE"), "{one}");
    assert!(one.ends_with("1 difference\n") && !one.contains("host  "), "an equal field is not shown: {one}");
    let (exit, none) = asked.diff(between(built, Some(built))).await.unwrap();
    assert!(exit == Exit::Yes && none.ends_with("no differences\n"), "{none}");
    let (_, json) = asked.diff(StateDiffArgs { json: true, ..between(built - 1, Some(built)) }).await.unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["from"]["position"], &json["to"]["position"]), (&(built - 1).into(), &built.into()));
    let change = &json["changes"][0];
    assert_eq!((&change["kind"], &change["id"], &change["change"]), (&"server".into(), &WEB.into(), &"changed".into()));
    let status = change["fields"].as_array().unwrap().iter().find(|field| field["field"] == "status").unwrap();
    assert_eq!((&status["before"], &status["after"]), (&"BUILD".into(), &"ACTIVE".into()));
}

#[tokio::test]
async fn audit_diff_compares_one_server_and_refuses_mistakes() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let asked = PastAsker::new(&store, &folder);
    let of = |server: &str, args: StateDiffArgs| StateDiffArgs { server: Some(server.into()), ..args };
    let failed = position_of(&store, "instance.build_failed").await;
    let (exit, by_name) = asked.diff(of("db", between(failed - 1, Some(failed)))).await.unwrap();
    assert!(exit == Exit::No && by_name.contains("fault"), "{by_name}");
    assert!(by_name.contains("nothing -> No valid host was found."), "{by_name}");
    let (_, by_id) = asked.diff(of(DB, between(failed - 1, Some(failed)))).await.unwrap();
    assert_eq!(by_name, by_id);
    let (exit, equal) = asked.diff(of("web-1", between(failed - 1, Some(failed)))).await.unwrap();
    assert!(exit == Exit::Yes, "{equal}");
    for (args, words) in [
        (of("nobody", between(0, None)), "no server nobody"),
        (between(5, Some(4)), "is after the second one"),
        (between(100_000, None), "after the end of the log"),
        (StateDiffArgs { from: "2999-01-01".parse().unwrap(), ..between(0, None) }, "in the future"),
    ] {
        let refused = asked.diff(args).await.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

/// A checkpoint only shortens the fold. A checkpoint of another log is not used.
#[tokio::test]
async fn audit_diff_answers_the_same_with_a_checkpoint() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let asked = PastAsker::new(&store, &folder);
    let head = store.head().0;
    let without = asked.diff(between(2, Some(head))).await.unwrap();
    let views = Views::new();
    catch_up(&*store, &views).await.unwrap();
    asked.checkpoints.save(&views).unwrap();
    assert_eq!(asked.diff(between(2, Some(head))).await.unwrap(), without);
    let other = MemoryStore::new();
    let event = NewEvent::new(created_domain(), Timestamp(1), &Meta::system("test"));
    other.append(&StreamId::new("identity", "main"), Expected::Any, vec![event]).await.unwrap();
    let strange = PastAsker { store: &other, checkpoints: Arc::clone(&asked.checkpoints) };
    let (exit, text) = strange.diff(between(0, None)).await.unwrap();
    assert!(exit == Exit::Yes && text.ends_with("no differences\n"), "{text}");
}

fn created_domain() -> IdentityEvent {
    DomainCreated { domain: "default".into(), name: "Default".into(), description: String::new(), enabled: true }.into()
}

fn project(id: &str, parent: Option<&str>) -> IdentityEvent {
    let attributes = ProjectAttributes { name: format!("name of {id}"), ..ProjectAttributes::default() };
    let parent = parent.map(Into::into);
    ProjectCreated { project: id.into(), domain: "default".into(), parent, enabled: true, attributes }.into()
}

fn user(id: &str) -> IdentityEvent {
    let attributes = UserAttributes { name: format!("{id}'s name"), ..UserAttributes::default() };
    UserCreated { user: id.into(), domain: "default".into(), enabled: id != "carol", password: None, attributes }.into()
}

fn role(name: &str) -> IdentityEvent {
    RoleCreated { role: format!("{name}-id").into(), domain: None, name: name.into(), description: None }.into()
}

fn grant(role: &str, scope: IdentityScope, inherited: bool) -> Grant {
    Grant { scope, role: format!("{role}-id").into(), inherited }
}

/// Alice is a member of the project `web` until the last event revokes that role. Bob inherits `reader` from the
/// domain, Carol is an administrator of another project, and Dave has nothing.
async fn identities() -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    let member = || grant("member", IdentityScope::Project("web".into()), false);
    let events: Vec<IdentityEvent> = vec![
        created_domain(),
        project("web", None),
        project("db", None),
        role("admin"),
        role("member"),
        role("reader"),
        RoleImplied { prior: "member-id".into(), implied: "reader-id".into() }.into(),
        user("alice"),
        user("bob"),
        user("carol"),
        user("dave"),
        RoleGranted { user: "bob".into(), grant: grant("reader", IdentityScope::Domain("default".into()), true) }
            .into(),
        RoleGranted { user: "carol".into(), grant: grant("admin", IdentityScope::Project("db".into()), false) }.into(),
        RoleGranted { user: "alice".into(), grant: member() }.into(),
        RoleRevoked { user: "alice".into(), grant: member() }.into(),
    ];
    for (number, event) in (1..).zip(events) {
        let event = NewEvent::new(event, Timestamp(number), &Meta::system("test"));
        store.append(&StreamId::new("identity", "main"), Expected::Any, vec![event]).await.unwrap();
    }
    store
}

#[tokio::test]
async fn audit_roles_shows_who_could_use_a_project_and_why() {
    let (store, folder) = (identities().await, tempfile::tempdir().unwrap());
    let asked = PastAsker::new(&store, &folder);
    let head = store.head().0;
    let before = asked.roles("web", Some(&(head - 1).to_string()), true).await.unwrap();
    let told: Value = serde_json::from_str(&before).unwrap();
    assert_eq!((&told["project"]["name"], &told["moment"]["position"]), (&"name of web".into(), &(head - 1).into()));
    let alice = &told["users"][0];
    assert_eq!((&alice["id"], &alice["name"]), (&"alice".into(), &"alice's name".into()));
    assert_eq!(alice["roles"], serde_json::json!(["member", "reader"]));
    assert_eq!(alice["because"], serde_json::json!(["member on project name of web"]));
    let bob = &told["users"][1];
    assert_eq!(bob["because"], serde_json::json!(["reader on domain Default (for the projects below)"]));
    assert_eq!(told["users"].as_array().unwrap().len(), 2, "{told}");
    let carol = &told["administrators"][0];
    assert_eq!((&carol["id"], &carol["enabled"]), (&"carol".into(), &false.into()));
    assert_eq!(carol["because"], serde_json::json!(["admin on project name of db"]));
    // The name means the same project as the id. After the revocation Alice has nothing.
    let now = asked.roles("name of web", None, false).await.unwrap();
    assert!(now.contains("bob's name (bob)") && !now.contains("alice"), "{now}");
    assert!(now.contains("carol's name (carol, disabled)") && !now.contains("dave"), "{now}");
    let unknown = asked.roles("wbe", None, false).await.unwrap_err().to_string();
    assert!(unknown.contains("no project wbe"), "{unknown}");
    let early = asked.roles("web", Some("1"), false).await.unwrap_err().to_string();
    assert!(early.contains("no project web at position 1"), "{early}");
}

#[tokio::test]
async fn audit_roles_shows_everybody_who_could_use_a_project_in_a_period() {
    let (store, folder) = (identities().await, tempfile::tempdir().unwrap());
    let asker = PastAsker::new(&store, &folder);
    let head = store.head().0;
    let during = async |since: u64, until: Option<u64>| {
        let moment = |position: u64| position.to_string().parse().unwrap();
        let project = "name of web".into();
        let (since, until) = (Some(moment(since)), until.map(moment));
        let args = ProjectRolesArgs { project, at: None, since, until, json: true };
        let mut out = Vec::new();
        roles::run(&args, asker.reader(), &mut out).await.map(|_| serde_json::from_slice::<Value>(&out).unwrap())
    };
    let all = during(0, None).await.unwrap();
    let ids = |sort: &Value| -> Vec<String> {
        sort.as_array().unwrap().iter().map(|holder| holder["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&all["users"]), ["alice", "bob"]);
    assert_eq!(ids(&all["administrators"]), ["carol"]);
    let time = |position: u64| Timestamp(i64::try_from(position).unwrap()).to_string();
    let spans = &all["users"][0]["spans"];
    assert_eq!(*spans, serde_json::json!([{"since": time(head - 1), "until": time(head)}]), "Alice's role was revoked");
    let open = &all["users"][1]["spans"];
    assert_eq!(*open, serde_json::json!([{"since": time(head - 3), "until": null}]), "Bob has his role until the end");
    // After the revocation Alice has nothing. Before the project there is an error.
    assert_eq!(ids(&during(head, None).await.unwrap()["users"]), ["bob"]);
    assert!(during(0, Some(1)).await.unwrap_err().to_string().contains("no project name of web in that time"));
    assert!(during(5, Some(4)).await.unwrap_err().to_string().contains("after its end"));
}

#[tokio::test]
async fn audit_diff_compares_access() {
    let (store, folder) = (identities().await, tempfile::tempdir().unwrap());
    let asked = PastAsker::new(&store, &folder);
    let head = store.head().0;
    let access = |from, to| StateDiffArgs { access: true, ..between(from, to) };
    let (exit, revoked) = asked.diff(access(head - 1, None)).await.unwrap();
    assert_eq!(exit, Exit::No);
    let line = "- assignment alice's name: member on project name of web (projects/web/users/alice/roles/member-id)\n";
    assert!(revoked.contains(line) && revoked.ends_with("1 difference\n"), "{revoked}");
    let (_, all) = asked.diff(access(0, None)).await.unwrap();
    for item in ["+ domain Default (default)", "+ user dave's name (dave)", "+ rule member implies reader\n"] {
        assert!(all.contains(item), "{item}: {all}");
    }
    assert!(!all.contains("alice's name: member"), "{all}");
    // A role that was granted and revoked in between is no difference.
    let (exit, equal) = asked.diff(access(head - 2, None)).await.unwrap();
    assert!(exit == Exit::Yes, "{equal}");
}
