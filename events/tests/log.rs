//! Tests of the log, of its stores and of the events.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod audit_index;
mod catalogue;
mod child;
mod conformance;
mod copying;
mod crash;
mod damage;
mod database;
mod encryption;
mod faults;
mod followers;
mod leases;
mod levels;
mod model;
mod onlookers;
mod personal;
mod postgres;
mod replication;
mod retention;
mod shredding;
mod verify;
