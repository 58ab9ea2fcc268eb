//! `chronova inspect`: the history of a server, a process, a host or a request, in order, with the cause of each event.
//!
//! A history has chapters: one per request, or per action of the system itself. A chapter names the initiator, time,
//! request id, result and duration. Its lines are the events of the request that concern the subject, from every
//! stream. The lines show the duration of each process step, and also failures and undos.
//!
//! `inspect scheduling` shows the decisions of the scheduler about a server, and `inspect reconcilers` the differences
//! that each reconciler would repair.

mod index;
mod past;
mod reconcilers;
mod scheduling;
mod story;
mod table;
mod words;

use std::io::Write;

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::store::EventStore;
use chronova_web::audit::line::printable;

use super::list_form::ListFormArgs;
use super::moments::AsOf;
use super::{CommandFailure, Exit};
use index::InspectIndex;

pub use reconcilers::ReconcileRules;
pub use story::{Chapter, Story, StoryLine};

#[derive(Debug, Clone, Default, clap::Args)]
pub struct InspectArgs {
    /// A server's UUID, the beginning of it, or its name; or `process ID`, `host NAME`, `request ID`,
    /// `scheduling SERVER` (why it is on its host, or on none); or `reconcilers` (what each would repair now)
    #[arg(required = true, num_args = 1..=2, value_name = "[KIND] NAME")]
    pub subject: Vec<String>,
    /// Show the history as it was then: a time (2026-01-31T12:00:00Z, or `15m` for 15 minutes ago) or a position of
    /// the log
    #[arg(long, value_name = "WHEN")]
    pub as_of: Option<AsOf>,
    #[command(flatten)]
    pub form: ListFormArgs,
    #[arg(skip)]
    pub rules: ReconcileRules,
}

impl InspectArgs {
    /// Whether the arguments ask for the reconcilers. A server with the name `reconcilers` needs `server reconcilers`.
    pub fn is_about_reconcilers(&self) -> bool {
        matches!(self.subject.as_slice(), [only] if only == "reconcilers")
    }
}

/// Prints the history that `args` select.
pub async fn run(
    args: &InspectArgs,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let (kind, name) = match args.subject.as_slice() {
        [name] => ("server", name.as_str()),
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return Err(CommandFailure::Usage("inspect takes a name, or a kind and a name".to_owned())),
    };
    let past = match args.as_of {
        Some(as_of) => Some(past::find(store, as_of, now).await?),
        None => None,
    };
    let (until, now) = past.map_or((Position(u64::MAX), now), |past| (past.position, past.time));
    if args.is_about_reconcilers() {
        reconcilers::survey(store, &args.rules, (until, now)).await?.write(args.form, out)?;
        return Ok(Exit::Yes);
    }
    let index = InspectIndex::read(store, until).await?;
    let candidates = index.find(if kind == "scheduling" { "server" } else { kind }, name)?;
    let subject = match candidates.as_slice() {
        [subject] => subject.clone(),
        [] => {
            let then = past.map(|past| format!(" as of {past}")).unwrap_or_default();
            writeln!(out, "no {kind} {name} in the log{then}")?;
            return Ok(Exit::No);
        }
        several => {
            writeln!(out, "{name} can be any of:")?;
            for candidate in several {
                writeln!(out, "  {}", printable(&index.title(candidate)))?;
            }
            return Ok(Exit::No);
        }
    };
    if let ("scheduling", index::StorySubject::Server(server)) = (kind, &subject) {
        return scheduling::tell(store, (*server, &index.title(&subject)), until, args.form, out).await;
    }
    let mut story = story::tell(store, &index, &subject, until, now).await?;
    story.facts.splice(0..0, past.map(|past| ("as of".to_owned(), past.to_string())));
    if !args.form.write(&story, out)? {
        table::write(&story, out)?;
    }
    Ok(Exit::Yes)
}
