//! `placement`: heals allocations, mirrors host aggregates, and finds orphaned allocations.
//!
//! The running server decides and records; these sub-commands ask it and say what it did.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::cloud::{RefusedRequest, RunningCloud, plain};
use super::{CommandFailure, ManageExit};

const BAD_INPUT: ManageExit = 127;
/// The servers of one page, as in Nova. With --max-count, a page has that many servers.
const BATCH: u64 = 50;
/// The largest page of the API's list of servers.
const LARGEST_BATCH: u64 = 1_000;

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum PlacementCommand {
    /// Give servers the allocations that Placement lost.
    HealAllocations(HealArgs),
    /// Mirror the host aggregates in Placement.
    SyncAggregates {
        /// Say what is done.
        #[arg(long)]
        verbose: bool,
    },
    /// Find allocations that no server and no migration needs.
    Audit(PlacementAuditArgs),
}

#[derive(Debug, Args)]
pub struct HealArgs {
    /// The most servers to heal.
    #[arg(long = "max-count", value_name = "NUMBER", allow_hyphen_values = true)]
    max_count: Option<String>,
    /// Say what is done.
    #[arg(long)]
    verbose: bool,
    /// Say what would be done, and do nothing; exit with 4.
    #[arg(long = "dry-run")]
    dry_run: bool,
    /// The one server to heal.
    #[arg(long, value_name = "UUID")]
    instance: Option<String>,
    /// Leave out the resources that ports request, and do not ask the network service.
    #[arg(long = "skip-port-allocations")]
    skip_port_allocations: bool,
    /// The cell whose servers are healed; not with --instance.
    #[arg(long, value_name = "UUID")]
    cell: Option<String>,
    /// Replace the allocations that the server has; only with --instance.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub struct PlacementAuditArgs {
    /// Say what is found.
    #[arg(long)]
    verbose: bool,
    /// Only this provider.
    #[arg(long = "resource_provider", alias = "resource-provider", value_name = "UUID")]
    resource_provider: Option<String>,
    /// Delete the allocations that are found.
    #[arg(long)]
    delete: bool,
}

impl PlacementCommand {
    /// The code if Placement does not answer.
    pub(super) fn unexpected(&self) -> ManageExit {
        match self {
            Self::HealAllocations(_) => 3,
            Self::SyncAggregates { .. } => 2,
            Self::Audit(_) => 1,
        }
    }
}

pub(super) fn run(
    command: &PlacementCommand,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    match command {
        PlacementCommand::HealAllocations(args) => heal_allocations(args, cloud, out),
        PlacementCommand::SyncAggregates { verbose } => sync_aggregates(*verbose, cloud, out),
        PlacementCommand::Audit(args) => audit(args, cloud, out),
    }
}

/// Writes the words if the operator wants to read what is done.
fn say(verbose: bool, words: &str, out: &mut dyn Write) -> Result<(), CommandFailure> {
    if verbose {
        writeln!(out, "{words}")?;
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------------------------- heal

/// Checks the options as Nova does. Returns the most servers to heal; `None` is no limit.
fn limit(args: &HealArgs) -> Result<Option<u64>, String> {
    match (&args.instance, &args.max_count) {
        (Some(_), _) if args.cell.is_some() => Err("The --cell and --instance options are mutually exclusive.".into()),
        (None, _) if args.force => Err("The --instance flag is required when using --force flag.".into()),
        (Some(_), _) => Ok(Some(1)),
        (None, None) => Ok(None),
        (None, Some(text)) => match text.parse() {
            Ok(most @ 1..) => Ok(Some(most)),
            _ => Err("Must supply a positive integer for --max-count.".into()),
        },
    }
}

fn heal_allocations(
    args: &HealArgs,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let most = match limit(args) {
        Ok(most) => most,
        Err(words) => {
            writeln!(out, "{words}")?;
            return Ok(BAD_INPUT);
        }
    };
    if let Some(cell) = args.cell.as_deref().filter(|cell| !super::cells::is_known(cell)) {
        writeln!(out, "Cell with uuid {cell} was not found.")?;
        return Ok(BAD_INPUT);
    }
    if let Some(instance) = &args.instance {
        return heal_one(instance, args, cloud, out);
    }
    if most.is_none() {
        say(args.verbose, &format!("Running batches of {BATCH} until complete"), out)?;
    }
    // As in Nova, servers in cell0 never had a host.
    if args.cell.as_deref() == Some(super::cells::CELL0) {
        return processed(0, args, out);
    }
    look(args, out)?;
    heal_all(most, args, cloud, out)
}

fn heal_one(
    instance: &str,
    args: &HealArgs,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let Some(known) = cloud.server(instance)? else {
        writeln!(
            out,
            "Unable to find cell for instance {instance}, is it mapped? Try running \"nova-manage cell_v2 \
             verify_instance\" or \"nova-manage cell_v2 map_instances\"."
        )?;
        return Ok(BAD_INPUT);
    };
    look(args, out)?;
    // As in Nova, a deleted server is known, but there is nothing to heal.
    if known["deleted"] == true {
        return processed(0, args, out);
    }
    say(args.verbose, "Found 1 candidate instances.", out)?;
    match heal(instance, args, cloud, out)? {
        Ok(healed) => processed(u64::from(healed), args, out),
        Err(code) => Ok(code),
    }
}

fn look(args: &HealArgs, out: &mut dyn Write) -> Result<(), CommandFailure> {
    say(args.verbose, &format!("Looking for instances in cell: {}", super::cells::identity()), out)
}

/// The exit code after this number of servers was healed.
fn processed(healed: u64, args: &HealArgs, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    say(args.verbose, &format!("Processed {healed} instances."), out)?;
    Ok(if healed == 0 { 4 } else { 0 })
}

/// Heals the servers from the oldest on, page by page.
fn heal_all(
    most: Option<u64>,
    args: &HealArgs,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let (mut healed, mut marker) = (0, String::new());
    let batch = most.unwrap_or(BATCH).min(LARGEST_BATCH);
    loop {
        let after = if marker.is_empty() { String::new() } else { format!("&marker={marker}") };
        let path = format!("/compute/v2.1/servers?all_tenants=1&sort_key=created_at&sort_dir=asc&limit={batch}{after}");
        let page = cloud.get(&path)?;
        let ids: Vec<&str> =
            page["servers"].as_array().into_iter().flatten().filter_map(|server| server["id"].as_str()).collect();
        let Some(last) = ids.last() else { break };
        (*last).clone_into(&mut marker);
        say(args.verbose, &format!("Found {} candidate instances.", ids.len()), out)?;
        for id in ids {
            match heal(id, args, cloud, out)? {
                Ok(done) => healed += u64::from(done),
                Err(code) => return Ok(code),
            }
            if most == Some(healed) {
                say(args.verbose, &format!("Max count reached. Processed {healed} instances."), out)?;
                return Ok(1);
            }
        }
    }
    processed(healed, args, out)
}

/// Heals one server. Returns whether its allocations were changed, or the exit code of the failure.
fn heal(
    id: &str,
    args: &HealArgs,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<Result<bool, ManageExit>, CommandFailure> {
    let skip_ports = args.skip_port_allocations;
    let body = json!({"heal": {"force": args.force, "dry_run": args.dry_run, "skip_ports": skip_ports}});
    let path = format!("/chronova/v1/servers/{}/allocations/heal", plain(id));
    let answer = match cloud.call("POST", &path, Some(&body))? {
        Ok(answer) => answer,
        // The server was deleted meanwhile.
        Err(refused) if refused.status == 404 => return Ok(Ok(false)),
        Err(refused) => {
            writeln!(out, "{}", refused.message)?;
            return Ok(Err(heal_code(&refused)));
        }
    };
    if args.force {
        say(args.verbose, &format!("Force flag passed for instance {id}"), out)?;
    }
    let (words, changed) = told(id, &answer["healed"], args.dry_run);
    say(args.verbose, &words, out)?;
    Ok(Ok(changed && !args.dry_run))
}

fn heal_code(refused: &RefusedRequest) -> ManageExit {
    match refused.key.as_str() {
        "computeHostNotFound" => 2,
        "portsNotRead" => 5,
        "portsNotUpdated" => 6,
        "portsNotRestored" => 7,
        "healNotSupported" => 8,
        _ => 3,
    }
}

fn told(id: &str, healed: &Value, dry_run: bool) -> (String, bool) {
    let allocations = || healed["allocations"].to_string();
    match healed["outcome"].as_str().unwrap_or_default() {
        "in_task" => {
            let task = healed["task_state"].as_str().unwrap_or_default();
            (format!("Instance {id} is undergoing a task state transition: {task}"), false)
        }
        "on_no_host" => (format!("Instance {id} is not on a host."), false),
        "created" if dry_run => (format!("[dry-run] Create allocations for instance {id}: {}", allocations()), true),
        "updated" if dry_run => (format!("[dry-run] Update allocations for instance {id}: {}", allocations()), true),
        "created" => (format!("Successfully created allocations for instance {id}."), true),
        "updated" => (format!("Successfully updated allocations for instance {id}."), true),
        _ => (format!("The allocation of instance {id} is up-to-date. Nothing to be healed."), false),
    }
}

// --------------------------------------------------------------------------------------------------------------- audit

fn audit(
    args: &PlacementAuditArgs,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let query = match &args.resource_provider {
        Some(provider) => format!("?resource_provider={}", plain(provider)),
        None => String::new(),
    };
    let found = match cloud.call("GET", &format!("/chronova/v1/placement/orphans{query}"), None)? {
        Ok(found) => found,
        Err(refused) if refused.status == 404 => {
            writeln!(out, "{}", refused.message)?;
            return Ok(BAD_INPUT);
        }
        Err(refused) => return Err(CommandFailure::Usage(refused.message)),
    };
    let mut processed = 0;
    for orphan in found["orphans"].as_array().into_iter().flatten() {
        if !treat(orphan, args, cloud, out)? {
            return Ok(1);
        }
        processed += 1;
    }
    if processed == 0 {
        return Ok(0);
    }
    say(args.verbose, &format!("Processed {processed} allocation{}", if processed > 1 { "s." } else { "." }), out)?;
    Ok(if args.delete { 4 } else { 3 })
}

/// Reports or deletes one allocation; `false` if it could not be deleted.
fn treat(
    orphan: &Value,
    args: &PlacementAuditArgs,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<bool, CommandFailure> {
    let text = |key: &str| orphan[key].as_str().unwrap_or_default();
    let (consumer, provider, held) = (text("consumer"), text("resource_provider"), &orphan["resources"]);
    let words = "Allocations were set against consumer UUID";
    say(
        args.verbose,
        &format!("{words} {consumer} but no existing instances or active migrations are related. "),
        out,
    )?;
    if !args.delete {
        let found = format!("Allocations for consumer UUID {consumer} on Resource Provider {provider}");
        say(args.verbose, &format!("{found} can be deleted: {held}"), out)?;
        return Ok(true);
    }
    let path = format!("/chronova/v1/placement/orphans/{}/{}", plain(consumer), plain(provider));
    match cloud.call("DELETE", &path, None)? {
        Ok(_) => {
            let deleted = format!("Deleted allocations for consumer UUID {consumer} on Resource Provider {provider}");
            say(args.verbose, &format!("{deleted}: {held}"), out)?;
            Ok(true)
        }
        Err(refused) => {
            writeln!(out, "Not able to delete allocations for consumer UUID {consumer}: {}", refused.message)?;
            writeln!(
                out,
                "The Resource Provider {provider} had problems when deleting allocations. Stopping now. Please fix the \
                 problem by hand and run again."
            )?;
            Ok(false)
        }
    }
}

// ---------------------------------------------------------------------------------------------------------- aggregates

/// The hosts whose aggregates are not in Placement, by reason.
#[derive(Debug, Default)]
struct UnmirroredHosts {
    unknown: Vec<String>,
    without_provider: Vec<String>,
    failed: Vec<String>,
}

fn sync_aggregates(verbose: bool, cloud: &RunningCloud<'_>, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    say(verbose, "Filling in missing placement aggregates", out)?;
    let shown = match cloud.call("POST", "/chronova/v1/placement/aggregates/mirror", Some(&json!({})))? {
        Ok(shown) => shown,
        Err(refused) => return Err(CommandFailure::Usage(refused.message)),
    };
    let mut missing = UnmirroredHosts::default();
    for aggregate in shown["aggregates"].as_array().into_iter().flatten() {
        say(verbose, &format!("Processing aggregate: {}", aggregate["name"].as_str().unwrap_or_default()), out)?;
        for host in aggregate["hosts"].as_array().into_iter().flatten() {
            tell_host(host, aggregate, verbose, &mut missing, out)?;
        }
    }
    missing.tell(out)
}

fn tell_host(
    host: &Value,
    aggregate: &Value,
    verbose: bool,
    missing: &mut UnmirroredHosts,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let name = host["name"].as_str().unwrap_or_default();
    say(verbose, &format!("Processing host: {name}"), out)?;
    let list = match (&host["known"], &host["mirrored"]) {
        (Value::Bool(false), _) => &mut missing.unknown,
        (_, Value::Null) => &mut missing.without_provider,
        (_, Value::Bool(false)) => &mut missing.failed,
        _ => {
            let (provider, uuid) = (host["provider"].as_str(), aggregate["uuid"].as_str());
            let (provider, uuid) = (provider.unwrap_or_default(), uuid.unwrap_or_default());
            let words = format!("Successfully added host ({name}) and provider ({provider}) to aggregate ({uuid}).");
            return say(verbose, &words, out);
        }
    };
    list.push(name.to_owned());
    Ok(())
}

impl UnmirroredHosts {
    /// Prints every reason; the last printed one decides the exit code. Nova ends at the first failed update, and
    /// prints only that reason. Chronova has tried all hosts by now.
    fn tell(&self, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
        let mut code = 0;
        if !self.unknown.is_empty() {
            writeln!(
                out,
                "Unable to find matching compute_nodes record entries in the cell database for the following hosts; does \
                 the nova-compute service on each host need to be restarted? Missing: {}",
                self.unknown.join(",")
            )?;
            code = 5;
        }
        if !self.without_provider.is_empty() {
            writeln!(
                out,
                "Unable to find matching resource provider record in placement with uuid for the following hosts: {}. \
                 Try restarting the nova-compute service on each host and then retry.",
                self.without_provider.join(",")
            )?;
            code = 6;
        }
        if !self.failed.is_empty() {
            writeln!(out, "Failed updating provider aggregates for host ({})", self.failed.join(","))?;
            code = 3;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The exit code and the output for these hosts of an aggregate, as the API describes them.
    fn told(hosts: &[Value]) -> (ManageExit, String) {
        let (mut missing, mut out) = (UnmirroredHosts::default(), Vec::new());
        for host in hosts {
            tell_host(host, &json!({"name": "rack-1", "uuid": "a"}), false, &mut missing, &mut out).unwrap();
        }
        let code = missing.tell(&mut out).unwrap();
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_refused_heal_has_novas_codes() {
        let code =
            |key: &str| heal_code(&RefusedRequest { status: 409, key: key.to_owned(), message: "no".to_owned() });
        assert_eq!(code("computeHostNotFound"), 2);
        assert_eq!(code("allocationUpdateFailed"), 3);
        assert_eq!((code("portsNotRead"), code("portsNotUpdated"), code("portsNotRestored")), (5, 6, 7));
        assert_eq!(code("healNotSupported"), 8);
    }

    #[test]
    fn a_failed_update_hides_no_other_reason() {
        let good = json!({"name": "h1", "known": true, "mirrored": true, "provider": "p"});
        let unknown = json!({"name": "h2", "known": false, "mirrored": null, "provider": null});
        let without_provider = json!({"name": "h3", "known": true, "mirrored": null, "provider": null});
        let failed = json!({"name": "h4", "known": true, "mirrored": false, "provider": "q"});
        assert_eq!(told(std::slice::from_ref(&good)), (0, String::new()));
        assert_eq!(told(&[good, unknown.clone()]).0, 5);
        assert_eq!(told(std::slice::from_ref(&without_provider)).0, 6);
        let (code, text) = told(&[failed, unknown, without_provider]);
        assert_eq!(code, 3);
        for words in ["Missing: h2", "the following hosts: h3.", "Failed updating provider aggregates for host (h4)"] {
            assert!(text.contains(words), "{words} is not in {text}");
        }
    }
}
