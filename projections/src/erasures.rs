//! The read model of erasures: whose personal data was erased, when, why and by whom.

use std::collections::BTreeMap;

use chronova_events::envelope::{Cause, Recorded};
use chronova_events::erasure::{ErasureEvent, Erasures};
use chronova_events::fold::Fold;
use chronova_events::ids::{ErasureId, UserId};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct ErasuresView {
    pub erasures: Erasures,
    /// The requester, if it was a user.
    pub asked_by: BTreeMap<ErasureId, UserId>,
}

impl Projection for ErasuresView {
    const NAME: &'static str = "erasures";
    const VERSION: u32 = 1;
    const NOUNS: &'static [&'static str] = &["erasure"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Some(event) = ErasureEvent::of(event) else { return };
        if let (ErasureEvent::ErasureRequested(request), Cause::User { user, .. }) = (event, &recorded.meta.cause) {
            self.asked_by.insert(request.erasure, user.clone());
        }
        self.erasures.evolve(event, recorded.recorded_at);
    }
}
