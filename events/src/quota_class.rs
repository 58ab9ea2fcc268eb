//! Quota classes: limits with a name. A limit of the class `default` applies to every project that has no own limit for
//! the resource. If the class has no limit for a resource either, the limit of the configuration applies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;

/// The only class with an effect.
pub const DEFAULT: &str = "default";

noun! {
    /// Events of a quota class.
    QuotaClassEvent = "quota_class" {
        /// An administrator set limits of the class.
        ClassLimitsSet = "limits_set" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassLimitsSet {
    pub class: String,
    /// Limits by resource (-1: no limit), sorted by resource. Resources not named here keep their limits.
    pub limits: Vec<(String, i64)>,
}

/// The limits of every class.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct QuotaClasses {
    pub by_name: BTreeMap<String, BTreeMap<String, i64>>,
}

impl Fold for QuotaClasses {
    type Event = QuotaClassEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &QuotaClassEvent, _: Timestamp) {
        let QuotaClassEvent::ClassLimitsSet(set) = event;
        self.by_name.entry(set.class.clone()).or_default().extend(set.limits.iter().cloned());
    }
}

/// One example of each event.
pub fn samples() -> Vec<QuotaClassEvent> {
    vec![
        // -1 means no limit.
        ClassLimitsSet { class: DEFAULT.into(), limits: vec![("cores".into(), 40), ("instances".into(), -1)] }.into(),
    ]
}
