//! The context of a handler: the request, already authenticated, negotiated, parsed and validated.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::HeaderMap;
use bytes::Bytes;
use chronova_actors::operations::Queries;
use chronova_actors::ports::{EmbeddedPolicy, NetworkService, PortError, ServiceCaller, UserRights, UserToken};
use chronova_events::ids::ProjectId;
use chronova_projections::views::Views;
use futures::StreamExt as _;
use futures::stream::{BoxStream, LocalBoxStream};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::auth::{Authentication, Caller, Requester};
use crate::body;
use crate::dispatch::{self, Dispatch};
use crate::fault::Fault;
use crate::links::Links;
use crate::microversion::Microversion;
use crate::policy::{Permit, PolicyTarget};
use crate::query::Query;
use crate::route::{Route, RouteAccess};
use crate::service::Service;

/// An upload that brings no byte for this long is ended.
const PATIENCE: Duration = Duration::from_mins(1);

/// The request that a handler serves.
pub struct Ctx {
    pub app: Arc<App>,
    pub service: Service,
    pub route: &'static Route,
    pub requester: Arc<Requester>,
    /// The negotiated version; `Microversion::NONE` for services without microversions.
    pub version: Microversion,
    pub query: Query,
    /// The parsed and validated body; `Null` when the operation takes none.
    pub body: Value,
    pub headers: HeaderMap,
    pub links: Links,
    pub remote: Option<IpAddr>,
    pub(crate) params: Vec<(&'static str, String)>,
    pub(crate) payload: Option<Payload>,
    pub(crate) permit: Option<Permit>,
    pub(crate) asked: std::rc::Rc<Cell<bool>>,
    /// The read models of the moment that `as_of` names.
    pub(crate) past: Option<Arc<Views>>,
}

/// The rights that the policies of the embedded services give the requester.
struct RequesterRights {
    app: Arc<App>,
    requester: Arc<Requester>,
}

impl std::fmt::Debug for RequesterRights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequesterRights")
    }
}

impl UserRights for RequesterRights {
    fn may(&self, policy: EmbeddedPolicy, rule: &'static str, attributes: &[(&'static str, String)]) -> bool {
        let service = match policy {
            EmbeddedPolicy::Image => Service::Image,
            EmbeddedPolicy::Network => Service::Network,
            EmbeddedPolicy::Volume => Service::Volume,
        };
        self.app.policy.allows(service, rule, &self.requester.caller, &PolicyTarget::default().with_all(attributes))
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ctx({:?} at {} for {:?})", self.route, self.version, self.requester.caller.user)
    }
}

impl Ctx {
    /// Read models, the services beside Compute, and measurements of hosts.
    pub fn queries(&self) -> Result<&Arc<Queries>, Fault> {
        self.app.queries()
    }

    /// The access to the command gateway, for callers with a permit.
    pub fn dispatch(&self) -> Result<&Dispatch, Fault> {
        self.app.dispatch()
    }

    /// The read models from which the answer is made. With `as_of`, these are the read models of that moment, and
    /// otherwise the live ones.
    pub fn views(&self) -> Result<&Arc<Views>, Fault> {
        match &self.past {
            Some(past) => Ok(past),
            None => Ok(&self.queries()?.views),
        }
    }

    /// The network service now, or as it was at the moment that `as_of` names. `None`: the service keeps no past
    /// states.
    pub fn networks(&self) -> Result<Option<Arc<dyn NetworkService>>, Fault> {
        let live = &self.queries()?.networks;
        Ok(match &self.past {
            Some(past) => live.as_of(past),
            None => Some(Arc::clone(live)),
        })
    }

    /// The caller in the form that the ports of the other services take.
    pub fn service_caller(&self) -> ServiceCaller {
        let caller = self.caller();
        ServiceCaller {
            project: caller.project.clone(),
            is_admin: caller.is_admin,
            token: self.header("X-Auth-Token").map(UserToken::new),
            rights: Some(Arc::new(RequesterRights {
                app: Arc::clone(&self.app),
                requester: Arc::clone(&self.requester),
            })),
            meta: dispatch::meta_of(&self.requester),
        }
    }

    /// Refuses a project that the identity service does not know. As in Nova, any project passes if the identity
    /// service cannot tell.
    pub async fn expect_project(&self, project: &ProjectId) -> Result<(), Fault> {
        let Authentication::Tokens(identity) = &self.app.authentication else { return Ok(()) };
        if self.caller().project.as_ref() == Some(project) {
            return Ok(());
        }
        match identity.knows_project(project, Some(&self.requester.request_id)).await {
            Ok(true) | Err(PortError::Forbidden(_)) => Ok(()),
            Ok(false) => Err(Fault::bad_request(format!("Project ID {project} is not a valid project."))),
            Err(error) => {
                tracing::warn!(%error, %project, "the identity service did not say whether the project exists");
                Ok(())
            }
        }
    }

    /// Whether the answer is about the past. Such an answer must not hold current measurements.
    pub fn is_past(&self) -> bool {
        self.past.is_some()
    }

    /// The query string of the next page; it keeps `as_of`.
    pub fn page_query(&self) -> std::borrow::Cow<'_, Query> {
        match &self.past {
            Some(past) => {
                let mut pairs = self.query.pairs().to_vec();
                pairs.push(("as_of".to_owned(), past.position().to_string()));
                std::borrow::Cow::Owned(Query::from_pairs(pairs))
            }
            None => std::borrow::Cow::Borrowed(&self.query),
        }
    }

    pub fn caller(&self) -> &Caller {
        &self.requester.caller
    }

    pub fn request_id(&self) -> &str {
        self.requester.request_id.as_str()
    }

    /// A decoded path parameter. The dispatcher has stored a value for each name in the route's path, so the value
    /// exists.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// A path parameter as a typed id, or 404 with `message`, because no resource has a malformed id.
    pub fn id<T: std::str::FromStr>(&self, name: &str, message: impl FnOnce(&str) -> String) -> Result<T, Fault> {
        let text = self.param(name);
        text.parse().map_err(|_| Fault::not_found(message(text)))
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as a typed value. The schema has already accepted the body. If the body still does not fit the type,
    /// the answer says that it is malformed.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        T::deserialize(&self.body).map_err(|error| Fault::malformed().caused_by(error))
    }

    /// The value below the body's key `key` (`{"server": {...}}`) as a typed value.
    pub fn parse_at<T: DeserializeOwned>(&self, key: &str) -> Result<T, Fault> {
        T::deserialize(&self.body[key]).map_err(|error| Fault::malformed().caused_by(error))
    }

    /// The value below the action's key.
    pub fn action_body(&self) -> &Value {
        match self.route.action {
            Some(key) => &self.body[key],
            None => &Value::Null,
        }
    }

    /// The permit of a route with `.policy(rule)`.
    pub fn permit(&self) -> Result<Permit, Fault> {
        self.permit.clone().ok_or_else(|| Fault::internal(format!("{} has no policy of its own", self.route.op)))
    }

    /// Checks the route's own rule against `target`. The handler of a route with `.policy_on_target(rule)` must call
    /// this function.
    pub fn authorize(&self, target: &PolicyTarget) -> Result<Permit, Fault> {
        match self.route.access {
            RouteAccess::Rule(rule) | RouteAccess::RuleOnTarget(rule) => self.authorize_rule(rule, target),
            RouteAccess::Public | RouteAccess::Optional | RouteAccess::Token => {
                Err(Fault::internal(format!("{} names no policy rule", self.route.op)))
            }
        }
    }

    /// Checks another rule than the route's, for a part of the operation (`os_compute_api:servers:create:forced_host`).
    pub fn authorize_rule(&self, rule: &'static str, target: &PolicyTarget) -> Result<Permit, Fault> {
        self.asked.set(true);
        self.app
            .policy
            .authorize(self.service, rule, &self.requester, target)
            .map_err(|denied| denied.fault(self.service))
    }

    /// Whether a rule holds, for fields and filters that only some callers get.
    pub fn allows(&self, rule: &'static str, target: &PolicyTarget) -> bool {
        self.app.policy.allows(self.service, rule, self.caller(), target)
    }

    /// A target with the caller's own user and project.
    pub fn own_target(&self) -> PolicyTarget {
        PolicyTarget::of(self.caller())
    }

    /// Takes the raw body of a route with `.raw_body()`; further calls return an empty body. An upload may take long,
    /// but it fails when no byte comes for [`PATIENCE`].
    pub fn take_payload(&mut self) -> LocalBoxStream<'static, std::io::Result<Bytes>> {
        let Some(payload) = self.payload.take() else { return futures::stream::empty().boxed_local() };
        futures::stream::unfold(Some(payload), |payload| async {
            let mut payload = payload?;
            match tokio::time::timeout(PATIENCE, payload.next()).await {
                Ok(None) => None,
                Ok(Some(chunk)) => Some((chunk.map_err(std::io::Error::other), Some(payload))),
                Err(_) => Some((Err(std::io::Error::other("nothing more of the body arrived in time")), None)),
            }
        })
        .boxed_local()
    }

    /// Takes the raw body of a route with `.raw_body()`; further calls return an empty body. A body longer than `limit`
    /// bytes is refused.
    pub(crate) async fn read_body(&mut self, limit: usize) -> Result<Bytes, Fault> {
        match self.payload.take() {
            Some(payload) => body::read(payload, &self.headers, limit).await,
            None => Ok(Bytes::new()),
        }
    }

    /// The raw body as a stream that may cross threads. At most `depth` chunks wait in between, so a slow consumer
    /// slows the sender down instead of filling the memory.
    pub fn take_payload_send(&mut self, depth: usize) -> BoxStream<'static, std::io::Result<Bytes>> {
        let mut payload = self.take_payload();
        let (sender, receiver) = tokio::sync::mpsc::channel(depth.max(1));
        actix_web::rt::spawn(async move {
            while let Some(chunk) = payload.next().await {
                let failed = chunk.is_err();
                if sender.send(chunk).await.is_err() || failed {
                    break;
                }
            }
        });
        futures::stream::unfold(
            receiver,
            |mut receiver| async move { receiver.recv().await.map(|chunk| (chunk, receiver)) },
        )
        .boxed()
    }
}
