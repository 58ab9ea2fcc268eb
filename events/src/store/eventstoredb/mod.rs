//! EventStoreDB (KurrentDB): the mapping of our events, and the back end that stores them there.
//!
//! * [`form`]: one event in EventStoreDB's terms: type, content type, metadata, data. The server of our own log (in
//!   `web`) and the back end both use it.
//! * `EventStoreDb`, with the feature `eventstoredb`: an [`EventStore`](super::EventStore) on an EventStoreDB server.
//!   The server may also be a Chronova that serves its log in that protocol.
//!
//! The mapping is the same everywhere. A stream keeps its name. EventStoreDB's revisions begin at 0 and ours at 1, so
//! our revision 5 is EventStoreDB's revision 4. A commit position is our position. Streams of our categories hold only
//! our events. All other streams hold events of other programs, which Chronova does not interpret (see
//! [`external`](crate::external)).

pub mod form;
#[cfg(feature = "eventstoredb")]
mod remote;
#[cfg(feature = "eventstoredb")]
mod snapshots;
#[cfg(feature = "eventstoredb")]
mod store;

#[cfg(feature = "eventstoredb")]
pub use store::{EventStoreDb, EventStoreDbOptions};
