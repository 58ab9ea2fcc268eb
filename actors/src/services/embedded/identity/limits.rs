//! The decisions on unified limits. The rules are Keystone's for its model `flat`.

use chronova_events::identity::{
    Identity, LimitHolder, LimitRemoved, LimitSet, RegisteredLimit, RegisteredLimitRemoved, RegisteredLimitSet,
    UnifiedLimit,
};
use chronova_events::ids::{LimitId, RegisteredLimitId};

use super::decide::{IdentityDecision, known_domain, known_project, missing};
use super::{IdentityReject, IdentityResourceKind, LimitChange};

fn known_registered<'a>(state: &'a Identity, id: &RegisteredLimitId) -> Result<&'a RegisteredLimit, IdentityReject> {
    state.registered_limits.get(id).ok_or_else(|| missing(IdentityResourceKind::RegisteredLimit, id))
}

fn known_limit<'a>(state: &'a Identity, id: &LimitId) -> Result<&'a UnifiedLimit, IdentityReject> {
    state.limits.get(id).ok_or_else(|| missing(IdentityResourceKind::Limit, id))
}

pub(super) fn register(state: &Identity, all: Vec<RegisteredLimitSet>) -> IdentityDecision {
    for (at, set) in all.iter().enumerate() {
        let twice = all.iter().take(at).any(|other| other.resource == set.resource);
        if twice || state.registered_for(&set.resource).is_some() {
            let (kind, name) = (IdentityResourceKind::RegisteredLimit, set.resource.name.clone());
            return Err(IdentityReject::NameTaken { kind, name });
        }
    }
    Ok(all.into_iter().map(Into::into).collect())
}

pub(super) fn change_registered(state: &Identity, id: &RegisteredLimitId, change: LimitChange) -> IdentityDecision {
    let old = known_registered(state, id)?;
    let default = change.amount.unwrap_or(old.default);
    let description = change.description.over(old.description.as_ref());
    if (default, &description) == (old.default, &old.description) {
        return Ok(vec![]);
    }
    let resource = old.resource.clone();
    Ok(vec![RegisteredLimitSet { limit: id.clone(), resource, default, description }.into()])
}

pub(super) fn remove_registered(state: &Identity, limit: RegisteredLimitId) -> IdentityDecision {
    let resource = &known_registered(state, &limit)?.resource;
    match state.limits.values().any(|own| own.resource == *resource) {
        true => Err(IdentityReject::RegisteredLimitInUse(limit)),
        false => Ok(vec![RegisteredLimitRemoved { limit }.into()]),
    }
}

pub(super) fn set(state: &Identity, all: Vec<LimitSet>) -> IdentityDecision {
    for (at, set) in all.iter().enumerate() {
        match &set.holder {
            LimitHolder::Project(project) => known_project(state, project).map(|_| ())?,
            LimitHolder::Domain(domain) => known_domain(state, domain).map(|_| ())?,
        }
        if state.registered_for(&set.resource).is_none() {
            return Err(IdentityReject::NotRegistered(set.resource.name.clone()));
        }
        let same = |other: &LimitSet| other.holder == set.holder && other.resource == set.resource;
        if all.iter().take(at).any(same) || state.limit_for(&set.holder, &set.resource).is_some() {
            let (kind, name) = (IdentityResourceKind::Limit, set.resource.name.clone());
            return Err(IdentityReject::NameTaken { kind, name });
        }
    }
    Ok(all.into_iter().map(Into::into).collect())
}

pub(super) fn change(state: &Identity, id: &LimitId, change: LimitChange) -> IdentityDecision {
    let old = known_limit(state, id)?;
    let amount = change.amount.unwrap_or(old.amount);
    let description = change.description.over(old.description.as_ref());
    if (amount, &description) == (old.amount, &old.description) {
        return Ok(vec![]);
    }
    let (resource, holder) = (old.resource.clone(), old.holder.clone());
    Ok(vec![LimitSet { limit: id.clone(), resource, holder, amount, description }.into()])
}

pub(super) fn remove(state: &Identity, limit: LimitId) -> IdentityDecision {
    known_limit(state, &limit)?;
    Ok(vec![LimitRemoved { limit }.into()])
}
