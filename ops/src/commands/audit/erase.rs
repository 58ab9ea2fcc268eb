//! `chronova audit erase`: erases personal data from the log permanently, while no server runs.
//!
//! While a server runs, use its API instead (`POST /chronova/v1/erasures`), because only one process may write a log.

use std::io::Write;
use std::sync::Arc;

use chronova_actors::erasure::error::ErasureError;
use chronova_actors::erasure::work::{Eraser, ErasurePlan};
use chronova_actors::runtime::{Leadership, Member};
use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::erasure::ErasureTarget;
use chronova_events::ids::{InstanceId, ProjectId, UserId};
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::Checkpoints;
use chronova_projections::history::{History, HistoryOptions};
use chronova_projections::views::Views;

use super::super::{CommandFailure, Exit};

#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("whose").required(true).args(["user", "server", "project"])))]
pub struct EraseArgs {
    /// The name, attributes and key pairs of the user with this id, and the personal data of all the user's servers
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// The personal data of the server with this id
    #[arg(long, value_name = "UUID")]
    pub server: Option<InstanceId>,
    /// The personal data of all servers of the project with this id
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,
    /// Why: recorded with the erasure
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Erase; without it, only list the data that would be erased
    #[arg(long)]
    pub yes: bool,
    /// Also erase data of a user or servers that are not deleted
    #[arg(long)]
    pub even_alive: bool,
}

impl EraseArgs {
    fn whose(&self) -> Result<ErasureTarget, CommandFailure> {
        match (&self.user, &self.server, &self.project) {
            (Some(user), _, _) => Ok(ErasureTarget::User(UserId::new(user))),
            (_, Some(server), _) => Ok(ErasureTarget::Server(*server)),
            (_, _, Some(project)) => Ok(ErasureTarget::Project(ProjectId::new(project))),
            (None, None, None) => Err(CommandFailure::Usage("name a user, a server or a project".to_owned())),
        }
    }
}

/// Erases the data that `args` select from the log in `store`, which is open for writing. Needs a running actix system.
pub async fn run(
    args: &EraseArgs,
    store: Arc<dyn EventStore>,
    checkpoints: Arc<Checkpoints>,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let failed = |error: &dyn std::error::Error| CommandFailure::Usage(error.to_string());
    let member =
        Member::start(Arc::clone(&store), Arc::new(SystemClock), Views::new()).await.map_err(|e| failed(&e))?;
    let leadership = Leadership::take(&member, 1).map_err(|e| failed(&e))?;
    let views = Arc::clone(&member.views);
    let history = History::new(Arc::clone(&store), Arc::clone(&views), Some(checkpoints), HistoryOptions::default());
    let eraser = Eraser::new(store, Arc::clone(&leadership.gateway), Arc::clone(&views), Some(history));
    let done = erase(args, &eraser, out).await;
    leadership.gateway.stop();
    member.stop().await;
    done
}

async fn erase(args: &EraseArgs, eraser: &Eraser, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let failed = |error: &dyn std::error::Error| CommandFailure::Usage(error.to_string());
    let resumed = eraser.resume().await.map_err(|e| failed(&e))?;
    if resumed > 0 {
        writeln!(out, "completed {resumed} erasures that were interrupted")?;
    }
    let plan = eraser.plan(args.whose()?);
    if plan.is_empty() {
        writeln!(out, "nothing to erase: no user or server matches")?;
        return Ok(Exit::No);
    }
    print_plan(&plan, out)?;
    if !args.yes {
        writeln!(out, "nothing was erased; add --yes to erase for ever")?;
        return Ok(Exit::Yes);
    }
    if plan.admit(args.even_alive).is_err() {
        writeln!(out, "refused: delete them first, or add --even-alive")?;
        return Ok(Exit::No);
    }
    // Any user who may write the log's files counts as an operator; only the operating system knows that user.
    let meta = Meta::system("audit-erase");
    let completed = match eraser.erase(plan, args.reason.clone(), &meta).await {
        Err(held @ ErasureError::Held { .. }) => {
            writeln!(out, "refused: {held}")?;
            return Ok(Exit::No);
        }
        done => done.map_err(|e| failed(&e))?,
    };
    writeln!(out, "erased: {} keys destroyed (erasure {})", completed.keys, completed.erasure)?;
    Ok(Exit::Yes)
}

fn print_plan(plan: &ErasurePlan, out: &mut dyn Write) -> Result<(), CommandFailure> {
    if let Some(user) = &plan.user {
        let exists = if plan.user_exists { " (who can still log in)" } else { "" };
        writeln!(out, "user {user}{exists}: name, attributes, key pairs")?;
    }
    for server in &plan.servers {
        let alive = if plan.alive.contains(server) { " (not deleted)" } else { "" };
        writeln!(
            out,
            "server {server}{alive}: names, description, metadata, tags, user data, files, public key, posted password"
        )?;
    }
    Ok(())
}
