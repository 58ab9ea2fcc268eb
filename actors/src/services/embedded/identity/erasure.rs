//! The personal data of the embedded identity service: its users.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::{Meta, StreamId};
use chronova_events::erasure::ErasureRequested;
use chronova_events::ids::UserId;
use chronova_projections::views::Views;

use super::{IdentityCommand, IdentityRealmId, IdentityRoot};
use crate::aggregate::AggregateRoot as _;
use crate::erasure::error::ErasureError;
use crate::erasure::holder::PersonalDataHolder;
use crate::gateway::CommandGateway;

/// The names and the attributes of users.
#[derive(Debug)]
pub(crate) struct IdentityData;

#[async_trait]
impl PersonalDataHolder for IdentityData {
    fn has_user(&self, views: &Views, user: &UserId) -> bool {
        views.identities.read(|view| view.identity.users.contains_key(user))
    }

    async fn erase(
        &self,
        gateway: &CommandGateway,
        _: &Views,
        request: &ErasureRequested,
        meta: &Arc<Meta>,
    ) -> Result<(), ErasureError> {
        let Some(user) = &request.user else { return Ok(()) };
        let command = IdentityCommand::EraseUser { user: user.clone(), erasure: request.erasure };
        gateway.send::<IdentityRoot>(&IdentityRealmId, command, Arc::clone(meta)).await?;
        Ok(())
    }

    fn streams(&self, _: &Views, request: &ErasureRequested) -> Vec<StreamId> {
        request.user.iter().map(|_| IdentityRoot::stream(&IdentityRealmId)).collect()
    }
}
