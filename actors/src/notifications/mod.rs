//! Derives from the log the notifications that Nova's services send to other services over the message bus.
//!
//! | part | file |
//! |---|---|
//! | which event is which notification | `occurrences` |
//! | the state of a server at an event | `server_history` |
//! | the payloads | `versioned`, `unversioned`, `request_spec` |
//! | changes of services | `services` |
//! | oslo.messaging's message | `message` |
//! | reads the log, publishes, records the position | `publisher` |
//! | the recorded position | `outbox` |
//!
//! Guarantee: while notifications are turned on, each notification of an event is published at least once, in the order
//! of the log. Only an event that this program cannot read is skipped. The position is recorded after the broker has
//! confirmed, so a crash of either side loses nothing. A message that the broker confirmed shortly before a crash is
//! published again. The duplicate has the same `message_id` and `_unique_id`, because both derive from the event's id.
//! So a consumer can drop the duplicate. Whether the broker keeps a confirmed message over its own restart depends on
//! the queue: `[oslo_messaging_rabbit] amqp_durable_queues`.

mod message;
mod occurrences;
pub mod options;
pub mod outbox;
pub mod publisher;
mod request_spec;
mod server_history;
mod services;
mod unversioned;
mod versioned;

pub use message::OutgoingNotification;
pub use options::{NotificationDriver, NotificationFormat, NotificationOptions, StateChangeUpdates};
pub use publisher::{NotificationTransport, TransportError};
