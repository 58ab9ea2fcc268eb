//! Collections: filters, order, pages and the choice of fields, alike for every resource.
//!
//! A filter is an attribute's name and a value; several values of one name are alternatives. Names that are no attribute
//! are ignored, as Neutron does where the extension `filter-validation` is not there.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::attributes::as_boolean;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::query::Query;
use crate::reply::Reply;

/// Parameters that are no filters.
const RESERVED: [&str; 6] = ["fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"];

/// Answers `rows` as the query wants them. `collection` is the key of the body, `path` the collection's place.
pub(super) fn list(ctx: &Ctx, collection: &str, path: &str, rows: Vec<Value>) -> Result<Reply, Fault> {
    let query = &ctx.query;
    let mut rows: Vec<Value> = rows.into_iter().filter(|row| matches_filters(row, query)).collect();
    sort(&mut rows, query)?;
    let page = page(rows, query)?;
    let fields: Vec<&str> = query.all("fields").collect();
    let mut body = Map::new();
    let (first, last) = (page.rows.first().map(id_of), page.rows.last().map(id_of));
    let shown: Vec<Value> = page.rows.into_iter().map(|row| only(row, &fields)).collect();
    body.insert(collection.to_owned(), Value::Array(shown));
    let mut links = Vec::new();
    if let Some(last) = last.filter(|_| page.more) {
        links.push(json!({"rel": "next", "href": ctx.links.next(path, query, &last)}));
    }
    if let Some(first) = first.filter(|_| page.before) {
        let href = format!("{}&page_reverse=True", ctx.links.next(path, query, &first));
        links.push(json!({"rel": "previous", "href": href}));
    }
    if !links.is_empty() {
        body.insert(format!("{collection}_links"), Value::Array(links));
    }
    Ok(Reply::ok(Value::Object(body)))
}

/// One resource under its key, with the fields that were asked for.
pub(super) fn one(ctx: &Ctx, resource: &str, row: Value) -> Reply {
    let fields: Vec<&str> = ctx.query.all("fields").collect();
    Reply::ok(json!({resource: only(row, &fields)}))
}

fn only(row: Value, fields: &[&str]) -> Value {
    match row {
        Value::Object(mut map) if !fields.is_empty() => {
            map.retain(|name, _| fields.contains(&name.as_str()));
            Value::Object(map)
        }
        row => row,
    }
}

fn id_of(row: &Value) -> String {
    row["id"].as_str().unwrap_or_default().to_owned()
}

fn matches_filters(row: &Value, query: &Query) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    for (key, _) in query.pairs() {
        if RESERVED.contains(&key.as_str()) || seen.contains(&key.as_str()) {
            continue;
        }
        seen.push(key);
        let wanted: Vec<&str> = query.all(key).collect();
        if !matches_filter(row, key, &wanted) {
            return false;
        }
    }
    true
}

fn matches_filter(row: &Value, key: &str, wanted: &[&str]) -> bool {
    let tags = || row["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    let listed = || wanted.iter().flat_map(|text| text.split(',')).collect::<Vec<_>>();
    match key {
        "tags" => listed().iter().all(|tag| tags().contains(tag)),
        "tags-any" => listed().iter().any(|tag| tags().contains(tag)),
        "not-tags" => !listed().iter().all(|tag| tags().contains(tag)),
        "not-tags-any" => !listed().iter().any(|tag| tags().contains(tag)),
        "fixed_ips" => wanted.iter().all(|wish| has_fixed_ip(row, wish)),
        _ => row.get(key).is_none_or(|value| wanted.iter().any(|wish| equals(value, wish))),
    }
}

/// `ip_address=10.0.0.5`, `subnet_id=...` or `ip_address_substr=10.0`.
fn has_fixed_ip(row: &Value, wish: &str) -> bool {
    let Some((name, value)) = wish.split_once('=') else { return false };
    row["fixed_ips"].as_array().into_iter().flatten().any(|fixed| match name {
        "ip_address_substr" => fixed["ip_address"].as_str().is_some_and(|address| address.contains(value)),
        _ => fixed[name] == value,
    })
}

fn equals(value: &Value, wish: &str) -> bool {
    match value {
        Value::String(text) => text == wish,
        Value::Bool(flag) => as_boolean(&Value::String(wish.to_owned())) == Some(*flag),
        Value::Number(number) => number.to_string() == wish,
        Value::Null => wish.is_empty() || wish == "null" || wish == "None",
        Value::Array(items) => items.iter().any(|item| equals(item, wish)),
        Value::Object(_) => false,
    }
}

/// By the keys asked for, then by id, so that pages never overlap.
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
    rows.sort_by(|a, b| {
        for (index, key) in keys.iter().enumerate() {
            let order = compare(&a[*key], &b[*key]);
            let order = if directions.get(index) == Some(&"desc") { order.reverse() } else { order };
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

struct Page {
    rows: Vec<Value>,
    more: bool,
    before: bool,
}

fn page(mut rows: Vec<Value>, query: &Query) -> Result<Page, Fault> {
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
    // Without a limit there are no pages.
    Ok(Page { rows, more: more && limit.is_some(), before: before && limit.is_some() })
}
