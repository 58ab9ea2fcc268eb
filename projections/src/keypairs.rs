//! Every user's key pairs.

use std::collections::BTreeMap;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::UserId;
use chronova_events::keypair::{KeypairEvent, Keypairs};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct KeypairsView {
    pub by_user: BTreeMap<UserId, Keypairs>,
}

impl Projection for KeypairsView {
    const NAME: &'static str = "keypairs";
    const VERSION: u32 = 1;
    const NOUNS: &'static [&'static str] = &["keypair"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Some(event) = KeypairEvent::of(event) else { return };
        let user = UserId::new(recorded.stream.key());
        self.by_user.entry(user).or_default().evolve(event, recorded.recorded_at);
    }

    fn weight(&self) -> u64 {
        self.by_user.len() as u64 * 2_048
    }
}
