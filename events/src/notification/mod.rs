//! How far notifications are published: one stream for the whole log.
//!
//! The broker has confirmed the notifications of all events up to the recorded position. After a crash, publishing goes
//! on from there, so no message is lost. A message that was confirmed after the last record is published again, under
//! the same ids.

pub mod outbox;

use serde::{Deserialize, Serialize};

noun! {
    /// Events of the publisher of notifications.
    NotificationEvent = "notification" {
        /// Notifications were turned on: events after the position are notified.
        NotificationsBegun = "begun" @ 1,
        /// The broker has confirmed the notifications of all events up to the position.
        NotificationsPublished = "published" @ 1,
        /// Notifications were turned off.
        NotificationsEnded = "ended" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotificationsBegun {
    pub position: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotificationsPublished {
    pub position: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotificationsEnded {}

/// One example of each event.
pub fn samples() -> Vec<NotificationEvent> {
    vec![
        NotificationsBegun { position: 7 }.into(),
        NotificationsPublished { position: 9 }.into(),
        NotificationsEnded {}.into(),
    ]
}
