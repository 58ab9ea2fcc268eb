//! Extensions and external events.

use super::{list, one};
use crate::answers::{Answers, json, ok};
use crate::schema::{Schema, choice, object, opt, req, shape};

fn extension() -> Schema {
    object([
        req("alias", shape::string()),
        req("description", shape::string()),
        req("links", shape::links()),
        req("name", shape::string()),
        req("namespace", shape::string()),
        req("updated", shape::string()),
    ])
}

pub fn extensions() -> Answers {
    ok(list("extensions", extension()))
}

pub fn extension_shown() -> Answers {
    ok(one("extension", extension()))
}

/// 207 if at least one event was not accepted.
pub fn external_events() -> Answers {
    let event = || {
        object([
            req("name", shape::string()),
            req("server_uuid", shape::string()),
            opt("tag", shape::string()),
            req("status", choice(["completed", "failed"])),
            req("code", shape::integer()),
        ])
    };
    json(200, list("events", event())).or(json(207, list("events", event())))
}
