//! What every request needs: settings, policy, authentication, metrics, and (added by the services) the ways to the
//! read models and to the command gateway.

use crate::auth::Authentication;
use crate::config::WebConfig;
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
}

impl App {
    pub fn new(config: WebConfig, policy: Enforcer, authentication: Authentication, metrics: Metrics) -> Self {
        Self { config, policy, authentication, metrics, health: Health::default() }
    }
}
