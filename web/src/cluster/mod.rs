//! Several members on one log: which member answers a request.
//!
//! | file | what |
//! |---|---|
//! | `routing` | decides which member answers a request |
//! | [`seat`] | this member's role: it leads, or it follows; reads wait here until they are not stale |
//! | `older_reads` | the age of the read models while nobody leads |
//! | [`read_index`] | asks the leader for the acknowledged position, once for many reads |
//! | `forward` | sends a whole request to the leader, and waits until the read models show its effects |
//! | [`peers`] | connections to other members |
//! | [`door`] | the listener for other members |
//! | `headers` | the headers and paths that only members send to each other |
//! | `protocol` | whether members of two versions understand each other |
//!
//! Invariants: the leader decides every request that changes something. A member sends such a request again only if no
//! member has performed it. If the answer is lost, nobody knows whether the leader performed the request, so the client
//! gets 503. A member that receives a forwarded request never forwards it again. An answer to a read shows everything
//! that was acknowledged before the read began. Only an answer with the header `Age` may be older, at most by that age.

pub mod door;
mod forward;
pub(crate) mod headers;
mod older_reads;
pub mod peers;
mod protocol;
pub mod read_index;
pub(crate) mod routing;
pub mod seat;
