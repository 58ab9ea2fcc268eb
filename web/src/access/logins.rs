//! Records of log-ins and tokens of the embedded identity service. Keystone records its own.

use std::sync::Arc;

use chronova_events::access::{AccessClient, AccessSort, LeftOutOf, LoggedIn, LoginFailed, TokenIssued, TokenTerms};
use chronova_events::envelope::{Cause, Meta};
use chronova_events::identity::IdentityScope;
use chronova_events::ids::{ProjectId, UserId};

use super::of_address;
use crate::address;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::identity::tokens::Claims;

/// Records a new token.
pub(crate) fn issued(ctx: &Ctx, claims: &Claims) {
    let Some(log) = &ctx.app.access else { return };
    let client = AccessClient::of(ctx.requester.source.as_deref());
    let project = match &claims.scope {
        Some(IdentityScope::Project(project)) => Some(project.clone()),
        Some(IdentityScope::Domain(_) | IdentityScope::System) | None => None,
    };
    let token = TokenTerms {
        user: claims.user.clone(),
        scope: claims.scope.clone(),
        audit_ids: claims.audit_ids.clone(),
        expires_at: claims.expires_at,
    };
    let (of, meta) = (LeftOutOf::User(claims.user.clone()), meta(ctx, Some(&claims.user), project));
    match claims.audit_ids.len() {
        0 | 1 => log.record(AccessSort::Login, of, LoggedIn { client, token }, &meta),
        _ => log.record(AccessSort::Login, of, TokenIssued { client, token }, &meta),
    }
}

/// Records a failed log-in; `user` is the user that it named, if there is one. A malformed request is none.
pub(crate) fn failed(ctx: &Ctx, user: Option<UserId>, fault: &Fault) {
    let Some(log) = ctx.app.access.as_ref().filter(|_| matches!(fault.status, 401 | 403 | 429)) else { return };
    let client = AccessClient::of(ctx.requester.source.as_deref());
    // A user is not to blame for the attempts of others, which would hide the user's own.
    let of = of_address(address::client(ctx.remote, &ctx.headers, &ctx.app.config));
    let meta = meta(ctx, user.as_ref(), None);
    log.record(AccessSort::FailedLogin, of, LoginFailed { user, client, status: fault.status }, &meta);
}

fn meta(ctx: &Ctx, user: Option<&UserId>, project: Option<ProjectId>) -> Arc<Meta> {
    let cause = match user {
        Some(user) => Cause::User { user: user.clone(), project, roles: Vec::new(), source: None },
        None => Cause::System { part: "login".to_owned() },
    };
    dispatch::meta_by(&ctx.requester, cause)
}
