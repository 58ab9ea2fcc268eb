//! The route table is data: one [`Route`] per operation. Adding an operation is one line in a table and one handler.
//!
//! ```ignore
//! pub const ROUTES: &[Route] = &[
//!     get("servers.index", "/servers", handler!(index))
//!         .policy("os_compute_api:servers:index")
//!         .query(index_query)
//!         .answers(servers::index),
//!     action("servers.os-start", "/servers/{id}/action", "os-start", handler!(start))
//!         .policy_on_target("os_compute_api:servers:start")
//!         .answers(accepted),
//!     gone("cells.index", Method::Get, "/os-cells", 410),
//! ];
//! ```
//!
//! Invariants: for a route with `policy`, the dispatcher checks the rule against the caller before the handler runs.
//! For a route with `policy_on_target`, the handler checks the rule. If the handler did not check it, the dispatcher
//! discards the answer.

use std::fmt;

use futures::future::LocalBoxFuture;

use crate::answers::AnswersFn;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::microversion::Microversion;
use crate::reply::Reply;
use crate::schema::Schema;

/// HTTP methods that routes can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete]
            .into_iter()
            .find(|m| m.as_str() == text)
    }
}

/// A handler function in the table; write `handler!(name)`.
pub type Handler = fn(Ctx) -> LocalBoxFuture<'static, Result<Reply, Fault>>;

/// A function that describes a body or a query string.
pub type SchemaFn = fn() -> Schema;

/// Turns `async fn name(ctx: Ctx) -> Result<Reply, Fault>` into a table entry.
#[macro_export]
macro_rules! handler {
    ($name:path) => {
        |ctx| ::std::boxed::Box::pin($name(ctx))
    };
}

/// The callers that an operation admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    /// Anybody, without a token, for example for version documents and log-ins.
    Public,
    /// Anybody. If the request has a valid token, the handler knows the caller.
    Optional,
    /// Anybody with a valid token.
    Token,
    /// The rule must hold for the caller and the caller's own project. The dispatcher checks it before the handler
    /// runs.
    Rule(&'static str),
    /// The rule needs a target that only the handler knows: the handler calls `ctx.authorize(&target)`.
    RuleOnTarget(&'static str),
}

impl RouteAccess {
    pub const fn rule(self) -> Option<&'static str> {
        match self {
            Self::Rule(rule) | Self::RuleOnTarget(rule) => Some(rule),
            Self::Public | Self::Optional | Self::Token => None,
        }
    }
}

/// The body that an operation takes.
#[derive(Clone, Copy)]
pub enum BodySpec {
    /// The operation takes no body and ignores a sent one.
    None,
    /// JSON that the schema must accept.
    Json(SchemaFn),
    /// Any JSON; the handler checks.
    AnyJson,
    /// The dispatcher neither reads nor limits the body; the handler does.
    Raw,
}

impl fmt::Debug for BodySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Json(_) => "Json",
            Self::AnyJson => "AnyJson",
            Self::Raw => "Raw",
        })
    }
}

/// The members of a cluster that can answer an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedBy {
    /// Every member, from its read models.
    Anywhere,
    /// The leader alone: the operation changes something, or needs hosts, or reads what only one process knows.
    Leader,
}

impl ServedBy {
    /// The default of operations with this method.
    const fn of(method: Method) -> Self {
        match method {
            Method::Get | Method::Head => Self::Anywhere,
            Method::Post | Method::Put | Method::Patch | Method::Delete => Self::Leader,
        }
    }
}

/// A route: one operation.
#[derive(Clone, Copy)]
pub struct Route {
    /// The operation's stable name (`servers.create`) in metrics, logs and tests.
    pub op: &'static str,
    pub method: Method,
    /// The path below the API root, with `{names}`; `{name*}` at the end takes the rest of the path.
    pub path: &'static str,
    /// The single key of the body, for `.../action` paths.
    pub action: Option<&'static str>,
    pub since: Microversion,
    /// The last version that has the operation. `None`: the newest version still has the operation.
    pub until: Option<Microversion>,
    pub access: RouteAccess,
    pub body: BodySpec,
    pub query: Option<SchemaFn>,
    /// The success answers; `None` for removed operations and for the metadata service, whose answers are files.
    pub answers: Option<AnswersFn>,
    /// The answer to a version outside the range: 404, rarely 405.
    pub outside: u16,
    /// Whether the operation takes `?as_of=`.
    pub as_of: bool,
    /// Whether the answer has a secret, so that auditors get a record of it.
    pub reads_secret: bool,
    /// The members of a cluster that can answer.
    pub served_by: ServedBy,
    /// A removed operation answers this status and nothing else.
    pub removed: Option<u16>,
    pub handler: Handler,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.op, self.method.as_str(), self.path)?;
        if let Some(action) = self.action {
            write!(f, " {action}")?;
        }
        Ok(())
    }
}

impl Route {
    pub const fn new(op: &'static str, method: Method, path: &'static str, handler: Handler) -> Self {
        Self {
            op,
            method,
            path,
            action: None,
            since: Microversion::NONE,
            until: None,
            access: RouteAccess::Token,
            body: BodySpec::None,
            query: None,
            answers: None,
            outside: 404,
            as_of: false,
            reads_secret: false,
            served_by: ServedBy::of(method),
            removed: None,
            handler,
        }
    }

    /// The first version that has the operation.
    pub const fn since(mut self, major: u16, minor: u16) -> Self {
        self.since = Microversion::new(major, minor);
        self
    }

    /// The last version that has the operation.
    pub const fn until(mut self, major: u16, minor: u16) -> Self {
        self.until = Some(Microversion::new(major, minor));
        self
    }

    /// The answer to a version outside the range, if it is not 404.
    pub const fn outside(mut self, status: u16) -> Self {
        self.outside = status;
        self
    }

    /// The dispatcher checks the rule before the handler runs, against the caller's own project.
    pub const fn policy(mut self, rule: &'static str) -> Self {
        self.access = RouteAccess::Rule(rule);
        self
    }

    /// The handler checks the rule: it calls `ctx.authorize(&target)`.
    pub const fn policy_on_target(mut self, rule: &'static str) -> Self {
        self.access = RouteAccess::RuleOnTarget(rule);
        self
    }

    /// The operation takes `?as_of=`. With it, the handler reads only state from `ctx.views()` and `ctx.networks()`.
    pub const fn as_of(mut self) -> Self {
        self.as_of = true;
        self
    }

    /// The answer has a secret. Only the leader answers, because it alone can record that.
    pub const fn reads_secret(mut self) -> Self {
        self.reads_secret = true;
        self.leader()
    }

    /// Only the leader of a cluster can answer, although the operation changes nothing.
    pub const fn leader(mut self) -> Self {
        self.served_by = ServedBy::Leader;
        self
    }

    /// The operation needs no token.
    pub const fn public(mut self) -> Self {
        self.access = RouteAccess::Public;
        self
    }

    /// The operation accepts a token but does not need one.
    pub const fn optional_token(mut self) -> Self {
        self.access = RouteAccess::Optional;
        self
    }

    pub const fn body(mut self, schema: SchemaFn) -> Self {
        self.body = BodySpec::Json(schema);
        self
    }

    pub const fn any_body(mut self) -> Self {
        self.body = BodySpec::AnyJson;
        self
    }

    pub const fn raw_body(mut self) -> Self {
        self.body = BodySpec::Raw;
        self
    }

    pub const fn query(mut self, schema: SchemaFn) -> Self {
        self.query = Some(schema);
        self
    }

    /// The success answers of the operation, for the OpenAPI document and for tests.
    pub const fn answers(mut self, answers: AnswersFn) -> Self {
        self.answers = Some(answers);
        self
    }
}

pub const fn get(op: &'static str, path: &'static str, handler: Handler) -> Route {
    Route::new(op, Method::Get, path, handler)
}

pub const fn head(op: &'static str, path: &'static str, handler: Handler) -> Route {
    Route::new(op, Method::Head, path, handler)
}

pub const fn post(op: &'static str, path: &'static str, handler: Handler) -> Route {
    Route::new(op, Method::Post, path, handler)
}

pub const fn put(op: &'static str, path: &'static str, handler: Handler) -> Route {
    Route::new(op, Method::Put, path, handler)
}

pub const fn patch(op: &'static str, path: &'static str, handler: Handler) -> Route {
    Route::new(op, Method::Patch, path, handler)
}

pub const fn delete(op: &'static str, path: &'static str, handler: Handler) -> Route {
    Route::new(op, Method::Delete, path, handler)
}

/// `POST path` with a body whose single key is `key`.
pub const fn action(op: &'static str, path: &'static str, key: &'static str, handler: Handler) -> Route {
    let mut route = Route::new(op, Method::Post, path, handler);
    route.action = Some(key);
    route.body = BodySpec::AnyJson;
    route
}

/// An operation that no longer exists. Every request that has a valid token is answered with `status`, for example 410.
pub const fn gone(op: &'static str, method: Method, path: &'static str, status: u16) -> Route {
    let mut route = Route::new(op, method, path, |_| Box::pin(std::future::ready(Err(Fault::gone()))));
    route.removed = Some(status);
    route.served_by = ServedBy::Anywhere;
    route
}

/// An action that no longer exists.
pub const fn gone_action(op: &'static str, path: &'static str, key: &'static str, status: u16) -> Route {
    let mut route = gone(op, Method::Post, path, status);
    route.action = Some(key);
    route
}
