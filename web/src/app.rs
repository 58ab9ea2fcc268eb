//! The state that every request needs: settings, policy, authentication and metrics. The services add access to the
//! read models and to the command gateway.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_actors::operations::{Operations, Queries};
use chronova_actors::ports::UserToken;
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::volume::service::EmbeddedVolumes;
use chronova_actors::services::external::keystone::{KeptUserToken, SharedUserTokens};
use chronova_events::store::EventStore;
use chronova_projections::history::History;

use crate::access::AccessLog;
use crate::audit::open_feeds::OpenFeeds;
use crate::auth::{Authentication, Requester};
use crate::cluster::seat::ClusterSeat;
use crate::compute::ComputeState;
use crate::config::WebConfig;
use crate::console::OpenConsoles;
use crate::dispatch::Dispatch;
use crate::fault::Fault;
use crate::health::Health;
use crate::identity::IdentityService;
use crate::metrics::HttpMetrics;
use crate::policy::Enforcer;
use crate::rate::RateLimits;
use crate::service::Service;

/// The state shared by all workers.
pub struct App {
    pub config: WebConfig,
    pub policy: Enforcer,
    pub authentication: Authentication,
    pub metrics: HttpMetrics,
    pub health: Health,
    /// The state of the Compute API.
    pub compute: ComputeState,
    /// The live feeds of the log.
    pub feeds: OpenFeeds,
    /// The consoles that are open.
    pub consoles: OpenConsoles,
    /// This process's role in a cluster; `None` for a process that runs alone.
    pub cluster: Option<ClusterSeat>,
    /// The request rates of projects; `None` without a limit.
    pub(crate) rate_limits: Option<RateLimits>,
    /// The records of access; `None` in a process that records none.
    pub(crate) access: Option<Arc<AccessLog>>,
    log: Option<Arc<dyn EventStore>>,
    dispatch: Option<Dispatch>,
    identity: Option<Arc<IdentityService>>,
    images: Option<Arc<EmbeddedImages>>,
    volumes: Option<Arc<EmbeddedVolumes>>,
    user_tokens: Option<SharedUserTokens>,
    history: Option<Arc<History>>,
    elsewhere: BTreeMap<Service, String>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("config", &self.config).field("feeds", &self.feeds).finish_non_exhaustive()
    }
}

impl App {
    pub fn new(config: WebConfig, policy: Enforcer, authentication: Authentication, metrics: HttpMetrics) -> Self {
        let feeds = OpenFeeds::new(config.max_feeds);
        let consoles = OpenConsoles::new(config.max_consoles);
        let rate_limits = RateLimits::new(config.rate_limit, config.rate_limit_burst);
        Self {
            config,
            policy,
            authentication,
            metrics,
            health: Health::default(),
            compute: ComputeState::default(),
            feeds,
            consoles,
            cluster: None,
            rate_limits,
            access: None,
            log: None,
            dispatch: None,
            identity: None,
            images: None,
            volumes: None,
            user_tokens: None,
            history: None,
            elsewhere: BTreeMap::new(),
        }
    }

    /// Connects the APIs with the actors and the read models.
    #[must_use]
    pub fn with_operations(mut self, operations: Arc<Operations>) -> Self {
        self.dispatch = Some(Dispatch::new(operations));
        self
    }

    /// Records refused requests, log-ins, console sessions and reads of secrets.
    #[must_use]
    pub fn with_access_log(mut self, access: Arc<AccessLog>) -> Self {
        self.access = Some(access);
        self
    }

    /// The records of access, if the process makes them.
    pub fn access_log(&self) -> Option<&Arc<AccessLog>> {
        self.access.as_ref()
    }

    /// Serves the log over HTTP.
    #[must_use]
    pub fn with_log(mut self, log: Arc<dyn EventStore>) -> Self {
        self.log = Some(log);
        self
    }

    /// The log. 404 when the process does not serve it (some tests).
    pub fn log(&self) -> Result<&Arc<dyn EventStore>, Fault> {
        self.log.as_ref().ok_or_else(|| Fault::not_found("The event log is not served here."))
    }

    /// Adds the embedded identity service.
    #[must_use]
    pub fn with_identity(mut self, identity: Arc<IdentityService>) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The embedded identity service; 404 when an external identity service is configured.
    pub fn identity(&self) -> Result<&Arc<IdentityService>, Fault> {
        self.identity.as_ref().ok_or_else(|| Fault::not_found("The identity service is elsewhere."))
    }

    /// Adds the embedded image service.
    #[must_use]
    pub fn with_images(mut self, images: Arc<EmbeddedImages>) -> Self {
        self.images = Some(images);
        self
    }

    /// The embedded image service; 404 when an external image service is configured.
    pub fn images(&self) -> Result<&Arc<EmbeddedImages>, Fault> {
        self.images.as_ref().ok_or_else(|| Fault::not_found("The image service is elsewhere."))
    }

    /// Adds the store of users' tokens. A request may begin long work that calls other services later. These calls need
    /// the token of the request's user.
    #[must_use]
    pub fn with_user_tokens(mut self, tokens: SharedUserTokens) -> Self {
        self.user_tokens = Some(tokens);
        self
    }

    /// Keeps the token of a request that may begin long work.
    pub(crate) fn keep_user_token(&self, requester: &Requester, token: Option<&str>) {
        if let (Some(kept), Some(token)) = (&self.user_tokens, token) {
            let user = KeptUserToken { token: UserToken::new(token), project: requester.caller.project.clone() };
            kept.keep(&requester.request_id, user, std::time::Instant::now());
        }
    }

    /// Adds the embedded volume service.
    #[must_use]
    pub fn with_volumes(mut self, volumes: Arc<EmbeddedVolumes>) -> Self {
        self.volumes = Some(volumes);
        self
    }

    /// The embedded volume service; 404 in a process without one (some tests).
    pub fn volumes(&self) -> Result<&Arc<EmbeddedVolumes>, Fault> {
        self.volumes.as_ref().ok_or_else(|| Fault::not_found("The volume service is elsewhere."))
    }

    /// Sets the address at which another process serves this API, so that the root document names that address.
    #[must_use]
    pub fn with_elsewhere(mut self, service: Service, place: String) -> Self {
        self.elsewhere.insert(service, place);
        self
    }

    /// The address of an API that another process serves; `None` if this process serves it.
    pub fn elsewhere(&self, service: Service) -> Option<&str> {
        self.elsewhere.get(&service).map(String::as_str)
    }

    /// Enables `as_of` on the operations that take it.
    #[must_use]
    pub fn with_history(mut self, history: Arc<History>) -> Self {
        self.history = Some(history);
        self
    }

    /// The past states of the read models, if the process keeps them.
    pub fn history(&self) -> Option<&Arc<History>> {
        self.history.as_ref()
    }

    /// The handlers' access to the command gateway, for callers with a permit. Missing only in some tests.
    pub fn dispatch(&self) -> Result<&Dispatch, Fault> {
        self.dispatch.as_ref().ok_or_else(|| Fault::internal("the web layer stands alone".to_owned()))
    }

    /// Read models, the services beside Compute, and measurements of hosts.
    pub fn queries(&self) -> Result<&Arc<Queries>, Fault> {
        Ok(self.dispatch()?.queries())
    }
}
