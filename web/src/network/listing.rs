//! Collections: filters, order, pages and selected fields, the same for every resource.
//!
//! A filter is an attribute's name and a value. Several values of one name are alternatives. Tags are different: `tags`
//! finds rows that have all the values, and `not-tags` finds rows that lack at least one of them. Unknown names are
//! ignored, as in Neutron without the extension `filter-validation`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::attributes::as_boolean;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::query::Query;
use crate::reply::Reply;

/// Parameters that are not filters.
const RESERVED: [&str; 6] = ["fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"];

/// Filters that every collection has.
const OF_TAGS: [&str; 4] = ["tags", "tags-any", "not-tags", "not-tags-any"];

/// Answers the `rows` that the query requests. `collection` is the key of the body; `path` is the path of the
/// collection.
pub(super) fn list(ctx: &Ctx, collection: &str, path: &str, rows: Vec<Value>) -> Result<Reply, Fault> {
    let query = &ctx.query;
    let filters = ListFilters::of(query, &rows);
    let mut rows: Vec<Value> = rows.into_iter().filter(|row| filters.match_row(row)).collect();
    sort(&mut rows, query)?;
    let page = page(rows, query)?;
    let fields: BTreeSet<&str> = query.all("fields").collect();
    let mut body = Map::new();
    let (first, last) = (page.rows.first().map(id_of), page.rows.last().map(id_of));
    let shown: Vec<Value> = page.rows.into_iter().map(|row| only(row, &fields)).collect();
    body.insert(collection.to_owned(), Value::Array(shown));
    let linked = ctx.page_query();
    let mut links = Vec::new();
    if let Some(last) = last.filter(|_| page.more) {
        links.push(json!({"rel": "next", "href": ctx.links.next(path, &linked, &last)}));
    }
    if let Some(first) = first.filter(|_| page.before) {
        let href = format!("{}&page_reverse=True", ctx.links.next(path, &linked, &first));
        links.push(json!({"rel": "previous", "href": href}));
    }
    if !links.is_empty() {
        body.insert(format!("{collection}_links"), Value::Array(links));
    }
    Ok(Reply::ok(Value::Object(body)))
}

/// One resource under its key, with the requested fields.
pub(super) fn one(ctx: &Ctx, resource: &str, row: Value) -> Reply {
    let fields: BTreeSet<&str> = ctx.query.all("fields").collect();
    Reply::ok(json!({resource: only(row, &fields)}))
}

fn only(row: Value, fields: &BTreeSet<&str>) -> Value {
    match row {
        Value::Object(mut map) if !fields.is_empty() => {
            map.retain(|name, _| fields.contains(name.as_str()));
            Value::Object(map)
        }
        row => row,
    }
}

fn id_of(row: &Value) -> String {
    row["id"].as_str().unwrap_or_default().to_owned()
}

/// The filters of a query, parsed once. Repeated parameters cost nothing more per row. To match a row costs one look-up
/// for each different name, and one for each different tag or condition on addresses.
struct ListFilters<'a>(BTreeMap<&'a str, ValueFilter<'a>>);

/// The values of one name.
enum ValueFilter<'a> {
    AllTags(BTreeSet<&'a str>),
    AnyTag(BTreeSet<&'a str>),
    NotAllTags(BTreeSet<&'a str>),
    NoTag(BTreeSet<&'a str>),
    /// The values of each of `ip_address`, `subnet_id` and `ip_address_substr`.
    FixedIps(BTreeMap<&'a str, BTreeSet<&'a str>>),
    OneOf {
        values: BTreeSet<&'a str>,
        truths: BTreeSet<bool>,
    },
}

impl<'a> ListFilters<'a> {
    /// Reads the filters. Skips [`RESERVED`] names, and other names that are neither an attribute of a row nor a filter
    /// by tags.
    fn of(query: &'a Query, rows: &[Value]) -> Self {
        let attributes: BTreeSet<&str> =
            rows.iter().filter_map(Value::as_object).flat_map(Map::keys).map(String::as_str).chain(OF_TAGS).collect();
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (key, value) in query.pairs() {
            if attributes.contains(key.as_str()) && !RESERVED.contains(&key.as_str()) {
                values.entry(key).or_default().insert(value);
            }
        }
        Self(values.into_iter().map(|(key, values)| (key, ValueFilter::of(key, values))).collect())
    }

    fn match_row(&self, row: &Value) -> bool {
        self.0.iter().all(|(key, wanted)| wanted.matches(row, key))
    }
}

impl<'a> ValueFilter<'a> {
    fn of(key: &str, values: BTreeSet<&'a str>) -> Self {
        let listed = || values.iter().flat_map(|text| text.split(',')).collect();
        match key {
            "tags" => Self::AllTags(listed()),
            "tags-any" => Self::AnyTag(listed()),
            "not-tags" => Self::NotAllTags(listed()),
            "not-tags-any" => Self::NoTag(listed()),
            "fixed_ips" => Self::FixedIps(conditions(&values)),
            _ => {
                let truths = values.iter().filter_map(|text| as_boolean(&json!(text))).collect();
                Self::OneOf { values, truths }
            }
        }
    }

    fn matches(&self, row: &Value, key: &str) -> bool {
        match self {
            Self::AllTags(tags) => has_all(row, tags),
            Self::AnyTag(tags) => has_any(row, tags),
            Self::NotAllTags(tags) => !has_all(row, tags),
            Self::NoTag(tags) => !has_any(row, tags),
            Self::FixedIps(conditions) => has_fixed_ip(row, conditions),
            Self::OneOf { values, truths } => row.get(key).is_none_or(|value| equals_any(value, values, truths)),
        }
    }
}

fn tags(row: &Value) -> impl Iterator<Item = &str> {
    row["tags"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn has_all(row: &Value, wanted: &BTreeSet<&str>) -> bool {
    let held: BTreeSet<&str> = tags(row).collect();
    wanted.is_subset(&held)
}

fn has_any(row: &Value, wanted: &BTreeSet<&str>) -> bool {
    tags(row).any(|tag| wanted.contains(tag))
}

/// The conditions of `fixed_ips` by their names: `ip_address=10.0.0.5`, `subnet_id=...` or `ip_address_substr=10.0`.
fn conditions<'a>(values: &BTreeSet<&'a str>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut named: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for text in values {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        named.entry(name).or_default().insert(value);
    }
    named
}

/// Whether one fixed address of the row meets a condition of each name.
fn has_fixed_ip(row: &Value, conditions: &BTreeMap<&str, BTreeSet<&str>>) -> bool {
    let meets = |fixed: &Value, name: &str, value: &str| match name {
        "ip_address_substr" => fixed["ip_address"].as_str().is_some_and(|address| address.contains(value)),
        _ => fixed[name] == value,
    };
    let each =
        |fixed: &Value| conditions.iter().all(|(name, values)| values.iter().any(|value| meets(fixed, name, value)));
    row["fixed_ips"].as_array().into_iter().flatten().any(each)
}

fn equals_any(value: &Value, wanted: &BTreeSet<&str>, truths: &BTreeSet<bool>) -> bool {
    match value {
        Value::String(text) => wanted.contains(text.as_str()),
        Value::Bool(flag) => truths.contains(flag),
        Value::Number(number) => wanted.contains(number.to_string().as_str()),
        Value::Null => ["", "null", "None"].iter().any(|none| wanted.contains(none)),
        Value::Array(items) => items.iter().any(|item| equals_any(item, wanted, truths)),
        Value::Object(_) => false,
    }
}

/// Sorts by the requested keys, then by id, so that pages never overlap.
fn sort(rows: &mut [Value], query: &Query) -> Result<(), Fault> {
    let keys: Vec<&str> = query.all("sort_key").collect();
    let directions: Vec<&str> = query.all("sort_dir").collect();
    if !directions.is_empty() && directions.len() != keys.len() {
        return Err(Fault::bad_request("The number of sort_keys and sort_dirs must be same"));
    }
    if let Some(wrong) = directions.iter().find(|direction| !matches!(**direction, "asc" | "desc")) {
        return Err(Fault::bad_request(format!("'{wrong}' is not a valid sort direction: use 'asc' or 'desc'")));
    }
    if let Some(row) = rows.first().filter(|row| row.is_object())
        && let Some(wrong) = keys.iter().find(|key| row.get(**key).is_none())
    {
        return Err(Fault::bad_request(format!("'{wrong}' is an invalid attribute for sort keys")));
    }
    // A repeated sort key has no effect.
    let mut seen = BTreeSet::new();
    let named = keys.iter().enumerate().filter(|(_, key)| seen.insert(**key));
    let orders: Vec<(&str, bool)> = named.map(|(index, key)| (*key, directions.get(index) == Some(&"desc"))).collect();
    rows.sort_by(|a, b| {
        for (key, descending) in &orders {
            let order = compare(&a[*key], &b[*key]);
            let order = if *descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        compare(&a["id"], &b["id"])
    });
    Ok(())
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (a, b) => a.to_string().cmp(&b.to_string()),
    }
}

struct NetworkListPage {
    rows: Vec<Value>,
    more: bool,
    before: bool,
}

fn page(mut rows: Vec<Value>, query: &Query) -> Result<NetworkListPage, Fault> {
    let limit = match query.last("limit") {
        None => None,
        Some(text) => match text.parse::<i64>() {
            Ok(limit) if limit >= 0 => usize::try_from(limit).ok().filter(|limit| *limit > 0),
            _ => {
                let message = format!("Limit must be an integer 0 or greater and not '{text}'");
                return Err(Fault::bad_request(message).key("HTTPBadRequest"));
            }
        },
    };
    let reverse = query.last("page_reverse").is_some_and(|text| as_boolean(&json!(text)) == Some(true));
    let mut before = false;
    let mut more = false;
    if let Some(marker) = query.last("marker").filter(|marker| !marker.is_empty()) {
        let place = rows.iter().position(|row| row["id"] == marker);
        let place = place.ok_or_else(|| Fault::bad_request(format!("Marker '{marker}' could not be found.")))?;
        if reverse {
            rows.truncate(place);
            more = true;
        } else {
            rows.drain(..=place);
            before = true;
        }
    }
    if let Some(limit) = limit.filter(|limit| rows.len() > *limit) {
        if reverse {
            rows.drain(..rows.len() - limit);
            before = true;
        } else {
            rows.truncate(limit);
            more = true;
        }
    }
    // Without a limit the answer has no page links.
    Ok(NetworkListPage { rows, more: more && limit.is_some(), before: before && limit.is_some() })
}
