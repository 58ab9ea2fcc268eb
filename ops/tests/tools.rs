//! Tests of what operators use beside a running control plane: commands, backups, exports, the log's tools.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

mod auditing;
mod backups;
mod cloud;
mod commands;
mod copies;
mod exports;
mod log;
mod manage;
mod retention;
mod schedule;
