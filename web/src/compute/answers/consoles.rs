//! Consoles of servers.

use super::one;
use crate::answers::{Answers, ok};
use crate::schema::{object, opt, req, shape};

/// The console actions, until 2.5.
pub fn of_old() -> Answers {
    ok(one("console", object([req("type", shape::string()), req("url", shape::string())])))
}

pub fn create() -> Answers {
    let shown = [req("protocol", shape::string()), req("type", shape::string()), req("url", shape::string())];
    ok(one("remote_console", object(shown)))
}

pub fn token() -> Answers {
    let shown = [
        req("instance_uuid", shape::uuid()),
        req("host", shape::string()),
        req("port", shape::integer()),
        req("internal_access_path", shape::string_or_null()),
        opt("tls_port", shape::integer_or_null()).since(2, 99),
    ];
    ok(one("console", object(shown)))
}
