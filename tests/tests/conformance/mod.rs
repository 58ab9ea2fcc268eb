//! Tests each operation of the Compute API on a running control plane against Nova's contract (operations, schemas,
//! policy rules): who may call it, and what it refuses.
//!
//! [`world`] has a resource for every parameter of a path. [`policy_matrix`] calls each operation as every kind of
//! user. [`listing`] tests rules for lists of servers that are in no schema; [`bodies`] sends bodies that the schemas
//! reject. Further tests are `compute_operations` for routes, `compute_samples` for answers, and `chronova-web` for
//! schemas. [`frameworks`] tests what all operations of Placement and Compute do alike. [`operations`] checks that no
//! operation is left out. [`left_out`] compares the embedded services with the page of the operations that they lack.
//! [`tempest`] compares our lists of passing tempest tests with Nova's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod bodies;
mod frameworks;
mod left_out;
mod listing;
mod operations;
mod policy_matrix;
mod rules;
mod tempest;
mod world;
