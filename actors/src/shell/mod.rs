//! The actix shell around the aggregates: in this crate, only this folder uses actix. A caller that starts actors needs
//! a running actix system.
//!
//! - [`entity`]: one actor per aggregate instance; loads, decides, appends, replies when durable.
//! - [`directory`]: finds or starts the actor of an id; a crashed or passivated one is started again from the log.
//! - [`arbiters`]: the threads on which the actors live.
//! - [`folding`]: the state of a stream, from a snapshot and the events after it.

pub mod arbiters;
pub mod directory;
pub mod entity;
pub mod folding;
