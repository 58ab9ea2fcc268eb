//! `chronova host`: drains hosts and puts them into maintenance, through the running server; checks hosts, claims them
//! and adopts their guests without the server.
//!
//! Ending the command does not cancel the drain. The command waits for a server that is restarting. Exit status: 0 the
//! host is empty, or the command does not wait; 1 servers stay on it, the drain was cancelled, a host failed its check
//! or its claim, or something is in the way of an adoption; 2 the command failed.

pub mod adopt;
mod check;
mod claim;
mod progress;

use std::io::Write;
use std::time::Duration;

use chronova_web::audit::line::printable;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use self::progress::DrainProgress;
use super::list_form::{ListFormArgs, escaped};
use super::operator_client::OperatorClient;
use super::{CommandFailure, Exit};
use crate::cli::ConfigPaths;
use crate::config::Config;

/// The operations on hosts.
#[derive(Debug, Subcommand)]
pub enum HostSubcommand {
    /// List the compute hosts: servers on each, and whether it takes new ones.
    List {
        #[command(flatten)]
        form: ListFormArgs,
        #[command(flatten)]
        access: CloudAccess,
    },
    /// Show a host with its newest drain.
    Show {
        /// Its name or its id.
        host: String,
        #[command(flatten)]
        access: CloudAccess,
    },
    /// Add a host to those of `[chronova] hypervisors`; it takes servers as soon as it has answered.
    Add {
        /// Its libvirt URI.
        uri: String,
        #[command(flatten)]
        access: CloudAccess,
    },
    /// Remove a host without servers: drain it before.
    Remove {
        /// Its name or its id.
        host: String,
        #[command(flatten)]
        access: CloudAccess,
    },
    /// Move all servers away: running ones live, stopped ones cold; the host takes no new servers from now on.
    Drain {
        /// Its name or its id.
        host: String,
        #[command(flatten)]
        how: DrainArgs,
        /// Cancel the drain: moves that have begun still end, no other server leaves.
        #[arg(long, conflicts_with_all = ["parallel", "reason"])]
        cancel: bool,
        #[command(flatten)]
        access: CloudAccess,
    },
    /// Take over the guests on hosts, for a log that does not know them because the log that built them is lost.
    Adopt {
        #[command(flatten)]
        args: adopt::HostAdoptArgs,
        #[command(flatten)]
        place: ConfigPaths,
    },
    /// Ask hosts what their guests can have; the hosts need not be configured or registered. Needs no server.
    Check {
        /// libvirt URIs; by default the hosts of `[chronova] hypervisors`.
        uri: Vec<String>,
        #[command(flatten)]
        place: ConfigPaths,
    },
    /// Take hosts over from another copy of this log. That copy must never drive them again. A running server uses the
    /// claim at its next heartbeat. Needs no server.
    Claim {
        /// URIs of hosts.
        #[arg(required_unless_present = "all")]
        uri: Vec<String>,
        /// All hosts of `[chronova] hypervisors`.
        #[arg(long, conflicts_with = "uri")]
        all: bool,
        #[command(flatten)]
        place: ConfigPaths,
    },
    /// Put a host into maintenance, which drains it, or end the maintenance.
    Maintenance {
        /// Its name or its id.
        host: String,
        /// Whether to start (`on`) or end (`off`) maintenance.
        switch: Switch,
        #[command(flatten)]
        how: DrainArgs,
        #[command(flatten)]
        access: CloudAccess,
    },
}

impl HostSubcommand {
    pub fn place(&self) -> &ConfigPaths {
        match self {
            Self::Adopt { place, .. } | Self::Check { place, .. } | Self::Claim { place, .. } => place,
            Self::List { access, .. }
            | Self::Show { access, .. }
            | Self::Add { access, .. }
            | Self::Remove { access, .. }
            | Self::Drain { access, .. }
            | Self::Maintenance { access, .. } => &access.place,
        }
    }
}

/// Options of a drain.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Concurrent moves (1 to 64); one more than `max_concurrent_live_migrations` by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub parallel: Option<u32>,
    /// The reason that the disabled service shows.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Do not wait until it is done.
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// How to reach the server. Credentials come from `OS_AUTH_URL` and related variables, or from a `clouds.yaml`:
/// `OS_CLIENT_CONFIG_FILE` and `OS_CLOUD`, or the one in the data directory.
#[derive(Debug, Args)]
pub struct CloudAccess {
    #[command(flatten)]
    pub place: ConfigPaths,
    /// The server's URL, http://HOST:PORT; by default from the credentials or the configuration.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// The certificate authority of the server's certificate, in PEM.
    #[arg(long, value_name = "FILE", env = "OS_CACERT")]
    pub os_cacert: Option<std::path::PathBuf>,
    /// Do not verify the server's certificate.
    #[arg(long)]
    pub insecure: bool,
}

/// The interval between two polls of a drain.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// Runs the command.
pub fn run(command: &HostSubcommand, config: &Config, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    match command {
        HostSubcommand::Adopt { args, .. } => adopt::run(args, config, out),
        HostSubcommand::Check { uri, .. } => check::run(uri, config, out),
        HostSubcommand::Claim { uri, .. } => claim::run(uri, config, out),
        HostSubcommand::List { form, access } => list(&OperatorClient::open(config, access)?, *form, out),
        HostSubcommand::Show { host, access } => {
            let shown = OperatorClient::open(config, access)?.get(&path(host, ""))?;
            writeln!(out, "{}", escaped(&format!("{:#}", shown["host"])))?;
            Ok(Exit::Yes)
        }
        HostSubcommand::Add { uri, access } => {
            OperatorClient::open(config, access)?.post("/chronova/v1/hosts", &json!({"host": {"uri": uri}}))?;
            writeln!(out, "{uri} is added; it takes servers as soon as it has answered: chronova host list")?;
            Ok(Exit::Yes)
        }
        HostSubcommand::Remove { host, access } => {
            OperatorClient::open(config, access)?.delete(&path(host, ""))?;
            writeln!(out, "{host} is removed")?;
            Ok(Exit::Yes)
        }
        HostSubcommand::Drain { host, how, cancel, access } => {
            let client = OperatorClient::open(config, access)?;
            let answer = match cancel {
                true => client.delete(&path(host, "/drain"))?,
                false => client.post(&path(host, "/drain"), &json!({"drain": drain_request(how)}))?,
            };
            follow(&client, host, &answer, how.no_wait, out)
        }
        HostSubcommand::Maintenance { host, switch, how, access } => {
            let client = OperatorClient::open(config, access)?;
            if *switch == Switch::Off {
                client.delete(&path(host, "/maintenance"))?;
                writeln!(out, "{host} is in service and takes new servers")?;
                return Ok(Exit::Yes);
            }
            let answer = client.put(&path(host, "/maintenance"), &json!({"maintenance": drain_request(how)}))?;
            writeln!(out, "{host} is in maintenance")?;
            follow(&client, host, &answer, how.no_wait, out)
        }
    }
}

fn path(host: &str, rest: &str) -> String {
    let escaped = host.bytes().fold(String::new(), |escaped, byte| {
        match byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            true => escaped + char::from(byte).encode_utf8(&mut [0; 4]),
            false => escaped + &format!("%{byte:02X}"),
        }
    });
    format!("/chronova/v1/hosts/{escaped}{rest}")
}

fn drain_request(how: &DrainArgs) -> Value {
    let mut request = serde_json::Map::new();
    if let Some(parallel) = how.parallel {
        request.insert("parallel".to_owned(), json!(parallel));
    }
    if let Some(reason) = &how.reason {
        request.insert("reason".to_owned(), json!(reason));
    }
    Value::Object(request)
}

fn list(client: &OperatorClient, form: ListFormArgs, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let shown = client.get("/chronova/v1/hosts")?;
    if form.write(&shown, out)? {
        return Ok(Exit::Yes);
    }
    writeln!(out, "{:<32} {:>7}  {:<5} {:<9} REASON", "HOST", "SERVERS", "STATE", "TAKES NEW")?;
    for host in shown["hosts"].as_array().into_iter().flatten() {
        writeln!(out, "{}", row(host))?;
    }
    Ok(Exit::Yes)
}

/// One line of the list.
fn row(host: &Value) -> String {
    let text = |key: &str| printable(host[key].as_str().unwrap_or_default());
    let (name, servers) = (text("name"), host["servers"].as_u64().unwrap_or(0));
    let state = if host["up"] == true { "up" } else { "down" };
    let takes = if host["enabled"] == true { "yes" } else { "no" };
    let mut why = text("disabled_reason");
    if !host["maintenance"].is_null() {
        why = format!("maintenance: {why}");
    }
    if host["draining"] == true {
        why = format!("{why} (being drained)");
    }
    format!("{name:<32} {servers:>7}  {state:<5} {takes:<9} {why}").trim_end().to_owned()
}

/// Reports the progress of the drain until it is over.
fn follow(
    client: &OperatorClient,
    host: &str,
    answer: &Value,
    no_wait: bool,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let drain = &answer["host"]["drain"];
    if drain.is_null() {
        return Ok(Exit::Yes);
    }
    let mut progress = DrainProgress::new(host, drain);
    progress.begin(drain, out)?;
    if no_wait {
        writeln!(out, "the drain continues by itself; look at it with: chronova host show {host}")?;
        return Ok(Exit::Yes);
    }
    let mut shown = answer.clone();
    loop {
        let drain = &shown["host"]["drain"];
        if !progress.is_of(drain) {
            return Err(CommandFailure::Usage(format!("another drain of {host} has begun meanwhile")));
        }
        progress.tell(drain, out)?;
        out.flush()?;
        if let Some(exit) = progress.end(drain, out)? {
            return Ok(exit);
        }
        pause(POLL_EVERY);
        shown = client.get_patiently(&path(host, ""))?;
    }
}

#[expect(clippy::disallowed_methods, reason = "the command has this thread for itself")]
pub(super) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_does_not_control_the_terminal() {
        let host = json!({"name": "h1", "servers": 2, "up": true, "enabled": false,
            "disabled_reason": "off\u{1b}[2J\u{9b}2J\nh9", "maintenance": null, "draining": true});
        let shown = row(&host);
        assert!(shown.ends_with("  up    no        off?[2J?2J?h9 (being drained)"), "{shown}");
        assert!(shown.starts_with("h1 ") && !shown.contains(char::is_control), "{shown:?}");
    }
}
