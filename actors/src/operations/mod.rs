//! The operations of an API: queries, and a narrow way to send commands.
//!
//! The command gateway and the drivers are private here. In the web layer, a handler needs a permit to send a command.
//! Two operations need none: a guest's report of a password, and [`Operations::mirror_placement`].

mod ask_server;
pub mod change_fleet;
pub mod create_servers;
pub mod forecasts;
pub mod heal_allocations;
mod images_of_volumes;
pub mod interfaces;
pub mod orphaned_allocations;
pub mod queries;
pub mod refresh_attachment;
pub mod remove_host;
mod requested_classes;
pub mod security_groups;
mod server_call;
pub mod server_images;
pub mod server_moves;
pub mod server_volumes;
pub mod unique_names;
mod waiting;

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::ImageSnapshot;
use chronova_events::store::EventStore;
use chronova_projections::history::History;

use crate::aggregate::{CommandError, Committed};
use crate::coordination::name_turns::NameTurns;
use crate::coordination::passwords::OneTimePasswords;
use crate::coordination::waiting_requests::{CreateRequests, ServerRequests};
use crate::erasure::work::Eraser;
use crate::gateway::{CommandGateway, Reachable};
use crate::hosts::context::HostContext;
use crate::hosts::images;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::interfaces as interface_watch;

pub use queries::Queries;
pub use server_call::ServerCall;

/// The operations of an API. Only those of a cluster's leader can send commands, because a follower's gateway refuses
/// commands.
pub struct Operations {
    pub(crate) queries: Arc<Queries>,
    pub(crate) gateway: Arc<CommandGateway>,
    pub(crate) hosts: Arc<HostContext>,
    pub(crate) reconcile: Arc<ReconcileContext>,
    pub(crate) passwords: Arc<OneTimePasswords>,
    pub(crate) create_requests: Arc<CreateRequests>,
    pub(crate) server_requests: Arc<ServerRequests>,
    pub(crate) names: Arc<NameTurns>,
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operations").field("queries", &self.queries).finish_non_exhaustive()
    }
}

impl Operations {
    pub fn queries(&self) -> &Arc<Queries> {
        &self.queries
    }

    /// Lets the aggregate `id` decide `command`. Returns when the events are durable.
    ///
    /// # Errors
    /// The aggregate refuses, or the log is not available.
    pub async fn send<A: Reachable>(
        &self,
        id: &A::Id,
        command: impl Into<A::Command>,
        meta: Arc<Meta>,
    ) -> Result<Committed, CommandError<A::Reject>> {
        self.gateway.send::<A>(id, command, meta).await
    }

    /// The passwords on their way to guests.
    pub fn passwords(&self) -> &OneTimePasswords {
        &self.passwords
    }

    /// Brings Placement up to date with the hosts and host aggregates.
    pub async fn mirror_placement(&self) {
        self.reconcile.placement.mirror().await;
    }

    /// Records the present state of a server's interfaces from the network service.
    pub async fn refresh_interfaces(&self, server: InstanceId) {
        // Only the reconciler counts failures, so this call ignores the result.
        let _shown = interface_watch::refresh(&self.reconcile, server).await;
    }

    /// Lets each of `hosts` fetch `images` into its cache. Completes when every fetch has succeeded or failed.
    pub fn cache_images(
        &self,
        hosts: Vec<HostId>,
        images: Vec<ImageSnapshot>,
        meta: Arc<Meta>,
    ) -> impl Future<Output = ()> + Send + 'static {
        images::cache(Arc::clone(&self.hosts), hosts, images, meta)
    }

    /// An eraser of personal data in `store`, the log that the read models follow.
    pub fn eraser(&self, store: &Arc<dyn EventStore>, history: Option<&Arc<History>>) -> Eraser {
        let (gateway, views) = (Arc::clone(&self.gateway), Arc::clone(&self.queries.views));
        Eraser::new(Arc::clone(store), gateway, views, history.cloned())
    }
}
