//! The placement view: providers, inventories and allocations as the ledger recorded them, and the search for providers
//! that could take a request ([`candidates`]).

pub mod candidates;
pub mod trees;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ledger::{Ledger, LedgerEvent};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Placement {
    pub ledger: Ledger,
}

impl Projection for Placement {
    const NAME: &'static str = "placement";
    const VERSION: u32 = 2;
    const NOUNS: &'static [&'static str] = &["ledger"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(event) = LedgerEvent::of(event) {
            self.ledger.evolve(event, recorded.recorded_at);
        }
    }

    fn weight(&self) -> u64 {
        self.ledger.providers.len() as u64 * 4_096 + self.ledger.consumers.len() as u64 * 1_024
    }
}
