//! Flavors, their extra specs and the projects that may use them.

use super::{list, one, page};
use crate::answers::{Answers, ok};
use crate::compute::views::flavor::{BRIEF, FLAVOR};
use crate::schema::{Schema, any, object, req, shape};

pub fn index() -> Answers {
    ok(page("flavors", BRIEF.shape(), "flavors_links"))
}

pub fn detail() -> Answers {
    ok(page("flavors", FLAVOR.shape(), "flavors_links"))
}

pub fn show() -> Answers {
    ok(one("flavor", FLAVOR.shape()))
}

pub fn access() -> Answers {
    ok(list("flavor_access", object([req("flavor_id", shape::string()), req("tenant_id", shape::string())])))
}

pub fn specs() -> Answers {
    ok(one("extra_specs", shape::pairs()))
}

/// The answer repeats the request, so a number stays a number.
fn repeated() -> Schema {
    shape::map_of(any().types(["string", "number"]))
}

pub fn set_specs() -> Answers {
    ok(one("extra_specs", repeated()))
}

pub fn spec() -> Answers {
    ok(shape::pairs().min_properties(1).max_properties(1))
}

pub fn set_spec() -> Answers {
    ok(repeated().min_properties(1).max_properties(1))
}
