//! The filters and the order of a list of images.

use std::cmp::Ordering;
use std::sync::Arc;

use chrono::DateTime;
use chronova_actors::services::embedded::image::access::ImageScope;
use chronova_events::image::ImageRecord;
use serde_json::Value;

use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::query::{self, Query};
use crate::schema::is_true;

use super::views;

/// The attributes by which a list can be sorted.
const SORTABLE: [&str; 10] = [
    "name",
    "status",
    "container_format",
    "disk_format",
    "size",
    "id",
    "created_at",
    "updated_at",
    "min_ram",
    "min_disk",
];
/// Parameters that [`passes`] ignores: those of pages and order, and `member_status`, which [`listed`] reads.
const PAGING: [&str; 6] = ["limit", "marker", "sort", "sort_key", "sort_dir", "member_status"];

/// Whether the filters `visibility` and `member_status` admit the image to the caller's list. [`passes`] applies the
/// other filters.
fn listed(ctx: &Ctx, image: &ImageRecord) -> Result<bool, Fault> {
    let scope = ImageScope::parse(ctx.query.last("visibility"), ctx.query.last("member_status"));
    let caller = ctx.caller();
    Ok(scope.map_err(Fault::bad_request)?.has(image, caller.project.as_ref(), caller.is_admin))
}

/// Keeps the images that match the query's filters.
pub(super) fn apply(ctx: &Ctx, images: Vec<Arc<ImageRecord>>) -> Result<Vec<Arc<ImageRecord>>, Fault> {
    let mut kept = Vec::with_capacity(images.len());
    for image in images {
        if listed(ctx, &image)? && passes(&image, &ctx.query)? {
            kept.push(image);
        }
    }
    Ok(kept)
}

fn passes(image: &ImageRecord, query: &Query) -> Result<bool, Fault> {
    // Hidden images are listed only on request.
    let hidden = query.last("os_hidden").is_some_and(|text| is_true(&Value::from(text)));
    if image.attributes.hidden != hidden {
        return Ok(false);
    }
    let shown = views::image(image);
    for (key, wanted) in query.pairs() {
        let wanted = wanted.as_str();
        let pass = match key.as_str() {
            key if PAGING.contains(&key) => true,
            "os_hidden" => true,
            "visibility" => wanted == "all" || shown["visibility"] == wanted,
            "tag" => image.attributes.tags.iter().any(|tag| tag == wanted),
            "protected" => image.attributes.protected == boolean(key, wanted)?,
            "size_min" => shown["size"].as_u64().unwrap_or(0) >= number(key, wanted)?,
            "size_max" => shown["size"].as_u64().unwrap_or(0) <= number(key, wanted)?,
            "min_ram" | "min_disk" | "size" => shown[key.as_str()].as_u64() == Some(number(key, wanted)?),
            "created_at" => compare_time(image.created_at.seconds(), wanted)?,
            "updated_at" => compare_time(image.updated_at.seconds(), wanted)?,
            key => text_matches(&shown[key], wanted),
        };
        if !pass {
            return Ok(false);
        }
    }
    Ok(true)
}

fn boolean(key: &str, text: &str) -> Result<bool, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Fault::bad_request(format!("Invalid value '{text}' for '{key}': must be 'true' or 'false'."))),
    }
}

fn number(key: &str, text: &str) -> Result<u64, Fault> {
    text.parse().map_err(|_| Fault::bad_request(format!("Invalid value '{text}' for filter '{key}': not an integer.")))
}

/// A filter `in:a,"b,c"` matches an attribute that equals one of these texts. Any other filter must equal the
/// attribute.
fn text_matches(value: &Value, wanted: &str) -> bool {
    let Some(text) = value.as_str() else { return false };
    match wanted.strip_prefix("in:") {
        Some(choice) => split_choice(choice).iter().any(|one| one == text),
        None => text == wanted,
    }
}

fn split_choice(choice: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    for c in choice.chars() {
        match (c, all.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => all.push(String::new()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    all
}

/// Compares a time with a filter such as `gt:2026-01-01T00:00:00Z`. Without an operator, the times must be equal.
fn compare_time(seconds: i64, wanted: &str) -> Result<bool, Fault> {
    let (operator, time) = match wanted.split_once(':') {
        Some((operator @ ("gt" | "gte" | "lt" | "lte" | "eq" | "neq"), time)) => (operator, time),
        _ => ("eq", wanted),
    };
    // Times without a zone are UTC.
    let parsed = DateTime::parse_from_rfc3339(time).or_else(|_| DateTime::parse_from_rfc3339(&format!("{time}Z")));
    let limit = parsed.map_err(|_| Fault::bad_request(format!("Invalid time value: {time}")))?.timestamp();
    Ok(match operator {
        "gt" => seconds > limit,
        "gte" => seconds >= limit,
        "lt" => seconds < limit,
        "lte" => seconds <= limit,
        "neq" => seconds != limit,
        _ => seconds == limit,
    })
}

/// Sorts by `sort=name:asc,size`, or by `sort_key=..&sort_dir=..`. By default, the newest image comes first.
pub(super) fn sort(query: &Query, images: &mut [Arc<ImageRecord>]) -> Result<(), Fault> {
    let keys = order(query)?;
    images.sort_by(|a, b| {
        let by_keys = keys.iter().map(|(key, ascending)| {
            let ordering = compare(key, a, b);
            if *ascending { ordering } else { ordering.reverse() }
        });
        by_keys.fold(Ordering::Equal, Ordering::then)
    });
    Ok(())
}

fn order(query: &Query) -> Result<Vec<(String, bool)>, Fault> {
    let mut keys: Vec<(String, bool)> = Vec::new();
    if let Some(sort) = query.last("sort") {
        if query.has("sort_key") || query.has("sort_dir") {
            return Err(Fault::bad_request("Old and new sorting syntax cannot be combined"));
        }
        for part in sort.split(',') {
            let (key, direction) = part.trim().split_once(':').unwrap_or((part.trim(), "desc"));
            keys.push((key.to_owned(), ascending(direction)?));
        }
    } else {
        let directions: Vec<&str> = query.all("sort_dir").collect();
        for (at, key) in query.all("sort_key").enumerate() {
            let direction = directions.get(at).or(directions.first()).copied().unwrap_or("desc");
            keys.push((key.to_owned(), ascending(direction)?));
        }
        if keys.is_empty()
            && let Some(direction) = directions.first()
        {
            keys.push(("created_at".to_owned(), ascending(direction)?));
        }
    }
    if let Some((key, _)) = keys.iter().find(|(key, _)| !SORTABLE.contains(&key.as_str())) {
        return Err(Fault::bad_request(format!(
            "Invalid sort key: {key}. It must be one of: {}.",
            SORTABLE.join(", ")
        )));
    }
    query::drop_repeated(&mut keys);
    for key in ["created_at", "id"] {
        if !keys.iter().any(|(known, _)| known == key) {
            keys.push((key.to_owned(), false));
        }
    }
    Ok(keys)
}

fn ascending(direction: &str) -> Result<bool, Fault> {
    match direction {
        "asc" => Ok(true),
        "desc" => Ok(false),
        other => Err(Fault::bad_request(format!("Invalid sort direction: {other}"))),
    }
}

fn compare(key: &str, a: &ImageRecord, b: &ImageRecord) -> Ordering {
    let size = |image: &ImageRecord| image.content.stored().map(|stored| stored.size);
    match key {
        "name" => a.attributes.name.cmp(&b.attributes.name),
        "status" => a.content.status().cmp(b.content.status()),
        "container_format" => a.attributes.container_format.cmp(&b.attributes.container_format),
        "disk_format" => a.attributes.disk_format.cmp(&b.attributes.disk_format),
        "size" => size(a).cmp(&size(b)),
        "created_at" => a.created_at.cmp(&b.created_at),
        "updated_at" => a.updated_at.cmp(&b.updated_at),
        "min_ram" => a.attributes.min_ram_mib.cmp(&b.attributes.min_ram_mib),
        "min_disk" => a.attributes.min_disk_gib.cmp(&b.attributes.min_disk_gib),
        _ => a.id.cmp(&b.id),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn choices_times_and_orders() {
        let name = Value::from("a,b");
        assert!(text_matches(&name, "in:x,\"a,b\"") && text_matches(&name, "a,b") && !text_matches(&name, "in:a,b"));
        assert!(compare_time(10, "gt:1970-01-01T00:00:09Z").unwrap());
        assert!(compare_time(10, "1970-01-01T00:00:10").unwrap());
        assert!(compare_time(10, "yesterday").is_err());
        let order = |text: &str| order(&Query::parse(text).unwrap());
        assert_eq!(order("sort=name:asc,id").unwrap()[..2], [("name".into(), true), ("id".into(), false)]);
        assert_eq!(order("sort_key=size&sort_dir=asc").unwrap()[0], ("size".to_owned(), true));
        assert_eq!(order("").unwrap()[0], ("created_at".to_owned(), false));
        let many = format!("sort=size:asc,{}", "name,size,".repeat(1_000) + "name");
        let names: Vec<String> = order(&many).unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(names, ["size", "name", "created_at", "id"], "repeated keys cost time");
        assert!(
            order("sort=colour").is_err() && order("sort=name&sort_key=id").is_err() && order("sort_dir=up").is_err()
        );
    }
}
