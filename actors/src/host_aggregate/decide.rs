//! The decisions on host aggregates.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::host_aggregate::{
    HostAdded, HostAggregate, HostAggregateCreated, HostAggregateDeleted, HostAggregateEvent,
    HostAggregateMetadataReplaced, HostAggregateRenamed, HostAggregates, HostRemoved, ZONE_KEY,
};
use chronova_events::ids::HostId;

use super::{HostAggregateCommand, HostAggregateReject, ServersPerHost};

type HostAggregateDecision = Result<Vec<HostAggregateEvent>, HostAggregateReject>;

pub fn decide(state: &HostAggregates, command: HostAggregateCommand) -> HostAggregateDecision {
    match command {
        HostAggregateCommand::Create { aggregate, name, zone } => {
            if state.named(&name).is_some() {
                return Err(HostAggregateReject::NameTaken(name));
            }
            let metadata = zone.map(|zone| (ZONE_KEY.to_owned(), zone)).into_iter().collect();
            Ok(vec![HostAggregateCreated { aggregate, number: state.made + 1, name, metadata }.into()])
        }
        HostAggregateCommand::Change { number, name, metadata, occupants } => {
            change(state, number, name, metadata, &occupants)
        }
        HostAggregateCommand::AddHost { number, host, hostname, occupants } => {
            add_host(state, number, host, hostname, &occupants)
        }
        HostAggregateCommand::RemoveHost { number, host, hostname, occupants } => {
            remove_host(state, number, host, hostname, &occupants)
        }
        HostAggregateCommand::Delete { number } => {
            let known = find(state, number)?;
            match known.hosts.is_empty() {
                true => Ok(vec![HostAggregateDeleted { aggregate: known.id }.into()]),
                false => Err(HostAggregateReject::NotEmpty { number }),
            }
        }
        HostAggregateCommand::ForgetHost { host } => Ok(state.of_host(host).map(|known| leave(known, host)).collect()),
    }
}

fn find(state: &HostAggregates, number: u64) -> Result<&Arc<HostAggregate>, HostAggregateReject> {
    state.by_number.get(&number).ok_or(HostAggregateReject::NotFound(number))
}

fn change(
    state: &HostAggregates,
    number: u64,
    name: Option<String>,
    metadata: Vec<(String, Option<String>)>,
    occupants: &ServersPerHost,
) -> HostAggregateDecision {
    let known = find(state, number)?;
    let mut events = Vec::new();
    if let Some(name) = name.filter(|name| *name != known.name) {
        if state.named(&name).is_some() {
            return Err(HostAggregateReject::NameTaken(name));
        }
        events.push(HostAggregateRenamed { aggregate: known.id, name }.into());
    }
    if let Some((_, zone)) = metadata.iter().find(|(key, _)| key == ZONE_KEY) {
        check_zone(state, known, zone.as_deref(), occupants)?;
    }
    let mut merged: BTreeMap<String, String> = known.metadata.clone();
    for (key, value) in metadata {
        match value {
            Some(value) => merged.insert(key, value),
            None => merged.remove(&key),
        };
    }
    if merged != known.metadata {
        let metadata = merged.into_iter().collect();
        events.push(HostAggregateMetadataReplaced { aggregate: known.id, metadata }.into());
    }
    Ok(events)
}

/// Checks that the aggregate's hosts may all be in `zone` from now on.
fn check_zone(
    state: &HostAggregates,
    known: &HostAggregate,
    zone: Option<&str>,
    occupants: &ServersPerHost,
) -> Result<(), HostAggregateReject> {
    let number = known.number;
    let Some(zone) = zone.filter(|zone| !zone.is_empty()) else {
        return Err(HostAggregateReject::NamelessZone { number, name: known.name.clone() });
    };
    let hosts: Vec<HostId> = known.hosts.iter().map(|(host, _)| *host).collect();
    check_other_zones(state, known, &hosts, zone)?;
    let servers = hosts.iter().any(|host| occupants.get(host).is_some_and(|servers| *servers > 0));
    match servers && known.zone() != Some(zone) {
        true => Err(HostAggregateReject::HasServers { number }),
        false => Ok(()),
    }
}

/// Checks that no other aggregate puts one of the hosts into another zone than `zone`.
fn check_other_zones(
    state: &HostAggregates,
    known: &HostAggregate,
    hosts: &[HostId],
    zone: &str,
) -> Result<(), HostAggregateReject> {
    let zones: Vec<String> = state
        .by_number
        .values()
        .filter(|other| other.id != known.id && hosts.iter().any(|host| other.has(*host)))
        .filter_map(|other| other.zone())
        .filter(|other| *other != zone)
        .map(str::to_owned)
        .collect();
    match zones.is_empty() {
        true => Ok(()),
        false => Err(HostAggregateReject::InOtherZones { number: known.number, zones }),
    }
}

fn add_host(
    state: &HostAggregates,
    number: u64,
    host: HostId,
    hostname: String,
    occupants: &ServersPerHost,
) -> HostAggregateDecision {
    let known = find(state, number)?;
    if let Some(zone) = known.zone() {
        check_other_zones(state, known, &[host], zone)?;
        check_servers_stay(number, host, state.zone_of(host), Some(zone), occupants)?;
    }
    if known.has(host) {
        return Err(HostAggregateReject::HasHost { number, hostname });
    }
    Ok(vec![HostAdded { aggregate: known.id, host, hostname }.into()])
}

fn remove_host(
    state: &HostAggregates,
    number: u64,
    host: HostId,
    hostname: String,
    occupants: &ServersPerHost,
) -> HostAggregateDecision {
    let known = find(state, number)?;
    if let Some(zone) = known.zone() {
        let without = state.of_host(host).filter(|other| other.id != known.id).find_map(|other| other.zone());
        check_servers_stay(number, host, Some(zone), without, occupants)?;
    }
    match known.has(host) {
        true => Ok(vec![leave(known, host)]),
        false => Err(HostAggregateReject::NoSuchHost { number, hostname }),
    }
}

/// Checks that no server changes its zone without moving.
fn check_servers_stay(
    number: u64,
    host: HostId,
    from: Option<&str>,
    to: Option<&str>,
    occupants: &ServersPerHost,
) -> Result<(), HostAggregateReject> {
    let servers = occupants.get(&host).copied().unwrap_or(0);
    match servers > 0 && from != to {
        true => Err(HostAggregateReject::ServersWouldMove {
            number,
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
            servers,
        }),
        false => Ok(()),
    }
}

fn leave(known: &HostAggregate, host: HostId) -> HostAggregateEvent {
    let hostname = known.hosts.iter().find(|(member, _)| *member == host).map(|(_, name)| name.clone());
    HostRemoved { aggregate: known.id, host, hostname: hostname.unwrap_or_default() }.into()
}
