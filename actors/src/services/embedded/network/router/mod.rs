//! Routers between virtual networks.
//!
//! An aggregate has a router's name and settings. The router is in a network if it is the device of a port there.
//! [`NetworkCommand::CreatePort`](crate::services::embedded::network::NetworkCommand::CreatePort) creates such a port,
//! with one of the owners below.

pub mod decide;

use chronova_events::envelope::StreamId;
use chronova_events::ids::RouterId;
pub use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER};
use chronova_events::router::{Router, RouterCreated, RouterEvent};
use thiserror::Error;

use super::RevisionMismatch;
use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum RouterRoot {}

#[derive(Debug, Clone)]
pub enum RouterCommand {
    Create(RouterCreated),
    Change(RouterPatch),
    Delete,
    /// Executes the command only if the router still has this revision.
    IfRevision {
        revision: u64,
        command: Box<RouterCommand>,
    },
}

/// The changes of a router; `None` keeps a setting.
#[derive(Debug, Clone, Default)]
pub struct RouterPatch {
    pub name: Option<String>,
    pub description: Option<String>,
    pub admin_state_up: Option<bool>,
    pub snat: Option<bool>,
    pub tags: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RouterReject {
    #[error("The router could not be found")]
    NotFound,
    #[error("The id {0} is taken.")]
    IdTaken(RouterId),
    #[error(transparent)]
    Revision(#[from] RevisionMismatch),
}

impl AggregateRoot for RouterRoot {
    type Id = RouterId;
    type State = Router;
    type Command = RouterCommand;
    type Reject = RouterReject;

    fn stream(id: &RouterId) -> StreamId {
        StreamId::new("router", id)
    }

    fn decide(state: &Router, command: RouterCommand) -> Result<Vec<RouterEvent>, RouterReject> {
        decide::decide(state, command)
    }
}
