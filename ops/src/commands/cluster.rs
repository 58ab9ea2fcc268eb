//! `chronova cluster`: the leader, the members, and a switchover to another leader.
//!
//! The commands ask the database, so they work on any machine with the configuration file, even while nobody leads.

use std::io::Write;
use std::time::Duration;

use chronova_events::store::postgres::{ClusterPicture, PostgresOptions, admin};
use chronova_web::audit::line::printable;
use serde_json::json;

use super::list_form::ListFormArgs;
use super::{CommandFailure, Exit};

/// A member that has recorded nothing for this many seconds is away. A running member records something every second.
const AWAY: f64 = 5.0;
/// The time limit of a switchover.
const SWITCHES: Duration = Duration::from_secs(30);
const LOOKS: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, clap::Args)]
pub struct ClusterShowArgs {
    #[command(flatten)]
    pub form: ListFormArgs,
}

#[derive(Debug, Clone, clap::Args)]
pub struct SwitchoverArgs {
    /// The member's name, as `chronova cluster members` shows it
    pub member: String,
}

#[derive(Debug, Clone)]
pub enum ClusterCommand {
    Status(ClusterShowArgs),
    Members(ClusterShowArgs),
    Switchover(SwitchoverArgs),
}

pub async fn run(
    command: &ClusterCommand,
    database: &PostgresOptions,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let picture = admin::picture(database).await?;
    match command {
        ClusterCommand::Status(args) => status(&picture, args.form, out),
        ClusterCommand::Members(args) => members(&picture, args.form, out),
        ClusterCommand::Switchover(args) => switch_over(&picture, &args.member, database, out).await,
    }
}

fn leader(picture: &ClusterPicture) -> Option<&str> {
    picture.members.iter().find(|listed| listed.leads).map(|listed| listed.member.name.as_str())
}

fn status(picture: &ClusterPicture, form: ListFormArgs, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let (leader, leads) = (leader(picture), picture.lease_left > 0.0);
    let shown = json!({
        "leader": leader,
        "leads": leads,
        "epoch": picture.epoch,
        "position": picture.position,
        "acknowledged": picture.durable,
        "lease_seconds": picture.lease_left,
        "switchover": picture.wish,
        "level": picture.level,
        "members": picture.members.len(),
    });
    if !form.write(&shown, out)? {
        let name = match (leader, leads) {
            (Some(name), _) => name,
            (None, true) => "a process that is no member of a cluster",
            (None, false) => "nobody",
        };
        writeln!(out, "leader        {}", printable(name))?;
        writeln!(out, "epoch         {}", picture.epoch)?;
        writeln!(out, "position      {} ({} noted as acknowledged)", picture.position, picture.durable)?;
        writeln!(out, "lease         {:.1} s left", picture.lease_left)?;
        if let Some(member) = &picture.wish {
            writeln!(out, "switchover    to {}", printable(member))?;
        }
        writeln!(out, "level         {} of the log{}", picture.level, outlook(picture))?;
        writeln!(out, "members       {}", picture.members.len())?;
    }
    Ok(if leads { Exit::Yes } else { Exit::No })
}

/// Which members keep the level of the log low.
fn outlook(picture: &ClusterPicture) -> String {
    let Some(newest) = picture.members.iter().map(|listed| listed.level).max().filter(|level| *level > picture.level)
    else {
        return String::new();
    };
    let older = picture.members.iter().filter(|listed| listed.level < newest);
    let names: Vec<_> = older.map(|listed| printable(&listed.member.name)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("; {newest} when these members are upgraded or away for a minute: {}", names.join(", "))
}

fn members(picture: &ClusterPicture, form: ListFormArgs, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let shown: Vec<_> = picture
        .members
        .iter()
        .map(|listed| {
            json!({
                "name": listed.member.name,
                "address": listed.member.address,
                "version": listed.version,
                "level": listed.level,
                "position": listed.position,
                "silent_seconds": listed.silent,
                "leads": listed.leads,
            })
        })
        .collect();
    if form.write(&shown, out)? {
        return Ok(Exit::Yes);
    }
    writeln!(
        out,
        "{:<24} {:<24} {:<10} {:>5} {:<9} {:>10}  SEEN",
        "NAME", "ADDRESS", "VERSION", "LEVEL", "ROLE", "POSITION"
    )?;
    for listed in &picture.members {
        let role = match (listed.leads, listed.silent > AWAY) {
            (true, _) => "leader",
            (false, true) => "away",
            (false, false) => "follower",
        };
        let [name, address, version] =
            [&listed.member.name, &listed.member.address, &listed.version].map(|text| printable(text));
        let (level, position, silent) = (listed.level, listed.position, listed.silent);
        writeln!(out, "{name:<24} {address:<24} {version:<10} {level:>5} {role:<9} {position:>10}  {silent:.0} s ago")?;
    }
    Ok(Exit::Yes)
}

async fn switch_over(
    picture: &ClusterPicture,
    member: &str,
    database: &PostgresOptions,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let Some(wanted) = picture.members.iter().find(|listed| listed.member.name == member) else {
        return Err(CommandFailure::Usage(format!(
            "no member has the name {member:?}: see `chronova cluster members`"
        )));
    };
    if wanted.leads {
        writeln!(out, "{member} leads already")?;
        return Ok(Exit::Yes);
    }
    if wanted.silent > AWAY {
        return Err(CommandFailure::Usage(format!("{member} has been away for {:.0} s: start it", wanted.silent)));
    }
    admin::switch_over(database, member).await?;
    let until = tokio::time::Instant::now() + SWITCHES;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(LOOKS).await;
        let now = admin::picture(database).await?;
        if leader(&now) == Some(member) {
            writeln!(out, "{member} leads, in epoch {}", now.epoch)?;
            return Ok(Exit::Yes);
        }
    }
    writeln!(out, "{member} does not lead yet: see `chronova cluster status`")?;
    Ok(Exit::No)
}
