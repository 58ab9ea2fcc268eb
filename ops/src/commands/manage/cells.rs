//! `cell_v2`: Chronova has one cell, and Nova's `cell0` for the servers whose build failed before they had a host. A
//! host belongs to the cell as soon as it is registered, so nothing has to be mapped or discovered.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::cloud::{RunningCloud, plain};
use super::{Align, CommandFailure, ManageExit, PrettyTable, UNEXPECTED, transport};
use crate::output::complain;

/// Nova's id of `cell0`.
pub(super) const CELL0: &str = "00000000-0000-0000-0000-000000000000";
/// The id of the one cell, the same in every cloud.
const CELL1: &str = "c3110001-0000-4000-8000-000000000001";
const CELL1_NAME: &str = "cell1";
/// The address of the message queue of both cells: there is none.
const TRANSPORT: &str = "none:///";
const BAD_INPUT: ManageExit = 127;
/// Nova's documentation names this code for each failure of `discover_hosts`. Nova's program exits with 255.
const NOT_DISCOVERED: ManageExit = 1;

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum CellCommand {
    /// Set up the cells: both always exist. Exit with 1 if no host has registered.
    SimpleCellSetup {
        #[arg(long = "transport-url", value_name = "URL")]
        transport_url: Option<String>,
    },
    /// Map cell0: it always exists.
    #[command(name = "map_cell0")]
    MapCell0 {
        #[arg(long = "database_connection", alias = "database-connection", value_name = "URL")]
        database_connection: Option<String>,
    },
    /// Map servers to a cell: they are mapped when they get a host.
    MapInstances {
        #[arg(long = "cell_uuid", alias = "cell-uuid", value_name = "UUID")]
        cell_uuid: Option<String>,
        #[arg(long = "max-count", value_name = "NUMBER")]
        max_count: Option<String>,
        #[arg(long)]
        reset: bool,
    },
    /// Map a cell and its hosts: they are mapped when they are registered.
    MapCellAndHosts {
        #[arg(long = "transport-url", value_name = "URL")]
        transport_url: Option<String>,
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[arg(long)]
        verbose: bool,
    },
    /// Show the cell of a server.
    VerifyInstance {
        #[arg(long, value_name = "UUID")]
        uuid: String,
        #[arg(long)]
        quiet: bool,
    },
    /// Create the one cell, before the first start of the server: there can be no other.
    CreateCell(NewCellArgs),
    /// Discover hosts: they register themselves.
    DiscoverHosts {
        #[arg(long = "cell_uuid", alias = "cell-uuid", value_name = "UUID")]
        cell_uuid: Option<String>,
        #[arg(long)]
        verbose: bool,
        /// Exit with 1 if no host was discovered.
        #[arg(long)]
        strict: bool,
        #[arg(long = "by-service")]
        by_service: bool,
    },
    /// List the cells.
    ListCells {
        /// Show passwords.
        #[arg(long)]
        verbose: bool,
    },
    /// Delete a cell: the one cell cannot be deleted.
    DeleteCell {
        #[arg(long = "cell_uuid", alias = "cell-uuid", value_name = "UUID")]
        cell_uuid: String,
        #[arg(long)]
        force: bool,
    },
    /// List the hosts of the cells.
    ListHosts {
        #[arg(long = "cell_uuid", alias = "cell-uuid", value_name = "UUID")]
        cell_uuid: Option<String>,
    },
    /// Change a cell: it has neither message queue nor database.
    UpdateCell(ChangedCellArgs),
    /// Take a host without servers out of the cloud.
    DeleteHost {
        #[arg(long = "cell_uuid", alias = "cell-uuid", value_name = "UUID")]
        cell_uuid: String,
        #[arg(long, value_name = "HOST")]
        host: String,
    },
}

#[derive(Debug, Args)]
pub struct NewCellArgs {
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long = "database_connection", alias = "database-connection", value_name = "URL")]
    database_connection: Option<String>,
    #[arg(long = "transport-url", value_name = "URL")]
    transport_url: Option<String>,
    #[arg(long)]
    verbose: bool,
    #[arg(long)]
    disabled: bool,
}

#[derive(Debug, Args)]
pub struct ChangedCellArgs {
    #[arg(long = "cell_uuid", alias = "cell-uuid", value_name = "UUID")]
    cell_uuid: String,
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long = "transport-url", value_name = "URL")]
    transport_url: Option<String>,
    #[arg(long = "database_connection", alias = "database-connection", value_name = "URL")]
    database_connection: Option<String>,
    #[arg(long)]
    disable: bool,
    #[arg(long)]
    enable: bool,
}

impl CellCommand {
    /// The code if the server does not answer.
    pub(super) fn unexpected(&self) -> ManageExit {
        match self {
            Self::DiscoverHosts { .. } => NOT_DISCOVERED,
            _ => UNEXPECTED,
        }
    }
}

pub(super) fn run(
    command: &CellCommand,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    match command {
        CellCommand::SimpleCellSetup { transport_url } => simple_cell_setup(transport_url.as_deref(), cloud, out),
        CellCommand::MapCell0 { .. } => {
            writeln!(out, "Cell0 is already setup")?;
            Ok(0)
        }
        CellCommand::MapInstances { cell_uuid, max_count, .. } => {
            map_instances(cell_uuid.as_deref(), max_count.as_deref(), out)
        }
        CellCommand::MapCellAndHosts { transport_url, verbose, .. } => {
            map_cell_and_hosts(transport_url.as_deref(), *verbose, cloud, out)
        }
        CellCommand::VerifyInstance { uuid, quiet } => verify_instance(uuid, *quiet, cloud, out),
        CellCommand::CreateCell(args) => create_cell(args, cloud, out),
        CellCommand::DiscoverHosts { cell_uuid, verbose, strict, .. } => {
            discover(cell_uuid.as_deref(), *verbose, *strict, cloud, out)
        }
        CellCommand::ListCells { verbose } => list_cells(*verbose, cloud, out),
        CellCommand::DeleteCell { cell_uuid, force } => delete_cell(cell_uuid, *force, out),
        CellCommand::ListHosts { cell_uuid } => list_hosts(cell_uuid.as_deref(), cloud, out),
        CellCommand::UpdateCell(args) => update_cell(args, cloud, out),
        CellCommand::DeleteHost { cell_uuid, host } => delete_host(cell_uuid, host, cloud, out),
    }
}

/// The cell with hosts, in the form that a cell has in Nova's messages.
pub(super) fn identity() -> String {
    format!("{CELL1}({CELL1_NAME})")
}

pub(super) fn is_known(cell: &str) -> bool {
    cell == CELL0 || cell == CELL1
}

fn not_found(cell: &str, code: ManageExit, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    writeln!(out, "Cell with uuid {cell} was not found.")?;
    Ok(code)
}

/// Whether the address of the message queue is valid. The address comes from the option, or else from `[DEFAULT]
/// transport_url`. If it is not valid, writes the reason. Unlike in Nova, the address may be missing, because the cell
/// has no message queue.
fn has_valid_transport(
    given: Option<&str>,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<bool, CommandFailure> {
    let configured = cloud.config.default.transport_url.as_deref();
    let Some(url) = given.filter(|url| !url.is_empty()).or(configured) else { return Ok(true) };
    match transport::problem(url) {
        Some(problem) => {
            writeln!(out, "Invalid transport URL: {problem}")?;
            Ok(false)
        }
        None => Ok(true),
    }
}

const NO_HOSTS: &str = "No hosts found to map to cell, exiting.";
const ALL_MAPPED: &str = "All hosts are already mapped to cell(s).";

/// Both cells always exist. As in Nova, the set-up fails if the cloud has no hosts.
fn simple_cell_setup(
    transport: Option<&str>,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    if !has_valid_transport(transport, cloud, out)? {
        return Ok(1);
    }
    writeln!(out, "Cell0 is already setup")?;
    let is_empty = hosts(cloud)?.is_empty();
    writeln!(out, "{}", if is_empty { NO_HOSTS } else { ALL_MAPPED })?;
    Ok(u8::from(is_empty))
}

/// Only a verbose answer needs the server.
fn map_cell_and_hosts(
    transport: Option<&str>,
    verbose: bool,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    if !has_valid_transport(transport, cloud, out)? {
        return Ok(1);
    }
    if verbose {
        let known = hosts(cloud)?;
        if known.is_empty() {
            writeln!(out, "{NO_HOSTS}")?;
            return Ok(0);
        }
        for host in known {
            let name = host["name"].as_str().unwrap_or_default();
            writeln!(out, "Host {name} is already mapped to cell {CELL1}")?;
        }
    }
    writeln!(out, "{ALL_MAPPED}")?;
    Ok(0)
}

/// The cell exists from the first start of the server on. The set-up of a new deployment calls this sub-command before
/// that start, while the data folder is missing or empty. Then the sub-command succeeds.
fn create_cell(
    args: &NewCellArgs,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    if !has_valid_transport(args.transport_url.as_deref(), cloud, out)? {
        return Ok(1);
    }
    // A folder that cannot be read may have a log.
    let is_new = match std::fs::read_dir(&cloud.config.chronova.data_dir) {
        Ok(mut files) => files.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let is_the_one = args.name.as_deref().is_none_or(|name| name == CELL1_NAME);
    if is_new && is_the_one && !args.disabled {
        if args.verbose {
            writeln!(out, "{CELL1}")?;
        }
        complain("Chronova has one cell, which the first start of its server makes.\n");
        return Ok(0);
    }
    writeln!(out, "The cell {CELL1_NAME} ({CELL1}) exists already, and Chronova has no other cells.")?;
    Ok(2)
}

fn map_instances(
    cell: Option<&str>,
    max_count: Option<&str>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    if max_count.is_some_and(|text| !matches!(text.parse::<u64>(), Ok(1..))) {
        writeln!(out, "Must supply a positive value for max-count")?;
        return Ok(BAD_INPUT);
    }
    if let Some(unknown) = cell.filter(|cell| !is_known(cell)) {
        return not_found(unknown, UNEXPECTED, out);
    }
    complain("Servers belong to the one cell from their first host on, so none is left to map.\n");
    Ok(0)
}

fn verify_instance(
    uuid: &str,
    quiet: bool,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let (code, words) = mapping(uuid, cloud.server(uuid)?.as_ref());
    if !quiet {
        writeln!(out, "{words}")?;
    }
    Ok(code)
}

/// The cell of a server, as Nova's mapping of the server names it. As in Nova, a server has no cell until the scheduler
/// has chosen a host, and it is in `cell0` if the scheduler finds none.
fn mapping(uuid: &str, server: Option<&Value>) -> (ManageExit, String) {
    let unmapped = format!("Instance {uuid} is not mapped to a cell");
    let Some(server) = server else {
        return (1, format!("{unmapped} (upgrade is incomplete) or instance does not exist"));
    };
    if server["deleted"] == true {
        let words = format!("The instance with uuid {uuid} has been deleted. The event log keeps it.");
        return (3, words);
    }
    match (server["had_host"] == true, server["vm_state"] == "building") {
        (true, _) => (0, format!("Instance {uuid} is in cell: {CELL1_NAME} ({CELL1})")),
        (false, true) => (2, unmapped),
        (false, false) => (0, format!("Instance {uuid} is in cell: cell0 ({CELL0})")),
    }
}

fn hosts(cloud: &RunningCloud<'_>) -> Result<Vec<Value>, CommandFailure> {
    let mut shown = cloud.get("/chronova/v1/hosts")?;
    Ok(shown["hosts"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// A host is mapped when it is registered, so none is ever discovered. Only a verbose answer needs the server.
fn discover(
    cell: Option<&str>,
    verbose: bool,
    strict: bool,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    if let Some(unknown) = cell.filter(|cell| !is_known(cell)) {
        return not_found(unknown, NOT_DISCOVERED, out);
    }
    if verbose {
        writeln!(out, "Found {} cell mappings.", if cell.is_some() { 1 } else { 2 })?;
        writeln!(out, "Skipping cell0 since it does not contain hosts.")?;
        if cell != Some(CELL0) {
            writeln!(out, "Getting computes from cell '{CELL1_NAME}': {CELL1}")?;
            for host in hosts(cloud)? {
                let text = |key: &str| host[key].as_str().unwrap_or_default().to_owned();
                writeln!(out, "Checking host mapping for compute host '{}': {}", text("name"), text("id"))?;
            }
            writeln!(out, "Found 0 unmapped computes in cell: {CELL1}")?;
        }
    }
    complain("Hosts belong to the one cell as soon as they are registered, so there are none to discover.\n");
    Ok(if strict { NOT_DISCOVERED } else { 0 })
}

/// The address without its password. A URL loses its parameters, too, because they may have a password. An address
/// without `://`, such as `host=... password=...`, is masked as a whole.
fn masked(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return "****".to_owned() };
    let rest = rest.split('?').next().unwrap_or_default();
    match rest.rsplit_once('@').map(|(account, place)| (account.split_once(':'), place)) {
        Some((Some((user, _)), place)) => format!("{scheme}://{user}:****@{place}"),
        _ => format!("{scheme}://{rest}"),
    }
}

/// The address of the event log, which takes the place of the databases of both cells.
fn store_of(cloud: &RunningCloud<'_>) -> String {
    let own = &cloud.config.chronova;
    match own.event_store.as_str() {
        "" | "sqlite" => format!("sqlite:///{}", own.data_dir.join("log.db").display()),
        url => url.to_owned(),
    }
}

fn list_cells(verbose: bool, cloud: &RunningCloud<'_>, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    let store = store_of(cloud);
    let store = if verbose { store } else { masked(&store) };
    let head = ["Name", "UUID", "Transport URL", "Database Connection", "Disabled"];
    let mut table = PrettyTable::new(Align::Centre, &head);
    for (name, id) in [("cell0", CELL0), (CELL1_NAME, CELL1)] {
        table.row(vec![name.to_owned(), id.to_owned(), TRANSPORT.to_owned(), store.clone(), "False".to_owned()]);
    }
    write!(out, "{}", table.render())?;
    Ok(0)
}

fn delete_cell(cell: &str, force: bool, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    if !is_known(cell) {
        return not_found(cell, 1, out);
    }
    match force {
        false => writeln!(out, "There are existing hosts mapped to cell with uuid {cell}.")?,
        true => writeln!(out, "There are existing instances mapped to cell with uuid {cell}.")?,
    }
    complain("Chronova has one cell, which cannot be deleted.\n");
    Ok(if force { 3 } else { 2 })
}

fn list_hosts(cell: Option<&str>, cloud: &RunningCloud<'_>, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    if let Some(unknown) = cell.filter(|cell| !is_known(cell)) {
        return not_found(unknown, 1, out);
    }
    let mut table = PrettyTable::new(Align::Centre, &["Cell Name", "Cell UUID", "Hostname"]);
    if cell != Some(CELL0) {
        for host in hosts(cloud)? {
            let name = host["name"].as_str().unwrap_or_default().to_owned();
            table.row(vec![CELL1_NAME.to_owned(), CELL1.to_owned(), name]);
        }
    }
    write!(out, "{}", table.render())?;
    Ok(0)
}

/// The order of the checks is Nova's. Deployment tools give the addresses in every run. So the sub-command accepts an
/// address, and says that it does not keep it. As in Nova, it refuses the address that the other cell has. Both cells
/// have the same addresses here. So the sub-command refuses the present address of the cell, too.
fn update_cell(
    args: &ChangedCellArgs,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let cell = &args.cell_uuid;
    if !is_known(cell) {
        return not_found(cell, 1, out);
    }
    let has_store = |address: &String| *address == store_of(cloud);
    if args.transport_url.as_deref() == Some(TRANSPORT) || args.database_connection.as_ref().is_some_and(has_store) {
        let other = if cell == CELL0 { CELL1 } else { CELL0 };
        writeln!(
            out,
            "The specified transport_url and/or database_connection combination already exists for another cell with uuid \
             {other}."
        )?;
        return Ok(3);
    }
    if args.disable && args.enable {
        writeln!(out, "Cell cannot be disabled and enabled at the same time.")?;
        return Ok(4);
    }
    if (args.disable || args.enable) && cell == CELL0 {
        writeln!(out, "Cell0 cannot be disabled.")?;
        return Ok(5);
    }
    let renamed = args.name.as_deref().filter(|name| *name != if cell == CELL0 { "cell0" } else { CELL1_NAME });
    if renamed.is_some() || args.disable {
        writeln!(out, "Unable to update CellMapping: Chronova has one cell, whose name and state are fixed")?;
        complain("To keep new servers off all hosts, disable their services.\n");
        return Ok(2);
    }
    if args.enable {
        writeln!(out, "Cell {cell} is already enabled")?;
    }
    if args.transport_url.is_some() || args.database_connection.is_some() {
        complain("Chronova's cell has neither message queue nor database, so their addresses are not kept.\n");
    }
    Ok(0)
}

fn delete_host(
    cell: &str,
    host: &str,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    if !is_known(cell) {
        return not_found(cell, 1, out);
    }
    let services = cloud.get(&format!("/compute/v2.1/os-services?binary=nova-compute&host={}", plain(host)))?;
    let Some(service) = services["services"].as_array().and_then(|all| all.first()) else {
        writeln!(out, "The host {host} was not found.")?;
        return Ok(2);
    };
    if cell == CELL0 {
        writeln!(out, "The host {host} was not found in the cell {cell}.")?;
        return Ok(3);
    }
    let id = service["id"].as_str().unwrap_or_default();
    match cloud.call("DELETE", &format!("/compute/v2.1/os-services/{}", plain(id)), None)? {
        Ok(_) => Ok(0),
        Err(refused) if refused.status == 409 => {
            writeln!(out, "There are instances on the host {host}.")?;
            Ok(4)
        }
        Err(refused) => Err(CommandFailure::Usage(refused.message)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_has_no_cell_until_the_scheduler_has_chosen() {
        let code = |had_host: bool, vm_state: &str| {
            mapping("s", Some(&json!({"deleted": false, "had_host": had_host, "vm_state": vm_state})))
        };
        assert_eq!(code(false, "building"), (2, "Instance s is not mapped to a cell".to_owned()));
        assert_eq!(code(true, "building").0, 0, "the scheduler has chosen a host");
        assert_eq!(code(false, "error"), (0, format!("Instance s is in cell: cell0 ({CELL0})")));
        assert_eq!(code(true, "error"), (0, format!("Instance s is in cell: cell1 ({CELL1})")));
        assert_eq!(mapping("s", Some(&json!({"deleted": true, "had_host": true, "vm_state": null}))).0, 3);
        assert_eq!(mapping("s", None).0, 1);
    }

    #[test]
    fn passwords_of_addresses_are_masked() {
        assert_eq!(masked("postgresql://nova:se:cret@db/nova"), "postgresql://nova:****@db/nova");
        assert_eq!(masked("host=db user=nova password='two words'"), "****");
        assert_eq!(masked("postgresql://nova@db/nova?password=secret"), "postgresql://nova@db/nova");
        assert_eq!(masked("postgresql://nova@db/nova"), "postgresql://nova@db/nova");
        assert_eq!(masked("sqlite:////var/lib/log.db"), "sqlite:////var/lib/log.db");
    }
}
