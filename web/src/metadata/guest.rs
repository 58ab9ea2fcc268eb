//! The proof of a guest's identity.

use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::instance::Alive;
use chronova_projections::servers::ServerRow;

use crate::fault::Fault;

/// A guest that is known to be the one that it says. Only the metadata service makes one.
#[derive(Debug)]
pub(crate) struct Guest(Arc<ServerRow>);

impl Guest {
    /// Only for code that has identified the guest.
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
