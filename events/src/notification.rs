//! How far notifications are published: one stream for the whole log.
//!
//! A broker has confirmed every notification of an event at or before `position`. After a crash, publishing goes on from
//! there, so none is lost. A message that was confirmed after the last record is published again, under the same ids.

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;

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

/// The position up to which notifications are published; `None` while they are turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NotificationOutbox {
    pub published: Option<u64>,
}

impl Fold for NotificationOutbox {
    type Event = NotificationEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &NotificationEvent, _: Timestamp) {
        self.published = match event {
            NotificationEvent::NotificationsBegun(begun) => Some(begun.position),
            NotificationEvent::NotificationsPublished(published) => Some(published.position),
            NotificationEvent::NotificationsEnded(_) => None,
        };
    }
}

/// One example of each event.
pub fn samples() -> Vec<NotificationEvent> {
    vec![
        NotificationsBegun { position: 7 }.into(),
        NotificationsPublished { position: 9 }.into(),
        NotificationsEnded {}.into(),
    ]
}
