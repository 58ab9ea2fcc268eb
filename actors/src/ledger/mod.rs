//! The placement ledger: the only place where capacity is claimed.
//!
//! There are two kinds of callers. Processes, host agents and reconcilers use [`LedgerCommand::Report`], `ClaimAll`,
//! `Release` and the commands of `mirror` and `moves`. All these can be repeated without harm. Clients of the Placement
//! API use the other commands. Those follow the API's rules (generations as optimistic locks, inventories in use,
//! capacity). The files of those commands are named after the API's resources.

mod allocations;
mod amounts;
pub mod cells;
mod claims;
mod commands;
pub mod decide;
mod decision;
mod inventories;
mod mdevs;
mod mirror;
mod moves;
mod names;
mod pci;
pub mod provider_config;
mod providers;

use chronova_events::envelope::StreamId;
use chronova_events::ledger::{Ledger, LedgerEvent};

pub use commands::{
    ConsumerClaim, GroupPolicy, GroupRule, GuestClaim, LedgerCommand, NewInventories, ParentChange, ReportedPci,
    Reserve, SeenGeneration, ServerClaim,
};
pub use decision::LedgerReject;

use crate::aggregate::AggregateRoot;

/// The Nova cell of a ledger. So far, there is only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LedgerCell(pub u32);

/// The only cell.
pub const CELL: LedgerCell = LedgerCell(1);

#[derive(Debug, Clone, Copy)]
pub enum LedgerRoot {}

impl AggregateRoot for LedgerRoot {
    type Id = LedgerCell;
    type State = Ledger;
    type Command = LedgerCommand;
    type Reject = LedgerReject;
    const SNAPSHOT_EVERY: u64 = 20_000;

    fn stream(cell: &LedgerCell) -> StreamId {
        StreamId::new("ledger", format!("cell{}", cell.0))
    }

    fn decide(state: &Ledger, command: LedgerCommand) -> Result<Vec<LedgerEvent>, LedgerReject> {
        decide::decide(state, command)
    }
}
