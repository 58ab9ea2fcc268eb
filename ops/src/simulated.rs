//! The events of a simulated fleet's registration, for commands that replay decisions.

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::host::HostRoot;
use chronova_actors::hosts::capacity;
use chronova_actors::hosts::options::HostOptions;
use chronova_actors::ledger::decide::decide;
use chronova_actors::ledger::{CELL, LedgerRoot};
use chronova_events::envelope::{StreamId, Timestamp};
use chronova_events::fold::Fold as _;
use chronova_events::host::{CameUp, HostEvent, Registered};
use chronova_events::ledger::{Ledger, LedgerEvent};
use chronova_events::registry::Event;
use chronova_hypervisor::driver::DriverError;
use chronova_hypervisor::sim::{SimFleet, SimUri};

/// The events of a fleet that has registered once: the ledger's events first, then each host's.
pub async fn registrations(fleet: &SimUri, options: &HostOptions) -> Result<Vec<(StreamId, Vec<Event>)>, DriverError> {
    let mut state = Ledger::default();
    let mut ledger: Vec<LedgerEvent> = Vec::new();
    let mut hosts = Vec::new();
    for (driver, number) in SimFleet::new(fleet.clone()).drivers().into_iter().zip(1..) {
        let mut found = driver.capabilities().await?;
        capacity::settle_traits(&mut found, driver.as_ref(), options);
        let failed = |message: String| DriverError::Failed { call: "capabilities", message };
        let report = capacity::resources(&found, options, 0).map_err(failed)?;
        for event in decide(&state, report).map_err(|reject| failed(reject.to_string()))? {
            state.evolve(&event, Timestamp(0));
            ledger.push(event);
        }
        let registered = Registered {
            host: found.host,
            number,
            hostname: found.hostname.clone(),
            uri: driver.uri().to_owned(),
            capabilities: capacity::capabilities(&found),
        };
        let events = [HostEvent::from(registered), HostEvent::from(CameUp {})].map(Event::from);
        hosts.push((HostRoot::stream(&found.host), events.to_vec()));
    }
    let ledger = (LedgerRoot::stream(&CELL), ledger.into_iter().map(Event::from).collect());
    Ok(std::iter::once(ledger).chain(hosts).collect())
}
