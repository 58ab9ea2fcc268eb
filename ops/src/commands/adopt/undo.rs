//! `chronova adopt --undo`: goes back to Nova, if nothing was changed through Chronova.
//!
//! An adoption changes neither Nova's databases nor the hosts, so the undo only sets the log aside. It removes nothing.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use chronova_events::access::AccessEvent;
use chronova_events::console::ConsoleEvent;
use chronova_events::envelope::{Cause, Position};
use chronova_events::registry::NounEvent as _;
use chronova_events::store::EventStore;

use crate::commands::{CommandFailure, DataDir, Exit, log_pages};

/// The name of the adoption as the cause of its events.
pub(super) const ADOPTER: &str = "adopt";

/// The end of the adoption, and the first event after it that a user's request or a process caused.
async fn look(store: &dyn EventStore) -> Result<(Position, Option<String>), CommandFailure> {
    let (mut end, mut change): (Option<Position>, Option<String>) = (None, None);
    log_pages::walk(store, Position::START, Position::END, |event| {
        match &event.meta.cause {
            Cause::System { part } if part == ADOPTER => {
                // The events before an event of `adopt` belong to the adoption, too, because they are the requests of
                // Nova's users.
                (end, change) = (Some(event.position), None);
            }
            // Other events that the system itself caused do not count, such as a host's report about itself. Nova
            // loses nothing without them.
            Cause::System { .. } => {}
            // A refused request, a log-in, a console or a read of a secret changed nothing.
            Cause::User { .. } if [AccessEvent::NOUN, ConsoleEvent::NOUN].contains(&event.stream.category()) => {}
            Cause::User { .. } | Cause::Process { .. } => {
                let told = || format!("{} of {} at position {}", event.kind, event.stream, event.position);
                change = change.take().or_else(|| Some(told()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    let end = end.ok_or_else(|| CommandFailure::Usage("this log was not made by an adoption".to_owned()))?;
    Ok((end, change))
}

/// The position of the last event of the adoption.
pub(in crate::commands) async fn adopted_until(store: &dyn EventStore) -> Result<Position, CommandFailure> {
    Ok(look(store).await?.0)
}

pub(super) async fn run(
    data: &DataDir,
    store: Arc<dyn EventStore>,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    if let Some(change) = look(&*store).await?.1 {
        writeln!(out, "it was changed since it was adopted: {change}")?;
        writeln!(out, "`chronova export nova` writes the changes for Nova's databases")?;
        return Ok(Exit::No);
    }
    drop(store);
    let folder = std::path::absolute(&data.0)?;
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".undone");
    let aside = folder.with_file_name(name);
    if aside.exists() {
        return Err(CommandFailure::Usage(format!("{} is in the way: remove it first", aside.display())));
    }
    std::fs::rename(&folder, &aside)?;
    writeln!(out, "set aside in {}: Nova's services can be started again", aside.display())?;
    Ok(Exit::Yes)
}
