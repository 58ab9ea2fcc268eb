//! Users, projects, domains and roles, for log-ins, checks of tokens and the Identity API.

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::identity::{Identity, IdentityEvent};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Identities {
    pub identity: Identity,
}

impl Projection for Identities {
    const NAME: &'static str = "identities";
    const VERSION: u32 = 3;
    const NOUNS: &'static [&'static str] = &["identity"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(event) = IdentityEvent::of(event) {
            self.identity.evolve(event, recorded.recorded_at);
        }
    }

    fn weight(&self) -> u64 {
        (self.identity.users.len() + self.identity.projects.len()) as u64 * 1_024
    }
}
