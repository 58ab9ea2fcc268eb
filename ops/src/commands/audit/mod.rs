//! `chronova audit`: lists events, oldest first; its subcommands verify, export, archive and erase. `audit verify` and
//! `audit head` are in [`super::verify`].
//!
//! Without a subcommand it lists events. A filter that is given twice matches either value. Different filters must all
//! match. The exception is a server and a host: together they match the events of either.

pub mod archive;
pub mod erase;
pub mod export;

use std::io::Write;
use std::time::Duration;

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::host::HostEvent;
use chronova_events::ids::InstanceId;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
use chronova_web::audit::line::Format;
use clap::ValueEnum;
use uuid::Uuid;

use super::log_pages::payload;
use super::moments::MomentArg;
use super::{CommandFailure, Exit};

pub use chronova_web::audit::line::{json_line, shown};

/// How often the log of another process is polled.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// The number of events that are read at once.
const PAGE: usize = 1_024;

/// The forms of the listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OutputFormat {
    /// One JSON object a line
    #[default]
    Json,
    /// One CloudEvent (1.0, structured JSON) a line
    Cloudevents,
    /// Comma-separated values with a head line (RFC 4180)
    Csv,
    /// Columns, for people
    Table,
}

impl OutputFormat {
    fn format(self) -> Format {
        match self {
            Self::Json => Format::Json,
            Self::Cloudevents => Format::CloudEvents,
            Self::Csv => Format::Csv,
            Self::Table => Format::Table,
        }
    }
}

/// The time range in which an event was recorded.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct AuditTimeRange {
    /// Only events recorded from then on: 2026-01-31T12:00:00Z, 2026-01-31, 15m (ago)
    #[arg(long, value_name = "TIME")]
    pub since: Option<MomentArg>,
    /// Only events recorded before then
    #[arg(long, value_name = "TIME")]
    pub until: Option<MomentArg>,
}

impl AuditTimeRange {
    /// The start of the range (inclusive) and its end (exclusive).
    pub fn resolve(self, now: Timestamp) -> (Option<Timestamp>, Option<Timestamp>) {
        (self.since.map(|when| when.resolve(now)), self.until.map(|when| when.resolve(now)))
    }
}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct AuditArgs {
    /// Only streams with this prefix or pattern: `instance`, `quota-*`, `instance-1b2c*`
    #[arg(long, value_name = "PATTERN")]
    pub stream: Vec<String>,
    /// Only kinds of events with this prefix or pattern: `instance.build`, `*_failed`
    #[arg(long, value_name = "PATTERN")]
    pub kind: Vec<String>,
    /// Only direct requests of this user (id)
    #[arg(long, value_name = "ID")]
    pub user: Vec<String>,
    /// Only requests in this project (id)
    #[arg(long, value_name = "ID")]
    pub project: Vec<String>,
    /// Only events that this request caused: `req-...`
    #[arg(long, value_name = "ID")]
    pub request_id: Vec<String>,
    /// Only this server and all work for it, in any stream
    #[arg(long, visible_alias = "instance", value_name = "UUID")]
    pub server: Vec<InstanceId>,
    /// Only this host and events that name it, in any stream
    #[arg(long, value_name = "UUID|NAME")]
    pub host: Vec<String>,
    #[command(flatten)]
    pub times: AuditTimeRange,
    /// Only from this position of the log on
    #[arg(long, value_name = "N")]
    pub from_position: Option<u64>,
    /// Only up to and with this position of the log
    #[arg(long, value_name = "N")]
    pub to_position: Option<u64>,
    /// The form of the listing
    #[arg(long, short = 'o', value_enum, value_name = "FORM", default_value_t)]
    pub output: OutputFormat,
    /// List the archive in this folder instead of the log
    #[arg(long, value_name = "DIR", conflicts_with = "follow")]
    pub archive: Option<std::path::PathBuf>,
    /// Continue with new events as they are recorded
    #[arg(long, short)]
    pub follow: bool,
}

impl AuditArgs {
    fn after(&self) -> Position {
        Position(self.from_position.map_or(0, |position| position.saturating_sub(1)))
    }

    fn last(&self) -> Position {
        Position(self.to_position.unwrap_or(u64::MAX))
    }

    /// The filter that the log's search takes; `hosts` are the ids of [`AuditArgs::host`].
    pub fn criteria(&self, now: Timestamp, hosts: Vec<Uuid>) -> Criteria {
        let (since, until) = self.times.resolve(now);
        Criteria {
            streams: self.stream.clone(),
            kinds: self.kind.clone(),
            users: self.user.clone(),
            projects: self.project.clone(),
            request_ids: self.request_id.clone(),
            since,
            until,
            things: self.server.iter().map(|id| id.0).chain(hosts).collect(),
            ..Criteria::default()
        }
    }
}

/// The ids of the hosts that `given` means: an id, or a name under which hosts were ever registered.
async fn hosts(given: &str, store: &dyn EventStore) -> Result<Vec<Uuid>, CommandFailure> {
    if let Ok(id) = given.parse() {
        return Ok(vec![id]);
    }
    let registered = Criteria { kinds: vec!["host.registered".to_owned()], ..Criteria::default() };
    let (mut found, mut at) = (Vec::new(), Position::START);
    loop {
        let page = store.search(at, PAGE, &registered).await?;
        for recorded in &page.events {
            if let Event::HostEvent(HostEvent::Registered(host)) = &**payload(recorded)?
                && host.hostname == given
            {
                found.push(host.host.0);
            }
        }
        if page.until == at {
            break;
        }
        at = page.until;
    }
    if found.is_empty() {
        return Err(CommandFailure::Usage(format!("no host {given} was ever registered")));
    }
    Ok(found)
}

/// Prints the events that `args` select.
pub async fn run(
    args: &AuditArgs,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let mut wanted = Vec::new();
    for host in &args.host {
        wanted.extend(hosts(host, store).await?);
    }
    let mut criteria = args.criteria(now, wanted);
    // An event about a server can come before the server's own first event, so the requests of the servers are
    // collected first.
    criteria.learn(store).await?;
    let format = args.output.format();
    if let Some(head) = format.head() {
        out.write_all(head.as_bytes())?;
    }
    let mut at = args.after();
    loop {
        let found = store.search(at, PAGE, &criteria).await?;
        for recorded in found.events.iter().filter(|recorded| recorded.position <= args.last()) {
            payload(recorded)?;
            let line = format.line(recorded).map_err(|source| CommandFailure::decode(recorded, source))?;
            out.write_all(line.as_bytes())?;
        }
        let ended = found.until == at;
        at = found.until;
        if at >= args.last() || (ended && !args.follow) {
            out.flush()?;
            return Ok(Exit::Yes);
        }
        if ended {
            out.flush()?;
            tokio::time::sleep(FOLLOW_EVERY).await;
            if !criteria.things.is_empty() {
                criteria.learn(store).await?;
            }
        }
    }
}
