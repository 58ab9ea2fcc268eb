//! Policy: decides whether a caller may perform an operation on a target.
//!
//! Rules have the names that OpenStack's services give them. `defaults` has their defaults (check string, scopes,
//! deprecated predecessor), and `policy.yaml` has the operator's overrides. Only [`Enforcer::authorize`] makes
//! [`Permit`]s.
//!
//! Invariants: start-up parses all rules, and refuses circular references. `policy_default_rule` replaces an unknown
//! rule, with a warning in the text log at start-up. If `policy_default_rule` does not exist either, start-up fails if
//! a rule of an API needs the unknown rule, directly or through other rules. At run time, a request under an unknown
//! rule is denied. Two services may have rules of the same name, so each service has its own set.

pub mod check;
pub mod defaults;
mod enforcer;
mod error;
mod file;
mod permit;
mod target;

pub use enforcer::{Enforcer, PolicyDenied, RuleSet};
pub use error::PolicyError;
pub use file::Overrides;
pub use permit::Permit;
pub use target::PolicyTarget;
