//! `chronova adopt --undo`: the way back to Nova, as long as nobody changed anything through Chronova.
//!
//! Nova's databases and the hosts are as they were, so all there is to undo is the log. It is set aside, not removed.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use chronova_events::envelope::{Cause, Position};
use chronova_events::store::EventStore;

use crate::commands::{CommandFailure, DataDir, Exit, log_pages};

/// The part of the system in whose name an adoption writes.
pub(super) const ADOPTER: &str = "adopt";

/// The first change after the adoption that somebody asked for.
async fn first_change(store: &dyn EventStore) -> Result<Option<String>, CommandFailure> {
    let (mut is_adopted, mut change) = (false, None);
    log_pages::walk(store, Position::START, Position::END, |event| {
        match &event.meta.cause {
            Cause::System { part } if part == ADOPTER => {
                // Earlier events belong to the adoption, too: the requests of Nova's users.
                (is_adopted, change) = (true, None);
            }
            // Hosts that told about themselves changed nothing.
            Cause::System { .. } => {}
            Cause::User { .. } | Cause::Process { .. } => {
                let told = || format!("{} of {} at position {}", event.kind, event.stream, event.position);
                change = change.take().or_else(|| Some(told()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    if !is_adopted {
        return Err(CommandFailure::Usage("this log was not made by an adoption".to_owned()));
    }
    Ok(change)
}

pub(super) async fn run(
    data: &DataDir,
    store: Arc<dyn EventStore>,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    if let Some(change) = first_change(&*store).await? {
        writeln!(out, "it was changed since it was adopted: {change}")?;
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
