//! `chronova audit forward`: sends events to another system, in order.
//!
//! The command reads the log beside a running server. The [`outbox`] says how far the events have been delivered. It is
//! written after each delivery, so a crash repeats at most one batch. A receiver knows a repetition by the event's id.
//!
//! A web server confirms each batch, so it gets each event at least once. A collector of syslog confirms nothing. A
//! batch counts as delivered when it is written to the connection. It is lost if the collector or the network fails
//! before the collector has read it.

mod destination;
mod outbox;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Position, Recorded};
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;

use self::destination::{Destination, Undelivered};
use self::outbox::Outbox;
use super::super::{CommandFailure, Exit};

/// How often the log of the running server is polled.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// The number of events after which the outbox is written although none of them was selected.
const SKIPPED: u64 = 10_000;

#[derive(Debug, Clone, clap::Args)]
pub struct ForwardArgs {
    /// Where to: http://HOST/PATH or https://HOST/PATH (batches of CloudEvents), or syslog+tcp://HOST:PORT (RFC 5424)
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// The file that records up to which position the events are delivered; created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub outbox: PathBuf,
    /// Only streams with this prefix or pattern: `access`, `instance-1b2c*`
    #[arg(long, value_name = "PATTERN")]
    pub stream: Vec<String>,
    /// Only kinds of events with this prefix or pattern: `access.`, `*_failed`
    #[arg(long, value_name = "PATTERN")]
    pub kind: Vec<String>,
    /// Where a new outbox begins [default: the first event]
    #[arg(long, value_name = "N")]
    pub from_position: Option<u64>,
    /// Send personal fields, too
    #[arg(long)]
    pub personal: bool,
    /// A file with a token, which is sent as `Authorization: Bearer`
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The certificates of the authorities that may sign an https server's certificate, as PEM; needed for https
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// The number of events that are sent at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub batch: u16,
    /// End when the events that the log has now are delivered
    #[arg(long)]
    pub once: bool,
}

/// How long the command waits before it repeats a delivery: at first `shortest`, then twice as long each time, up to
/// `longest`. If the receiver names a time to wait, the command waits that time, within the same limits.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryPauses {
    pub shortest: Duration,
    pub longest: Duration,
}

impl Default for DeliveryPauses {
    fn default() -> Self {
        Self { shortest: Duration::from_secs(1), longest: Duration::from_mins(1) }
    }
}

/// Delivers the events that `args` select. Without `--once` it ends only with an error.
pub async fn run(
    args: &ForwardArgs,
    store: &dyn EventStore,
    pauses: DeliveryPauses,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let mut destination = Destination::open(args)?;
    let mut outbox = Outbox::open(&args.outbox, &args.to, args.from_position)?;
    outbox.check(store).await?;
    let criteria = Criteria { streams: args.stream.clone(), kinds: args.kind.clone(), ..Criteria::default() };
    let (mut at, mut delivered) = (outbox.position(), 0_u64);
    loop {
        let found = store.search(at, args.batch.into(), &criteria).await?;
        let ended = found.until == at;
        if !found.events.is_empty() {
            deliver(&mut destination, &found.events, pauses, out).await?;
            delivered += found.events.len() as u64;
        }
        at = found.until;
        if !found.events.is_empty() || (ended && args.once) || at.0 - outbox.position().0 >= SKIPPED {
            outbox.save(store, at).await?;
        }
        if ended && args.once {
            writeln!(out, "{delivered} events are delivered; the outbox is at position {at}")?;
            return Ok(Exit::Yes);
        }
        if ended {
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
    }
}

/// Repeats the delivery until it succeeds, or until the receiver refuses the batch for good.
async fn deliver(
    destination: &mut Destination,
    batch: &[Arc<Recorded>],
    pauses: DeliveryPauses,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let first = batch.first().map_or(Position::START, |recorded| recorded.position);
    let mut pause = pauses.shortest;
    loop {
        match destination.send(batch)? {
            Ok(()) => return Ok(()),
            Err(Undelivered::Refused(reason)) => {
                return Err(CommandFailure::Usage(format!(
                    "the events from position {first} on are refused, and the outbox keeps its position: {reason}"
                )));
            }
            Err(Undelivered::Later { reason, after }) => {
                let wait = after.unwrap_or(pause).max(pauses.shortest).min(pauses.longest);
                let seconds = wait.as_secs_f64();
                writeln!(out, "the events from position {first} on are not delivered: {reason}; again in {seconds} s")?;
                out.flush()?;
                tokio::time::sleep(wait).await;
                pause = (pause * 2).min(pauses.longest);
            }
        }
    }
}
