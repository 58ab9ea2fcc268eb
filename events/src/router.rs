//! A router between virtual networks: one stream per router.
//!
//! The gateway and the interfaces of a router are ports of the connected networks, with the router as their device. So
//! only a network allocates an address, and its stream has the whole history of a port.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ProjectId, RouterId};
use crate::tags::{SettingsWithTags, TagsChange};

/// Neutron's `device_owner` of a router's port in an external network.
pub const GATEWAY_OWNER: &str = "network:router_gateway";
/// Neutron's `device_owner` of a router's port in a project's network.
pub const INTERFACE_OWNER: &str = "network:router_interface";

noun! {
    /// Events of a router.
    RouterEvent = "router" {
        /// The router was created.
        RouterCreated = "created" @ 1,
        /// The settings of the router were changed to these values.
        RouterSettingsReplaced = "settings_replaced" @ 2 from { 1 => RouterSettingsReplacedV1 },
        /// The router was deleted.
        RouterDeleted = "deleted" @ 1,
    }
}

/// The settings of a router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterSettings {
    pub name: String,
    pub description: String,
    pub admin_state_up: bool,
    /// Whether the router replaces the source address of outgoing traffic by the gateway's address (Neutron's
    /// `enable_snat`).
    pub snat: bool,
    /// Sorted.
    pub tags: Vec<String>,
}

impl SettingsWithTags for RouterSettings {
    fn tags_mut(&mut self) -> &mut Vec<String> {
        &mut self.tags
    }
}

impl Default for RouterSettings {
    /// Neutron's defaults.
    fn default() -> Self {
        Self { name: String::new(), description: String::new(), admin_state_up: true, snat: true, tags: Vec::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterCreated {
    pub router: RouterId,
    pub project: ProjectId,
    pub settings: RouterSettings,
    pub availability_zone_hints: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterSettingsReplaced {
    pub router: RouterId,
    pub settings: RouterSettings,
    /// The change of the tags. `settings` itself has no tags.
    pub tags: TagsChange,
}

/// The older version, with all tags. Chronova still reads it and no longer writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterSettingsReplacedV1 {
    pub router: RouterId,
    pub settings: RouterSettings,
}

impl From<RouterSettingsReplacedV1> for RouterSettingsReplaced {
    fn from(old: RouterSettingsReplacedV1) -> Self {
        let (settings, tags) = TagsChange::all(old.settings);
        Self { router: old.router, settings, tags }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterDeleted {
    pub router: RouterId,
}

/// A router with its present settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterRow {
    pub created: RouterCreated,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: u64,
}

impl RouterRow {
    pub fn id(&self) -> RouterId {
        self.created.router
    }

    pub fn project(&self) -> &ProjectId {
        &self.created.project
    }

    pub fn settings(&self) -> &RouterSettings {
        &self.created.settings
    }
}

/// A router. `row` is `None` before its creation and after its deletion.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Router {
    pub row: Option<Arc<RouterRow>>,
    /// Whether the router was deleted. Its id is never used again.
    pub deleted: bool,
}

impl Fold for Router {
    type Event = RouterEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &RouterEvent, at: Timestamp) {
        match event {
            RouterEvent::RouterCreated(created) => {
                let row = RouterRow { created: created.clone(), created_at: at, updated_at: at, revision: 1 };
                self.row = Some(Arc::new(row));
            }
            RouterEvent::RouterSettingsReplaced(replaced) => {
                if let Some(row) = self.row.as_mut().map(Arc::make_mut) {
                    replaced.tags.replace(&mut row.created.settings, &replaced.settings);
                    row.updated_at = at;
                    row.revision += 1;
                }
            }
            RouterEvent::RouterDeleted(_) => *self = Self { row: None, deleted: true },
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<RouterEvent> {
    let router = RouterId(uuid::Uuid::from_u128(1));
    let settings = RouterSettings { name: "edge".into(), tags: vec!["blue".into()], ..RouterSettings::default() };
    vec![
        RouterCreated {
            router,
            project: ProjectId::new("p"),
            settings: settings.clone(),
            availability_zone_hints: vec!["nova".into()],
        }
        .into(),
        RouterSettingsReplaced {
            router,
            settings: RouterSettings { tags: vec![], ..settings },
            tags: TagsChange::Difference { added: vec!["green".into()], removed: vec![] },
        }
        .into(),
        RouterDeleted { router }.into(),
    ]
}
