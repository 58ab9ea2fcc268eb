//! The pipeline of one request: route, authenticate, negotiate the version, read and validate the body, check the
//! policy, call the handler.
//!
//! Each service keeps OpenStack's order of checks, because the order decides which error the client gets. Nova: 401,
//! then the version (400, 406), the path (404), the project in the path (400), the operation's versions (404), the body
//! (400), then policy (403). Placement asks the policy before it validates the query and the body.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header::{HeaderMap, USER_AGENT};
use bytes::Bytes;
use chronova_actors::ports::identity::TokenError;
use chronova_events::envelope::{Position, RequestSource};
use chronova_events::ids::RequestId;
use chronova_projections::history::PastMoment;
use chronova_projections::views::Views;
use futures::FutureExt;
use serde_json::Value;

use crate::address::{self, RequestAddress};
use crate::app::App;
use crate::auth::{AskedOperation, Caller, Requester, TokenClaim};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::links::Links;
use crate::microversion::{self, Microversion};
use crate::policy::{Permit, PolicyTarget};
use crate::query::Query;
use crate::reply::Reply;
use crate::route::{BodySpec, Method, Route, RouteAccess, ServedBy};
use crate::router::{Operation, RouteMatch, bind};
use crate::service::Service;
use crate::tables::Routers;
use crate::{as_of, body, discovery, placement};

/// The incoming request.
pub(crate) struct IncomingRequest {
    pub place: RequestAddress,
    pub method: Option<Method>,
    pub query: String,
    pub headers: HeaderMap,
    /// The body that is not read yet; `None` once it is read.
    pub payload: Option<Payload>,
    pub body: Bytes,
    pub request_id: RequestId,
    pub global_request_id: Option<RequestId>,
    pub remote: Option<std::net::IpAddr>,
}

/// The facts that the answer's headers and the log need besides the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResponseFacts {
    pub operation: Option<&'static str>,
    pub version: Option<Microversion>,
    /// `None` before the token is checked.
    pub requester: Option<Arc<Requester>>,
    /// Whether the answer has a secret.
    pub reads_secret: bool,
}

/// The operations that a path can mean, and the values in the path.
struct MatchedPath<'a> {
    operations: Vec<&'a Operation>,
    values: Vec<String>,
    /// The project that the path began with.
    project: Option<String>,
    /// Whether the path belongs to the legacy API, which has no microversions.
    legacy: bool,
}

pub(crate) async fn run(
    app: &Arc<App>,
    routers: &Routers,
    mut incoming: IncomingRequest,
    facts: &mut ResponseFacts,
) -> Result<Reply, Fault> {
    let service = incoming.place.service;
    if let Some(place) = app.elsewhere(service) {
        return Err(Fault::not_found(format!("The {} service of this cloud is at {place}.", service.name())));
    }
    if let Some(document) = discovery::document(service, &incoming.place.path, &incoming.place.links) {
        facts.operation = Some("versions");
        return show_versions(app, &incoming, document, facts);
    }
    let found = find(routers, &incoming.place, incoming.method);
    // Unless the handler reads the body itself, the body is read before any check, so that the connection stays usable
    // after a refusal.
    let raw = found
        .as_ref()
        .is_ok_and(|matched| matched.operations.iter().any(|operation| matches!(operation.route.body, BodySpec::Raw)));
    if !raw && let Some(payload) = incoming.payload.take() {
        incoming.body = body::read(payload, &incoming.headers, app.config.max_request_body_size).await?;
    }
    let access = match &found {
        Ok(matched) => matched.operations.first().map_or(RouteAccess::Token, |operation| operation.route.access),
        // A caller without a token does not learn which paths exist. Callers of the identity service may have no token
        // yet, and guests never have one.
        Err(_) if matches!(service, Service::Identity | Service::Metadata) => RouteAccess::Public,
        Err(_) => RouteAccess::Token,
    };
    let caller = authenticate(app, access, &incoming).await?;
    let requester = requester(app, caller, &mut incoming);
    facts.requester = Some(Arc::clone(&requester));
    let caller = &requester.caller;
    rate_limit(app, caller)?;
    let legacy = found.as_ref().is_ok_and(|matched| matched.legacy);
    let version = if legacy { microversion::COMPUTE.min } else { microversion::negotiate(service, &incoming.headers)? };
    facts.version = microversion::span(service).filter(|_| !legacy).map(|_| version);
    let matched = found?;
    if let Some(named) = &matched.project {
        check_project(caller, named)?;
    }
    call(app, incoming, matched, requester, version, facts).await
}

fn requester(app: &App, caller: Caller, incoming: &mut IncomingRequest) -> Arc<Requester> {
    let agent = incoming.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    Arc::new(Requester {
        caller,
        request_id: incoming.request_id.clone(),
        global_request_id: incoming.global_request_id.take(),
        source: RequestSource::new(address::client(incoming.remote, &incoming.headers, &app.config), agent),
    })
}

/// The answer with a version document. Placement negotiates a version and sends cache headers, as for all its answers
/// (placement `deploy.py`, `handlers/root.py`). Nova negotiates a version only for the document of `/v2.1`.
fn show_versions(
    app: &App,
    incoming: &IncomingRequest,
    mut document: Reply,
    facts: &mut ResponseFacts,
) -> Result<Reply, Fault> {
    let (service, path) = (incoming.place.service, incoming.place.path.trim_end_matches('/'));
    if matches!((service, path), (Service::Placement, "") | (Service::Compute, "/v2.1")) {
        facts.version = Some(microversion::negotiate(service, &incoming.headers)?);
    }
    let allowed = if service == Service::Placement { "GET" } else { "GET, HEAD" };
    match incoming.method {
        Some(Method::Get) => {}
        Some(Method::Head) if service != Service::Placement => {}
        _ => return Err(Fault::method_not_allowed(allowed)),
    }
    if service == Service::Placement && facts.version.is_some_and(placement::has_cache_headers) {
        let now = app.queries()?.clock.now().to_utc().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        document = document.header("Last-Modified", now).header("Cache-Control", "no-cache");
    }
    Ok(document)
}

/// Whether the leader of a cluster must answer: operations of the leader alone, guests' metadata, and queries about the
/// past. Queries about the past need the leader, because an erasure drops only the past states in the leader's memory.
pub(crate) fn is_for_leader(routers: &Routers, place: &RequestAddress, method: Option<Method>, query: &str) -> bool {
    let Ok(found) = find(routers, place, method) else { return false };
    let asks_past = || Query::parse(query).is_ok_and(|query| as_of::is_in(&query));
    // A guest's metadata has the addresses of the guest's devices. Only the host knows them, and only the leader calls
    // hosts.
    place.service == Service::Metadata
        || found
            .operations
            .iter()
            .any(|operation| operation.route.served_by == ServedBy::Leader || operation.route.as_of && asks_past())
}

/// Whether the answer does not depend on any state. This holds for version documents, and for paths without an
/// operation.
pub(crate) fn needs_no_state(routers: &Routers, place: &RequestAddress, method: Option<Method>) -> bool {
    discovery::document(place.service, &place.path, &place.links).is_some() || find(routers, place, method).is_err()
}

fn find<'a>(routers: &'a Routers, place: &RequestAddress, method: Option<Method>) -> Result<MatchedPath<'a>, Fault> {
    let service = place.service;
    let Some(router) = routers.get(service) else { return Err(Fault::no_route()) };
    let roots: &[(&str, bool)] = match service {
        Service::Compute => &[("/v2.1", false), ("/v2", true)],
        _ => &[(service.api_root(), false)],
    };
    let (rest, legacy) = roots
        .iter()
        .find_map(|(root, legacy)| {
            let rest = place.path.strip_prefix(root)?;
            (rest.is_empty() || rest.starts_with('/')).then_some((rest, *legacy))
        })
        .ok_or_else(Fault::no_route)?;
    // No route of Nova ends with a slash.
    if service == Service::Compute && rest.ends_with('/') {
        return Err(Fault::no_route());
    }
    let path = address::segments(rest).ok_or_else(Fault::no_route)?;
    // Placement has no HEAD.
    let method = method.filter(|method| service != Service::Placement || *method != Method::Head);
    let mut others = std::collections::BTreeSet::new();
    // `/v2.1/servers` and `/v2.1/{project_id}/servers` mean the same. The path is looked up first as it is, and then
    // without its project.
    let with_project = match (service, path.split_first()) {
        (Service::Compute | Service::Volume, Some((project, rest))) => Some((rest, Some(project.clone()))),
        _ => None,
    };
    for (path, project) in [Some((path.as_slice(), None)), with_project].into_iter().flatten() {
        match router.find(method, path) {
            RouteMatch::Operations { operations, values } => {
                return Ok(MatchedPath { operations, values, project, legacy });
            }
            RouteMatch::OtherMethods(methods) => others.extend(methods),
            RouteMatch::Nothing => {}
        }
    }
    if others.is_empty() {
        return Err(no_route(service, &place.path));
    }
    let allowed: Vec<&str> = others.into_iter().map(Method::as_str).collect();
    Err(match service {
        // In Nova's router the method is part of the route, so another method is 404.
        Service::Compute | Service::Volume => Fault::no_route(),
        _ => Fault::method_not_allowed(&allowed.join(", ")),
    })
}

fn no_route(service: Service, path: &str) -> Fault {
    match service {
        Service::Identity => Fault::not_found(format!("Could not find: {path}.")),
        _ => Fault::no_route(),
    }
}

async fn authenticate(app: &App, access: RouteAccess, incoming: &IncomingRequest) -> Result<Caller, Fault> {
    if access == RouteAccess::Public {
        return Ok(Caller::anonymous());
    }
    let service = incoming.place.service;
    let method = incoming.method.map_or("", Method::as_str);
    let claim = TokenClaim {
        headers: &incoming.headers,
        asked: Some(AskedOperation { service: service.catalogue_type(), method, path: &incoming.place.path }),
        request: Some(&incoming.request_id),
        rules: &app.config.service_tokens,
    };
    let known = match app.authentication.caller(&claim).await {
        Ok(known) => known,
        Err(TokenError::Invalid) => None,
        Err(error @ TokenError::Unavailable(_)) => {
            return Err(Fault::unavailable("The Keystone service is temporarily unavailable.").caused_by(error));
        }
    };
    match known {
        Some(mut caller) => {
            caller.is_admin = app.policy.is_admin(service, &caller);
            Ok(caller)
        }
        None if access == RouteAccess::Optional => Ok(Caller::anonymous()),
        None => Err(Fault::unauthorized()),
    }
}

/// Refuses requests of a project that sends them too fast. If the token has no project, the user's requests are counted
/// instead. Services and administrators are not throttled.
fn rate_limit(app: &App, caller: &Caller) -> Result<(), Fault> {
    let Some(limits) = app.rate_limits.as_ref().filter(|_| !caller.is_anonymous()) else { return Ok(()) };
    if caller.is_admin || caller.has_role("service") {
        return Ok(());
    }
    let (what, whose) = match &caller.project {
        Some(project) => ("project", project.as_str().to_owned()),
        None => ("user", format!("user {}", caller.user)),
    };
    limits.take(&whose, std::time::Instant::now()).map_err(|seconds| {
        let message = format!("This {what} sends requests faster than it may. Try again later.");
        Fault::too_many_requests(message, seconds)
    })
}

/// Nova refuses a path that names another project than the token's, even for administrators.
fn check_project(caller: &Caller, named: &str) -> Result<(), Fault> {
    let own = caller.project.as_ref().map_or("None", |project| project.as_str());
    if own == named || caller.is_anonymous() {
        return Ok(());
    }
    Err(Fault::bad_request(format!(
        "Malformed request URL: URL's project_id '{named}' doesn't match Context's project_id '{own}'"
    )))
}

async fn call(
    app: &Arc<App>,
    incoming: IncomingRequest,
    matched: MatchedPath<'_>,
    requester: Arc<Requester>,
    version: Microversion,
    facts: &mut ResponseFacts,
) -> Result<Reply, Fault> {
    let service = incoming.place.service;
    let MatchedPath { operations, values, project, .. } = matched;
    // Actions share a path. The single key of the body identifies the action, so the body is parsed first.
    let by_action = operations.iter().any(|operation| operation.route.action.is_some());
    let mut parsed = if by_action { body::parse(service, &incoming.headers, &incoming.body)? } else { None };
    let operation = choose(&operations, parsed.as_ref(), version)?;
    let route = operation.route;
    facts.operation = Some(route.op);
    if let Some(status) = route.removed {
        return Err(removed(status));
    }
    facts.reads_secret = route.reads_secret;
    let mut permit = None;
    if service == Service::Placement {
        permit = check_policy(app, service, route, &requester)?;
    }
    let mut query = Query::parse(&incoming.query)?;
    let moment = as_of::take(route, &mut query)?;
    let query = read_query(service, operation, query, version)?;
    if !by_action && matches!(route.body, BodySpec::Json(_) | BodySpec::AnyJson) {
        parsed = body::parse(service, &incoming.headers, &incoming.body)?;
    }
    let body = check_body(service, operation, parsed, version)?;
    if permit.is_none() {
        permit = check_policy(app, service, route, &requester)?;
    }
    if matches!(service, Service::Compute | Service::Volume)
        && !matches!(incoming.method, Some(Method::Get | Method::Head))
    {
        let token = incoming.headers.get("X-Auth-Token").and_then(|token| token.to_str().ok());
        app.keep_user_token(&requester, token);
    }
    let past = match moment {
        Some(moment) => Some(look_back(app, service, &requester, moment).await?),
        None => None,
    };
    let seen = ShownState::before(app, route, past.as_ref());
    let asked = Rc::new(Cell::new(false));
    let ctx = Ctx {
        app: Arc::clone(app),
        service,
        route,
        requester,
        version,
        query,
        body,
        headers: incoming.headers,
        links: Links { project, ..incoming.place.links },
        remote: incoming.remote,
        params: bind(route, &values),
        payload: incoming.payload,
        permit,
        asked: Rc::clone(&asked),
        past,
    };
    let answer = AssertUnwindSafe((route.handler)(ctx))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Fault::internal(format!("the handler of {} panicked", route.op))));
    let reply = seen.after(app, answer)?;
    if matches!(route.access, RouteAccess::RuleOnTarget(_)) && !asked.get() {
        return Err(Fault::internal(format!("{} answered without asking the policy", route.op)));
    }
    Ok(reply)
}

/// The operation that the body's key and the version select.
fn choose<'a>(
    operations: &[&'a Operation],
    body: Option<&Value>,
    version: Microversion,
) -> Result<&'a Operation, Fault> {
    let has_actions = operations.iter().any(|operation| operation.route.action.is_some());
    let of_action: Vec<&Operation> = if has_actions {
        // As in Nova, a body is malformed if it is not an object with a single key. A key that no route has is an
        // unknown action.
        let key = match body {
            Some(Value::Object(map)) if map.len() == 1 => map.keys().next().map(String::as_str),
            _ => None,
        };
        // A removed resource may have a single action route without a key. This route answers every action.
        let keyless: Vec<&Operation> = operations.iter().copied().filter(|o| o.route.action.is_none()).collect();
        match key {
            Some(key) => {
                let named: Vec<&Operation> =
                    operations.iter().copied().filter(|o| o.route.action == Some(key)).collect();
                if named.is_empty() && keyless.is_empty() {
                    return Err(Fault::bad_request(format!("There is no such action: {key}")));
                }
                if named.is_empty() { keyless } else { named }
            }
            None if keyless.is_empty() => return Err(Fault::bad_request("Malformed request body")),
            None => keyless,
        }
    } else {
        operations.to_vec()
    };
    let chosen =
        of_action.iter().copied().find(|operation| version.within(operation.route.since, operation.route.until));
    chosen.ok_or_else(|| outside(&of_action, version))
}

fn outside(operations: &[&Operation], version: Microversion) -> Fault {
    let status = operations.first().map_or(404, |operation| operation.route.outside);
    let compute = version.at_least(microversion::COMPUTE.min);
    match status {
        405 => Fault::method_not_allowed(""),
        _ if compute => Fault::not_in_version(version),
        _ => Fault::no_route(),
    }
}

fn removed(status: u16) -> Fault {
    match status {
        410 => Fault::gone(),
        400 => Fault::malformed(),
        404 => Fault::no_route(),
        other => Fault::new(other, "This operation is no longer available."),
    }
}

fn check_policy(
    app: &App,
    service: Service,
    route: &Route,
    requester: &Arc<Requester>,
) -> Result<Option<Permit>, Fault> {
    let RouteAccess::Rule(rule) = route.access else { return Ok(None) };
    let target = PolicyTarget::of(&requester.caller);
    app.policy.authorize(service, rule, requester, &target).map(Some).map_err(|denied| denied.fault(service))
}

/// The read models of a past moment, for callers with the right to them.
async fn look_back(
    app: &App,
    service: Service,
    requester: &Arc<Requester>,
    moment: PastMoment,
) -> Result<Arc<Views>, Fault> {
    let target = PolicyTarget::of(&requester.caller);
    let (owner, rule) = as_of::rule(service);
    app.policy.authorize(owner, rule, requester, &target).map_err(|denied| denied.fault(service))?;
    as_of::views(app, moment).await
}

/// The state that an answer shows. A header of the answer gives the position of that state.
enum ShownState {
    /// No position describes the answer: the operation does not take `as_of`, or a batch was being folded when the
    /// handler began.
    Nothing,
    Past(Position),
    /// The live read models, at this position before the handler looked at them.
    Live(Position),
}

impl ShownState {
    fn before(app: &App, route: &Route, past: Option<&Arc<Views>>) -> Self {
        let live = || app.queries().ok().filter(|_| route.as_of)?.views.steady();
        match past {
            Some(past) => Self::Past(past.position()),
            None => live().map_or(Self::Nothing, Self::Live),
        }
    }

    /// Adds the header to the answer. A live answer gets no header if the read models changed meanwhile, because no
    /// position reproduces such an answer.
    fn after(self, app: &App, answer: Result<Reply, Fault>) -> Result<Reply, Fault> {
        let (name, position) = match self {
            Self::Nothing => return answer,
            Self::Past(position) => (as_of::AS_OF, position),
            Self::Live(position) if app.queries()?.views.steady() == Some(position) => (as_of::POSITION, position),
            Self::Live(_) => return answer,
        };
        let position = position.to_string();
        match answer {
            Ok(reply) => Ok(reply.header(name, position)),
            Err(fault) => Err(fault.header(name, position)),
        }
    }
}

/// Checks the query string. If the schema of a Compute operation tolerates unknown parameters, they are dropped, as in
/// Nova.
fn read_query(
    service: Service,
    operation: &Operation,
    mut query: Query,
    version: Microversion,
) -> Result<Query, Fault> {
    let Some(bands) = &operation.query else { return Ok(query) };
    let validator = bands.at(version).map_err(Fault::internal)?;
    let value = match service {
        Service::Placement => query.as_single(),
        _ => query.as_lists(),
    };
    validator.check(&value).map_err(|violation| violation.query_fault(service))?;
    if validator.is_open() && service == Service::Compute {
        query.retain(|key| validator.names(key));
    }
    Ok(query)
}

fn check_body(
    service: Service,
    operation: &Operation,
    parsed: Option<Value>,
    version: Microversion,
) -> Result<Value, Fault> {
    let Some(bands) = &operation.body else { return Ok(parsed.unwrap_or(Value::Null)) };
    let Some(body) = parsed else {
        return Err(match service {
            Service::Placement => Fault::bad_request("Malformed JSON: Expecting value: line 1 column 1 (char 0)"),
            Service::Identity | Service::Image => {
                Fault::bad_request("Expecting to find a JSON object in request body.")
            }
            _ => Fault::malformed(),
        });
    };
    bands.at(version).map_err(Fault::internal)?.check(&body).map_err(|violation| violation.body_fault(service))?;
    Ok(body)
}
