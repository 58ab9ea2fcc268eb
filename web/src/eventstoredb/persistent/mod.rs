//! Persistent subscriptions: the server remembers how far the consumers of a group have come.
//!
//! * [`calls`] has the calls, and [`reading`] the call of a consumer. [`wire`] has their messages.
//! * [`groups`] has the definitions of all groups, and [`settings`] the form of a definition.
//! * [`group`] is the task of one group. [`source`] reads its events, and [`queue`] has those that are not settled.
//! * [`records`] writes and reads the state in the log.
//!
//! Invariants: the state of a group that outlives a process is in the log. An event is settled when a consumer
//! acknowledges or skips it, or when it is parked. The recorded checkpoint is before the first event that is not
//! settled, and an event is settled by parking only after its record is durable. So a kill loses no event. It can
//! repeat some. Groups, consumers and buffers have bounds.

mod calls;
mod group;
mod groups;
mod queue;
mod reading;
mod records;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod wire;

pub(super) use calls::{create, delete, info, list, replay, update};
pub(super) use groups::PersistentGroups;
pub(super) use reading::read;
