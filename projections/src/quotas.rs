//! Every project's use and limits.

use std::collections::BTreeMap;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::ProjectId;
use chronova_events::quota::{Quota, QuotaEvent};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Quotas {
    pub by_project: BTreeMap<ProjectId, Quota>,
}

impl Projection for Quotas {
    const NAME: &'static str = "quotas";
    const VERSION: u32 = 1;

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(event) = QuotaEvent::of(event) {
            let project = ProjectId::new(recorded.stream.key());
            self.by_project.entry(project).or_default().evolve(event, recorded.recorded_at);
        }
    }
}
