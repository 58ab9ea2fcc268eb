#![allow(clippy::unwrap_used)]

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::host_aggregate::{HostAggregateEvent, HostAggregates};
use chronova_events::ids::{HostAggregateId, HostId};

use super::HostAggregateCommand::{self, *};
use super::HostAggregateReject::{self, *};
use super::ServersPerHost;
use super::decide::decide;

fn host(n: u128) -> HostId {
    HostId(uuid::Uuid::from_u128(n))
}

fn create(name: &str, zone: Option<&str>) -> HostAggregateCommand {
    let aggregate = HostAggregateId::derive(uuid::Uuid::nil(), name);
    Create { aggregate, name: name.into(), zone: zone.map(str::to_owned) }
}

fn add(number: u64, n: u128) -> HostAggregateCommand {
    AddHost { number, host: host(n), hostname: format!("h{n}"), occupants: ServersPerHost::new() }
}

fn remove(number: u64, n: u128, occupants: ServersPerHost) -> HostAggregateCommand {
    RemoveHost { number, host: host(n), hostname: format!("h{n}"), occupants }
}

fn set(number: u64, key: &str, value: Option<&str>, occupants: ServersPerHost) -> HostAggregateCommand {
    Change { number, name: None, metadata: vec![(key.to_owned(), value.map(str::to_owned))], occupants }
}

fn busy(n: u128, servers: usize) -> ServersPerHost {
    ServersPerHost::from([(host(n), servers)])
}

fn given(commands: impl IntoIterator<Item = HostAggregateCommand>) -> HostAggregates {
    let mut state = HostAggregates::default();
    for command in commands {
        for event in decide(&state, command).unwrap() {
            state.evolve(&event, Timestamp(1));
        }
    }
    state
}

/// Aggregate 1 is zone `north` and has host 1. Aggregate 2 is no zone and has hosts 1 and 2. Aggregate 3 is zone
/// `south`.
fn two_zones() -> HostAggregates {
    given([create("a", Some("north")), create("b", None), create("c", Some("south")), add(1, 1), add(2, 1), add(2, 2)])
}

fn refused(command: HostAggregateCommand) -> HostAggregateReject {
    decide(&two_zones(), command).unwrap_err()
}

#[test]
fn numbers_are_never_given_twice() {
    let state = given([create("a", None), create("b", None), Delete { number: 2 }, create("c", None)]);
    assert_eq!(state.by_number.keys().copied().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn names_are_unique() {
    assert_eq!(refused(create("a", None)), NameTaken("a".into()));
    let rename = |number, name: &str| Change {
        number,
        name: Some(name.into()),
        metadata: vec![],
        occupants: ServersPerHost::new(),
    };
    assert_eq!(refused(rename(2, "a")), NameTaken("a".into()));
    assert_eq!(decide(&two_zones(), rename(1, "a")).unwrap(), vec![]);
    assert_eq!(refused(rename(9, "x")), NotFound(9));
}

#[test]
fn a_host_is_in_one_zone() {
    assert_eq!(refused(add(3, 1)), InOtherZones { number: 3, zones: vec!["north".into()] });
    assert_eq!(
        refused(set(2, "availability_zone", Some("east"), ServersPerHost::new())),
        InOtherZones { number: 2, zones: vec!["north".into()] }
    );
    assert!(decide(&two_zones(), add(3, 2)).is_ok());
    assert!(decide(&two_zones(), set(2, "availability_zone", Some("north"), ServersPerHost::new())).is_ok());
}

#[test]
fn a_zone_has_a_name() {
    for zone in [None, Some("")] {
        let reject = refused(set(1, "availability_zone", zone, ServersPerHost::new()));
        assert_eq!(reject, NamelessZone { number: 1, name: "a".into() });
    }
}

#[test]
fn the_zone_of_servers_does_not_change() {
    assert_eq!(refused(set(1, "availability_zone", Some("east"), busy(1, 1))), HasServers { number: 1 });
    assert_eq!(decide(&two_zones(), set(1, "availability_zone", Some("north"), busy(1, 1))).unwrap(), vec![]);
    assert!(decide(&two_zones(), set(1, "ssd", Some("true"), busy(1, 1))).is_ok());
    let add = AddHost { number: 3, host: host(2), hostname: "h2".into(), occupants: busy(2, 4) };
    let moved = |number, from: Option<&str>, to: Option<&str>, servers| ServersWouldMove {
        number,
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
        servers,
    };
    assert_eq!(refused(add), moved(3, None, Some("south"), 4));
    assert_eq!(refused(remove(1, 1, busy(1, 2))), moved(1, Some("north"), None, 2));
    assert!(decide(&two_zones(), remove(2, 1, busy(1, 2))).is_ok(), "another aggregate still gives the zone");
}

#[test]
fn adding_or_removing_a_host_twice_is_refused() {
    assert_eq!(refused(add(1, 1)), HasHost { number: 1, hostname: "h1".into() });
    assert_eq!(refused(remove(1, 2, ServersPerHost::new())), NoSuchHost { number: 1, hostname: "h2".into() });
    assert_eq!(refused(Delete { number: 1 }), NotEmpty { number: 1 });
    assert!(decide(&two_zones(), Delete { number: 3 }).is_ok());
}

#[test]
fn metadata_is_merged_and_removed() {
    let state = given([
        create("a", Some("north")),
        set(1, "ssd", Some("true"), ServersPerHost::new()),
        set(1, "gpu", Some("no"), ServersPerHost::new()),
        set(1, "gpu", None, ServersPerHost::new()),
    ]);
    let metadata: Vec<_> = state.by_number[&1].metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(metadata, [("availability_zone", "north"), ("ssd", "true")]);
    assert_eq!(decide(&state, set(1, "gpu", None, ServersPerHost::new())).unwrap(), vec![]);
}

#[test]
fn a_removed_host_leaves_all_aggregates() {
    let events = decide(&two_zones(), ForgetHost { host: host(1) }).unwrap();
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| matches!(event, HostAggregateEvent::HostRemoved(gone) if gone.hostname == "h1")));
    assert_eq!(decide(&two_zones(), ForgetHost { host: host(9) }).unwrap(), vec![]);
}
