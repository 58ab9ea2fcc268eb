//! `chronova host adopt`: takes over the guests that run on hosts, for a log that does not know them.
//!
//! A log may be lost with all its backups while the hosts go on. The command reads how the guests of a host are defined.
//! It records each guest as a server, with its host, its allocations, its disks and its interfaces. The operator tells
//! the rest in a file. Nothing on the hosts changes, because the command only reads there.
//!
//! As with `chronova adopt`, one obstacle stops the whole adoption, unless the operator leaves the guest out. Without
//! `--write` it only reports. A repetition skips the guests that the log knows.

mod devices;
mod facts;
mod judge;
mod networks;
mod write;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use chronova_actors::server_options::ServerOptions;
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{HostId, NetworkId};
use chronova_events::network::NetworkEvent;
use chronova_events::store::EventStore;
use chronova_hypervisor::backend;
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::{Driver, DriverResult};
use chronova_hypervisor::found::FoundGuest;
use chronova_hypervisor::guest::NetworkSpec;
use chronova_projections::runner;
use chronova_projections::views::Views;

use super::super::adopt::{AdoptedThing, AdoptionReport, ReportForm};
use super::super::{CommandFailure, Exit, LogPlace};
use super::check::ask;
use super::claim;
use crate::config::Config;
use crate::config::account::HasAccount as _;
use judge::{AdoptableGuest, GuestJudge};
use write::GuestWriter;

pub use facts::{AdoptionFacts, ToldImage, ToldInterface, ToldNetwork, ToldServer, ToldVolume};

/// Options of an adoption of guests.
#[derive(Debug, clap::Args)]
pub struct HostAdoptArgs {
    /// URIs of hosts.
    #[arg(required_unless_present = "all")]
    pub uri: Vec<String>,
    /// All hosts of `[chronova] hypervisors`.
    #[arg(long, conflicts_with = "uri")]
    pub all: bool,
    /// Record the servers, while no server runs on the log; otherwise only report what is found and what is missing.
    #[arg(long)]
    pub write: bool,
    /// A YAML or JSON file with what the definitions do not tell.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Record ports without their lost security groups: the next definition of their guests filters no packets.
    #[arg(long)]
    pub without_port_security: bool,
    /// The id of a guest to leave out (as the report shows it); repeated.
    #[arg(long, value_name = "ID")]
    pub leave_out: Vec<String>,
    /// The form of the report.
    #[arg(long, value_enum, default_value_t = ReportForm::Table)]
    pub output: ReportForm,
}

/// The decisions of the operator and of the configuration about an adoption of guests.
#[derive(Debug, Clone, Default)]
pub struct GuestAdoptionChoices {
    pub facts: AdoptionFacts,
    pub leave_out: Vec<String>,
    pub without_port_security: bool,
    /// Whether a Neutron has the ports; otherwise the adoption records them in the embedded network service.
    pub neutron: bool,
    pub servers: ServerOptions,
}

/// The answer of a host about itself.
struct AnsweredHost {
    uri: String,
    host: HostId,
    hostname: String,
    guests: Vec<FoundGuest>,
    networks: Vec<NetworkSpec>,
}

/// The judgement of the guests on some hosts.
#[derive(Debug)]
pub struct GuestAdoption {
    report: AdoptionReport,
    guests: Vec<AdoptableGuest>,
    networks: BTreeMap<NetworkId, Vec<NetworkEvent>>,
    views: Views,
}

impl GuestAdoption {
    /// Asks the hosts, and judges their guests by the log. Changes neither.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn judge(
        store: &dyn EventStore,
        drivers: &[Arc<dyn Driver>],
        choices: &GuestAdoptionChoices,
        now: Timestamp,
    ) -> Result<Self, CommandFailure> {
        let views = Views::new();
        runner::catch_up(store, &views).await?;
        let (mut answered, mut silent) = (Vec::new(), Vec::new());
        for driver in drivers {
            match ask(driver, async || answer(driver).await).await {
                Ok(host) => answered.push(host),
                Err(error) => silent.push((driver.uri().to_owned(), error.to_string())),
            }
        }
        let (mut report, guests, networks) = GuestJudge::new(&views, choices, now).judge(&answered);
        let networks = networks.into_events();
        for (uri, error) in silent {
            report.see(AdoptedThing::Host, &uri, "");
            report.obstacle(AdoptedThing::Host, &uri, error, "bring it back, or name the other hosts alone");
        }
        Ok(Self { report, guests, networks, views })
    }

    pub fn report(&self) -> &AdoptionReport {
        &self.report
    }

    /// Writes the servers to the log, if nothing stands in the way. Returns their number. No server may have the log
    /// open.
    ///
    /// # Errors
    /// The log cannot be written. A repetition of the whole adoption continues.
    pub async fn write(self, store: &dyn EventStore, now: Timestamp) -> Result<usize, CommandFailure> {
        if !self.report.is_clear() {
            return Ok(0);
        }
        let writer = GuestWriter::new(store, &self.views, now);
        writer.networks(self.networks).await?;
        let count = self.guests.len();
        for guest in self.guests {
            writer.server(guest).await?;
        }
        Ok(count)
    }
}

async fn answer(driver: &Arc<dyn Driver>) -> DriverResult<AnsweredHost> {
    let definitions = driver.guest_definitions().needed()?;
    let found = driver.capabilities().await?;
    Ok(AnsweredHost {
        uri: driver.uri().to_owned(),
        host: found.host,
        hostname: found.hostname,
        guests: definitions.found_guests().await?,
        networks: definitions.found_networks().await?,
    })
}

/// Reports the guests of the hosts, and adopts them with `--write`.
pub(super) fn run(args: &HostAdoptArgs, config: &Config, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let place = LogPlace::of(config).map_err(CommandFailure::Usage)?;
    let choices = choices(args, config)?;
    let uris = match args.uri.as_slice() {
        [] => runtime.block_on(claim::fleet(&place, &config.chronova.hypervisors.0))?,
        named => named.to_vec(),
    };
    if uris.is_empty() {
        return Err(CommandFailure::Usage("name a host, or configure [chronova] hypervisors".to_owned()));
    }
    // The lock makes sure that no control plane runs. A running one would not see the new events. Opening a simulated
    // fleet also rewrites the fleet's file, which only one process may use.
    let alone = args.write || uris.iter().any(|uri| uri.starts_with("sim:"));
    let locked = alone.then(|| runtime.block_on(place.lock())).transpose()?;
    let store = match &locked {
        Some(locked) => locked.store(),
        None => runtime.block_on(place.read())?,
    };
    // The drivers are opened and closed inside the runtime, so that they can use its tasks and timers.
    let entered = runtime.enter();
    let done = opened(&uris, config).and_then(|drivers| {
        let asked = (&*store, drivers.as_slice());
        runtime.block_on(Box::pin(adopt(args, &choices, asked, out)))
    });
    drop((store, entered));
    if let Some(locked) = locked {
        runtime.block_on(locked.release());
    }
    done
}

fn choices(args: &HostAdoptArgs, config: &Config) -> Result<GuestAdoptionChoices, CommandFailure> {
    let facts = args.facts.as_deref().map(AdoptionFacts::read).transpose()?.unwrap_or_default();
    let neutron = config.neutron.account().complete().map_err(|problem| CommandFailure::Usage(problem.message))?;
    Ok(GuestAdoptionChoices {
        facts,
        leave_out: args.leave_out.clone(),
        without_port_security: args.without_port_security,
        neutron: neutron.is_some(),
        servers: config.targets().runtime.servers,
    })
}

fn opened(uris: &[String], config: &Config) -> Result<Vec<Arc<dyn Driver>>, CommandFailure> {
    let options = config.targets().drivers;
    let mut drivers = Vec::new();
    for uri in uris {
        drivers.extend(backend::open(uri, &options).map_err(|error| CommandFailure::Usage(error.to_string()))?);
    }
    Ok(drivers)
}

async fn adopt(
    args: &HostAdoptArgs,
    choices: &GuestAdoptionChoices,
    (store, drivers): (&dyn EventStore, &[Arc<dyn Driver>]),
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let now = SystemClock.now();
    let adoption = GuestAdoption::judge(store, drivers, choices, now).await?;
    match args.output {
        ReportForm::Table => adoption.report().print(out)?,
        ReportForm::Json => writeln!(out, "{}", adoption.report().json())?,
    }
    let is_clear = adoption.report().is_clear();
    if args.write {
        let count = adoption.write(store, now).await?;
        let told = if is_clear { format!("adopted: {count} servers") } else { "nothing was written".to_owned() };
        if args.output == ReportForm::Table {
            writeln!(out, "{told}")?;
        }
    }
    Ok(if is_clear { Exit::Yes } else { Exit::No })
}
