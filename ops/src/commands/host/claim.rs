//! `chronova host claim`: makes hosts accept this log instead of another copy of it.
//!
//! The command writes the mark of this log to the hosts ([`chronova_actors::hosts::fence`]). Only an operator can know
//! that the other copy is gone for ever. The server must be stopped while its simulated hosts are claimed.

use std::io::Write;

use chronova_actors::hosts::fence::LogIdentity;
use chronova_hypervisor::backend;
use chronova_hypervisor::capability::Needed as _;

use super::super::{CommandFailure, Exit, LogPlace};
use super::check::ask;
use crate::config::Config;

/// Claims the hosts at `uris`; all configured hosts if there are none.
pub(super) fn run(uris: &[String], config: &Config, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let uris = if uris.is_empty() { &config.chronova.hypervisors.0 } else { uris };
    if uris.is_empty() {
        return Err(CommandFailure::Usage("name a host, or configure [chronova] hypervisors".to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let place = LogPlace::of(config).map_err(CommandFailure::Usage)?;
    let found = runtime.block_on(async { Ok::<_, CommandFailure>(LogIdentity::of(&*place.read().await?).await?) })?;
    let empty = || CommandFailure::Usage("the log is empty: no host can have refused it".to_owned());
    let owner = found.ok_or_else(empty)?.owner;
    let options = config.targets().drivers;
    let mut exit = Exit::Yes;
    for uri in uris {
        // A simulated fleet lives in the server, which writes its file.
        let alone = uri.starts_with("sim:").then(|| runtime.block_on(place.lock())).transpose()?;
        // The drivers are opened inside the runtime, so that they can use its tasks and timers.
        let _entered = runtime.enter();
        let drivers = backend::open(uri, &options).map_err(|error| CommandFailure::Usage(error.to_string()))?;
        for driver in drivers {
            let claimed = ask(&driver, async || driver.owner_mark().needed()?.remember(owner).await);
            let uri = driver.uri();
            match runtime.block_on(claimed) {
                Ok(()) => writeln!(out, "{uri}: claimed for generation {}", owner.generation)?,
                Err(error) => {
                    writeln!(out, "{uri}: FAILED: {error}")?;
                    exit = Exit::No;
                }
            }
        }
        if let Some(locked) = alone {
            runtime.block_on(locked.release());
        }
    }
    Ok(exit)
}
