//! The placement view: providers, inventories and allocations of the ledger, and an [`index`] of them. [`candidates`]
//! searches for providers that could serve a request.

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
use chronova_events::ledger::{
    Consumer, FittedNumaCell, HostCellsReplaced, HostPciReplaced, Ledger, LedgerEvent, PciClaims, Provider,
    ProviderConfigApplied,
};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;
use index::ProviderIndex;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(from = "StoredPlacement")]
pub struct Placement {
    pub ledger: Ledger,
    /// The index of the ledger. A checkpoint does not store it; it is computed from the ledger.
    #[serde(skip_serializing)]
    pub index: ProviderIndex,
}

/// The part of the view that a checkpoint stores.
#[derive(Deserialize)]
struct StoredPlacement {
    ledger: Ledger,
}

/// The content of a checkpoint of version 1.
#[derive(Deserialize)]
struct StoredPlacementV1 {
    ledger: LedgerV1,
}

/// The content of a checkpoint of version 2.
#[derive(Deserialize)]
struct StoredPlacementV2 {
    ledger: LedgerV2,
}

/// The content of a checkpoint of version 3.
#[derive(Deserialize)]
struct StoredPlacementV3 {
    ledger: LedgerV3,
}

/// The content of a checkpoint of version 4.
#[derive(Deserialize)]
struct StoredPlacementV4 {
    ledger: LedgerV4,
}

/// The content of a checkpoint of version 5.
#[derive(Deserialize)]
struct StoredPlacementV5 {
    ledger: LedgerV5,
}

#[derive(Deserialize)]
struct LedgerV5 {
    before: LedgerV4,
    configured: BTreeMap<ProviderId, Arc<ProviderConfigApplied>>,
}

#[derive(Deserialize)]
struct LedgerV4 {
    before: LedgerV3,
    pci: BTreeMap<ProviderId, Arc<HostPciReplaced>>,
    pci_claims: PciClaims,
}

#[derive(Deserialize)]
struct LedgerV3 {
    providers: BTreeMap<ProviderId, Arc<Provider>>,
    consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
    classes: BTreeSet<String>,
    traits: BTreeSet<String>,
    groups: BTreeMap<ServerGroupId, BTreeMap<ConsumerId, ProviderId>>,
    member_of: BTreeMap<ConsumerId, ServerGroupId>,
    cells: BTreeMap<ProviderId, Arc<HostCellsReplaced>>,
    fitted: BTreeMap<ProviderId, BTreeMap<ConsumerId, Arc<Vec<FittedNumaCell>>>>,
    fitted_on: BTreeMap<ConsumerId, ProviderId>,
}

#[derive(Deserialize)]
struct LedgerV2 {
    providers: BTreeMap<ProviderId, Arc<Provider>>,
    consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
    classes: BTreeSet<String>,
    traits: BTreeSet<String>,
    groups: BTreeMap<ServerGroupId, BTreeMap<ConsumerId, ProviderId>>,
    member_of: BTreeMap<ConsumerId, ServerGroupId>,
}

#[derive(Deserialize)]
struct LedgerV1 {
    providers: BTreeMap<ProviderId, Arc<Provider>>,
    consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
    classes: BTreeSet<String>,
    traits: BTreeSet<String>,
}

impl From<LedgerV3> for Ledger {
    fn from(
        LedgerV3 { providers, consumers, classes, traits, groups, member_of, cells, fitted, fitted_on }: LedgerV3,
    ) -> Self {
        let mut ledger = Self::of_second(providers, consumers, classes, traits, groups, member_of);
        (ledger.cells, ledger.fitted, ledger.fitted_on) = (cells, fitted, fitted_on);
        ledger
    }
}

impl From<LedgerV4> for Ledger {
    fn from(LedgerV4 { before, pci, pci_claims }: LedgerV4) -> Self {
        let mut ledger = Self::from(before);
        (ledger.pci, ledger.pci_claims) = (pci, pci_claims);
        ledger
    }
}

impl From<StoredPlacement> for Placement {
    fn from(StoredPlacement { ledger }: StoredPlacement) -> Self {
        Self { index: ProviderIndex::of(&ledger), ledger }
    }
}

impl Projection for Placement {
    const NAME: &'static str = "placement";
    const VERSION: u32 = 6;
    const NOUNS: &'static [&'static str] = &["ledger"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(event) = LedgerEvent::of(event) {
            self.take_in(event, recorded.recorded_at);
        }
    }

    /// Version 1 had no server groups, version 2 no NUMA cells, version 3 no PCI devices, and version 4 no additions of
    /// `provider.yaml`. The view needs these parts only for proposals. The ledger's `decide` has the last word and does
    /// not read the view. Version 5 had no spellings of aggregates, because no event of its time had a spelling.
    fn older(version: u32, bytes: &[u8]) -> Option<Self> {
        let ledger = match version {
            1 => {
                let StoredPlacementV1 { ledger } = codec::decode_snapshot(bytes).ok()?;
                let LedgerV1 { providers, consumers, classes, traits } = ledger;
                Ledger::of_first(providers, consumers, classes, traits)
            }
            2 => {
                let StoredPlacementV2 { ledger } = codec::decode_snapshot(bytes).ok()?;
                let LedgerV2 { providers, consumers, classes, traits, groups, member_of } = ledger;
                Ledger::of_second(providers, consumers, classes, traits, groups, member_of)
            }
            3 => {
                let StoredPlacementV3 { ledger } = codec::decode_snapshot(bytes).ok()?;
                ledger.into()
            }
            4 => {
                let StoredPlacementV4 { ledger } = codec::decode_snapshot(bytes).ok()?;
                ledger.into()
            }
            5 => {
                let StoredPlacementV5 { ledger } = codec::decode_snapshot(bytes).ok()?;
                let LedgerV5 { before, configured } = ledger;
                let mut ledger = Ledger::from(before);
                ledger.configured = configured;
                ledger
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
        StoredPlacement { ledger }.into()
    }

    /// Folds one event that was recorded at `at`.
    pub fn take_in(&mut self, event: &LedgerEvent, at: chronova_events::envelope::Timestamp) {
        let Self { ledger, index } = self;
        index.follow(ledger, event, |ledger| ledger.evolve(event, at));
    }
}
