//! Makes requests to Cinder: chooses the token and the address, and interprets Cinder's refusals.

use chronova_events::envelope::Meta;
use chronova_events::ids::RequestId;
use serde::Deserialize;
use serde_json::Value;

use super::CinderVolumes;
use crate::ports::{PortError, ServiceCaller, UserToken};
use crate::services::external::http::{CallFailure, ServiceAnswer, ServiceRequest, query_of};
use crate::services::external::keystone::Asker;

/// The lowest microversion that has all calls on attachments. A higher one would exclude older Cinders.
pub(super) const ATTACHMENTS: &str = "volume 3.44";
/// The microversion that writes an image to an existing volume.
pub(super) const REIMAGE: &str = "volume 3.68";

/// Resources in one page of a list.
const PAGE: usize = 500;
/// The most pages that are read of a list.
const MOST_PAGES: usize = 20;

/// The user or the account that calls Cinder, and the project of its token.
#[derive(Debug, Clone)]
pub(super) struct CinderCaller {
    /// The user's token; `None`: Chronova's own account.
    user: Option<UserToken>,
    pub project: String,
    request: Option<RequestId>,
}

impl CinderCaller {
    /// The user who sent the request.
    pub(super) fn of(caller: &ServiceCaller) -> Result<Self, PortError> {
        let (Some(token), Some(project)) = (&caller.token, &caller.project) else {
            return Err(PortError::Forbidden("Cinder needs a user's token of a project.".to_owned()));
        };
        let request = caller.meta.request_id.clone();
        Ok(Self { user: Some(token.clone()), project: project.to_string(), request })
    }

    pub(super) fn is_user(&self) -> bool {
        self.user.is_some()
    }

    fn asker(&self) -> Asker<'_> {
        self.user.as_ref().map_or(Asker::Own, Asker::User)
    }
}

/// A call: its method, its path below the caller's project, and its body.
#[derive(Debug, Clone)]
pub(super) struct CinderCall {
    make: fn(String) -> ServiceRequest,
    path: String,
    body: Option<Value>,
    version: &'static str,
}

impl CinderCall {
    fn new(make: fn(String) -> ServiceRequest, path: impl Into<String>, body: Option<Value>) -> Self {
        Self { make, path: path.into(), body, version: ATTACHMENTS }
    }

    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(ServiceRequest::get, path, None)
    }

    pub(super) fn post(path: impl Into<String>, body: Value) -> Self {
        Self::new(ServiceRequest::post, path, Some(body))
    }

    pub(super) fn put(path: impl Into<String>, body: Value) -> Self {
        Self::new(ServiceRequest::put, path, Some(body))
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Self::new(ServiceRequest::delete, path, None)
    }

    pub(super) fn at(self, version: &'static str) -> Self {
        Self { version, ..self }
    }
}

impl CinderVolumes {
    /// Chronova's own account. It reads volumes, snapshots, types, quotas and lists. It also makes the calls of work
    /// for which no user's token is known any more.
    pub(super) async fn own(&self, request: Option<&RequestId>) -> Result<CinderCaller, PortError> {
        let project = self.service.own_project(request).await.map_err(|failure| unanswered(&failure))?;
        let project = project.ok_or_else(|| {
            PortError::Unavailable(
                "Cinder cannot be called: the account of [keystone_authtoken] works in no project. Set project_name"
                    .to_owned(),
            )
        })?;
        Ok(CinderCaller { user: None, project, request: request.cloned() })
    }

    /// The user whose request began the work. If the user's token is not known any more, for example after a restart,
    /// Chronova's own account.
    pub(super) async fn caller(&self, work: &Meta) -> Result<CinderCaller, PortError> {
        let request = work.request_id.as_ref();
        match self.users.with_project(work).and_then(|kept| Some((kept.token, kept.project?))) {
            Some((token, project)) => {
                Ok(CinderCaller { user: Some(token), project: project.to_string(), request: request.cloned() })
            }
            None => self.own(request).await,
        }
    }

    pub(super) async fn ask(&self, caller: &CinderCaller, call: &CinderCall) -> Result<ServiceAnswer, PortError> {
        let build = |root: &str| {
            let made = (call.make)(format!("{root}/{}/{}", caller.project, call.path));
            let made = made.header("openstack-api-version", call.version);
            match &call.body {
                Some(body) => made.json(body),
                None => made,
            }
        };
        let answer = self.service.call(caller.asker(), caller.request.as_ref(), build).await;
        answer.map_err(|failure| unanswered(&failure))
    }

    /// Makes a call. Any status outside 200 to 299 is an error.
    pub(super) async fn must(&self, caller: &CinderCaller, call: &CinderCall) -> Result<ServiceAnswer, PortError> {
        let answer = self.ask(caller, call).await?;
        match answer.status {
            200..300 => Ok(answer),
            _ => Err(refused(caller, &answer)),
        }
    }

    /// Reads all pages of a list, newest first, but at most [`MOST_PAGES`]. `key` is the list's key in an answer.
    pub(super) async fn pages<T: for<'a> Deserialize<'a>>(
        &self,
        caller: &CinderCaller,
        (path, key): (&str, &str),
        filters: &[(&str, &str)],
    ) -> Result<Vec<T>, PortError> {
        let mut all = Vec::new();
        let (limit, mut marker) = (PAGE.to_string(), None::<String>);
        for _ in 0..MOST_PAGES {
            let mut query = vec![("limit", limit.as_str()), ("sort", "created_at:desc")];
            query.extend(filters);
            query.extend(marker.as_deref().map(|marker| ("marker", marker)));
            let answer = self.must(caller, &CinderCall::get(format!("{path}?{}", query_of(&query)))).await?;
            let mut page: Value = read(&answer)?;
            let items: Vec<Value> = read_value(member(&mut page, key))?;
            let last = items.last().and_then(|item| item["id"].as_str()).map(str::to_owned);
            for item in items {
                all.push(read_value(item)?);
            }
            let links = member(&mut page, &format!("{key}_links"));
            let more = links.as_array().is_some_and(|links| links.iter().any(|link| link["rel"] == "next"));
            match last.filter(|_| more) {
                Some(last) => marker = Some(last),
                None => return Ok(all),
            }
        }
        tracing::warn!(most = PAGE * MOST_PAGES, key, "a list of Cinder's has more items than Chronova reads");
        Ok(all)
    }
}

pub(super) fn unanswered(failure: &CallFailure) -> PortError {
    PortError::Unavailable(failure.to_string())
}

fn senseless() -> PortError {
    PortError::Unavailable("Cinder's answer makes no sense".to_owned())
}

fn read_value<T: for<'a> Deserialize<'a>>(value: Value) -> Result<T, PortError> {
    serde_json::from_value(value).map_err(|_| senseless())
}

pub(super) fn read<T: for<'a> Deserialize<'a>>(answer: &ServiceAnswer) -> Result<T, PortError> {
    serde_json::from_slice(&answer.body).map_err(|_| senseless())
}

/// Reads the value of one key of an answer.
pub(super) fn read_at<T: for<'a> Deserialize<'a>>(answer: &ServiceAnswer, key: &str) -> Result<T, PortError> {
    let mut body: Value = read(answer)?;
    read_value(member(&mut body, key))
}

/// The value under a key; `null` if there is none.
pub(super) fn member(body: &mut Value, key: &str) -> Value {
    body.get_mut(key).map(Value::take).unwrap_or_default()
}

/// Cinder's message. It is in the only member of the answer, as in `{"badRequest": {"message": ...}}`.
fn message(answer: &ServiceAnswer) -> Option<String> {
    let body = answer.json()?;
    let fault = body.as_object()?.values().next()?;
    Some(fault.get("message")?.as_str()?.to_owned())
}

/// Converts Cinder's refusal into an error of the port. Cinder answers 413 if a quota is exceeded.
pub(super) fn refused(caller: &CinderCaller, answer: &ServiceAnswer) -> PortError {
    let told = message(answer).unwrap_or_else(|| format!("Cinder answers {}", answer.complaint()));
    match answer.status {
        401 if caller.is_user() => PortError::Forbidden(
            "Cinder does not accept the user's token. If the token has expired, set [service_user] \
             send_service_user_token: then Cinder accepts an expired token during long work."
                .to_owned(),
        ),
        400 => PortError::Invalid(told),
        404 => PortError::NotFound(told),
        403 | 413 => PortError::Forbidden(told),
        409 => PortError::Conflict(told),
        406 => PortError::Unavailable(format!("Cinder is too old: it has no microversion {ATTACHMENTS} ({told})")),
        status => PortError::Unavailable(format!("Cinder answers {status}: {told}")),
    }
}
