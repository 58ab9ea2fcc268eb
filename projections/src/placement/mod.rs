//! The placement view: providers, inventories and allocations as the ledger recorded them, an [`index`] of them, and the
//! search for providers that could take a request ([`candidates`]).

pub mod candidates;
pub mod column;
pub mod index;
pub mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::codec;
use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::ledger::{Consumer, Ledger, LedgerEvent, Provider};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;
use index::Index;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(from = "Kept")]
pub struct Placement {
    pub ledger: Ledger,
    /// Follows the ledger; made anew from it when the view is read from a checkpoint.
    #[serde(skip_serializing)]
    pub index: Index,
}

/// What a checkpoint keeps.
#[derive(Deserialize)]
struct Kept {
    ledger: Ledger,
}

/// What a checkpoint of version 1 kept.
#[derive(Deserialize)]
struct KeptFirst {
    ledger: FirstLedger,
}

#[derive(Deserialize)]
struct FirstLedger {
    providers: BTreeMap<ProviderId, Arc<Provider>>,
    consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
    classes: BTreeSet<String>,
    traits: BTreeSet<String>,
}

impl From<Kept> for Placement {
    fn from(Kept { ledger }: Kept) -> Self {
        Self { index: Index::of(&ledger), ledger }
    }
}

impl Projection for Placement {
    const NAME: &'static str = "placement";
    const VERSION: u32 = 2;
    const NOUNS: &'static [&'static str] = &["ledger"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(event) = LedgerEvent::of(event) {
            self.take_in(event, recorded.recorded_at);
        }
    }

    /// Version 1 knew nothing of server groups. Whose members are where matters only to proposals: the ledger's `decide`,
    /// which has the last word, does not read this.
    fn older(version: u32, bytes: &[u8]) -> Option<Self> {
        let KeptFirst { ledger } = if version == 1 { codec::decode_snapshot(bytes).ok()? } else { return None };
        let FirstLedger { providers, consumers, classes, traits } = ledger;
        Some(Self::of(Ledger::of_first(providers, consumers, classes, traits)))
    }

    fn weight(&self) -> u64 {
        self.ledger.providers.len() as u64 * 4_096 + self.ledger.consumers.len() as u64 * 1_024
    }
}

impl Placement {
    /// The view of a ledger.
    pub fn of(ledger: Ledger) -> Self {
        Kept { ledger }.into()
    }

    /// Takes in one event that was recorded at `at`.
    pub fn take_in(&mut self, event: &LedgerEvent, at: chronova_events::envelope::Timestamp) {
        let Self { ledger, index } = self;
        index.follow(ledger, event, |ledger| ledger.evolve(event, at));
    }
}
