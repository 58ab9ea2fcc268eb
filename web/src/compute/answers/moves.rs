//! Migrations.

use super::{list, one};
use crate::answers::{Answers, ok};
use crate::compute::views::migration::MIGRATION;
use crate::compute::views::server_migration::SERVER_MIGRATION;
use crate::schema::{opt, shape};

/// Only a migration that is under way has links.
pub fn index() -> Answers {
    let migration = MIGRATION.shape().plus([opt("links", shape::links()).since(2, 23)]);
    ok(list("migrations", migration).plus([opt("migrations_links", shape::links()).since(2, 59)]))
}

pub fn of_server() -> Answers {
    ok(list("migrations", SERVER_MIGRATION.shape()))
}

pub fn show() -> Answers {
    ok(one("migration", SERVER_MIGRATION.shape()))
}
