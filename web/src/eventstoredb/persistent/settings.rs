//! The definition of a persistent subscription: its source, its group, its settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tonic::Status;
use uuid::Uuid;

use super::super::filter::EventMatchFilter;
use super::super::wire::{Empty, FilterExpression, FilterOptions, FilterSubject, FilterWindow};
use super::wire::{CheckpointAfter, MessageTimeout, SettingsMessage};

/// The name of the whole log as the source of a group.
pub(super) const ALL: &str = "$all";

/// The longest source and group together, in bytes. The names of the group's own streams contain both.
const MAX_NAMES: usize = 200;
/// The most bytes of a filter, because every change of a definition records all definitions.
const MAX_FILTER: usize = 4_096;
/// The most events that the server keeps for one group, read ahead or sent to one consumer.
pub(super) const MAX_BUFFER: usize = 4_096;
/// The most consumers of one group.
const MAX_CONSUMERS: usize = 64;

/// The source and the name of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct PersistentGroupId {
    /// [`ALL`], the name of a stream, or the name of a link stream.
    pub(super) source: String,
    pub(super) group: String,
}

impl PersistentGroupId {
    pub(super) fn new(source: String, group: String) -> Result<Self, Status> {
        // The names of the group's streams join the source and the group by `::`. A group with `::` in its name could
        // have the streams of another source's group.
        if group.is_empty() || group.contains("::") {
            return Err(Status::invalid_argument("a persistent subscription must have a group name without \"::\""));
        }
        if source.len() + group.len() > MAX_NAMES {
            return Err(Status::invalid_argument(format!(
                "the names of a persistent subscription's stream and group may have at most {MAX_NAMES} bytes together"
            )));
        }
        Ok(Self { source, group })
    }

    /// The name by which clients recognize their subscription.
    pub(super) fn shown(&self) -> String {
        format!("{}::{}", self.source, self.group)
    }
}

/// How the next consumer is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SubscriberStrategy {
    /// The consumers take turns.
    RoundRobin,
    /// The first consumer that has room.
    DispatchToSingle,
}

impl SubscriberStrategy {
    fn of(message: &SettingsMessage) -> Result<Self, Status> {
        match (message.consumer_strategy.as_str(), message.named_consumer_strategy) {
            ("RoundRobin", _) | ("", 1) => Ok(Self::RoundRobin),
            ("DispatchToSingle", _) | ("", 0) => Ok(Self::DispatchToSingle),
            _ => Err(Status::unimplemented(
                "consumers get events by the strategy RoundRobin or DispatchToSingle; no other strategy is supported",
            )),
        }
    }

    pub(super) fn shown(self) -> &'static str {
        match self {
            Self::RoundRobin => "RoundRobin",
            Self::DispatchToSingle => "DispatchToSingle",
        }
    }
}

/// The settings of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PersistentSettings {
    pub(super) resolve_links: bool,
    pub(super) extra_statistics: bool,
    /// An event is parked after this many further attempts.
    pub(super) max_retry_count: u32,
    pub(super) min_checkpoint_count: u32,
    pub(super) max_checkpoint_count: u32,
    /// The most consumers at the same time; 0: only the bound of the server.
    pub(super) max_subscriber_count: u32,
    pub(super) live_buffer_size: u32,
    pub(super) read_batch_size: u32,
    pub(super) history_buffer_size: u32,
    /// Milliseconds; 0: a consumer may take any time.
    pub(super) message_timeout: u32,
    /// Milliseconds.
    pub(super) checkpoint_after: u32,
    pub(super) strategy: SubscriberStrategy,
}

impl PersistentSettings {
    pub(super) fn of(message: Option<SettingsMessage>) -> Result<Self, Status> {
        let message =
            message.ok_or_else(|| Status::invalid_argument("a persistent subscription must have settings"))?;
        let number = |value: i32, name: &str| {
            u32::try_from(value).map_err(|_| Status::invalid_argument(format!("{name} may not be negative")))
        };
        let ticks = |ticks: i64| i32::try_from(ticks / 10_000).unwrap_or(i32::MAX);
        let message_timeout = match message.message_timeout {
            Some(MessageTimeout::Ticks(value)) => ticks(value),
            Some(MessageTimeout::Milliseconds(value)) => value,
            None => 30_000,
        };
        let checkpoint_after = match message.checkpoint_after {
            Some(CheckpointAfter::Ticks(value)) => ticks(value),
            Some(CheckpointAfter::Milliseconds(value)) => value,
            None => 2_000,
        };
        let settings = Self {
            resolve_links: message.resolve_links,
            extra_statistics: message.extra_statistics,
            max_retry_count: number(message.max_retry_count, "max_retry_count")?,
            min_checkpoint_count: number(message.min_checkpoint_count, "min_checkpoint_count")?,
            max_checkpoint_count: number(message.max_checkpoint_count, "max_checkpoint_count")?,
            max_subscriber_count: number(message.max_subscriber_count, "max_subscriber_count")?,
            live_buffer_size: number(message.live_buffer_size, "live_buffer_size")?,
            read_batch_size: number(message.read_batch_size, "read_batch_size")?,
            history_buffer_size: number(message.history_buffer_size, "history_buffer_size")?,
            message_timeout: number(message_timeout, "message_timeout")?,
            checkpoint_after: number(checkpoint_after, "checkpoint_after")?,
            strategy: SubscriberStrategy::of(&message)?,
        };
        if settings.max_checkpoint_count < settings.min_checkpoint_count {
            return Err(Status::invalid_argument("max_checkpoint_count may not be below min_checkpoint_count"));
        }
        Ok(settings)
    }

    /// The server reads ahead while fewer events than this wait.
    pub(super) fn buffer(&self) -> usize {
        usize::try_from(self.history_buffer_size).unwrap_or(MAX_BUFFER).clamp(1, MAX_BUFFER)
    }

    pub(super) fn consumers(&self) -> usize {
        match usize::try_from(self.max_subscriber_count) {
            Ok(count @ 1..) => count.min(MAX_CONSUMERS),
            _ => MAX_CONSUMERS,
        }
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        (self.message_timeout > 0).then(|| Duration::from_millis(self.message_timeout.into()))
    }

    pub(super) fn checkpoint_after(&self) -> Duration {
        Duration::from_millis(self.checkpoint_after.into())
    }
}

/// The filter of a group on the whole log, in the form of its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FilterRecord {
    of_stream: bool,
    regex: String,
    prefix: Vec<String>,
}

impl FilterRecord {
    /// Checks the filter, and returns its record.
    pub(super) fn of(options: FilterOptions) -> Result<Self, Status> {
        EventMatchFilter::parse(options.clone())?;
        let (of_stream, FilterExpression { regex, prefix }) = match options.subject {
            Some(FilterSubject::Stream(expression)) => (true, expression),
            Some(FilterSubject::EventType(expression)) => (false, expression),
            None => return Err(Status::invalid_argument("a filter must be for stream names or event types")),
        };
        if regex.len() + prefix.iter().map(String::len).sum::<usize>() > MAX_FILTER {
            return Err(Status::invalid_argument(format!(
                "the filter of a persistent subscription may have at most {MAX_FILTER} bytes"
            )));
        }
        Ok(Self { of_stream, regex, prefix })
    }

    pub(super) fn matcher(&self) -> Result<EventMatchFilter, Status> {
        let expression = FilterExpression { regex: self.regex.clone(), prefix: self.prefix.clone() };
        let subject =
            if self.of_stream { FilterSubject::Stream(expression) } else { FilterSubject::EventType(expression) };
        EventMatchFilter::parse(FilterOptions {
            subject: Some(subject),
            window: Some(FilterWindow::Count(Empty {})),
            checkpoint_interval_multiplier: 1,
        })
    }
}

/// The definition of a group, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupRecord {
    pub(super) id: PersistentGroupId,
    /// Differs between two groups that had the same name one after the other.
    pub(super) key: Uuid,
    /// The name of the user who created the group.
    pub(super) owner: String,
    /// The first event follows this place. A place in a stream is a revision of Chronova, which begins at 1. Any other
    /// place is a position in the log.
    pub(super) after: u64,
    /// The revision of the last parked event of an earlier group with this name.
    pub(super) parked_before: u64,
    pub(super) filter: Option<FilterRecord>,
    pub(super) settings: PersistentSettings,
}
