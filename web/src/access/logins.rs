//! Records of log-ins and tokens of the embedded identity service. Keystone records its own.

use chronova_events::access::{
    AccessClient, AccessSort, CredentialLoginFailed, LeftOutOf, LoggedIn, LoggedInWithCredential, LoginFailed,
    TokenIssued, TokenTerms,
};
use chronova_events::envelope::Cause;
use chronova_events::identity::IdentityScope;
use chronova_events::ids::{ApplicationCredentialId, ProjectId, UserId};

use super::{AccessLog, of_address};
use crate::auth::Requester;
use crate::identity::tokens::Claims;

/// The user and the application credential that a failed log-in named, as far as they exist.
#[derive(Debug, Default)]
pub(crate) struct NamedLogin {
    pub user: Option<UserId>,
    /// Whether the log-in used an application credential.
    pub by_credential: bool,
    pub credential: Option<ApplicationCredentialId>,
}

/// Records a new token.
pub(crate) fn issued(log: &AccessLog, requester: &Requester, claims: &Claims) {
    let client = AccessClient::of(requester.source.as_deref());
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
    let (of, meta) = (LeftOutOf::User(claims.user.clone()), requester.meta_by(cause(Some(&claims.user), project)));
    match (claims.audit_ids.len(), &claims.credential) {
        (0 | 1, Some(credential)) => {
            let credential = credential.clone();
            log.record(AccessSort::Login, of, LoggedInWithCredential { client, token, credential }, &meta);
        }
        (0 | 1, None) => log.record(AccessSort::Login, of, LoggedIn { client, token }, &meta),
        (_, _) => log.record(AccessSort::Login, of, TokenIssued { client, token }, &meta),
    }
}

/// Records a log-in that was refused with `status`. `named`: the user and the application credential that the request
/// named, as far as they exist. A malformed request is no log-in. Log-ins above the rate (429) are only counted, because
/// nobody checked their passwords.
pub(crate) fn failed(log: &AccessLog, requester: &Requester, named: NamedLogin, status: u16) {
    if !matches!(status, 401 | 403 | 429) {
        return;
    }
    let client = AccessClient::of(requester.source.as_deref());
    // The record uses the rate of the client's address. If it used the rate of the user, many attempts from elsewhere
    // could hide the user's own attempts.
    let of = of_address(client.address.as_deref().and_then(|address| address.parse().ok()));
    if status == 429 {
        return log.leave_out(AccessSort::FailedLogin, of);
    }
    let NamedLogin { user, by_credential, credential } = named;
    let meta = requester.meta_by(cause(user.as_ref(), None));
    if by_credential {
        let failed = CredentialLoginFailed { user, client, status, credential };
        return log.record(AccessSort::FailedLogin, of, failed, &meta);
    }
    log.record(AccessSort::FailedLogin, of, LoginFailed { user, client, status }, &meta);
}

fn cause(user: Option<&UserId>, project: Option<ProjectId>) -> Cause {
    match user {
        Some(user) => Cause::User { user: user.clone(), project, roles: Vec::new(), source: None },
        None => Cause::System { part: "login".to_owned() },
    }
}
