//! Unified limits: defaults of resources, and the limits of projects and domains.
//!
//! As in Keystone, this service only keeps them for the services that ask. Chronova's own services enforce their quotas.

use super::{Identity, IdentityEvent, LimitHolder, LimitedResource, RegisteredLimit, UnifiedLimit};

impl Identity {
    /// The default of a resource.
    pub fn registered_for(&self, resource: &LimitedResource) -> Option<&RegisteredLimit> {
        self.registered_limits.values().find(|limit| limit.resource == *resource)
    }

    /// The limit of a resource that a project or a domain has.
    pub fn limit_for(&self, holder: &LimitHolder, resource: &LimitedResource) -> Option<&UnifiedLimit> {
        self.limits.values().find(|limit| limit.holder == *holder && limit.resource == *resource)
    }

    pub(super) fn end_limits_of(&mut self, holder: &LimitHolder) {
        self.limits.retain(|_, limit| limit.holder != *holder);
    }

    pub(super) fn evolve_limit(&mut self, event: &IdentityEvent) {
        match event {
            IdentityEvent::RegisteredLimitSet(e) => {
                let limit = RegisteredLimit {
                    id: e.limit.clone(),
                    resource: e.resource.clone(),
                    default: e.default,
                    description: e.description.clone(),
                };
                self.registered_limits.insert(e.limit.clone(), limit);
            }
            IdentityEvent::RegisteredLimitRemoved(e) => {
                self.registered_limits.remove(&e.limit);
            }
            IdentityEvent::LimitSet(e) => {
                let limit = UnifiedLimit {
                    id: e.limit.clone(),
                    resource: e.resource.clone(),
                    holder: e.holder.clone(),
                    amount: e.amount,
                    description: e.description.clone(),
                };
                self.limits.insert(e.limit.clone(), limit);
            }
            IdentityEvent::LimitRemoved(e) => {
                self.limits.remove(&e.limit);
            }
            _ => {}
        }
    }
}
