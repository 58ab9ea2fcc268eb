//! Lists: their filters and their envelope.

use serde_json::{Map, Value, json};

use crate::ctx::Ctx;
use crate::query::Query;
use crate::reply::Reply;

/// `{"users": [...], "links": {...}}` with the items that match the query's filters. `filters` are the names of
/// attributes. A parameter may add a comparison to the name: `name__contains`. As in Keystone, other parameters are
/// ignored.
pub(super) fn reply(ctx: &Ctx, key: &str, items: Vec<Value>, filters: &[&str]) -> Reply {
    let mut kept: Vec<Value> = items.into_iter().filter(|item| passes(item, &ctx.query, filters)).collect();
    let limit = ctx.query.last("limit").and_then(|limit| limit.parse::<usize>().ok());
    let truncated = limit.is_some_and(|limit| kept.len() > limit);
    if let Some(limit) = limit {
        kept.truncate(limit);
    }
    let query: Vec<(&str, &str)> = ctx.query.pairs().iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut address = own_address(ctx);
    if !query.is_empty() {
        address.push('?');
        address.push_str(&Query::encode(query));
    }
    let mut body = Map::new();
    body.insert(key.to_owned(), Value::Array(kept));
    body.insert("links".to_owned(), links(&address));
    if truncated {
        body.insert("truncated".to_owned(), Value::Bool(true));
    }
    Reply::ok(Value::Object(body))
}

/// The answer to the creation of several resources.
pub(super) fn created(ctx: &Ctx, key: &str, items: &[Value]) -> Reply {
    Reply::json(201, json!({key: items, "links": links(&own_address(ctx))}))
}

/// The address of the list, without the query.
fn own_address(ctx: &Ctx) -> String {
    format!("{}{}", ctx.links.host, ctx.links.path)
}

fn links(address: &str) -> Value {
    json!({"next": null, "self": address, "previous": null})
}

fn passes(item: &Value, query: &Query, filters: &[&str]) -> bool {
    query.pairs().iter().all(|(key, wanted)| {
        let (field, comparison) = key.split_once("__").unwrap_or((key, ""));
        !filters.contains(&field) || compare(&item[field], comparison, wanted)
    })
}

fn compare(value: &Value, comparison: &str, wanted: &str) -> bool {
    let text = match value {
        Value::Bool(truth) => return *truth == is_true(wanted),
        Value::Null => return wanted.is_empty(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (lower, wanted_lower) = (text.to_lowercase(), wanted.to_lowercase());
    match comparison {
        "contains" => text.contains(wanted),
        "icontains" => lower.contains(&wanted_lower),
        "startswith" => text.starts_with(wanted),
        "istartswith" => lower.starts_with(&wanted_lower),
        "endswith" => text.ends_with(wanted),
        "iendswith" => lower.ends_with(&wanted_lower),
        "iexact" => lower == wanted_lower,
        _ => text == wanted,
    }
}

/// A truth value in a query. As in Keystone, every text counts as true, except for these few.
pub(super) fn is_true(text: &str) -> bool {
    !matches!(text.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off")
}

/// Whether a flag such as `include_names` is set. A flag without a value is set.
pub(super) fn flag(query: &Query, name: &str) -> bool {
    query.last(name).is_some_and(is_true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn filters() {
        let item = json!({"name": "Alice", "enabled": true, "domain_id": "default", "parent": null});
        let keeps = |text: &str| passes(&item, &Query::parse(text).unwrap(), &["name", "enabled", "domain_id"]);
        assert!(keeps("") && keeps("name=Alice&enabled=1&unknown=x") && keeps("name__icontains=LIC"));
        assert!(!keeps("name=alice") && !keeps("enabled=False") && !keeps("domain_id=x"));
    }
}
