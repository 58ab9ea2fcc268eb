//! Lists: filters, order and pages, the same for volumes, snapshots and attachments.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::paging::PageRequest;
use crate::query::{self, Query};
use crate::reply::Reply;

/// Parameters that are not filters.
const RESERVED: [&str; 9] =
    ["limit", "marker", "offset", "sort", "sort_key", "sort_dir", "all_tenants", "with_count", "is_public"];

/// The boolean that a word means; `None` for other words.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// Reads a boolean in a body: `true`, `false`, or a word or digit that means true or false. `null` counts as false.
pub(super) fn flag(value: &Value, name: &str) -> Result<bool, Fault> {
    let read = match value {
        Value::Null => Some(false),
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => truth(text),
        Value::Number(number) => truth(&number.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    };
    read.ok_or_else(|| {
        Fault::bad_request(format!("Invalid value '{value}' for {name}. Accepted values: True or False."))
    })
}

/// Whether an administrator requests the resources of all projects.
pub(super) fn all_projects(ctx: &Ctx) -> Result<bool, Fault> {
    let Some(text) = ctx.query.last("all_tenants") else { return Ok(false) };
    let wanted = truth(text).ok_or_else(|| {
        Fault::bad_request(format!("Invalid input received: all_tenants param must be a boolean, not '{text}'."))
    });
    // As in Cinder, the parameter has no effect for callers that are no administrators.
    Ok(wanted? && ctx.caller().is_admin)
}

/// The rows that match the query's filters. A row has the fields of a detailed list.
pub(super) fn filter(rows: Vec<Value>, query: &Query) -> Vec<Value> {
    let matches = |row: &Value| {
        let mut pairs = query.pairs().iter().filter(|(key, _)| !RESERVED.contains(&key.as_str()));
        pairs.all(|(key, wanted)| matches_one(row, key, wanted))
    };
    rows.into_iter().filter(|row| matches(row)).collect()
}

fn matches_one(row: &Value, key: &str, wanted: &str) -> bool {
    if let Some(key) = key.strip_suffix('~') {
        return row[key].as_str().is_some_and(|text| text.contains(wanted));
    }
    let key = match key {
        "display_name" => "name",
        "project_id" => "os-vol-tenant-attr:tenant_id",
        other => other,
    };
    match (&row[key], key) {
        (Value::Object(map), "metadata") => pairs_in(wanted).all(|(key, value)| map.get(&key) == Some(&json!(value))),
        (Value::Bool(flag), _) => truth(wanted) == Some(*flag),
        (Value::String(text), "bootable") => truth(wanted) == truth(text),
        (Value::String(text), _) => text.eq_ignore_ascii_case(wanted),
        (Value::Number(number), _) => number.to_string() == wanted,
        (Value::Null, _) if row.get(key).is_some() => wanted.is_empty() || wanted == "None",
        // As in Cinder, an unknown filter is ignored.
        _ => true,
    }
}

/// The pairs of a dictionary as clients print it: `{'key': 'value', ...}`.
fn pairs_in(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let strip = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
    let entries = text.trim().trim_start_matches('{').trim_end_matches('}').split(',');
    entries.filter_map(move |entry| {
        let (key, value) = entry.split_once(':')?;
        Some((strip(key.trim().trim_start_matches('u')), strip(value.trim().trim_start_matches('u'))))
    })
}

/// Sorts as the query requests, or newest first. Rows with equal keys are sorted by id, so that pages never overlap.
pub(super) fn sort(rows: &mut [Value], query: &Query) -> Result<(), Fault> {
    let keys = effective(order(query)?, rows);
    rows.sort_by(|a, b| {
        let by_key = |(key, ascending): &(String, bool)| {
            let ordering = compare(&a[key.as_str()], &b[key.as_str()]);
            if *ascending { ordering } else { ordering.reverse() }
        };
        let ordering = keys.iter().map(by_key).find(|ordering| *ordering != Ordering::Equal);
        ordering.unwrap_or_else(|| compare(&b["id"], &a["id"]))
    });
    Ok(())
}

/// The keys that can affect the order: fields of the rows, each once.
fn effective(mut keys: Vec<(String, bool)>, rows: &[Value]) -> Vec<(String, bool)> {
    let fields: BTreeSet<&String> = rows.iter().filter_map(Value::as_object).flat_map(Map::keys).collect();
    keys.retain(|(key, _)| fields.contains(key));
    query::drop_repeated(&mut keys);
    keys
}

fn order(query: &Query) -> Result<Vec<(String, bool)>, Fault> {
    let direction = |text: &str| match text {
        "asc" => Ok(true),
        "desc" | "" => Ok(false),
        _ => Err(Fault::bad_request("Invalid input received: Invalid sort direction, must be 'desc' or 'asc'.")),
    };
    if let Some(sort) = query.last("sort").filter(|sort| !sort.is_empty()) {
        let entry = |text: &str| {
            let (key, dir) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
            direction(dir).map(|ascending| (key.to_owned(), ascending))
        };
        return sort.split(',').map(entry).collect();
    }
    match query.last("sort_key") {
        Some(key) => Ok(vec![(key.to_owned(), direction(query.last("sort_dir").unwrap_or("desc"))?)]),
        None => Ok(vec![("created_at".to_owned(), false)]),
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_i64().cmp(&b.as_i64()),
        _ => a.as_str().unwrap_or_default().cmp(b.as_str().unwrap_or_default()),
    }
}

/// The requested page under `key`, with the link to the next page and, on request, the total count.
pub(super) fn page(ctx: &Ctx, key: &str, path: &str, rows: Vec<Value>) -> Result<Reply, Fault> {
    let count = rows.len();
    let mut rows = rows;
    let offset = ctx.query.last("offset").map(|text| {
        text.parse::<usize>().map_err(|_| Fault::bad_request("Invalid input received: offset must be an integer."))
    });
    rows.drain(..offset.transpose()?.unwrap_or(0).min(count));
    let page = PageRequest::of(&ctx.query, ctx.app.config.max_limit)?;
    let id = |row: &Value| row["id"].as_str().unwrap_or_default().to_owned();
    let (rows, more) = page.cut(rows, id)?;
    let mut body = Map::new();
    let next = rows.last().filter(|_| more).map(|last| ctx.links.next(path, &ctx.page_query(), &id(last)));
    body.insert(key.to_owned(), Value::Array(rows));
    if let Some(href) = next {
        body.insert(format!("{key}_links"), json!([{"rel": "next", "href": href}]));
    }
    if ctx.query.last("with_count").and_then(truth) == Some(true) {
        body.insert("count".to_owned(), json!(count));
    }
    Ok(Reply::ok(Value::Object(body)))
}

/// Keeps only these fields of each row.
pub(super) fn only(rows: Vec<Value>, fields: &[&str]) -> Vec<Value> {
    let cut = |mut row: Value| {
        if let Value::Object(map) = &mut row {
            map.retain(|name, _| fields.contains(&name.as_str()));
        }
        row
    };
    rows.into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn rows() -> Vec<Value> {
        vec![
            json!({"id": "a", "name": "x", "size": 2, "bootable": "true", "created_at": "1", "metadata": {"k": "v"}}),
            json!({"id": "b", "name": "y", "size": 10, "bootable": "false", "created_at": "2", "metadata": {}}),
        ]
    }

    fn ids(text: &str) -> String {
        let query = Query::parse(text).unwrap();
        let mut found = filter(rows(), &query);
        sort(&mut found, &query).unwrap();
        found.iter().map(|row| row["id"].as_str().unwrap()).collect()
    }

    #[test]
    fn filters_and_orders() {
        assert_eq!(ids(""), "ba", "newest first");
        assert_eq!(ids("sort=size:asc"), "ab", "as numbers");
        assert_eq!(ids("sort_key=name&sort_dir=asc"), "ab");
        assert_eq!(ids("name=x"), "a");
        assert_eq!(ids("bootable=True"), "a");
        assert_eq!(ids("size=10"), "b");
        assert_eq!(ids("metadata={'k': 'v'}"), "a");
        assert_eq!(ids("name~=y"), "b");
        assert_eq!(ids("nonsense=1"), "ba");
        assert!(order(&Query::parse("sort=size:up").unwrap()).is_err());
        let unknown = (0..1_000).map(|n| format!("x{n},")).collect::<Vec<_>>().concat();
        let many = Query::parse(&format!("sort={unknown}name:asc,{}size", "name,".repeat(1_000))).unwrap();
        let keys = [("name".to_owned(), true), ("size".to_owned(), false)];
        assert_eq!(effective(order(&many).unwrap(), &rows()), keys, "keys without an effect cost time");
    }
}
