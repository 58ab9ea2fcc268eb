//! Follows the log, publishes notifications, and records how far it has come.
//!
//! The guarantee follows from the order of the steps: publish, wait for the broker's confirmations, record the
//! position. After a crash between two steps, the publisher sends the same messages with the same ids again. If the
//! broker is away, only the publisher waits, because the log keeps the events.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::envelope::{Meta, Position, Recorded};
use chronova_events::error_chain::ErrorChain;
use chronova_events::host::HostEvent;
use chronova_events::ids::InstanceId;
use chronova_events::instance::InstanceEvent;
use chronova_events::registry::Event;
use chronova_events::store::{EventStore, StoreError};
use thiserror::Error;

use super::message::{NotificationMessage, OutgoingNotification};
use super::occurrences::{Occurrence, occurrences, placed_on};
use super::options::{NotificationDriver, NotificationOptions};
use super::outbox::{NotificationCommand, NotificationOutboxId, NotificationOutboxRoot};
use super::server_history::{Initiator, ServerHistory, ServerMoment};
use super::versioned::PayloadContext;
use super::{services, unversioned, versioned};
use crate::gateway::CommandGateway;
use crate::server_options::ServerOptions;

/// The limit on the events of one batch. The position is recorded after each batch with an event for which `collect`
/// returns true.
const BATCH: usize = 64;
/// The pause after a failure. It doubles with each further failure, up to the longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Why notifications were not published.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Sends notifications to their consumers.
#[async_trait]
pub trait NotificationTransport: Send + Sync + 'static {
    /// Publishes all messages in their order. Returns when the broker has confirmed each of them. After an error, some
    /// of them may be published.
    async fn publish(&mut self, messages: &[OutgoingNotification]) -> Result<(), TransportError>;
}

/// Publishes the notifications of a log.
pub struct NotificationPublisher {
    pub gateway: Arc<CommandGateway>,
    pub log: Arc<dyn EventStore>,
    pub options: NotificationOptions,
    pub servers: Arc<ServerOptions>,
    /// `None` if no driver needs the broker.
    pub transport: Option<Box<dyn NotificationTransport>>,
}

impl std::fmt::Debug for NotificationPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotificationPublisher").field("drivers", &self.options.drivers).finish_non_exhaustive()
    }
}

impl NotificationPublisher {
    /// Publishes until the future is dropped, or until the log cannot be followed any more. Without drivers, only
    /// records that notifications are turned off.
    pub async fn run(mut self) {
        if self.options.drivers.is_empty() {
            return self.end().await;
        }
        let mut pause = FIRST_PAUSE;
        loop {
            match self.follow(&mut pause).await {
                Ok(()) | Err(StoreError::Closed) => return,
                Err(error) => tracing::error!(error = %ErrorChain(&error), "publishing notifications failed, retrying"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn end(&self) {
        let outbox = self.gateway.look::<NotificationOutboxRoot>(&NotificationOutboxId).await;
        // A log that never had notifications needs no record.
        if outbox.is_ok_and(|outbox| outbox.published.is_some())
            && let Err(error) = self.command(NotificationCommand::End).await
        {
            tracing::error!(error = %ErrorChain(&error), "cannot record that notifications are turned off");
        }
    }

    async fn command(&self, command: NotificationCommand) -> Result<(), StoreError> {
        let meta = Meta::system("notifications");
        let sent = self.gateway.send::<NotificationOutboxRoot>(&NotificationOutboxId, command, meta).await;
        sent.map(drop).map_err(|error| StoreError::Io(ErrorChain(&error).to_string()))
    }

    /// Publishes from the recorded position on.
    async fn follow(&mut self, pause: &mut Duration) -> Result<(), StoreError> {
        self.command(NotificationCommand::Begin { after: self.log.head() }).await?;
        let outbox = self.gateway.look::<NotificationOutboxRoot>(&NotificationOutboxId).await?;
        let after = outbox.published.unwrap_or(self.log.head().0);
        let mut subscription = self.log.subscribe(Position(after));
        let mut history = ServerHistory::default();
        loop {
            let events = subscription.next().await?;
            for batch in events.chunks(BATCH) {
                self.publish_batch(batch, &mut history).await?;
                *pause = FIRST_PAUSE;
            }
        }
    }

    async fn publish_batch(&mut self, batch: &[Arc<Recorded>], history: &mut ServerHistory) -> Result<(), StoreError> {
        let (mut messages, mut notified) = (Vec::new(), false);
        for recorded in batch {
            notified |= self.collect(recorded, history, &mut messages).await?;
        }
        let Some(last) = batch.last().filter(|_| notified) else { return Ok(()) };
        self.deliver(&messages).await;
        self.command(NotificationCommand::Confirm { position: last.position }).await
    }

    /// Publishes until the broker has confirmed everything.
    async fn deliver(&mut self, messages: &[OutgoingNotification]) {
        let Some(transport) = &mut self.transport else { return };
        let mut pause = FIRST_PAUSE;
        while let Err(error) = transport.publish(messages).await {
            tracing::warn!(%error, waiting = messages.len(), "the message broker does not take notifications, retrying");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Collects the messages of one event. Returns whether it is a server's event, or a host's event with a
    /// notification. For the driver `log`, the lines are written at once, and no message is added. An event that cannot
    /// be read is skipped, because it can never be published.
    async fn collect(
        &self,
        recorded: &Recorded,
        history: &mut ServerHistory,
        messages: &mut Vec<OutgoingNotification>,
    ) -> Result<bool, StoreError> {
        let event = match recorded.event() {
            Ok(event) => Arc::clone(event),
            Err(error) => {
                tracing::error!(
                    position = %recorded.position, %error,
                    "an event cannot be read, so no notification of it is sent"
                );
                return Ok(false);
            }
        };
        if let Event::HostEvent(event) = &*event {
            return self.collect_service(recorded, event, messages).await;
        }
        let (Event::InstanceEvent(event), Ok(id)) = (&*event, recorded.stream.key().parse::<InstanceId>()) else {
            return Ok(false);
        };
        let moment = history.at(id, recorded, event, &self.log).await?;
        messages.extend(self.messages(recorded, event, &moment));
        Ok(true)
    }

    async fn collect_service(
        &self,
        recorded: &Recorded,
        event: &HostEvent,
        messages: &mut Vec<OutgoingNotification>,
    ) -> Result<bool, StoreError> {
        if !self.options.format.has_versioned() {
            return Ok(false);
        }
        let Some(message) = services::update(recorded, event, &self.options.level, &self.log).await? else {
            return Ok(false);
        };
        let topics = &self.options.versioned_topics;
        messages.extend(self.outgoing(&message, topics, 0, recorded, &services::initiator(recorded)));
        Ok(true)
    }

    fn messages(&self, recorded: &Recorded, event: &InstanceEvent, moment: &ServerMoment) -> Vec<OutgoingNotification> {
        let context =
            PayloadContext { recorded, moment, servers: &self.servers, block_devices: self.options.block_devices };
        let mut all = Vec::new();
        for (number, occurrence) in occurrences(event, moment, self.options.state_changes).iter().enumerate() {
            for (message, topics) in self.forms(context, occurrence) {
                all.extend(self.outgoing(&message, topics, number, recorded, &moment.initiator));
            }
        }
        all
    }

    /// The message for each driver and topic. The driver `log` writes its line at once.
    fn outgoing(
        &self,
        message: &NotificationMessage,
        topics: &[String],
        number: usize,
        recorded: &Recorded,
        initiator: &Initiator,
    ) -> Vec<OutgoingNotification> {
        let mut all = Vec::new();
        for driver in &self.options.drivers {
            for topic in topics {
                let outgoing = message.outgoing(*driver, topic, number, recorded, initiator);
                match driver {
                    NotificationDriver::Log => tracing::info!(
                        target: "chronova::notification",
                        event_type = outgoing.event_type,
                        message = outgoing.body
                    ),
                    NotificationDriver::Messaging | NotificationDriver::MessagingV2 => all.push(outgoing),
                }
            }
        }
        all
    }

    /// The notification in the forms that are turned on, each with its topics. The unversioned one comes first, as in
    /// Nova.
    fn forms(&self, context: PayloadContext<'_>, occurrence: &Occurrence) -> Vec<(NotificationMessage, &[String])> {
        let priority = match occurrence.fault {
            Some(_) => "ERROR".to_owned(),
            None => self.options.level.clone(),
        };
        let host = occurrence.publisher.as_deref().or_else(|| placed_on(context.instance(occurrence)));
        let scheduling = occurrence.is_scheduling();
        let mut forms = Vec::new();
        if let Some(legacy) = occurrence.legacy.filter(|_| self.options.format.has_unversioned())
            && let Some(payload) = unversioned::payload(context, occurrence)
        {
            let publisher = match host {
                _ if scheduling => format!("scheduler.{}", self.options.host),
                Some(host) => format!("compute.{host}"),
                None => format!("api.{}", self.options.host),
            };
            let event_type = format!("{}.{legacy}", if scheduling { "scheduler" } else { "compute.instance" });
            let message = NotificationMessage { event_type, publisher, priority: priority.clone(), payload };
            forms.push((message, self.options.topics.as_slice()));
        }
        if self.options.format.has_versioned()
            && let Some(payload) = versioned::payload(context, occurrence)
        {
            let publisher = match host {
                _ if scheduling => format!("nova-scheduler:{}", self.options.host),
                Some(host) => format!("nova-compute:{host}"),
                None => format!("nova-api:{}", self.options.host),
            };
            let phase = occurrence.phase.map(|phase| format!(".{}", phase.word())).unwrap_or_default();
            let subject = if scheduling { "scheduler" } else { "instance" };
            let event_type = format!("{subject}.{}{phase}", occurrence.action);
            let message = NotificationMessage { event_type, publisher, priority, payload };
            forms.push((message, self.options.versioned_topics.as_slice()));
        }
        forms
    }
}
