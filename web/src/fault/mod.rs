//! Errors as callers see them: a status, a machine-readable key and a message. Each service has its own form.
//!
//! A handler returns `Err(Fault::not_found("..."))` and need not know the form. `render` writes the form of Nova (also
//! for volumes), Placement, Keystone, Glance or Neutron. Internals never leak: [`Fault::internal`] logs its cause and
//! tells the client only that the request failed. Every rendered fault has the request id in its headers, and in its
//! body if the service's form has a field for it.

mod render;

use std::borrow::Cow;
use std::fmt;

use chronova_events::store::StoreError;

use crate::service::Service;

pub(crate) use render::title;
pub use render::{RenderContext, render};

/// An error answer.
#[derive(Clone)]
pub struct Fault {
    pub status: u16,
    /// Neutron's exception type (`NetworkNotFound`), Placement's error code (`placement.duplicate_name`) or Nova's
    /// fault name; empty means the service's default for the status.
    pub key: Cow<'static, str>,
    /// The message for the client.
    pub message: String,
    pub headers: Vec<(&'static str, String)>,
    /// The cause of the fault, for the process's text log only.
    pub cause: Option<String>,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fault({} {} {:?}", self.status, self.key, self.message)?;
        if let Some(cause) = &self.cause {
            write!(f, ", cause {cause:?}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl Fault {
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, key: Cow::Borrowed(""), message: message.into(), headers: Vec::new(), cause: None }
    }

    /// 400
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// 400 with Nova's message for a malformed body or parameter.
    pub fn malformed() -> Self {
        Self::new(
            400,
            "The server could not comply with the request since it is either malformed or otherwise incorrect.",
        )
    }

    /// 401
    pub fn unauthorized() -> Self {
        Self::new(401, "The request you have made requires authentication.")
    }

    /// 403
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, message)
    }

    /// 403 because a policy rule denies it, with the service's message.
    pub fn denied(service: Service, rule: &str) -> Self {
        match service {
            Service::Compute | Service::Volume | Service::Metadata | Service::Chronova => {
                Self::forbidden(format!("Policy doesn't allow {rule} to be performed."))
            }
            Service::Placement => Self::forbidden(format!("Policy does not allow {rule} to be performed.")),
            Service::Identity => {
                Self::forbidden(format!("You are not authorized to perform the requested action: {rule}."))
            }
            Service::Image => Self::forbidden(format!("You are not authorized to complete {rule} action.")),
            Service::Network => {
                Self::forbidden(format!("rule:{rule} is disallowed by policy")).key("PolicyNotAuthorized")
            }
        }
    }

    /// 404
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, message)
    }

    /// 404 for a path that no operation has.
    pub fn no_route() -> Self {
        Self::new(404, "The resource could not be found.")
    }

    /// 404 for an operation that the negotiated version does not have.
    pub fn not_in_version(version: impl fmt::Display) -> Self {
        Self::new(404, format!("API version '{version}' is not supported on this method."))
    }

    /// 405
    pub fn method_not_allowed(allowed: &str) -> Self {
        Self::new(405, "The method specified is not allowed for this resource.").header("Allow", allowed)
    }

    /// 406
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, message)
    }

    /// 409
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, message)
    }

    /// 410
    pub fn gone() -> Self {
        Self::new(410, "This resource is no longer available. No forwarding address is given.")
    }

    /// 413
    pub fn too_large() -> Self {
        Self::new(413, "Request is too large.")
    }

    /// 413 (Nova's `overLimit`): a quota is used up.
    pub fn over_limit(message: impl Into<String>) -> Self {
        Self::new(413, message).header("Retry-After", "0")
    }

    /// 415
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, message)
    }

    /// 429
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u64) -> Self {
        Self::new(429, message).header("Retry-After", retry_after_seconds.to_string())
    }

    /// 501
    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, message)
    }

    /// 503
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, message)
    }

    /// The answer if the event log did not accept the events. The status is 413 if the request is too large for one
    /// event, and otherwise 503. The message names a full disk, so that the user can tell an operator.
    pub fn of_log(cause: &StoreError) -> Self {
        let message = match cause {
            StoreError::TooLarge { .. } => {
                return Self::new(413, "Request is too large: what it asks for cannot be recorded in one event.")
                    .caused_by(cause);
            }
            StoreError::Full => {
                "The disk of the event log is full; nothing was changed. The service goes on by itself once there is \
                 room."
            }
            StoreError::BelowLevel { .. } => {
                "The control plane is being upgraded, and an older member cannot read this change yet; nothing was \
                 changed. Try again when all members are upgraded."
            }
            StoreError::ArchiveAway { .. } => {
                "The request needs events that are in the archive of the event log, and the archive cannot be read now; \
                 nothing was changed. Try again later."
            }
            _ => "The event log is not available; nothing was changed. Try again.",
        };
        Self::unavailable(message).caused_by(cause)
    }

    /// 500: the cause goes to the log, the client learns only that the request failed.
    pub fn internal(cause: impl fmt::Display) -> Self {
        let mut fault = Self::new(
            500,
            "Unexpected API Error. Please report the request id of this answer to the operators of this cloud.",
        );
        fault.cause = Some(cause.to_string());
        fault
    }

    /// Sets the key: Neutron's type, Placement's code, or another Nova fault name than the status's own.
    #[must_use]
    pub fn key(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        self.key = key.into();
        self
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds the cause for the log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }
}
