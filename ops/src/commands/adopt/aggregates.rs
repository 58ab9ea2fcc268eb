//! Adopts host aggregates. An aggregate with an `availability_zone` in its metadata is an availability zone, too.

use std::collections::{BTreeMap, BTreeSet};

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::host_aggregate::{HostAggregatesId, HostAggregatesRoot};
use chronova_events::envelope::Timestamp;
use chronova_events::host_aggregate::{
    HostAdded, HostAggregateCreated, HostAggregateEvent, HostAggregateMetadataReplaced,
};
use chronova_events::ids::HostAggregateId;

use super::history::HistoryPart;
use super::report::AdoptedThing;
use super::{Adoption, Unadoptable};
use crate::nova::database::{live_rows, rows_by};
use crate::nova::rows::NovaRow;

/// Nova's times of an aggregate.
struct AggregateTimes {
    created: Timestamp,
    updated: Option<Timestamp>,
}

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    let api = adoption.api();
    let (metadata, hosts) =
        (rows_by(api, "aggregate_metadata", "aggregate_id"), rows_by(api, "aggregate_hosts", "aggregate_id"));
    let (mut numbers, mut events) = (BTreeSet::new(), Vec::new());
    for row in live_rows(api, "aggregates") {
        let id = row.text("uuid").or(row.text("id")).unwrap_or("?");
        adoption.report.see(AdoptedThing::Aggregate, id, row.text("name").unwrap_or_default());
        if adoption.report.leaves_out(AdoptedThing::Aggregate, id) {
            continue;
        }
        let number = row.text("id").unwrap_or_default();
        let metadata = metadata.get(number).map_or(&[][..], Vec::as_slice);
        match aggregate(&row, metadata) {
            Ok((created, _)) if !numbers.insert(created.number) => {
                adoption.report.obstacle(AdoptedThing::Aggregate, id, "its number occurs twice", super::REPAIR_ROW);
            }
            Ok((created, times)) => {
                let hosts = hosts.get(number).map_or(&[][..], Vec::as_slice);
                record(adoption, id, created, &times, hosts, &mut events);
            }
            Err(error) => adoption.report.obstacle(AdoptedThing::Aggregate, id, error.reason, error.way_out),
        }
    }
    // All aggregates share one stream, whose times never go back.
    events.sort_by_key(|(at, _)| *at);
    let (stream, meta) = (HostAggregatesRoot::stream(&HostAggregatesId), adoption.meta.clone());
    for (at, event) in events {
        adoption.history.push(HistoryPart::Aggregates, stream.clone(), at, &meta, event);
    }
}

fn aggregate(
    row: &NovaRow<'_>,
    metadata: &[NovaRow<'_>],
) -> Result<(HostAggregateCreated, AggregateTimes), Unadoptable> {
    let pairs: BTreeMap<String, String> = metadata
        .iter()
        .filter(|row| !row.is_deleted())
        .filter_map(|row| Some((row.text("key")?.to_owned(), row.text("value").unwrap_or_default().to_owned())))
        .collect();
    let created = HostAggregateCreated {
        aggregate: HostAggregateId(row.required_uuid("uuid")?),
        number: row.count("id")?.ok_or_else(|| row.wrong("id", "a number"))?,
        name: row.required("name")?.to_owned(),
        metadata: pairs.into_iter().collect(),
    };
    Ok((created, AggregateTimes { created: row.created_at()?, updated: row.time("updated_at")? }))
}

fn record(
    adoption: &mut Adoption<'_>,
    id: &str,
    created: HostAggregateCreated,
    times: &AggregateTimes,
    hosts: &[NovaRow<'_>],
    events: &mut Vec<(Timestamp, HostAggregateEvent)>,
) {
    let (aggregate, metadata) = (created.aggregate, created.metadata.clone());
    events.push((times.created, created.into()));
    // Nova keeps only the time of the last change, so one event with that time sets the present metadata.
    if let Some(updated) = times.updated {
        let replaced = HostAggregateMetadataReplaced { aggregate, metadata };
        events.push((updated.max(times.created), replaced.into()));
    }
    for row in hosts.iter().filter(|row| !row.is_deleted()) {
        let service = row.text("host").unwrap_or("?");
        let Some(host) = adoption.hosts.of_service(service).cloned() else {
            let reason = format!("its host {service} is not adopted, so the aggregate is adopted without that host");
            adoption.report.note(AdoptedThing::Aggregate, id, reason);
            continue;
        };
        let added = HostAdded { aggregate, host: host.id, hostname: host.hostname };
        events.push((times.created, added.into()));
    }
}
