//! `chronova log hold`: legal holds on parts of the log. Events of such a part that are in the log's file stay there,
//! and no erasure destroys personal data of the part.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::str::FromStr;

use chronova_events::envelope::Timestamp;
use chronova_events::holds::{HeldPart, LegalHold, LegalHolds};
use serde_json::json;
use uuid::Uuid;

use super::super::locks::taken;
use super::super::{CommandFailure, Exit, LogPlace};
use crate::config::event_store::EventStoreAddress;

/// The commands.
#[derive(Debug, Clone)]
pub enum HoldCommand {
    /// Set a hold; prints its id.
    Add(HoldAddArgs),
    /// List the holds.
    List(HoldListArgs),
    /// Remove a hold.
    Remove(HoldRemoveArgs),
}

#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("of").required(true).args(["project", "server", "user", "positions"])))]
pub struct HoldAddArgs {
    /// The requests of this project (id), and its servers
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,
    /// This server
    #[arg(long, value_name = "UUID")]
    pub server: Option<Uuid>,
    /// The requests and data of this user (id), and the user's servers
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// These positions of the log, both included
    #[arg(long, value_name = "FIRST-LAST")]
    pub positions: Option<PositionRange>,
    /// Why: kept with the hold
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct HoldListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, clap::Args)]
pub struct HoldRemoveArgs {
    /// The hold, as `chronova log hold list` shows it
    #[arg(value_name = "ID")]
    pub id: Uuid,
}

/// Positions on the command line: `120-450`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionRange {
    pub first: u64,
    pub last: u64,
}

impl FromStr for PositionRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match parts {
            Some((first, last)) if first >= 1 && first <= last => Ok(Self { first, last }),
            _ => Err(format!("`{text}` is no range of positions: give FIRST-LAST, as 120-450")),
        }
    }
}

impl HoldAddArgs {
    fn of(&self) -> Result<HeldPart, CommandFailure> {
        match (&self.project, self.server, &self.user, self.positions) {
            (Some(project), ..) => Ok(HeldPart::Project(project.clone())),
            (_, Some(server), ..) => Ok(HeldPart::Server(server)),
            (_, _, Some(user), _) => Ok(HeldPart::User(user.clone())),
            (.., Some(PositionRange { first, last })) => Ok(HeldPart::Positions { first, last }),
            _ => Err(CommandFailure::Usage("name a project, a server, a user or positions".to_owned())),
        }
    }
}

/// Runs the command on the holds beside the log. A server may run meanwhile.
pub fn run(
    command: &HoldCommand,
    place: &LogPlace,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    if let EventStoreAddress::Postgres(_) = place.engine {
        let told = "a log in PostgreSQL has no legal holds: its members share no file beside the log";
        return Err(CommandFailure::Usage(told.to_owned()));
    }
    let path = place.data.holds();
    let change = |change: &dyn Fn(&mut Vec<LegalHold>)| {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let at = |error| CommandFailure::File { path: lock.clone().into(), error };
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock).map_err(at)?;
        taken(file.try_lock(), lock.as_ref(), "changes the holds")?;
        let mut holds = LegalHolds::read(&path)?;
        change(&mut holds.0);
        holds.write(&path).map_err(CommandFailure::from)
    };
    match command {
        HoldCommand::Add(args) => {
            let hold = LegalHold::new(args.of()?, args.reason.clone(), now);
            change(&|holds| holds.push(hold.clone()))?;
            writeln!(out, "{}", hold.id)?;
            Ok(Exit::Yes)
        }
        HoldCommand::List(args) => {
            list(args, &LegalHolds::read(&path)?, out)?;
            Ok(Exit::Yes)
        }
        HoldCommand::Remove(args) => {
            if !LegalHolds::read(&path)?.0.iter().any(|hold| hold.id == args.id) {
                writeln!(out, "there is no hold {}", args.id)?;
                return Ok(Exit::No);
            }
            change(&|holds| holds.retain(|hold| hold.id != args.id))?;
            writeln!(out, "removed")?;
            Ok(Exit::Yes)
        }
    }
}

fn list(args: &HoldListArgs, holds: &LegalHolds, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let since = |hold: &LegalHold| Timestamp(hold.since).to_string();
    if args.json {
        let all = holds
            .0
            .iter()
            .map(|hold| json!({"id": hold.id, "of": hold.of, "reason": hold.reason, "since": since(hold)}));
        writeln!(out, "{:#}", json!({"holds": all.collect::<Vec<_>>()}))?;
        return Ok(());
    }
    for hold in &holds.0 {
        writeln!(out, "{}  {}  {}  {}", hold.id, since(hold), hold.of, hold.reason)?;
    }
    Ok(())
}
