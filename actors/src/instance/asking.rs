//! A request that takes something before it asks its server: quota for another size, or an image without bytes.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::process::RequestNeed;
use chronova_events::store::StoreError;
use thiserror::Error;

use super::{InstanceCommand, InstanceReject};
use crate::ports::{ImageDraft, PortError};
use crate::quota::{QuotaReject, ServerClaim};

/// What a request takes first.
#[derive(Debug, Clone)]
pub enum TakenFirst {
    Quota(Box<ServerClaim>),
    Image(Box<ImageDraft>),
}

impl TakenFirst {
    /// What is recorded of it, so that it can be given back after a crash.
    pub fn need(&self) -> RequestNeed {
        match self {
            Self::Quota(claim) => RequestNeed::Quota(claim.project.clone()),
            Self::Image(draft) => RequestNeed::Image(draft.image),
        }
    }
}

/// The request, as its process reads it.
#[derive(Debug, Clone)]
pub struct ServerRequest {
    pub first: TakenFirst,
    pub command: InstanceCommand,
    /// The user who asked, and the request's id.
    pub meta: Arc<Meta>,
}

/// Why a request leaves its server as it is.
#[derive(Debug, Clone, Error)]
pub enum AskServerReject {
    #[error(transparent)]
    Quota(QuotaReject),
    #[error("the image service: {0}")]
    Images(PortError),
    #[error(transparent)]
    Server(InstanceReject),
    /// The log did not append an event in time. The process gives back what it took, unless the server was asked.
    #[error("the event log is not available")]
    Unavailable(#[source] StoreError),
}
