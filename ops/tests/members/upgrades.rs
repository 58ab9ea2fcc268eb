//! Upgrades the members one after the other while clients write and read.
//!
//! There is one binary. In a developer build a variable of the environment makes a member pretend to be of an older or a
//! newer version.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::{Value, json};

use crate::cloud::{Client, Cloud, pause};
use crate::load::{Load, Told};
use crate::{Members, NAMES, NOWHERE, check, role};

/// The events that the newer version knows, and the older version does not know.
const NEWER: &str = "server_group.created@1 ledger.aggregates_replaced@2";
const GROUPS: &str = "/compute/v2.1/os-server-groups";

/// Lets the member pretend to be of the `old` or the `new` version from its next start on.
pub fn rehearse(member: &mut Cloud, version: &str) {
    member.environment = vec![("CHRONOVA_REHEARSED_LEVEL".to_owned(), format!("{version} {NEWER}"))];
}

/// Runs clients of the two other members while the member `nth` stops and starts again as the newer version.
fn upgrade(members: &mut Members, nth: usize, path: &str, numbers: &Arc<AtomicU64>) -> Told {
    let clients = [(nth + 1) % 3, (nth + 2) % 3].map(|other| members.client(other));
    let load = Load::begin(&clients, path, &members.server(""), numbers);
    pause(300);
    members.all[nth].stop();
    rehearse(&mut members.all[nth], "new");
    members.all[nth].start();
    assert_eq!(role(&members.all[nth]).as_deref(), Some("follower"));
    pause(300);
    load.end()
}

/// Lets the operator's command hand over to `next` while clients of the followers write and read.
fn hand_over(
    members: &mut Members,
    (before, next, other): (usize, usize, usize),
    path: &str,
    numbers: &Arc<AtomicU64>,
) -> Told {
    let clients = [next, other].map(|nth| members.client(nth));
    let load = Load::begin(&clients, path, &members.server(""), numbers);
    let (code, shown) = members.command(&["cluster", "switchover", NAMES[next]]);
    assert!(code == 0 && shown.contains(&format!("{} leads", NAMES[next])), "{code} {shown}");
    members.all[before].wait("the older member follows", |member| role(member).as_deref() == Some("follower"));
    pause(300);
    load.end()
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
    let mut members = Members::start_as(Some("old"), |_| {}).furnish();
    let (first, [one, other]) = (members.leader(), members.followers());
    let numbers = Arc::new(AtomicU64::new(1));
    let created = members.client(one).post("/compute/v2.1/servers", &members.server("0")).unwrap().expect(202);
    let path = format!("/compute/v2.1/servers/{}", created.text("/server/id"));
    let provider = json!({"name": "rehearsed", "uuid": NOWHERE});
    members.client(one).post("/placement/resource_providers", &provider).unwrap().expect(200);
    let group = json!({"server_group": {"name": "g", "policy": "affinity"}});
    let low = level(&members);

    let mut told = upgrade(&mut members, one, &path, &numbers);
    told.add(upgrade(&mut members, other, &path, &numbers));
    assert_eq!(members.leader(), first, "the upgrade of a follower does not change the leader");
    told.add(hand_over(&mut members, (first, one, other), &path, &numbers));

    // A member of the newer version leads, and a member of the older version follows.
    assert_eq!((members.leader(), level(&members)), (one, low));
    for nth in 0..3 {
        let refused = members.client(nth).post(GROUPS, &group).unwrap().expect(503);
        assert!(refused.body.to_string().contains("is being upgraded"), "{}", refused.body);
        replace(&members.client(nth), &json!([NOWHERE]));
        let shown = members.client(first).get(&aggregates()).unwrap().expect(200);
        assert_eq!(shown.body["aggregates"], json!([NOWHERE]), "the older member reads the change");
    }
    assert_eq!(versions(&members), "1");
    let (_, shown) = members.command(&["cluster", "status"]);
    assert!(shown.contains(&format!("upgraded or away for a minute: {}", NAMES[first])), "{shown}");

    told.add(upgrade(&mut members, first, &path, &numbers));
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
