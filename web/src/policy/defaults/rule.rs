//! One rule of a table: name, check string, scopes, the deprecated rule that it replaced, and the guarded operations.

use crate::auth::Caller;

/// The scope type of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeType {
    System,
    Domain,
    Project,
}

impl ScopeType {
    /// The scope as oslo.policy determines it: a token without system or domain scope counts as project-scoped.
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

/// A default rule.
#[derive(Debug, Clone, Copy)]
pub struct RuleDefault {
    pub name: &'static str,
    pub check: &'static str,
    /// The scopes of tokens that the rule accepts. An empty list accepts every scope.
    pub scopes: &'static [ScopeType],
    /// The deprecated rule that this rule replaced: name and check string.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// The guarded operations, for the policy reference: `GET /servers; POST /servers`.
    pub operations: &'static str,
}

impl RuleDefault {
    /// Restricts the rule to project-scoped tokens.
    pub(super) const fn project(mut self) -> Self {
        self.scopes = &[ScopeType::Project];
        self
    }

    pub(super) const fn any_of(mut self, scopes: &'static [ScopeType]) -> Self {
        self.scopes = scopes;
        self
    }

    pub(super) const fn deprecates(mut self, name: &'static str, check: &'static str) -> Self {
        self.deprecated = Some((name, check));
        self
    }

    pub(super) const fn guards(mut self, operations: &'static str) -> Self {
        self.operations = operations;
        self
    }
}

pub(super) const fn rule(name: &'static str, check: &'static str) -> RuleDefault {
    RuleDefault { name, check, scopes: &[], deprecated: None, operations: "" }
}
