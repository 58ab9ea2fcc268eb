//! Maps errors to gRPC statuses.

use chronova_events::store::StoreError;
use chronova_events::store::eventstoredb::form::EventStoreDbEventError;
use tonic::Status;

/// The status of an error of the log.
pub(super) fn of_store(error: &StoreError) -> Status {
    match error {
        StoreError::Full => Status::resource_exhausted(error.to_string()),
        StoreError::TooLarge { .. } => Status::invalid_argument(error.to_string()),
        StoreError::Corrupt { .. } => Status::data_loss(error.to_string()),
        StoreError::Closed | StoreError::BelowLevel { .. } | StoreError::ArchiveAway { .. } => {
            Status::unavailable(error.to_string())
        }
        _ => {
            tracing::error!(%error, "the log cannot answer a client of EventStoreDB");
            Status::internal("the log cannot be read or written")
        }
    }
}

/// The status of a refused event.
pub(super) fn of_form(error: &EventStoreDbEventError) -> Status {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text = format!("{text}: {cause}");
    }
    match error {
        EventStoreDbEventError::OtherVersion { .. } => Status::failed_precondition(text),
        _ => Status::invalid_argument(text),
    }
}

pub(super) fn ending() -> Status {
    Status::unavailable("the server is shutting down")
}
