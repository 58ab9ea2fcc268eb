//! A project's limits for networks, subnets, ports and security groups: one stream per project.
//!
//! Uses are not kept: they are counted where the things are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::ProjectId;

noun! {
    /// What can happen to a project's network quota.
    NetworkQuotaEvent = "network_quota" {
        /// An administrator set limits.
        NetworkLimitsSet = "limits_set" @ 1,
        /// The project is back to the defaults.
        NetworkLimitsReset = "limits_reset" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLimitsSet {
    pub project: ProjectId,
    /// Resource and limit (-1: none), sorted by resource.
    pub limits: Vec<(String, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLimitsReset {
    pub project: ProjectId,
}

/// Limits other than the defaults.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NetworkLimits {
    pub limits: BTreeMap<String, i64>,
}

impl Fold for NetworkLimits {
    type Event = NetworkQuotaEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &NetworkQuotaEvent, _at: Timestamp) {
        match event {
            NetworkQuotaEvent::NetworkLimitsSet(set) => self.limits.extend(set.limits.iter().cloned()),
            NetworkQuotaEvent::NetworkLimitsReset(_) => self.limits.clear(),
        }
    }
}

/// One example of each.
pub fn samples() -> Vec<NetworkQuotaEvent> {
    let project = ProjectId::new("p");
    vec![
        NetworkLimitsSet { project: project.clone(), limits: vec![("port".into(), -1)] }.into(),
        NetworkLimitsReset { project }.into(),
    ]
}
