//! Upgrades the members one after the other while clients write and read.
//!
//! The tests build one program. In a developer build a variable of the environment makes a member pretend to be of an
//! older or a newer version. `CHRONOVA_OLDER_PROGRAM` names a program that was really built from an older version.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::{Value, json};

use super::{Members, NAMES, NOWHERE, check, role};
use crate::cloud::{Client, Cloud, PROGRAM, pause};
use crate::load::{Load, Told};

/// The events that the newer version knows, and the older version does not know.
const NEWER: &str = "server_group.created@1 ledger.aggregates_replaced@2";
const GROUPS: &str = "/compute/v2.1/os-server-groups";

/// Lets the member pretend to be of the `old` or the `new` version from its next start on.
fn rehearse(member: &mut Cloud, version: &str) {
    member.environment = vec![("CHRONOVA_REHEARSED_LEVEL".to_owned(), format!("{version} {NEWER}"))];
}

/// The upgrade of three members under load.
struct RollingUpgrade {
    members: Members,
    /// Makes a member start as the newer version.
    newer: Box<dyn Fn(&mut Cloud)>,
    /// The path of the server that the clients write and read.
    path: String,
    numbers: Arc<AtomicU64>,
    told: Told,
}

impl RollingUpgrade {
    fn begin(older: &dyn Fn(&mut Cloud), newer: Box<dyn Fn(&mut Cloud)>) -> Self {
        let members = Members::start_as(older, |_| {}).furnish();
        let created = members.client(0).post("/compute/v2.1/servers", &members.server("0")).unwrap().expect(202);
        let path = format!("/compute/v2.1/servers/{}", created.text("/server/id"));
        Self { members, newer, path, numbers: Arc::new(AtomicU64::new(1)), told: Told::default() }
    }

    fn load(&self, clients: [usize; 2]) -> Load {
        let clients = clients.map(|nth| self.members.client(nth));
        Load::begin(&clients, &self.path, &self.members.server(""), &self.numbers)
    }

    /// Stops the member `nth` and starts it as the newer version, while clients use the two other members.
    fn upgrade(&mut self, nth: usize) {
        let load = self.load([(nth + 1) % 3, (nth + 2) % 3]);
        pause(300);
        let member = &mut self.members.all[nth];
        member.stop();
        (self.newer)(member);
        member.start();
        assert_eq!(role(member).as_deref(), Some("follower"));
        pause(300);
        self.told.add(load.end());
    }

    /// Upgrades the followers, and then lets one of them lead. Returns the former leader, the new one, and the third
    /// member.
    fn upgrade_followers(&mut self) -> [usize; 3] {
        let (first, [one, other]) = (self.members.leader(), self.members.followers());
        self.upgrade(one);
        self.upgrade(other);
        assert_eq!(self.members.leader(), first, "the upgrade of a follower does not change the leader");
        let load = self.load([one, other]);
        let (code, shown) = self.members.command(&["cluster", "switchover", NAMES[one]]);
        assert!(code == 0 && shown.contains(&format!("{} leads", NAMES[one])), "{code} {shown}");
        self.members.all[first].wait("the older member follows", |member| role(member).as_deref() == Some("follower"));
        pause(300);
        self.told.add(load.end());
        assert_eq!(self.members.leader(), one);
        [first, one, other]
    }
}

fn aggregates() -> String {
    format!("/placement/resource_providers/{NOWHERE}/aggregates")
}

/// Replaces the aggregates of the resource provider.
fn replace(client: &Client, list: &Value) {
    let shown = client.get(&aggregates()).unwrap().expect(200);
    let generation = &shown.body["resource_provider_generation"];
    let body = json!({"aggregates": list, "resource_provider_generation": generation});
    client.put_at(&aggregates(), &body).unwrap().expect(200);
}

/// The versions in which the log has the replaced aggregates.
fn versions(members: &Members) -> String {
    members.database.sql(
        "SELECT string_agg(DISTINCT version::text, ' ' ORDER BY version::text) FROM chronova_events \
         WHERE kind = 'ledger.aggregates_replaced'",
    )
}

fn level(members: &Members) -> u64 {
    members.database.sql("SELECT level FROM chronova_head").parse().unwrap()
}

/// The steps are those of docs/high-availability.md.
#[test]
fn members_are_upgraded_one_after_the_other() {
    let newer = Box::new(|member: &mut Cloud| rehearse(member, "new"));
    let mut upgrade = RollingUpgrade::begin(&|member| rehearse(member, "old"), newer);
    let provider = json!({"name": "rehearsed", "uuid": NOWHERE});
    upgrade.members.client(0).post("/placement/resource_providers", &provider).unwrap().expect(200);
    let group = json!({"server_group": {"name": "g", "policy": "affinity"}});
    let low = level(&upgrade.members);
    let [first, one, other] = upgrade.upgrade_followers();
    let members = &upgrade.members;

    // A member of the newer version leads, and a member of the older version follows.
    assert_eq!(level(members), low);
    for nth in 0..3 {
        let refused = members.client(nth).post(GROUPS, &group).unwrap().expect(503);
        assert!(refused.body.to_string().contains("is being upgraded"), "{}", refused.body);
        replace(&members.client(nth), &json!([NOWHERE]));
        let shown = members.client(first).get(&aggregates()).unwrap().expect(200);
        assert_eq!(shown.body["aggregates"], json!([NOWHERE]), "the older member reads the change");
    }
    assert_eq!(versions(members), "1");
    let (_, shown) = members.command(&["cluster", "status"]);
    assert!(shown.contains(&format!("upgraded or away for a minute: {}", NAMES[first])), "{shown}");

    upgrade.upgrade(first);
    let RollingUpgrade { mut members, told, .. } = upgrade;
    members.all[one].wait("the level of the log rises", |member| {
        member.client().post(GROUPS, &group).is_ok_and(|answer| answer.status == 200)
    });
    assert_eq!(level(&members), low + 1);
    replace(&members.client(first), &json!([]));
    assert_eq!(versions(&members), "1 2");
    for member in &members.all {
        let shown = member.client().get(GROUPS).unwrap().expect(200);
        assert_eq!(shown.body["server_groups"].as_array().map(Vec::len), Some(1), "{}", shown.body);
    }

    // The older version cannot come back.
    members.all[other].stop();
    rehearse(&mut members.all[other], "old");
    members.all[other].launch();
    members.all[other].wait("it refuses to start", |member| member.ended().is_some());
    assert_eq!(members.all[other].ended().unwrap().code(), Some(2));
    assert!(members.all[other].log().contains("install the newer version"), "{}", members.all[other].log());
    rehearse(&mut members.all[other], "new");
    members.all[other].start();
    check(&mut members, &told);
}

/// `CHRONOVA_OLDER_PROGRAM` names a program of an older version that knows levels. It is upgraded to the present one.
#[test]
fn members_of_an_older_program_are_upgraded() {
    let Some(older) = std::env::var_os("CHRONOVA_OLDER_PROGRAM").map(PathBuf::from) else {
        eprintln!("skipped: CHRONOVA_OLDER_PROGRAM names no program of an older version");
        return;
    };
    let newer = Box::new(|member: &mut Cloud| member.program = PROGRAM.into());
    let mut upgrade = RollingUpgrade::begin(&|member| member.program.clone_from(&older), newer);
    let [first, ..] = upgrade.upgrade_followers();
    upgrade.upgrade(first);
    check(&mut upgrade.members, &upgrade.told);
}
