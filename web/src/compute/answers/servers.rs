//! Servers, and the actions of servers whose answers have a body.

use super::{list, one, page};
use crate::answers::{Answers, accepted, done, json, ok};
use crate::compute::views::server::{BRIEF, SERVER, group_names};
use crate::schema::{Schema, any_of, array, object, opt, req, shape};

pub fn index() -> Answers {
    ok(page("servers", BRIEF.shape(), "servers_links"))
}

/// Lists leave the server groups out.
pub fn detail() -> Answers {
    ok(page("servers", SERVER.shape().without(&["server_groups"]), "servers_links"))
}

/// With `return_reservation_id` the answer has only the id of the reservation, and no `Location`.
pub fn create() -> Answers {
    let server = object([
        req("id", shape::uuid()),
        req("links", shape::links()),
        req("OS-DCF:diskConfig", shape::string()),
        req("security_groups", group_names()),
        opt("adminPass", shape::string()),
    ]);
    let body = any_of([one("server", server), one("reservation_id", shape::string())]);
    json(202, body).header_sometimes("Location")
}

pub fn show() -> Answers {
    ok(one("server", SERVER.shape()))
}

pub fn rebuild() -> Answers {
    let server = SERVER
        .shape()
        .without(&["OS-EXT-SRV-ATTR:user_data"])
        .plus([req("user_data", shape::string_or_null()).since(2, 57), opt("adminPass", shape::string())]);
    json(202, one("server", server)).header("Location")
}

/// `createImage` and `createBackup`. A backup that keeps no image has no `Location`.
pub fn image() -> Answers {
    let named = json(202, one("image_id", shape::uuid())).since(2, 45);
    accepted().until(2, 44).header_sometimes("Location").or(named)
}

pub fn rescue() -> Answers {
    ok(object([opt("adminPass", shape::string())]))
}

/// For a server on shared storage, `adminPass` is null, because the server keeps its password.
pub fn evacuate() -> Answers {
    ok(object([opt("adminPass", shape::string_or_null())])).until(2, 13).or(done().since(2, 14))
}

pub fn console_output() -> Answers {
    ok(one("output", shape::string()))
}

/// The hosts that the scheduler refused, with its reasons.
fn refused_hosts() -> Schema {
    array(object([req("host", shape::string()), req("reason", shape::string())]))
}

/// The checks of a decision of the scheduler.
pub fn checks() -> Schema {
    array(object([req("name", shape::string()), req("left", shape::integer()), req("refused", refused_hosts())]))
}

/// The weights of the best hosts in a decision of the scheduler.
pub fn weighed() -> Schema {
    let weigher =
        object([req("weigher", shape::string()), req("value", shape::number()), req("weight", shape::number())]);
    array(object([req("host", shape::string()), req("weight", shape::number()), req("weighers", array(weigher))]))
}

/// The decisions of the scheduler about one server.
pub fn scheduling() -> Answers {
    let decision = object([
        req("at", shape::string()),
        req("attempt", shape::integer()),
        req("resources", shape::map_of(shape::integer())),
        req("required", shape::strings()),
        req("hosts", shape::integer()),
        req("checks", checks()),
        req("weighed", weighed()),
        req("chosen", shape::string_or_null()),
        req("alternates", shape::strings()),
        req("lost", refused_hosts()),
    ]);
    ok(one("chronova:scheduling", list("decisions", decision).plus([req("server_id", shape::uuid())])))
}
