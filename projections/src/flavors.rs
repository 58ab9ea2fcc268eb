//! The flavors, as the API lists them.

use chronova_events::envelope::Recorded;
use chronova_events::flavor::{FlavorEvent, Flavors};
use chronova_events::fold::Fold;
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct FlavorsView {
    pub flavors: Flavors,
}

impl Projection for FlavorsView {
    const NAME: &'static str = "flavors";
    const VERSION: u32 = 1;
    const NOUNS: &'static [&'static str] = &["flavor"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(event) = FlavorEvent::of(event) {
            self.flavors.evolve(event, recorded.recorded_at);
        }
    }
}
