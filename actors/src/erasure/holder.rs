//! The trait of services with personal data in their own streams.

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
    /// Whether the user exists in the service, and so can still log in.
    fn has_user(&self, _views: &Views, _user: &UserId) -> bool {
        false
    }

    /// Records the erasure in each stream of the service with data of the subject. A repeated call changes nothing.
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

    /// The streams of the service with personal fields of the erased data.
    fn streams(&self, views: &Views, request: &ErasureRequested) -> Vec<StreamId>;
}
