//! Versioned field tables: what a resource looks like at each microversion, readable in one place.
//!
//! ```ignore
//! pub static SERVER: FieldTable<ServerView> = FieldTable::new(&[
//!     field("id", shape::uuid, |s| json!(s.id)),
//!     field("locked", shape::boolean, |s| json!(s.locked)).since(2, 9),
//!     field("OS-EXT-AZ:availability_zone", shape::string, |s| json!(s.zone)),
//!     field("flavor", linked_flavor, |s| flavor_link(s)).until(2, 46),
//!     field("flavor", embedded_flavor, |s| flavor_embedded(s)).since(2, 47),
//!     field("host_status", shape::string, |s| json!(s.host_status)).since(2, 16).when(|s| s.host_status.is_some()),
//! ]);
//! let json = SERVER.render(&view, ctx.version);
//! let schema = SERVER.shape().render(ctx.version);
//! ```
//!
//! Each field says what kind of value it has, so the table is also the schema of the resource in answers.
//! Keys come out in the order of the table. The table computes the fields of a version once and caches them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value};

use crate::microversion::Microversion;
use crate::schema::{Schema, object_of, opt, req};

/// One key of a resource, and the versions that have it.
#[derive(Debug)]
pub struct Field<V> {
    pub name: &'static str,
    /// The schema of the value.
    pub shape: fn() -> Schema,
    pub since: Microversion,
    pub until: Option<Microversion>,
    pub render: fn(&V) -> Value,
    /// A view lacks the field if this function returns false for the view.
    pub present: Option<fn(&V) -> bool>,
}

/// A field of every version.
pub const fn field<V>(name: &'static str, shape: fn() -> Schema, render: fn(&V) -> Value) -> Field<V> {
    Field { name, shape, since: Microversion::NONE, until: None, render, present: None }
}

impl<V> Field<V> {
    /// The first version that has the field.
    #[must_use]
    pub const fn since(self, major: u16, minor: u16) -> Self {
        Self {
            name: self.name,
            shape: self.shape,
            since: Microversion::new(major, minor),
            until: self.until,
            render: self.render,
            present: self.present,
        }
    }

    /// The last version that has the field.
    #[must_use]
    pub const fn until(self, major: u16, minor: u16) -> Self {
        Self {
            name: self.name,
            shape: self.shape,
            since: self.since,
            until: Some(Microversion::new(major, minor)),
            render: self.render,
            present: self.present,
        }
    }

    /// Renders the field only if `present` returns true for the view.
    #[must_use]
    pub const fn when(self, present: fn(&V) -> bool) -> Self {
        Self {
            name: self.name,
            shape: self.shape,
            since: self.since,
            until: self.until,
            render: self.render,
            present: Some(present),
        }
    }
}

type FieldPlan<V> = Arc<[&'static Field<V>]>;

/// A resource's fields in order.
#[derive(Debug)]
pub struct FieldTable<V: 'static> {
    fields: &'static [Field<V>],
    plans: RwLock<BTreeMap<Microversion, FieldPlan<V>>>,
}

impl<V> FieldTable<V> {
    pub const fn new(fields: &'static [Field<V>]) -> Self {
        Self { fields, plans: RwLock::new(BTreeMap::new()) }
    }

    pub fn fields(&self) -> &'static [Field<V>] {
        self.fields
    }

    /// The schema of the resource. A field that some views lack is not required.
    pub fn shape(&self) -> Schema {
        let property = |field: &Field<V>| {
            let declared = if field.present.is_some() { opt } else { req };
            declared(field.name, (field.shape)()).within(field.since, field.until)
        };
        object_of(self.fields.iter().map(property).collect())
    }

    /// The resource as `version` shows it.
    pub fn render(&self, view: &V, version: Microversion) -> Value {
        Value::Object(self.render_map(view, version))
    }

    /// The resource as a map, so that callers can add keys.
    pub fn render_map(&self, view: &V, version: Microversion) -> Map<String, Value> {
        let plan = self.plan(version);
        let mut map = Map::with_capacity(plan.len());
        for field in plan.iter().filter(|field| field.present.is_none_or(|present| present(view))) {
            map.insert(field.name.to_owned(), (field.render)(view));
        }
        map
    }

    /// Appends the resource as JSON text to `out`, without building a map.
    pub fn write(&self, view: &V, version: Microversion, out: &mut Vec<u8>) {
        let mut before = b'{';
        for field in self.plan(version).iter().filter(|field| field.present.is_none_or(|present| present(view))) {
            out.extend_from_slice(&[before, b'"']);
            // The names come from our tables, and none needs escaping (a test checks this).
            out.extend_from_slice(field.name.as_bytes());
            out.extend_from_slice(b"\":");
            append(out, &(field.render)(view));
            before = b',';
        }
        out.extend_from_slice(if before == b'{' { b"{}" } else { b"}" });
    }

    /// All views of a list.
    pub fn render_all<'a>(&self, views: impl IntoIterator<Item = &'a V>, version: Microversion) -> Value
    where
        V: 'a,
    {
        views.into_iter().map(|view| self.render(view, version)).collect()
    }

    /// The fields of `version`, from the cache. Negotiation accepts a bounded number of versions, so the cache is
    /// bounded.
    fn plan(&self, version: Microversion) -> FieldPlan<V> {
        if let Some(plan) = self.plans.read().unwrap_or_else(PoisonError::into_inner).get(&version) {
            return Arc::clone(plan);
        }
        let plan: FieldPlan<V> = self.fields.iter().filter(|field| version.within(field.since, field.until)).collect();
        self.plans.write().unwrap_or_else(PoisonError::into_inner).entry(version).or_insert_with(|| Arc::clone(&plan));
        plan
    }
}

/// Appends a value as JSON text to `out`.
pub fn append(out: &mut Vec<u8>, value: &Value) {
    // Serializing a `Value` into a `Vec` cannot fail.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::microversion::v;
    use crate::schema::shape;

    struct Thing {
        size: u32,
        secret: Option<u32>,
    }

    static THING: FieldTable<Thing> = FieldTable::new(&[
        field("size", shape::integer, |t: &Thing| json!(t.size)),
        field("old", shape::integer, |_| json!(1)).until(2, 5),
        field("changed", shape::string, |_| json!("before")).until(2, 9),
        field("changed", shape::string, |_| json!("after")).since(2, 10),
        field("a_first", shape::boolean, |_| json!(true)).since(2, 6),
        field("secret", shape::integer, |t: &Thing| json!(t.secret)).when(|t| t.secret.is_some()),
    ]);

    static EMPTY: FieldTable<Thing> =
        FieldTable::new(&[field("old", shape::integer, |_: &Thing| json!(1)).until(2, 5)]);

    #[test]
    fn history_and_order() {
        let thing = Thing { size: 3, secret: None };
        let text = |minor| THING.render(&thing, v(2, minor)).to_string();
        assert_eq!(text(1), r#"{"size":3,"old":1,"changed":"before"}"#);
        assert_eq!(text(6), r#"{"size":3,"changed":"before","a_first":true}"#);
        assert_eq!(text(10), r#"{"size":3,"changed":"after","a_first":true}"#);
        assert_eq!(text(10), text(104));
        let open = Thing { size: 0, secret: Some(7) };
        assert_eq!(THING.render(&open, v(2, 10))["secret"], 7);
    }

    #[test]
    fn the_schema_has_the_fields_of_the_version() {
        let at = |minor| THING.shape().render(v(2, minor));
        let integer = || json!({"type": "integer"});
        assert_eq!(
            at(5)["properties"],
            json!({"size": integer(), "old": integer(), "changed": {"type": "string"}, "secret": integer()})
        );
        assert_eq!(at(10)["required"], json!(["size", "changed", "a_first"]));
        assert_eq!(at(10)["additionalProperties"], json!(false));
    }

    #[test]
    fn written_is_as_rendered() {
        for (secret, minor) in [(None, 1), (Some(7), 6), (None, 10), (Some(0), 104)] {
            let thing = Thing { size: 3, secret };
            let mut text = b"before".to_vec();
            THING.write(&thing, v(2, minor), &mut text);
            let rendered = format!("before{}", THING.render(&thing, v(2, minor)));
            assert_eq!(String::from_utf8_lossy(&text), rendered);
        }
        let mut text = Vec::new();
        EMPTY.write(&Thing { size: 0, secret: None }, v(2, 6), &mut text);
        assert_eq!(text, b"{}");
    }
}
