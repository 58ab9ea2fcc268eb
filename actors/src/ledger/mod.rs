//! The placement ledger: the only place where capacity is claimed.

pub mod decide;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::ledger::{Claimed, Inventory, Ledger, LedgerEvent};
use thiserror::Error;

use crate::aggregate::Aggregate;

/// Which cell's ledger. So far there is one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell(pub u32);

/// The cell in which everything is.
pub const CELL: Cell = Cell(1);

#[derive(Debug, Clone, Copy)]
pub enum LedgerAggregate {}

#[derive(Debug, Clone)]
pub enum LedgerCommand {
    /// Makes sure that the provider of a compute host is there, with this inventory and these standard traits; traits
    /// and classes that others set stay.
    Report { provider: ProviderId, name: String, inventories: Vec<Inventory>, traits: Vec<String> },
    /// Takes capacity for a consumer that holds nothing yet; repeating the same claim is harmless.
    Claim(Claimed),
    /// Gives back everything that the consumer holds; nothing held is success.
    Release { consumer: ConsumerId },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LedgerReject {
    #[error("resource provider {0} does not exist")]
    NoSuchProvider(ProviderId),
    #[error("resource provider name {0} is taken")]
    NameTaken(String),
    #[error("provider {provider} has no room for {amount} of {class}")]
    DoesNotFit { provider: ProviderId, class: String, amount: u64 },
    #[error("consumer {0} holds something else already")]
    HoldsOther(ConsumerId),
}

impl Aggregate for LedgerAggregate {
    type Id = Cell;
    type State = Ledger;
    type Command = LedgerCommand;
    type Reject = LedgerReject;
    const SNAPSHOT_EVERY: u64 = 20_000;

    fn stream(cell: &Cell) -> StreamId {
        StreamId::new("ledger", format!("cell{}", cell.0))
    }

    fn decide(state: &Ledger, command: LedgerCommand) -> Result<Vec<LedgerEvent>, LedgerReject> {
        decide::decide(state, command)
    }
}
