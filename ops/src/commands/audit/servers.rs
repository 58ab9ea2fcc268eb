//! `chronova audit servers`: the servers that existed at a moment, of all hosts or of one.

use std::collections::BTreeSet;
use std::io::{self, Write};

use chronova_events::instance::{Alive, status};
use chronova_projections::Projection as _;
use chronova_projections::history::PastPart;
use chronova_projections::hosts::Hosts;
use chronova_projections::identities::Identities;
use chronova_projections::servers::{ServerRow, Servers};
use chronova_projections::views::Views;
use chronova_web::audit::line::printable;
use serde::Serialize;

use super::super::moments::AsOf;
use super::super::{CommandFailure, Exit};
use super::past::{PastReader, ShownMoment};

#[derive(Debug, Clone, clap::Args)]
pub struct PastServersArgs {
    /// A time (2026-01-31T12:00:00Z, 15m ago as `15m`) or a position of the log [default: now]
    #[arg(long, visible_alias = "as-of", value_name = "WHEN")]
    pub at: Option<AsOf>,
    /// Only servers that were on this host
    #[arg(long, value_name = "UUID|NAME")]
    pub host: Option<String>,
    /// Only servers of this project
    #[arg(long, value_name = "ID|NAME")]
    pub project: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct PastServers {
    moment: ShownMoment,
    servers: Vec<PastServer>,
}

#[derive(Debug, Serialize)]
struct PastServer {
    id: String,
    name: String,
    status: &'static str,
    host: Option<String>,
    project: String,
    user: String,
    flavor: String,
}

/// Prints the servers that `args` select.
pub async fn run(args: &PastServersArgs, past: PastReader<'_>, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let names = BTreeSet::from([Hosts::NAME, Identities::NAME, Servers::NAME]);
    let views = past.part(args.at, &PastPart { names, is_sparse: false }).await?;
    let moment = ShownMoment::of(&views);
    let host = args.host.as_ref().map(|host| known_host(&views, host, &moment)).transpose()?;
    let projects = args.project.as_ref().map(|project| known_projects(&views, project));
    let wanted = |server: &Alive| {
        host.as_ref().is_none_or(|host| server.placement.as_ref().is_some_and(|placed| placed.host.0 == *host))
            && projects.as_ref().is_none_or(|ids| ids.iter().any(|id| id == server.request.project.as_str()))
    };
    let servers: Vec<PastServer> = views.servers.read(|servers| {
        let living = servers.all().filter_map(|row| Some((row, row.instance.alive()?)));
        living.filter(|(_, server)| wanted(server)).map(|(row, server)| shown(row, server)).collect()
    });
    let told = PastServers { moment, servers };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &told).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write(&told, out)?;
    }
    Ok(Exit::Yes)
}

/// The id of the host with this name or id at that moment.
fn known_host(views: &Views, text: &str, moment: &ShownMoment) -> Result<uuid::Uuid, CommandFailure> {
    let found = views.hosts.read(|hosts| {
        let by_id = text.parse().ok().and_then(|id| hosts.get(id));
        by_id.or_else(|| hosts.named(text)).map(|host| host.id.0)
    });
    found.ok_or_else(|| CommandFailure::Usage(format!("there was no host {text} at {moment}")))
}

/// The id itself, and the ids of the projects of the embedded identity service that had this name.
fn known_projects(views: &Views, text: &str) -> Vec<String> {
    views.identities.read(|view| {
        let named = view.identity.projects.values().filter(|project| project.attributes.name == text);
        named.map(|project| project.id.to_string()).chain([text.to_owned()]).collect()
    })
}

fn shown(row: &ServerRow, server: &Alive) -> PastServer {
    let request = &server.request;
    PastServer {
        id: row.id.to_string(),
        name: request.name.clone(),
        status: status::of_alive(server).status,
        host: server.placement.as_ref().map(|placed| placed.hostname.clone()),
        project: request.project.to_string(),
        user: request.user.to_string(),
        flavor: request.flavor.name.clone(),
    }
}

fn write(told: &PastServers, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} servers at {}", told.servers.len(), told.moment)?;
    for server in &told.servers {
        let PastServer { id, name, status, host, project, user, flavor } = server;
        let (name, flavor) = (printable(name), printable(flavor));
        let host = printable(host.as_deref().unwrap_or("no host"));
        writeln!(out, "  {name} ({id})  {status}  on {host}, project {project}, user {user}, flavor {flavor}")?;
    }
    Ok(())
}
