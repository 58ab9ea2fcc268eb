//! Host aggregates.

use super::{list, one};
use crate::answers::{Answers, ok};
use crate::compute::views::aggregate::{AGGREGATE, CREATED};

pub fn index() -> Answers {
    ok(list("aggregates", AGGREGATE.shape()))
}

pub fn create() -> Answers {
    ok(one("aggregate", CREATED.shape()))
}

pub fn show() -> Answers {
    ok(one("aggregate", AGGREGATE.shape()))
}
