//! `[notifications]` and `[oslo_messaging_notifications]`.

use std::sync::Arc;

/// `[notifications] notification_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NotificationFormat {
    #[default]
    Unversioned,
    Versioned,
    Both,
}

impl NotificationFormat {
    pub(super) fn has_versioned(self) -> bool {
        self != Self::Unversioned
    }

    pub(super) fn has_unversioned(self) -> bool {
        self != Self::Versioned
    }
}

/// `[notifications] notify_on_state_change`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateChangeUpdates {
    #[default]
    Never,
    VmState,
    VmAndTaskState,
}

/// One of `[oslo_messaging_notifications] driver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationDriver {
    /// A message with oslo's envelope of version 2.
    MessagingV2,
    /// A message without an envelope.
    Messaging,
    /// A line in the program's log.
    Log,
}

/// How notifications are made and where they go.
#[derive(Debug, Clone, PartialEq)]
pub struct NotificationOptions {
    /// Empty: notifications are turned off.
    pub drivers: Vec<NotificationDriver>,
    pub format: NotificationFormat,
    pub state_changes: StateChangeUpdates,
    /// Whether payloads list block devices.
    pub block_devices: bool,
    /// The priority of notifications without a fault, for example `INFO`.
    pub level: String,
    /// The topics of unversioned notifications.
    pub topics: Vec<String>,
    /// The topics of versioned notifications.
    pub versioned_topics: Vec<String>,
    /// `[DEFAULT] host`: the publisher of the notifications that no compute host publishes.
    pub host: String,
    pub broker: BrokerOptions,
}

/// The message broker.
#[derive(Clone, PartialEq, Default)]
pub struct BrokerOptions {
    /// `rabbit://user:password@host:port,.../vhost`. A secret, because it has the password.
    pub transport_url: Arc<str>,
    /// `[DEFAULT] control_exchange`.
    pub exchange: String,
    /// `[oslo_messaging_rabbit] amqp_durable_queues`.
    pub durable: bool,
    /// `[oslo_messaging_rabbit] amqp_auto_delete`.
    pub auto_delete: bool,
    /// `[oslo_messaging_rabbit] rabbit_quorum_queue`.
    pub quorum: bool,
    /// `[oslo_messaging_rabbit] ssl`.
    pub tls: bool,
    /// `[oslo_messaging_rabbit] ssl_ca_file`: the certificate authority in PEM.
    pub ca: Option<std::path::PathBuf>,
}

impl std::fmt::Debug for BrokerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerOptions").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

impl Default for NotificationOptions {
    fn default() -> Self {
        Self {
            drivers: Vec::new(),
            format: NotificationFormat::default(),
            state_changes: StateChangeUpdates::default(),
            block_devices: false,
            level: "INFO".to_owned(),
            topics: vec!["notifications".to_owned()],
            versioned_topics: vec!["versioned_notifications".to_owned()],
            host: String::new(),
            broker: BrokerOptions { exchange: "nova".to_owned(), ..BrokerOptions::default() },
        }
    }
}

impl NotificationOptions {
    /// Whether a driver needs the message broker.
    pub fn needs_broker(&self) -> bool {
        self.drivers.iter().any(|driver| *driver != NotificationDriver::Log)
    }
}
