//! `chronova inspect`: what happened to a server (a process, a host, in a request), in order, and who is to blame.
//!
//! A story has chapters: one per request, or per thing that the system did by itself. A chapter says who asked, when and
//! under which request id, how it ended and how long it took; its lines are the events of every stream that it touched,
//! with the time that each step of a process took, failures and undoing included.

mod index;
mod story;
mod table;
mod words;

use std::io::Write;

use chronova_events::envelope::Timestamp;
use chronova_events::store::EventStore;

use super::{CommandFailure, Exit};
use index::Index;

pub use story::{Chapter, Line, Story};

#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// A server's UUID, the beginning of it, or its name; or `process ID`, `host NAME`, `request ID`
    #[arg(required = true, num_args = 1..=2, value_name = "[KIND] NAME")]
    pub subject: Vec<String>,
    /// As JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Tells the story that `args` ask for.
pub async fn run(
    args: &Args,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let (kind, name) = match args.subject.as_slice() {
        [name] => ("server", name.as_str()),
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return Err(CommandFailure::Usage("inspect takes a name, or a kind and a name".to_owned())),
    };
    let index = Index::read(store).await?;
    let candidates = index.find(kind, name)?;
    let subject = match candidates.as_slice() {
        [subject] => subject.clone(),
        [] => {
            writeln!(out, "no {kind} {name} in the log")?;
            return Ok(Exit::No);
        }
        several => {
            writeln!(out, "{name} can be any of:")?;
            for candidate in several {
                writeln!(out, "  {}", index.title(candidate))?;
            }
            return Ok(Exit::No);
        }
    };
    let story = story::tell(store, &index, &subject, now).await?;
    if args.json {
        let text = serde_json::to_string_pretty(&story).map_err(std::io::Error::from)?;
        writeln!(out, "{text}")?;
    } else {
        table::write(&story, out)?;
    }
    Ok(Exit::Yes)
}
