//! The proof of a guest's identity.

use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::instance::Alive;
use chronova_projections::servers::ServerRow;

use crate::fault::Fault;

/// A guest with a proven identity. Only the metadata service creates this type.
#[derive(Debug)]
pub(crate) struct Guest(Arc<ServerRow>);

impl Guest {
    /// Only code that has identified the guest may call this.
    pub(super) fn known(row: Arc<ServerRow>) -> Self {
        Self(row)
    }

    pub(crate) fn id(&self) -> InstanceId {
        self.0.id
    }

    pub(crate) fn server(&self) -> Result<&Alive, Fault> {
        self.0.instance.alive().ok_or_else(Fault::no_route)
    }
}
