//! The parts that ports are built from.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::store::EventStore;
use chronova_projections::runner::{self, ProjectionError};
use chronova_projections::views::Views;

use crate::gateway::CommandGateway;
use crate::process::interference::Interference;

/// The log, the read models that follow it, and the aggregates: the parts that ports are built from.
#[derive(Clone)]
pub struct Core {
    pub store: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub views: Arc<Views>,
    pub gateway: Arc<CommandGateway>,
    /// Only in tests; `None` in a control plane.
    pub interference: Option<Arc<dyn Interference>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Core")
    }
}

impl Core {
    /// Folds the log into `views` and starts the aggregates. Needs a running actix system.
    pub async fn start(
        store: Arc<dyn EventStore>,
        clock: Arc<dyn Clock>,
        views: impl Into<Arc<Views>>,
        threads: usize,
    ) -> Result<Self, ProjectionError> {
        let views = views.into();
        runner::catch_up(store.as_ref(), &views).await?;
        Ok(Self::beside(store, clock, views, threads))
    }

    /// Starts the aggregates beside read models that follow the log already. Needs a running actix system.
    pub fn beside(store: Arc<dyn EventStore>, clock: Arc<dyn Clock>, views: Arc<Views>, threads: usize) -> Self {
        let gateway = CommandGateway::start(Arc::clone(&store), Arc::clone(&clock), threads);
        Self { store, clock, views, gateway, interference: None }
    }
}
