//! Server groups.

use super::{list, one};
use crate::answers::{Answers, ok};
use crate::compute::views::server_group::SERVER_GROUP;

pub fn index() -> Answers {
    ok(list("server_groups", SERVER_GROUP.shape()))
}

pub fn show() -> Answers {
    ok(one("server_group", SERVER_GROUP.shape()))
}
