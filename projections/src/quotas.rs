//! Every project's usage and limits, and the limits of the quota classes.

use std::collections::BTreeMap;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::ProjectId;
use chronova_events::quota::{Quota, QuotaEvent};
use chronova_events::quota_class::{QuotaClassEvent, QuotaClasses};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Quotas {
    pub by_project: BTreeMap<ProjectId, Quota>,
    pub classes: QuotaClasses,
}

impl Projection for Quotas {
    const NAME: &'static str = "quotas";
    const VERSION: u32 = 3;
    const NOUNS: &'static [&'static str] = &["quota", "quota_class"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(event) = QuotaEvent::of(event) {
            let project = ProjectId::new(recorded.stream.key());
            self.by_project.entry(project).or_default().evolve(event, recorded.recorded_at);
        } else if let Some(event) = QuotaClassEvent::of(event) {
            self.classes.evolve(event, recorded.recorded_at);
        }
    }

    fn weight(&self) -> u64 {
        self.by_project.values().map(|quota| 512 + quota.held.len() as u64 * 128).sum()
    }
}
