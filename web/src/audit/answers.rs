//! The schemas of the answers to auditors.

use super::events::{CLOUD_EVENTS, SSE};
use crate::answers::{Answers, ok, other};
use crate::schema::{Property, Schema, any, any_of, array, object, opt, req, shape};

/// A live feed.
fn feed() -> Answers {
    other(200, SSE).header("Cache-Control").header("X-Accel-Buffering")
}

pub(super) fn changes() -> Answers {
    feed()
}

fn resource() -> Schema {
    object([req("typeURI", shape::string()), req("id", shape::string())])
}

fn initiator() -> Schema {
    resource().plus([opt("project_id", shape::string()), opt("host", any())])
}

/// An event of the log. `cause` says who asked. The fields of CADF describe the event in the words of that standard.
fn event() -> Schema {
    object([
        req("position", shape::integer()),
        req("stream", shape::string()),
        req("revision", shape::integer()),
        req("id", shape::uuid()),
        req("kind", shape::string()),
        req("version", shape::integer()),
        req("recorded_at", shape::string()),
        req("request_id", shape::string_or_null()),
        req("correlation", shape::string()),
        req("causation", shape::string_or_null()),
        req("cause", object([]).open()),
        req("initiator", initiator()),
        req("action", shape::string()),
        req("target", resource()),
        req("outcome", shape::string()),
        req("reason", any()),
        opt("personal", shape::string()),
        req("payload", any()),
    ])
}

/// An event with `format=cadf`: only the standard's fields, and the others in an attachment.
fn cadf_event() -> Schema {
    let content = object([
        req("position", shape::integer()),
        req("kind", shape::string()),
        req("request_id", shape::string_or_null()),
        req("payload", any()),
    ]);
    let attachment = object([req("name", shape::string()), req("typeURI", shape::string()), req("content", content)]);
    object([
        req("initiator", initiator()),
        req("action", shape::string()),
        req("target", resource()),
        req("outcome", shape::string()),
        opt("reason", any()),
        req("typeURI", shape::string()),
        req("eventType", shape::string()),
        req("id", shape::uuid()),
        req("eventTime", shape::string()),
        req("observer", resource().plus([req("name", shape::string())])),
        req("attachments", array(attachment)),
    ])
}

/// A page, a batch of CloudEvents, or a live feed, as the client asks.
pub(super) fn events() -> Answers {
    let page = object([
        req("events", array(any_of([event(), cadf_event()]))),
        req("position", shape::integer()),
        req("next", shape::integer_or_null()),
    ]);
    ok(page).or(other(200, CLOUD_EVENTS).header("X-Chronova-Position")).or(feed())
}

/// One of the keys names the user, the server or the project.
fn whose() -> Property {
    let keys = ["user", "server", "project"].map(|name| opt(name, shape::string()));
    req("whose", object(keys).min_properties(1).max_properties(1))
}

pub(super) fn erasures() -> Answers {
    let erasure = object([
        req("id", shape::uuid()),
        whose(),
        req("reason", shape::string()),
        req("asked_by", shape::string_or_null()),
        req("requested_at", shape::string()),
        req("completed_at", shape::string_or_null()),
        req("keys_destroyed", shape::integer_or_null()),
        req("servers", shape::integer()),
    ]);
    ok(object([req("erasures", array(erasure))]))
}

/// A dry run shows only what would be erased.
pub(super) fn erased() -> Answers {
    let plan = object([
        whose(),
        req("user", shape::string_or_null()),
        req("user_exists", shape::boolean()),
        req("servers", array(shape::uuid())),
        req("alive", array(shape::uuid())),
        opt("id", shape::uuid()),
        opt("keys_destroyed", shape::integer()),
    ]);
    ok(object([req("erasure", plan), req("dry_run", shape::boolean())]))
}
