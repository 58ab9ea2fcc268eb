//! A request about one server.

use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::InstanceId;
use chronova_events::instance::Alive;

use super::Operations;
use crate::aggregate::CommandError;
use crate::instance::actions::{self, ServerAction};
use crate::instance::{CallerRights, InstanceReject, InstanceRequest, InstanceRoot};

/// The server that a request names, as the read model shows it, and the caller's rights. The read model may lag, so
/// the server's `decide` checks again.
#[derive(Debug, Clone, Copy)]
pub struct ServerCall<'a> {
    pub id: InstanceId,
    pub server: &'a Alive,
    pub asker: CallerRights,
    pub is_admin: bool,
}

impl ServerCall<'_> {
    /// # Errors
    /// The server's hardware, lock or state does not allow the action.
    pub fn admit(&self, action: ServerAction) -> Result<(), InstanceReject> {
        actions::admit(self.server, action, self.asker)
    }
}

impl Operations {
    pub(super) async fn ask_server(
        &self,
        meta: Arc<Meta>,
        id: InstanceId,
        request: impl Into<InstanceRequest>,
    ) -> Result<Position, CommandError<InstanceReject>> {
        Ok(self.send::<InstanceRoot>(&id, request.into(), meta).await?.position)
    }
}
