//! The way from a permitted request to the command gateway.
//!
//! Only this file may name the gateway. Its functions take a `&Permit`, which only the policy module makes, so a command
//! of a caller whose rights nobody checked does not compile.

use std::sync::Arc;

use chronova_events::envelope::{Cause, Meta};
use uuid::Uuid;

use crate::policy::Permit;

/// What the events will say about who asked and why.
///
/// The correlation is the request's own UUID: everything that follows from one request, in whatever stream, is found by
/// the id that the client was given.
pub fn meta(permit: &Permit) -> Arc<Meta> {
    let requester = permit.requester();
    let caller = &requester.caller;
    let correlation = requester
        .request_id
        .as_str()
        .strip_prefix("req-")
        .and_then(|id| Uuid::parse_str(id).ok())
        .unwrap_or_else(Uuid::new_v4);
    Arc::new(Meta {
        request_id: Some(requester.request_id.clone()),
        correlation,
        causation: None,
        cause: Cause::User { user: caller.user.clone(), project: caller.project.clone(), roles: caller.roles.clone() },
    })
}
