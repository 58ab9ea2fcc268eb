//! The decisions on application credentials and their access rules.

use chronova_events::identity::{
    AccessRuleCreated, AccessRuleDeleted, ApplicationCredentialCreated, ApplicationCredentialDeleted, Identity,
    IdentityEvent, IdentityScope, UserAccessRule,
};
use chronova_events::ids::{AccessRuleId, ApplicationCredentialId, UserId};

use super::decide::{IdentityDecision, known_project, known_role, known_user, missing};
use super::{AskedAccessRule, IdentityReject, IdentityResourceKind};

/// The most application credentials of a user. Keystone's `[application_credential] user_limit` sets no limit by
/// default.
pub const MOST_CREDENTIALS: usize = 100;
/// The most access rules of a user.
pub const MOST_ACCESS_RULES: usize = 1_000;

pub(super) fn create(
    state: &Identity,
    mut created: ApplicationCredentialCreated,
    asked: Option<Vec<AskedAccessRule>>,
) -> IdentityDecision {
    known_user(state, &created.user)?;
    known_project(state, &created.project)?;
    if state.credential_of_anyone(&created.credential).is_some() {
        let (kind, id) = (IdentityResourceKind::ApplicationCredential, created.credential.to_string());
        return Err(IdentityReject::IdTaken { kind, id });
    }
    if state.credentials_of(&created.user).any(|known| known.name == created.name) {
        let (kind, name) = (IdentityResourceKind::ApplicationCredential, created.name);
        return Err(IdentityReject::NameTaken { kind, name });
    }
    if state.credentials_of(&created.user).count() >= MOST_CREDENTIALS {
        return Err(IdentityReject::TooManyCredentials);
    }
    created.roles.sort();
    created.roles.dedup();
    let held = state.roles_on(&created.user, &IdentityScope::Project(created.project.clone()));
    for role in &created.roles {
        known_role(state, role)?;
        if !held.contains(role) {
            return Err(IdentityReject::RoleNotHeld(role.clone()));
        }
    }
    let mut events = Vec::new();
    created.access_rules = asked.map(|asked| rules(state, &created.user, asked, &mut events)).transpose()?;
    events.push(created.into());
    Ok(events)
}

/// The ids of the rules. Rules that the user does not have yet become events.
fn rules(
    state: &Identity,
    user: &UserId,
    asked: Vec<AskedAccessRule>,
    events: &mut Vec<IdentityEvent>,
) -> Result<Vec<AccessRuleId>, IdentityReject> {
    let mut known: Vec<UserAccessRule> = state.access_rules_of(user).cloned().collect();
    let mut ids = Vec::new();
    for rule in asked {
        let id = match rule {
            AskedAccessRule::Known(id) if known.iter().any(|rule| rule.id == id) => id,
            AskedAccessRule::Known(id) => return Err(missing(IdentityResourceKind::AccessRule, &id)),
            AskedAccessRule::Worded(rule) => worded(user, rule, &mut known, events),
        };
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    match known.len() > MOST_ACCESS_RULES {
        true => Err(IdentityReject::TooManyAccessRules),
        false => Ok(ids),
    }
}

/// The id of the user's rule with these words. As in Keystone, credentials share equal rules.
fn worded(
    user: &UserId,
    rule: UserAccessRule,
    known: &mut Vec<UserAccessRule>,
    events: &mut Vec<IdentityEvent>,
) -> AccessRuleId {
    let is_same = |other: &&UserAccessRule| {
        other.service == rule.service && other.method == rule.method && other.path == rule.path
    };
    if let Some(same) = known.iter().find(is_same) {
        return same.id.clone();
    }
    let UserAccessRule { id, service, method, path } = rule.clone();
    events.push(AccessRuleCreated { rule: id.clone(), user: user.clone(), service, method, path }.into());
    known.push(rule);
    id
}

pub(super) fn delete(state: &Identity, user: UserId, credential: ApplicationCredentialId) -> IdentityDecision {
    match state.credential(&user, &credential) {
        Some(_) => Ok(vec![ApplicationCredentialDeleted { user, credential }.into()]),
        None => Err(missing(IdentityResourceKind::ApplicationCredential, &credential)),
    }
}

pub(super) fn delete_rule(state: &Identity, user: UserId, rule: AccessRuleId) -> IdentityDecision {
    if state.access_rule(&user, &rule).is_none() {
        return Err(missing(IdentityResourceKind::AccessRule, &rule));
    }
    let mut used = state.credentials_of(&user).filter_map(|credential| credential.access_rules.as_ref()).flatten();
    match used.any(|other| *other == rule) {
        true => Err(IdentityReject::AccessRuleInUse(rule)),
        false => Ok(vec![AccessRuleDeleted { user, rule }.into()]),
    }
}
