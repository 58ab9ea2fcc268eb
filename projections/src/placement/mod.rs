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
use chronova_events::ids::{ConsumerId, ProviderId, ServerGroupId};
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

/// What a checkpoint of version 2 kept.
#[derive(Deserialize)]
struct KeptSecond {
    ledger: SecondLedger,
}

#[derive(Deserialize)]
struct SecondLedger {
    providers: BTreeMap<ProviderId, Arc<Provider>>,
    consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
    classes: BTreeSet<String>,
    traits: BTreeSet<String>,
    groups: BTreeMap<ServerGroupId, BTreeMap<ConsumerId, ProviderId>>,
    member_of: BTreeMap<ConsumerId, ServerGroupId>,
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
    const VERSION: u32 = 3;
    const NOUNS: &'static [&'static str] = &["ledger"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(event) = LedgerEvent::of(event) {
            self.take_in(event, recorded.recorded_at);
        }
    }

    /// Version 1 knew nothing of server groups, version 2 nothing of NUMA cells. Both matter only to proposals here: the
    /// ledger's `decide`, which has the last word, does not read this.
    fn older(version: u32, bytes: &[u8]) -> Option<Self> {
        let ledger = match version {
            1 => {
                let KeptFirst { ledger } = codec::decode_snapshot(bytes).ok()?;
                let FirstLedger { providers, consumers, classes, traits } = ledger;
                Ledger::of_first(providers, consumers, classes, traits)
            }
            2 => {
                let KeptSecond { ledger } = codec::decode_snapshot(bytes).ok()?;
                let SecondLedger { providers, consumers, classes, traits, groups, member_of } = ledger;
                Ledger::of_second(providers, consumers, classes, traits, groups, member_of)
            }
            _ => return None,
        };
        Some(Self::of(ledger))
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
