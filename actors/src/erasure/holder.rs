//! The trait of services that have personal data in streams of their own.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::{Meta, StreamId};
use chronova_events::erasure::ErasureRequested;
use chronova_events::ids::UserId;
use chronova_projections::views::Views;

use super::error::ErasureError;
use crate::gateway::CommandGateway;

/// A service on the same log that has personal data.
#[async_trait]
pub trait PersonalDataHolder: Debug + Send + Sync {
    /// Whether the service has the user, who can then still log in.
    fn has_user(&self, _views: &Views, _user: &UserId) -> bool {
        false
    }

    /// Records the erasure in each of the service's streams that has data to erase. A repeated call changes nothing.
    ///
    /// # Errors
    /// The log is not available.
    async fn erase(
        &self,
        gateway: &CommandGateway,
        views: &Views,
        request: &ErasureRequested,
        meta: &Arc<Meta>,
    ) -> Result<(), ErasureError>;

    /// The service's streams whose events may have had the erased data in personal fields.
    fn streams(&self, views: &Views, request: &ErasureRequested) -> Vec<StreamId>;
}
