//! `chronova adopt` converts the databases of a recorded Nova (`tests/golden/nova-zed`). The control plane then answers
//! as that Nova did.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "adoption/checks.rs"]
mod checks;
#[path = "adoption/compare.rs"]
mod compare;
#[path = "adoption/dumps.rs"]
mod dumps;
#[path = "adoption/equality.rs"]
mod equality;
#[path = "adoption/exported.rs"]
mod exported;
#[path = "adoption/exported_sql.rs"]
mod exported_sql;
#[path = "adoption/given.rs"]
mod given;
#[path = "adoption/hosts.rs"]
mod hosts;
#[path = "adoption/live.rs"]
mod live;
#[path = "adoption/mariadb.rs"]
mod mariadb;
#[path = "../../events/tests/database/mod.rs"]
mod postgres;
#[path = "adoption/random.rs"]
mod random;
#[path = "adoption/rights.rs"]
mod rights;
#[path = "adoption/states.rs"]
mod states;
#[path = "adoption/written.rs"]
mod written;
