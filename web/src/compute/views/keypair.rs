//! A key pair's fields, and the microversions that have them.

use chronova_events::keypair::Keypair;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};
use crate::schema::shape;

fn kind(key: &Keypair) -> Value {
    json!(key.definition.kind)
}

/// A key pair in a list.
pub static LISTED: FieldTable<Keypair> = FieldTable::new(&[
    field("name", shape::string, |k: &Keypair| json!(k.definition.name)),
    field("public_key", shape::string, |k: &Keypair| json!(k.definition.public_key)),
    field("fingerprint", shape::string, |k: &Keypair| json!(k.definition.fingerprint)),
    field("type", shape::string, kind).since(2, 2),
]);

/// The answer to a creation. The handler adds a generated private key.
pub static CREATED: FieldTable<Keypair> = FieldTable::new(&[
    field("name", shape::string, |k: &Keypair| json!(k.definition.name)),
    field("public_key", shape::string, |k: &Keypair| json!(k.definition.public_key)),
    field("fingerprint", shape::string, |k: &Keypair| json!(k.definition.fingerprint)),
    field("type", shape::string, kind).since(2, 2),
    field("user_id", shape::string, |k: &Keypair| json!(k.definition.user)),
]);

/// A single key pair. Nova shows the columns of its database table here.
pub static SHOWN: FieldTable<Keypair> = FieldTable::new(&[
    field("created_at", shape::time, |k: &Keypair| json!(k.created_at.iso_micros())),
    field("deleted", shape::boolean, |_| json!(false)),
    field("deleted_at", shape::time_or_null, |_| Value::Null),
    field("fingerprint", shape::string, |k: &Keypair| json!(k.definition.fingerprint)),
    field("id", shape::integer, |k: &Keypair| json!(k.number)),
    field("name", shape::string, |k: &Keypair| json!(k.definition.name)),
    field("public_key", shape::string, |k: &Keypair| json!(k.definition.public_key)),
    field("updated_at", shape::time_or_null, |_| Value::Null),
    field("user_id", shape::string, |k: &Keypair| json!(k.definition.user)),
    field("type", shape::string, kind).since(2, 2),
]);
