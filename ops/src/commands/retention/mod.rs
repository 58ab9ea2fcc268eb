//! Retention: old events leave the log's file, and legal holds keep them there.
//!
//! `chronova log prune` ([`prune`]) and a running server (`ops/src/serve/retention.rs`) move events by the same rules.
//! Nothing is deleted: every event is in the file or in the archive.

pub mod holds;
pub mod prune;
mod reach;
pub(crate) mod states;
