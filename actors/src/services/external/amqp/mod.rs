//! The message broker, RabbitMQ, over AMQP 0-9-1: the transport of notifications.
//!
//! Exchange and queues are those of oslo.messaging: a topic exchange, and for each routing key a queue of the same
//! name. The queue is declared before the first message, so that a message waits there until a consumer comes. A
//! message counts as published when the broker has confirmed it. After any error, the connection is dropped. The next
//! call connects to the next broker of the list.

pub mod transport_url;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::error_chain::ErrorChain;
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};

use crate::notifications::options::BrokerOptions;
use crate::notifications::{NotificationTransport, OutgoingNotification, TransportError};

/// How long the publication of a batch may take, including a new connection and the broker's confirmations.
const PATIENCE: Duration = Duration::from_secs(30);
/// AMQP's delivery mode for messages that a durable queue keeps over a restart of the broker.
const PERSISTENT: u8 = 2;

/// A connection on which the exchange is declared.
struct BrokerConnection {
    /// Dropping it would close the connection.
    _connection: Connection,
    channel: Channel,
    /// The routing keys whose queues are declared.
    declared: BTreeSet<String>,
}

/// Publishes notifications to RabbitMQ.
pub struct AmqpTransport {
    options: BrokerOptions,
    brokers: Vec<AMQPUri>,
    /// The broker to try next.
    next: usize,
    connection: Option<BrokerConnection>,
}

impl std::fmt::Debug for AmqpTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AmqpTransport").field("brokers", &self.brokers.len()).finish_non_exhaustive()
    }
}

impl AmqpTransport {
    /// Reads the transport URL. The first message opens the connection.
    ///
    /// # Errors
    /// The transport URL cannot be used.
    pub fn new(options: BrokerOptions) -> Result<Self, String> {
        let brokers = transport_url::brokers(&options.transport_url, options.tls)?;
        Ok(Self { options, brokers, next: 0, connection: None })
    }

    async fn connect(&mut self) -> Result<BrokerConnection, TransportError> {
        let broker = self.brokers[self.next % self.brokers.len()].clone();
        self.next += 1;
        let place = format!("{}:{}", broker.authority.host, broker.authority.port);
        let failed = |error: lapin::Error| TransportError(format!("{place}: {}", ErrorChain(&error)));
        let properties =
            ConnectionProperties::default().with_connection_name(LongString::from("chronova-notifications"));
        let tls = OwnedTLSConfig { identity: None, cert_chain: self.authority().await? };
        let runtime = lapin::runtime::default_runtime().map_err(|error| TransportError(error.to_string()))?;
        let connection = Connection::connect_uri_with_config(broker, properties, tls, runtime).await.map_err(failed)?;
        let channel = connection.create_channel().await.map_err(failed)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(failed)?;
        // As in oslo.messaging, the exchange of quorum queues is durable, too.
        let (durable, auto_delete) = (self.options.durable || self.options.quorum, self.options.auto_delete);
        let declared = ExchangeDeclareOptions { durable, auto_delete, ..ExchangeDeclareOptions::default() };
        let name = ShortString::from(self.options.exchange.as_str());
        channel.exchange_declare(name, ExchangeKind::Topic, declared, FieldTable::default()).await.map_err(failed)?;
        Ok(BrokerConnection { _connection: connection, channel, declared: BTreeSet::new() })
    }

    async fn authority(&self) -> Result<Option<String>, TransportError> {
        match &self.options.ca {
            Some(path) => {
                let read = tokio::fs::read_to_string(path).await;
                read.map(Some).map_err(|error| TransportError(format!("{}: {error}", path.display())))
            }
            None => Ok(None),
        }
    }

    /// Publishes on the open connection, or on a new one.
    async fn publish_now(&mut self, messages: &[OutgoingNotification]) -> Result<(), TransportError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        self.publish_on(&mut connection, messages).await.map_err(|error| match error {
            PublishFailure::Broker(error) => TransportError(ErrorChain(&error).to_string()),
            PublishFailure::Refused(id) => TransportError(format!("the broker refused message {id}")),
        })?;
        // After an error, the connection is dropped, because the state of its channel is unknown.
        self.connection = Some(connection);
        Ok(())
    }

    async fn publish_on(
        &self,
        connection: &mut BrokerConnection,
        messages: &[OutgoingNotification],
    ) -> Result<(), PublishFailure> {
        let mut confirms = Vec::with_capacity(messages.len());
        for message in messages {
            self.declare(connection, &message.routing_key).await?;
            let properties = BasicProperties::default()
                .with_content_type(ShortString::from("application/json"))
                .with_content_encoding(ShortString::from("utf-8"))
                .with_delivery_mode(PERSISTENT)
                .with_message_id(ShortString::from(message.id.to_string()));
            // The broker returns a message that no queue takes.
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let (exchange, key) = (self.options.exchange.as_str().into(), message.routing_key.as_str().into());
            let sent = connection.channel.basic_publish(exchange, key, options, message.body.as_bytes(), properties);
            confirms.push((message.id, sent.await?));
        }
        for (id, confirm) in confirms {
            match confirm.await? {
                Confirmation::Ack(None) => {}
                _ => return Err(PublishFailure::Refused(id)),
            }
        }
        Ok(())
    }

    /// Declares the queue of a routing key as oslo.messaging does.
    async fn declare(&self, connection: &mut BrokerConnection, key: &str) -> Result<(), lapin::Error> {
        if connection.declared.contains(key) {
            return Ok(());
        }
        let mut arguments = FieldTable::default();
        if self.options.quorum {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        }
        let durable = self.options.durable || self.options.quorum;
        let options =
            QueueDeclareOptions { durable, auto_delete: self.options.auto_delete, ..QueueDeclareOptions::default() };
        connection.channel.queue_declare(key.into(), options, arguments).await?;
        let (exchange, bind) = (self.options.exchange.as_str().into(), QueueBindOptions::default());
        connection.channel.queue_bind(key.into(), exchange, key.into(), bind, FieldTable::default()).await?;
        connection.declared.insert(key.to_owned());
        Ok(())
    }
}

/// Why a batch was not published.
enum PublishFailure {
    Broker(lapin::Error),
    /// The broker refused the message, or returned it because no queue takes it.
    Refused(uuid::Uuid),
}

impl From<lapin::Error> for PublishFailure {
    fn from(error: lapin::Error) -> Self {
        Self::Broker(error)
    }
}

#[async_trait]
impl NotificationTransport for AmqpTransport {
    async fn publish(&mut self, messages: &[OutgoingNotification]) -> Result<(), TransportError> {
        match tokio::time::timeout(PATIENCE, self.publish_now(messages)).await {
            Ok(published) => published,
            Err(_) => Err(TransportError(format!("no confirmation within {} seconds", PATIENCE.as_secs()))),
        }
    }
}
