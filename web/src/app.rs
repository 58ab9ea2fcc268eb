//! What every request needs: settings, policy, authentication, metrics, and (added by the services) the ways to the
//! read models and to the command gateway.

use std::sync::Arc;

use chronova_actors::house::House;

use crate::auth::Authentication;
use crate::compute::Compute;
use crate::config::WebConfig;
use crate::fault::Fault;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::policy::Enforcer;

/// The state shared by all workers. Services add their fields here.
#[derive(Debug)]
pub struct App {
    pub config: WebConfig,
    pub policy: Enforcer,
    pub authentication: Authentication,
    pub metrics: Metrics,
    pub health: Health,
    /// What the Compute API has of its own.
    pub compute: Compute,
    house: Option<Arc<House>>,
}

impl App {
    pub fn new(config: WebConfig, policy: Enforcer, authentication: Authentication, metrics: Metrics) -> Self {
        Self {
            config,
            policy,
            authentication,
            metrics,
            health: Health::default(),
            compute: Compute::default(),
            house: None,
        }
    }

    /// Connects the APIs with the actors and the read models.
    #[must_use]
    pub fn with_house(mut self, house: Arc<House>) -> Self {
        self.house = Some(house);
        self
    }

    /// Read models, hosts, ports and the way to the aggregates. Without it (some tests) nothing can be served.
    pub fn house(&self) -> Result<&Arc<House>, Fault> {
        self.house.as_ref().ok_or_else(|| Fault::internal("the web layer stands alone".to_owned()))
    }
}
