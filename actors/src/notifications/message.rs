//! A notification as oslo.messaging sends it.
//!
//! Sources: `oslo_messaging/notify/notifier.py` (the message), `_drivers/common.py` (the envelope), `_drivers/amqp.py`
//! (the context and `_unique_id`).

use chronova_events::envelope::Recorded;
use serde_json::{Value, json};
use uuid::Uuid;

use super::options::NotificationDriver;
use super::server_history::Initiator;

/// One notification, ready for a transport.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingNotification {
    /// The topic with the priority: `notifications.info`.
    pub routing_key: String,
    /// The body in JSON.
    pub body: String,
    /// The `message_id`. A repeated notification has the same id.
    pub id: Uuid,
    pub event_type: String,
}

/// The parts of a message.
#[derive(Debug, Clone)]
pub(super) struct NotificationMessage {
    pub event_type: String,
    pub publisher: String,
    /// `INFO`, `ERROR` and so on.
    pub priority: String,
    pub payload: Value,
}

impl NotificationMessage {
    /// The message for a topic. One event can have several notifications; `number` distinguishes them.
    pub(super) fn outgoing(
        &self,
        driver: NotificationDriver,
        topic: &str,
        number: usize,
        recorded: &Recorded,
        initiator: &Initiator,
    ) -> OutgoingNotification {
        let id = Uuid::new_v5(&recorded.id.0, format!("{number} {topic}").as_bytes());
        let body = self.body(driver, id, recorded, initiator);
        let routing_key = format!("{topic}.{}", self.priority.to_lowercase());
        OutgoingNotification { routing_key, body: body.to_string(), id, event_type: self.event_type.clone() }
    }

    fn body(&self, driver: NotificationDriver, id: Uuid, recorded: &Recorded, initiator: &Initiator) -> Value {
        let request = recorded.meta.request_id.as_ref();
        let message = json!({
            "message_id": id.to_string(),
            "publisher_id": self.publisher,
            "event_type": self.event_type,
            "priority": self.priority,
            "payload": self.payload,
            "timestamp": recorded.recorded_at.to_utc().format("%Y-%m-%d %H:%M:%S%.6f").to_string(),
            "_unique_id": id.simple().to_string(),
            "_context_request_id": request,
            "_context_user_id": initiator.user,
            "_context_user": initiator.user,
            "_context_project_id": initiator.project,
            "_context_tenant": initiator.project,
            "_context_timestamp": recorded.recorded_at.iso_micros(),
            "_context_read_deleted": "no",
            "_context_is_admin": false,
        });
        match driver {
            NotificationDriver::MessagingV2 => json!({"oslo.version": "2.0", "oslo.message": message.to_string()}),
            NotificationDriver::Messaging | NotificationDriver::Log => message,
        }
    }
}
