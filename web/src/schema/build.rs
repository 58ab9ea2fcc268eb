//! The vocabulary in which bodies and query strings are described.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::microversion::Microversion;

/// The description of a value. It has keywords in order, and further descriptions, each of which replaces this one from
/// a later version on.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    parts: Vec<SchemaPart>,
    later: Vec<(Microversion, Schema)>,
}

#[derive(Debug, Clone)]
enum SchemaPart {
    Plain(&'static str, Value),
    One(&'static str, Box<Schema>),
    Many(&'static str, Vec<Schema>),
    Properties(Vec<Property>),
    Patterns(Vec<(&'static str, Schema)>),
    /// `additionalProperties`: each entry applies from its version on.
    Open(Vec<(Microversion, bool)>),
}

/// A key of an object, and the versions that have it.
#[derive(Debug, Clone)]
pub struct Property {
    name: &'static str,
    schema: Schema,
    required: bool,
    since: Microversion,
    until: Option<Microversion>,
}

/// A key that must be there.
pub fn req(name: &'static str, schema: Schema) -> Property {
    Property { name, schema, required: true, since: Microversion::NONE, until: None }
}

/// A key that may be there.
pub fn opt(name: &'static str, schema: Schema) -> Property {
    Property { required: false, ..req(name, schema) }
}

/// A query parameter that may be given any number of times.
pub fn many(name: &'static str, schema: Schema) -> Property {
    opt(name, array(schema))
}

/// A query parameter that may be given once.
pub fn single(name: &'static str, schema: Schema) -> Property {
    opt(name, array(schema).max_items(1))
}

impl Property {
    /// The versions that have the key.
    pub(crate) fn within(self, since: Microversion, until: Option<Microversion>) -> Self {
        Self { since, until, ..self }
    }

    /// The first version that has the key.
    pub fn since(mut self, major: u16, minor: u16) -> Self {
        self.since = Microversion::new(major, minor);
        self
    }

    /// The last version that has the key.
    pub fn until(mut self, major: u16, minor: u16) -> Self {
        self.until = Some(Microversion::new(major, minor));
        self
    }
}

fn typed(name: &str) -> Schema {
    Schema::default().with("type", json!(name))
}

/// Anything.
pub fn any() -> Schema {
    Schema::default()
}

pub fn string() -> Schema {
    typed("string")
}

pub fn integer() -> Schema {
    typed("integer")
}

pub fn number() -> Schema {
    typed("number")
}

pub fn boolean() -> Schema {
    typed("boolean")
}

pub fn null() -> Schema {
    typed("null")
}

pub fn array(items: Schema) -> Schema {
    let mut schema = typed("array");
    schema.parts.push(SchemaPart::One("items", Box::new(items)));
    schema
}

/// An object with these keys and no others.
pub fn object<const N: usize>(properties: [Property; N]) -> Schema {
    let mut schema = typed("object");
    schema.parts.push(SchemaPart::Properties(properties.into()));
    schema.parts.push(SchemaPart::Open(vec![(Microversion::NONE, false)]));
    schema
}

/// Like [`object`], for keys that are computed.
pub(crate) fn object_of(properties: Vec<Property>) -> Schema {
    object([]).plus(properties)
}

/// A query string with these parameters; others are ignored (see [`Schema::strict_since`]).
pub fn query<const N: usize>(parameters: [Property; N]) -> Schema {
    object(parameters).open()
}

/// One of these strings.
pub fn choice<const N: usize>(values: [&str; N]) -> Schema {
    string().with("enum", json!(values.as_slice()))
}

pub fn any_of<const N: usize>(schemas: [Schema; N]) -> Schema {
    Schema { parts: vec![SchemaPart::Many("anyOf", schemas.into())], later: Vec::new() }
}

pub fn one_of<const N: usize>(schemas: [Schema; N]) -> Schema {
    Schema { parts: vec![SchemaPart::Many("oneOf", schemas.into())], later: Vec::new() }
}

pub fn all_of<const N: usize>(schemas: [Schema; N]) -> Schema {
    Schema { parts: vec![SchemaPart::Many("allOf", schemas.into())], later: Vec::new() }
}

pub fn not(schema: Schema) -> Schema {
    Schema { parts: vec![SchemaPart::One("not", Box::new(schema))], later: Vec::new() }
}

/// The same schema, or `null`: `"type": ["string", "null"]`.
pub fn null_or(mut schema: Schema) -> Schema {
    for part in &mut schema.parts {
        if let SchemaPart::Plain("type", kind) = part {
            match kind {
                Value::Array(kinds) => kinds.push(json!("null")),
                other => *other = json!([other.clone(), "null"]),
            }
        }
    }
    schema
}

/// Plain JSON Schema, used unchanged.
pub fn raw(schema: Value) -> Schema {
    Schema { parts: vec![SchemaPart::Plain("", schema)], later: Vec::new() }
}

impl Schema {
    /// Adds or replaces a keyword.
    pub fn with(mut self, keyword: &'static str, value: Value) -> Self {
        self.parts.retain(|part| !matches!(part, SchemaPart::Plain(known, _) if *known == keyword));
        self.parts.push(SchemaPart::Plain(keyword, value));
        self
    }

    pub fn min_length(self, length: u64) -> Self {
        self.with("minLength", json!(length))
    }

    pub fn max_length(self, length: u64) -> Self {
        self.with("maxLength", json!(length))
    }

    pub fn pattern(self, regex: &str) -> Self {
        self.with("pattern", json!(regex))
    }

    pub fn format(self, name: &str) -> Self {
        self.with("format", json!(name))
    }

    pub fn min(self, value: i64) -> Self {
        self.with("minimum", json!(value))
    }

    pub fn max(self, value: i64) -> Self {
        self.with("maximum", json!(value))
    }

    pub fn min_items(self, count: u64) -> Self {
        self.with("minItems", json!(count))
    }

    pub fn max_items(self, count: u64) -> Self {
        self.with("maxItems", json!(count))
    }

    pub fn unique_items(self) -> Self {
        self.with("uniqueItems", json!(true))
    }

    pub fn min_properties(self, count: u64) -> Self {
        self.with("minProperties", json!(count))
    }

    pub fn max_properties(self, count: u64) -> Self {
        self.with("maxProperties", json!(count))
    }

    /// Several JSON types at once.
    pub fn types<const N: usize>(self, kinds: [&str; N]) -> Self {
        self.with("type", json!(kinds.as_slice()))
    }

    pub fn one_among(self, values: Value) -> Self {
        self.with("enum", values)
    }

    /// Keys that match the pattern `regex` have values that match `schema`.
    pub fn pattern_property(mut self, regex: &'static str, schema: Schema) -> Self {
        if let Some(SchemaPart::Patterns(patterns)) =
            self.parts.iter_mut().find(|part| matches!(part, SchemaPart::Patterns(_)))
        {
            patterns.push((regex, schema));
        } else {
            self.parts.push(SchemaPart::Patterns(vec![(regex, schema)]));
        }
        self
    }

    /// An object with further keys.
    pub fn plus(mut self, more: impl IntoIterator<Item = Property>) -> Self {
        if let Some(SchemaPart::Properties(properties)) =
            self.parts.iter_mut().find(|part| matches!(part, SchemaPart::Properties(_)))
        {
            properties.extend(more);
        }
        self
    }

    /// An object without these keys.
    pub fn without(mut self, names: &[&str]) -> Self {
        for part in &mut self.parts {
            if let SchemaPart::Properties(properties) = part {
                properties.retain(|property| !names.contains(&property.name));
            }
        }
        self
    }

    /// An object with only these keys.
    pub fn only(mut self, names: &[&str]) -> Self {
        for part in &mut self.parts {
            if let SchemaPart::Properties(properties) = part {
                properties.retain(|property| names.contains(&property.name));
            }
        }
        self
    }

    /// An object whose keys are all optional.
    pub fn optional(mut self) -> Self {
        for part in &mut self.parts {
            if let SchemaPart::Properties(properties) = part {
                for property in properties.iter_mut() {
                    property.required = false;
                }
            }
        }
        self
    }

    /// Allows other keys.
    pub fn open(mut self) -> Self {
        self.parts.retain(|part| !matches!(part, SchemaPart::Open(_)));
        self.parts.push(SchemaPart::Open(vec![(Microversion::NONE, true)]));
        self
    }

    /// Other keys must match this schema.
    pub fn others(mut self, schema: Schema) -> Self {
        self.parts.retain(|part| !matches!(part, SchemaPart::Open(_)));
        self.parts.push(SchemaPart::One("additionalProperties", Box::new(schema)));
        self
    }

    /// Leaves the keyword `additionalProperties` out, so that other keys are allowed.
    pub fn silent(mut self) -> Self {
        self.parts.retain(|part| !matches!(part, SchemaPart::Open(_)));
        self
    }

    /// Other keys are refused from this version on.
    pub fn strict_since(mut self, major: u16, minor: u16) -> Self {
        for part in &mut self.parts {
            if let SchemaPart::Open(changes) = part {
                changes.push((Microversion::new(major, minor), false));
            }
        }
        self
    }

    /// Replaces the whole schema from this version on.
    pub fn from(mut self, major: u16, minor: u16, replacement: Schema) -> Self {
        self.later.push((Microversion::new(major, minor), replacement));
        self.later.sort_by_key(|(version, _)| *version);
        self
    }

    /// The versions at which anything changes.
    pub fn breakpoints(&self) -> BTreeSet<Microversion> {
        let mut breaks = BTreeSet::new();
        self.collect_breaks(&mut breaks);
        breaks
    }

    fn collect_breaks(&self, breaks: &mut BTreeSet<Microversion>) {
        for (version, schema) in &self.later {
            breaks.insert(*version);
            schema.collect_breaks(breaks);
        }
        for part in &self.parts {
            match part {
                SchemaPart::Plain(..) => {}
                SchemaPart::One(_, schema) => schema.collect_breaks(breaks),
                SchemaPart::Many(_, schemas) => schemas.iter().for_each(|schema| schema.collect_breaks(breaks)),
                SchemaPart::Patterns(patterns) => patterns.iter().for_each(|(_, schema)| schema.collect_breaks(breaks)),
                SchemaPart::Open(changes) => breaks.extend(changes.iter().map(|(version, _)| *version)),
                SchemaPart::Properties(properties) => {
                    for property in properties {
                        breaks.insert(property.since);
                        breaks.extend(property.until.map(Microversion::next));
                        property.schema.collect_breaks(breaks);
                    }
                }
            }
        }
    }

    /// Renders JSON Schema for one version.
    pub fn render(&self, version: Microversion) -> Value {
        if let Some((_, schema)) = self.later.iter().rev().find(|(since, _)| version.at_least(*since)) {
            return schema.render(version);
        }
        let mut map = Map::new();
        for part in &self.parts {
            match part {
                SchemaPart::Plain("", whole) => return whole.clone(),
                SchemaPart::Plain(keyword, value) => {
                    map.insert((*keyword).to_owned(), value.clone());
                }
                SchemaPart::One(keyword, schema) => {
                    map.insert((*keyword).to_owned(), schema.render(version));
                }
                SchemaPart::Many(keyword, schemas) => {
                    let rendered = schemas.iter().map(|schema| schema.render(version)).collect();
                    map.insert((*keyword).to_owned(), Value::Array(rendered));
                }
                SchemaPart::Patterns(patterns) => {
                    let rendered = patterns.iter().map(|(regex, schema)| ((*regex).to_owned(), schema.render(version)));
                    map.insert("patternProperties".to_owned(), Value::Object(rendered.collect()));
                }
                SchemaPart::Open(changes) => {
                    if let Some((_, open)) = changes.iter().rev().find(|(since, _)| version.at_least(*since)) {
                        map.insert("additionalProperties".to_owned(), json!(open));
                    }
                }
                SchemaPart::Properties(properties) => render_properties(properties, version, &mut map),
            }
        }
        Value::Object(map)
    }
}

fn render_properties(properties: &[Property], version: Microversion, map: &mut Map<String, Value>) {
    let mut rendered = Map::new();
    let mut required = Vec::new();
    for property in properties.iter().filter(|property| version.within(property.since, property.until)) {
        rendered.insert(property.name.to_owned(), property.schema.render(version));
        if property.required {
            required.push(json!(property.name));
        }
    }
    map.insert("properties".to_owned(), Value::Object(rendered));
    if !required.is_empty() {
        map.insert("required".to_owned(), Value::Array(required));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::microversion::v;

    #[test]
    fn renders_each_version() {
        let schema = object([
            req("name", string().max_length(10).from(2, 5, string().max_length(20))),
            opt("old", integer()).until(2, 3),
            req("new", null_or(boolean())).since(2, 4),
        ]);
        assert_eq!(
            schema.render(v(2, 1)),
            json!({
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 10}, "old": {"type": "integer"}},
                "required": ["name"],
                "additionalProperties": false,
            })
        );
        let later = schema.render(v(2, 5));
        assert_eq!(later["properties"]["name"]["maxLength"], 20);
        assert_eq!(later["required"], json!(["name", "new"]));
        assert_eq!(later["properties"]["new"]["type"], json!(["boolean", "null"]));
        let breaks: Vec<_> = schema.breakpoints().into_iter().collect();
        assert_eq!(breaks, [Microversion::NONE, v(2, 4), v(2, 5)]);
    }

    #[test]
    fn keys_are_added_and_taken_away() {
        let base = object_of(vec![req("a", string()).within(v(2, 2), Some(v(2, 3))), req("b", integer())]);
        let shown = base.clone().plus([opt("c", boolean())]).render(v(2, 2));
        assert_eq!(shown["required"], json!(["a", "b"]));
        assert_eq!(shown["properties"]["c"], json!({"type": "boolean"}));
        assert_eq!(shown["additionalProperties"], json!(false));
        assert_eq!(base.clone().render(v(2, 4))["required"], json!(["b"]));
        assert_eq!(base.clone().without(&["b"]).render(v(2, 2))["required"], json!(["a"]));
        assert_eq!(base.clone().only(&["b"]).render(v(2, 2))["required"], json!(["b"]));
        assert!(base.optional().render(v(2, 2)).get("required").is_none());
    }

    #[test]
    fn queries_become_strict() {
        let schema = query([many("limit", string())]).strict_since(2, 75);
        assert_eq!(schema.render(v(2, 74))["additionalProperties"], json!(true));
        assert_eq!(schema.render(v(2, 75))["additionalProperties"], json!(false));
    }
}
