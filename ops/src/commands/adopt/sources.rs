//! Where the databases come from: dumps, or the running databases of Nova.

use std::path::PathBuf;
use std::str::FromStr;

use chronova_events::envelope::Timestamp;

use super::args::AdoptArgs;
use crate::commands::CommandFailure;
use crate::nova::address::NovaDatabaseAddress;
use crate::nova::connections::{self, NovaConnections};
use crate::nova::database::{NovaDatabase, NovaDatabases, TablesInMemory, live_rows};
use crate::nova::dump;
use crate::nova::live::{LiveChange, LiveDatabase, LiveReadError, ReadLimit};
use crate::nova::schema::{API_TABLES, CELL_TABLES, NovaTableUse, PLACEMENT_TABLES};

/// A dump, or the address of a database. The parser of the command line accepts any address, because its error message
/// would show the password in the address.
#[derive(Clone, PartialEq, Eq)]
pub enum AdoptionSource {
    Dump(PathBuf),
    Live(String),
}

impl FromStr for AdoptionSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text.contains("://") { Self::Live(text.to_owned()) } else { Self::Dump(text.into()) })
    }
}

impl std::fmt::Debug for AdoptionSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dump(path) => write!(f, "{}", path.display()),
            Self::Live(_) => f.write_str("(an address)"),
        }
    }
}

impl From<LiveReadError> for CommandFailure {
    fn from(error: LiveReadError) -> Self {
        Self::Usage(error.to_string())
    }
}

fn usage(text: impl Into<String>) -> CommandFailure {
    CommandFailure::Usage(text.into())
}

/// One database, opened.
struct OpenedDatabase {
    name: String,
    tables: &'static [NovaTableUse],
    from: OpenedSource,
    /// The time of a live database when it was read.
    read_at: Option<Timestamp>,
}

enum OpenedSource {
    Dump(TablesInMemory),
    Live(LiveDatabase),
}

/// A row of a live database that changed while the databases were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdoptionChange {
    pub database: String,
    pub change: LiveChange,
}

/// All databases of a cloud, opened. The module `nova::live` describes the steps of a reading.
pub struct AdoptionReading {
    /// nova_api, cell 0, the cells, placement.
    databases: Vec<OpenedDatabase>,
    limit: ReadLimit,
}

impl std::fmt::Debug for AdoptionReading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.databases.iter().map(|database| database.name.as_str()).collect();
        f.debug_struct("AdoptionReading").field("databases", &names).finish_non_exhaustive()
    }
}

async fn open(
    name: &str,
    tables: &'static [NovaTableUse],
    source: &AdoptionSource,
) -> Result<OpenedDatabase, CommandFailure> {
    let from = match source {
        AdoptionSource::Dump(path) => OpenedSource::Dump(dump::read(path).map_err(|error| usage(error.to_string()))?),
        AdoptionSource::Live(text) => {
            let address =
                NovaDatabaseAddress::parse(text).map_err(|reason| usage(format!("the address of {name}: {reason}")))?;
            OpenedSource::Live(LiveDatabase::connect(name, &address).await?)
        }
    };
    Ok(OpenedDatabase { name: name.to_owned(), tables, from, read_at: None })
}

impl AdoptionReading {
    /// Reads the dumps, and connects to the live databases that the arguments or Nova's configuration name.
    pub async fn open(args: &AdoptArgs) -> Result<Self, CommandFailure> {
        let known = NovaConnections::read(&args.nova_conf).map_err(usage)?;
        let live = |address: &Option<String>| address.clone().map(AdoptionSource::Live);
        let api = args
            .api
            .clone()
            .or_else(|| live(&known.api))
            .ok_or_else(|| missing("nova_api", "--api", "[api_database]"))?;
        let placement = args.placement.clone().or_else(|| live(&known.placement));
        let placement = placement.ok_or_else(|| missing("placement", "--placement", "[placement_database]"))?;
        let mut api = open("nova_api", API_TABLES, &api).await?;
        let (mut cell0, mut cells) = (args.cell0.clone(), args.cell.clone());
        if cell0.is_none() || cells.is_empty() {
            let mapped = mapped(&mut api, &known).await?;
            cell0 = cell0.or(mapped.cell0.map(AdoptionSource::Live));
            if cells.is_empty() {
                cells = mapped.cells.into_iter().map(AdoptionSource::Live).collect();
            }
        }
        let cell0 = cell0.ok_or_else(|| usage("cell_mappings has no cell 0: name its database with --cell0"))?;
        let mut databases = vec![api, open("cell0", CELL_TABLES, &cell0).await?];
        for (source, number) in cells.iter().zip(1..) {
            databases.push(open(&format!("cell {number}"), CELL_TABLES, source).await?);
        }
        databases.push(open("placement", PLACEMENT_TABLES, &placement).await?);
        Ok(Self { databases, limit: ReadLimit::of(args.max_memory.saturating_mul(1024 * 1024)) })
    }

    fn live(&mut self) -> impl Iterator<Item = &mut LiveDatabase> {
        self.databases.iter_mut().filter_map(|database| match &mut database.from {
            OpenedSource::Live(live) => Some(live),
            OpenedSource::Dump(_) => None,
        })
    }

    /// Fixes the moment that the next reading sees, in all live databases at the same time.
    pub async fn begin(&mut self) -> Result<(), CommandFailure> {
        futures::future::try_join_all(self.live().map(LiveDatabase::begin)).await?;
        Ok(())
    }

    /// The tables of all databases, as of the moment of [`AdoptionReading::begin`].
    pub async fn read(&mut self) -> Result<NovaDatabases, CommandFailure> {
        let mut read: Vec<Box<dyn NovaDatabase>> = Vec::new();
        for database in &mut self.databases {
            read.push(Box::new(match &mut database.from {
                OpenedSource::Dump(tables) => std::mem::take(tables),
                OpenedSource::Live(live) => {
                    database.read_at = Some(live.clock().await?);
                    live.read(database.tables, &mut self.limit).await?
                }
            }));
        }
        let mut read = read.into_iter();
        let (Some(api), Some(cell0), Some(placement)) = (read.next(), read.next(), read.next_back()) else {
            return Err(usage("not all databases are named"));
        };
        Ok(NovaDatabases { api, cell0, cells: read.collect(), placement })
    }

    /// The rows of live databases that differ from those that were read.
    pub async fn changes(&mut self, read: &NovaDatabases) -> Result<Vec<AdoptionChange>, CommandFailure> {
        let mut changes = Vec::new();
        for (database, before) in self.databases.iter_mut().zip(read.all()) {
            if let OpenedSource::Live(live) = &mut database.from {
                let found = live.changes(database.tables, before).await?;
                let name = |change| AdoptionChange { database: database.name.clone(), change };
                changes.extend(found.into_iter().map(name));
            }
        }
        Ok(changes)
    }
}

impl AdoptionReading {
    /// Ends all connections.
    pub async fn close(self) {
        for database in self.databases {
            if let OpenedSource::Live(live) = database.from {
                live.close().await;
            }
        }
    }
}

/// A service that reported within this time may still run. It is Nova's default for `service_down_time`.
const MAY_RUN: i64 = 60;

/// A service of Nova that may still run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningService {
    pub database: String,
    /// `nova-compute on h1`
    pub service: String,
    /// The age of its newest report, in seconds.
    pub seconds: i64,
}

impl AdoptionReading {
    /// The services that may still run. A reading may take minutes, so the age of a report is measured at the moment
    /// when the database was read, by the database's own clock.
    pub fn running(&self, read: &NovaDatabases) -> Vec<RunningService> {
        let mut running = Vec::new();
        for (database, tables) in self.databases.iter().zip(read.all()) {
            let Some(now) = database.read_at else { continue };
            for row in live_rows(tables, "services") {
                let Some(seen) = row.time("last_seen_up").ok().flatten() else { continue };
                let seconds = (now.0 - seen.0).div_euclid(1_000_000);
                if seconds < MAY_RUN {
                    let word = |column: &str| row.text(column).unwrap_or("?").to_owned();
                    let service = format!("{} on {}", word("binary"), word("host"));
                    running.push(RunningService { database: database.name.clone(), service, seconds });
                }
            }
        }
        running
    }
}

fn missing(database: &str, option: &str, section: &str) -> CommandFailure {
    usage(format!(
        "the database {database} is not named: give {option}, or --nova-conf with a file that has {section} connection"
    ))
}

/// The addresses of the cells in `cell_mappings` of a live `nova_api`. With a dump of `nova_api`, the operator must
/// name the dumps of all databases.
async fn mapped(
    api: &mut OpenedDatabase,
    known: &NovaConnections,
) -> Result<connections::CellAddresses, CommandFailure> {
    let OpenedSource::Live(live) = &mut api.from else {
        return Err(usage("name the dumps of all databases: --api, --cell0, --cell and --placement"));
    };
    live.begin().await?;
    let wanted: Vec<NovaTableUse> = API_TABLES.iter().filter(|table| table.name == "cell_mappings").copied().collect();
    // A cloud has a few cells.
    let read = live.read(&wanted, &mut ReadLimit::of(1024 * 1024)).await?;
    let found = connections::cells(crate::nova::database::rows(&read, "cell_mappings"), known);
    found.map_err(|(cell, reason)| usage(format!("the address of {cell} in cell_mappings: {reason}")))
}
