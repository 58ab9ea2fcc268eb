//! The Compute API held against its contract, operation by operation, on a living control plane: who may do what, and what
//! is refused.
//!
//! [`world`] has something of everything that a path can name. [`policy_matrix`] asks each operation as everybody;
//! [`listing`] has the rules that are in no schema; [`bodies`] sends bodies that the schemas reject. Beside them,
//! `compute_operations` walks the routes and `compute_samples` the answers; [`operations`] counts that none is left out;
//! `chronova-web` compares each schema with the contract's. [`tempest`] is about another judge.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod bodies;
mod listing;
mod operations;
mod policy_matrix;
mod rules;
mod tempest;
mod world;
