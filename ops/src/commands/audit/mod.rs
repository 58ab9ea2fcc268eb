//! `chronova audit`: lists events, oldest first. Its subcommands do other work on the log, for example verify, export
//! or archive it. `audit verify` and `audit head` are in [`super::verify`].
//!
//! Without a subcommand it lists events. A filter given twice matches either value; different filters must all match. A
//! listing with filters writes the index of the log into the data folder ([`index`]).

pub mod anchors;
pub mod archive;
pub mod diff;
pub mod erase;
pub mod export;
pub mod forward;
pub mod index;
mod names;
pub mod past;
pub mod prove;
pub mod roles;
mod server_names;
pub mod servers;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::place::PlaceAddress;
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
    /// One event of CADF (DSP0262) a line, as OpenStack's pyCADF reads it
    Cadf,
    /// One message of syslog (RFC 5424) a line
    Syslog,
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
            Self::Cadf => Format::Cadf,
            Self::Syslog => Format::Syslog,
            Self::Csv => Format::Csv,
            Self::Table => Format::Table,
        }
    }
}

/// The time range in which an event was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
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

#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct AuditArgs {
    /// Only streams with this prefix or pattern: `instance`, `quota-*`, `instance-1b2c*`
    #[arg(long, value_name = "PATTERN")]
    pub stream: Vec<String>,
    /// Only kinds of events with this prefix or pattern: `instance.build`, `*_failed`
    #[arg(long, value_name = "PATTERN")]
    pub kind: Vec<String>,
    /// Only direct requests of this user
    #[arg(long, value_name = "ID|NAME")]
    pub user: Vec<String>,
    /// Only requests in this project
    #[arg(long, value_name = "ID|NAME")]
    pub project: Vec<String>,
    /// Only events that this request caused: `req-...`
    #[arg(long, value_name = "ID")]
    pub request_id: Vec<String>,
    /// Only requests from this client address
    #[arg(long, value_name = "IP")]
    pub address: Vec<String>,
    /// Only this server and all work for it, in any stream
    #[arg(long, visible_alias = "instance", value_name = "UUID|NAME")]
    pub server: Vec<String>,
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
    /// List the archive in this folder, or at s3://BUCKET/PREFIX, instead of the log
    #[arg(long, value_name = "DIR", conflicts_with = "follow")]
    pub archive: Option<PlaceAddress>,
    /// Read the whole log, and neither use nor write the index (log.db.index). A forged index could hide events
    #[arg(long, conflicts_with = "archive")]
    pub without_index: bool,
    /// Continue with new events as they are recorded
    #[arg(long, short)]
    pub follow: bool,
    /// The file with the names of servers; `None`: each search for a name reads the log.
    #[arg(skip)]
    pub names: Option<PathBuf>,
}

impl AuditArgs {
    fn after(&self) -> Position {
        Position(self.from_position.map_or(0, |position| position.saturating_sub(1)))
    }

    fn last(&self) -> Position {
        Position(self.to_position.unwrap_or(u64::MAX))
    }

    /// The filter that the log's search takes; `servers` and `hosts` are the ids of [`AuditArgs::server`] and
    /// [`AuditArgs::host`].
    pub fn criteria(&self, now: Timestamp, servers: Vec<Uuid>, hosts: Vec<Uuid>) -> Criteria {
        let (since, until) = self.times.resolve(now);
        Criteria {
            streams: self.stream.clone(),
            kinds: self.kind.clone(),
            users: self.user.clone(),
            projects: self.project.clone(),
            request_ids: self.request_id.clone(),
            since,
            until,
            addresses: self.address.clone(),
            servers,
            hosts,
            ..Criteria::default()
        }
    }
}

/// Refuses names and ids that no event of the log has. With a misspelt filter, the listing would just be empty.
async fn expect_known(args: &AuditArgs, criteria: &Criteria, store: &dyn EventStore) -> Result<(), CommandFailure> {
    let none = Criteria::default;
    let mut all: Vec<(String, Criteria)> = Vec::new();
    for id in &args.user {
        let users = names::users(std::slice::from_ref(id), store).await?;
        all.push((format!("no request of the user {id}"), Criteria { users, ..none() }));
    }
    for id in &args.project {
        let projects = names::projects(std::slice::from_ref(id), store).await?;
        all.push((format!("no request in the project {id}"), Criteria { projects, ..none() }));
    }
    for id in &criteria.servers {
        all.push((format!("no event about the server {id}"), Criteria { servers: vec![*id], ..none() }));
    }
    for id in &criteria.hosts {
        all.push((format!("no event about the host {id}"), Criteria { hosts: vec![*id], ..none() }));
    }
    for (what, one) in all {
        if !is_in_log(&one, store).await? {
            return Err(CommandFailure::Usage(format!("{what} is in the log")));
        }
    }
    Ok(())
}

async fn is_in_log(criteria: &Criteria, store: &dyn EventStore) -> Result<bool, CommandFailure> {
    let mut at = Position::START;
    loop {
        let found = store.search(at, 1, criteria).await?;
        if !found.events.is_empty() || found.until == at {
            return Ok(!found.events.is_empty());
        }
        at = found.until;
    }
}

/// Prints the events that `args` select.
pub async fn run(
    args: &AuditArgs,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let servers = names::servers(&args.server, store, args.names.as_deref()).await?;
    let hosts = names::hosts(&args.host, store).await?;
    let mut criteria = args.criteria(now, servers, hosts);
    criteria.users = names::users(&args.user, store).await?;
    criteria.projects = names::projects(&args.project, store).await?;
    // An event about a server can come before the server's own first event, so the requests of the servers are
    // collected first.
    criteria.learn(store).await?;
    let format = args.output.format();
    if let Some(head) = format.head() {
        out.write_all(head.as_bytes())?;
    }
    let (mut at, mut lines) = (args.after(), 0_u64);
    loop {
        let found = store.search(at, PAGE, &criteria).await?;
        for recorded in found.events.iter().filter(|recorded| recorded.position <= args.last()) {
            payload(recorded)?;
            let line = format.line(recorded).map_err(|source| CommandFailure::decode(recorded, source))?;
            out.write_all(line.as_bytes())?;
            lines += 1;
        }
        let ended = found.until == at;
        at = found.until;
        if at >= args.last() || (ended && !args.follow) {
            out.flush()?;
            if lines == 0 {
                expect_known(args, &criteria, store).await?;
            }
            return Ok(Exit::Yes);
        }
        if ended {
            out.flush()?;
            tokio::time::sleep(FOLLOW_EVERY).await;
            if !criteria.servers.is_empty() {
                criteria.learn(store).await?;
            }
        }
    }
}
