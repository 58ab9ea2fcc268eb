//! EventStoreDB (KurrentDB): the format of our events there, and the back end that stores them there.
//!
//! * [`form`]: one event in EventStoreDB's terms: type, content type, metadata, data. Both the server of our own log
//!   (in `web`) and the back end use it.
//! * `EventStoreDb`, with the feature `eventstoredb`: an [`EventStore`](super::EventStore) on an EventStoreDB server, or on a
//!   Chronova that serves its log in that protocol.
//!
//! The mapping is the same everywhere. A stream keeps its name; its revisions are ours less one, because theirs begin
//! at 0; a commit position is our position. Streams of our categories hold our events only. All other streams hold
//! events of other programs, which are opaque (see [`external`](crate::external)).

pub mod form;
#[cfg(feature = "eventstoredb")]
mod remote;
#[cfg(feature = "eventstoredb")]
mod snapshots;
#[cfg(feature = "eventstoredb")]
mod store;

#[cfg(feature = "eventstoredb")]
pub use store::{EventStoreDb, EventStoreDbOptions};
