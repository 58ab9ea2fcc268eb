//! Key pairs.

use super::{list, one};
use crate::answers::{Answers, empty, json, ok};
use crate::compute::views::keypair::{CREATED, LISTED, SHOWN};
use crate::schema::{Schema, opt, shape};

pub fn index() -> Answers {
    let links = opt("keypairs_links", shape::links()).since(2, 35);
    ok(list("keypairs", one("keypair", LISTED.shape())).plus([links]))
}

pub fn show() -> Answers {
    ok(one("keypair", SHOWN.shape()))
}

/// A generated key pair has the private key.
fn created() -> Schema {
    one("keypair", CREATED.shape().plus([opt("private_key", shape::string())]))
}

pub fn create() -> Answers {
    json(200, created()).until(2, 1).or(json(201, created()).since(2, 2))
}

pub fn remove() -> Answers {
    empty(202).until(2, 1).or(empty(204).since(2, 2))
}
