//! Feeds the read models from the log.

use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::registry::DecodeError;
use chronova_events::store::{EventStore, StoreError};
use thiserror::Error;

use crate::replay::BATCH;
use crate::views::Views;

#[derive(Debug, Error)]
pub enum ProjectionError {
    #[error("the log cannot be read")]
    Store(#[from] StoreError),
    #[error("an event cannot be read")]
    Decode(#[from] DecodeError),
    #[error("the fold failed: {0}")]
    Failed(String),
    /// The caller of the replay ended it.
    #[error("the replay was stopped")]
    Enough,
}

/// Folds all events of the log into `views`, from their position on. [`crate::replay`] is faster for a long part.
pub async fn catch_up(store: &dyn EventStore, views: &Views) -> Result<Position, ProjectionError> {
    loop {
        let batch = store.read_all(views.position(), BATCH).await?;
        if batch.is_empty() {
            return Ok(views.position());
        }
        views.apply(&batch)?;
    }
}

/// Follows the log until the log is closed, or until the log or an event cannot be read. Returns the reason.
pub async fn follow(store: Arc<dyn EventStore>, views: Arc<Views>) -> ProjectionError {
    let mut subscription = store.subscribe(views.position());
    drop(store);
    loop {
        let batch = match subscription.next().await {
            Ok(batch) => batch,
            Err(error) => return error.into(),
        };
        let _turn = views.turn.lock().await;
        if let Err(error) = views.apply(&batch) {
            return error.into();
        }
    }
}
