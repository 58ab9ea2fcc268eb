//! A request that needs a resource before its server decides. The resource is quota (for another flavor, or for a
//! restored server), or an image without bytes.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::store::StoreError;
use thiserror::Error;

use super::{InstanceReject, InstanceRequest};
use crate::ports::{ImageDraft, PortError};
use crate::quota::{QuotaReject, ServerQuotaClaim};

/// The resource that is claimed or created before the server decides.
#[derive(Debug, Clone)]
pub enum TakenFirst {
    Quota(Box<ServerQuotaClaim>),
    Image {
        instance: InstanceId,
        /// The process that the server is asked to start.
        asks_for: ProcessId,
        draft: Box<ImageDraft>,
    },
}

impl TakenFirst {
    /// The id of the request's process `ask_server`.
    pub fn process(&self) -> ProcessId {
        match self {
            Self::Quota(claim) => claim.process,
            Self::Image { asks_for, .. } => asking_process(*asks_for),
        }
    }
}

/// The id of the process that asks a server to start the process `asks_for`.
pub fn asking_process(asks_for: ProcessId) -> ProcessId {
    ProcessId::derive(asks_for.0, "ask")
}

/// The request, as its process reads it.
#[derive(Debug, Clone)]
pub struct ServerRequest {
    pub first: TakenFirst,
    pub request: InstanceRequest,
    /// The user who asked, and the request's id.
    pub meta: Arc<Meta>,
}

/// Why a request did not change its server.
#[derive(Debug, Clone, Error)]
pub enum AskServerReject {
    #[error(transparent)]
    Quota(QuotaReject),
    #[error("the image service: {0}")]
    Images(PortError),
    #[error(transparent)]
    Server(InstanceReject),
    /// The log did not append an event in time. If the server has not accepted, the process gives the quota back or
    /// deletes the image.
    #[error("the event log is not available")]
    Unavailable(#[source] StoreError),
}
