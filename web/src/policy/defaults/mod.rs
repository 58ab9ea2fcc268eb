//! The default rules, one table per service: facts of the APIs, kept as data.

mod compute_admin;
mod compute_base;
mod compute_servers;
mod identity;
mod image;
mod network;
mod own;
mod placement;
mod volume;

use crate::auth::Caller;
use crate::route::Service;

/// What a token is scoped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    System,
    Domain,
    Project,
}

impl Scope {
    /// As oslo.policy reads it: a token that is neither the system's nor a domain's is a project's.
    pub fn of(caller: &Caller) -> Self {
        if caller.system_scope.is_some() {
            Self::System
        } else if caller.domain.is_some() {
            Self::Domain
        } else {
            Self::Project
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Domain => "domain",
            Self::Project => "project",
        }
    }
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct RuleDefault {
    pub name: &'static str,
    pub check: &'static str,
    /// Empty: every scope.
    pub scopes: &'static [Scope],
    /// The rule it replaced: name and check string.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// What it guards, for the policy reference: `GET /servers; POST /servers`.
    pub operations: &'static str,
}

impl RuleDefault {
    /// Only for tokens of a project.
    const fn project(mut self) -> Self {
        self.scopes = &[Scope::Project];
        self
    }

    const fn any_of(mut self, scopes: &'static [Scope]) -> Self {
        self.scopes = scopes;
        self
    }

    const fn deprecates(mut self, name: &'static str, check: &'static str) -> Self {
        self.deprecated = Some((name, check));
        self
    }

    const fn guards(mut self, operations: &'static str) -> Self {
        self.operations = operations;
        self
    }
}

const fn rule(name: &'static str, check: &'static str) -> RuleDefault {
    RuleDefault { name, check, scopes: &[], deprecated: None, operations: "" }
}

/// The tables of a service.
pub const fn of(service: Service) -> &'static [&'static [RuleDefault]] {
    match service {
        Service::Compute => &[compute_base::RULES, compute_servers::RULES, compute_admin::RULES],
        Service::Placement => &[placement::RULES],
        Service::Identity => &[identity::RULES],
        Service::Image => &[image::RULES],
        Service::Network => &[network::RULES],
        Service::Chronova => &[own::RULES],
        Service::Volume => &[volume::RULES],
        Service::Metadata => &[],
    }
}
