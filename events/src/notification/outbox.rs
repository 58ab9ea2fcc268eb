//! The position up to which notifications are published, folded from the publisher's events.

use serde::{Deserialize, Serialize};

use super::NotificationEvent;
use crate::envelope::Timestamp;
use crate::fold::Fold;

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
