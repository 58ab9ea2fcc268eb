//! `chronova host claim`: makes hosts accept this log instead of another copy of it.
//!
//! The command writes the mark of this log to the hosts ([`chronova_actors::hosts::fence`]). Only an operator can know
//! that the other copy is gone for ever. The server must be stopped while its simulated hosts are claimed.

use std::io::Write;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::fleet::{FleetId, FleetRoot};
use chronova_actors::hosts::fence::{self, LogIdentity};
use chronova_actors::shell::folding::state_of;
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::fleet::FleetChanges;
use chronova_hypervisor::backend;
use chronova_hypervisor::capability::Needed as _;

use super::super::{CommandFailure, Exit, LogPlace, log_home};
use super::check::ask;
use crate::config::Config;
use crate::config::event_store::EventStoreAddress;

/// Claims the hosts at `uris`. Without any, claims all hosts of the fleet.
pub(super) fn run(uris: &[String], config: &Config, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let place = LogPlace::of(config).map_err(CommandFailure::Usage)?;
    let found = runtime.block_on(identity(&place))?;
    let empty = || CommandFailure::Usage("the log is empty: no host can have refused it".to_owned());
    let owner = found.ok_or_else(empty)?.owner;
    let uris = match uris {
        [] => runtime.block_on(fleet(&place, &config.chronova.hypervisors.0))?,
        named => named.to_vec(),
    };
    if uris.is_empty() {
        return Err(CommandFailure::Usage("name a host, or configure [chronova] hypervisors".to_owned()));
    }
    let options = config.targets().drivers;
    let mut exit = Exit::Yes;
    for uri in &uris {
        // Opening a simulated fleet rewrites the fleet's file, which only one process may use. The lock makes sure that
        // no control plane uses the fleet.
        let alone = uri.starts_with("sim:").then(|| runtime.block_on(place.lock())).transpose()?;
        // The drivers are opened inside the runtime, so that they can use its tasks and timers.
        let _entered = runtime.enter();
        let drivers = backend::open(uri, &options).map_err(|error| CommandFailure::Usage(error.to_string()))?;
        for driver in drivers {
            let claimed =
                ask(&driver, async || fence::claim(driver.owner_mark().needed()?, owner, SystemClock.now()).await);
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

/// The URIs of the configuration file, and those of hosts that were added while a server ran. Removed hosts are left
/// out.
pub(super) async fn fleet(place: &LogPlace, configured: &[String]) -> Result<Vec<String>, CommandFailure> {
    let changes: FleetChanges = state_of(&*place.read().await?, &FleetRoot::stream(&FleetId)).await?;
    let all = configured.iter().chain(changes.added.iter().filter(|uri| !configured.contains(uri)));
    let is_removed =
        |uri: &String| backend::hosts(uri).is_ok_and(|hosts| hosts.iter().all(|host| changes.removed.contains(host)));
    Ok(all.filter(|uri| !is_removed(uri)).cloned().collect())
}

/// The identity of the log. A copied data directory gets a generation of its own at the first start of a server. If no
/// server has started on the copy yet, this function begins that generation. A claim for the original's generation
/// would be outdated after the first start, and the hosts would refuse the copy.
async fn identity(place: &LogPlace) -> Result<Option<LogIdentity>, CommandFailure> {
    if place.data.unfinished_restore().exists() {
        let dir = place.data.0.display();
        let told = format!("a restore to {dir} was not completed: run `chronova backup restore` again");
        return Err(CommandFailure::Usage(told));
    }
    if place.engine == EventStoreAddress::Sqlite && log_home::is_copy(&place.data)? {
        let locked = place.lock().await?;
        let settled = log_home::settle(&place.data, &*locked.store()).await;
        locked.release().await;
        settled.map_err(|error| CommandFailure::Usage(format!("{error:#}")))?;
    }
    Ok(LogIdentity::of(&*place.read().await?).await?)
}
