//! The embedded volume service on simulated hosts: its processes in the crash harness (see `process_harness`), and its
//! API.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod processes;
