//! A host aggregate's fields, and the microversions that have them.

use std::sync::Arc;

use chronova_events::envelope::Timestamp;
use chronova_events::host_aggregate::HostAggregate;
use serde_json::{Value, json};

use crate::fields::{Field, FieldTable, field};
use crate::schema::shape;

type AggregateListRow = Arc<HostAggregate>;

const ID: Field<AggregateListRow> = field("id", shape::integer, |a: &AggregateListRow| json!(a.number));
const UUID: Field<AggregateListRow> = field("uuid", shape::uuid, |a: &AggregateListRow| json!(a.id)).since(2, 41);
const NAME: Field<AggregateListRow> = field("name", shape::string, |a: &AggregateListRow| json!(a.name));
const ZONE: Field<AggregateListRow> =
    field("availability_zone", shape::string_or_null, |a: &AggregateListRow| json!(a.zone()));
const CREATED_AT: Field<AggregateListRow> =
    field("created_at", shape::time, |a: &AggregateListRow| json!(a.created_at.iso_micros()));
const UPDATED_AT: Field<AggregateListRow> =
    field("updated_at", shape::time_or_null, |a: &AggregateListRow| json!(a.updated_at.map(Timestamp::iso_micros)));
const DELETED: Field<AggregateListRow> = field("deleted", shape::boolean, |_| json!(false));
const DELETED_AT: Field<AggregateListRow> = field("deleted_at", shape::time_or_null, |_| Value::Null);

/// The answer to a creation, without hosts, because a new aggregate has none.
pub static CREATED: FieldTable<AggregateListRow> =
    FieldTable::new(&[ID, UUID, NAME, ZONE, CREATED_AT, UPDATED_AT, DELETED, DELETED_AT]);

/// All other answers.
pub static AGGREGATE: FieldTable<AggregateListRow> = FieldTable::new(&[
    ID,
    UUID,
    NAME,
    field("hosts", shape::strings, |a: &AggregateListRow| {
        a.hosts.iter().map(|(_, hostname)| json!(hostname)).collect()
    }),
    field("metadata", shape::pairs, |a: &AggregateListRow| json!(a.metadata)),
    ZONE,
    CREATED_AT,
    UPDATED_AT,
    DELETED,
    DELETED_AT,
]);
