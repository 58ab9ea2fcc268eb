//! A host aggregate's fields, and the microversions that have them.

use std::sync::Arc;

use chronova_events::envelope::Timestamp;
use chronova_events::host_aggregate::HostAggregate;
use serde_json::{Value, json};

use crate::fields::{Field, FieldTable, field};

type Row = Arc<HostAggregate>;

const ID: Field<Row> = field("id", |a: &Row| json!(a.number));
const UUID: Field<Row> = field("uuid", |a: &Row| json!(a.id)).since(2, 41);
const NAME: Field<Row> = field("name", |a: &Row| json!(a.name));
const ZONE: Field<Row> = field("availability_zone", |a: &Row| json!(a.zone()));
const CREATED_AT: Field<Row> = field("created_at", |a: &Row| json!(a.created_at.iso_micros()));
const UPDATED_AT: Field<Row> = field("updated_at", |a: &Row| json!(a.updated_at.map(Timestamp::iso_micros)));
const DELETED: Field<Row> = field("deleted", |_| json!(false));
const DELETED_AT: Field<Row> = field("deleted_at", |_| Value::Null);

/// What its creation answers: it cannot have hosts yet.
pub static CREATED: FieldTable<Row> =
    FieldTable::new(&[ID, UUID, NAME, ZONE, CREATED_AT, UPDATED_AT, DELETED, DELETED_AT]);

/// Everything else.
pub static AGGREGATE: FieldTable<Row> = FieldTable::new(&[
    ID,
    UUID,
    NAME,
    field("hosts", |a: &Row| a.hosts.iter().map(|(_, hostname)| json!(hostname)).collect()),
    field("metadata", |a: &Row| json!(a.metadata)),
    ZONE,
    CREATED_AT,
    UPDATED_AT,
    DELETED,
    DELETED_AT,
]);
