//! The errors in a policy.

use super::check::CheckError;

/// The longest chain of rules that refer to one another. Each rule of the chain takes stack when the first rule is
/// evaluated.
pub(super) const LONGEST_CHAIN: usize = 100;

/// An error that keeps the policy from being loaded.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("policy file {path} cannot be read")]
    Read { path: String, source: std::io::Error },
    #[error("policy file {path} is not a mapping of rules: {reason}")]
    Syntax { path: String, reason: String },
    #[error("policy rule {rule:?}: {source}")]
    Check { rule: String, source: CheckError },
    #[error("policy rule {rule:?} refers to {missing:?}, which does not exist")]
    Missing { rule: String, missing: String },
    #[error("policy rule {0:?} refers to itself")]
    Circular(String),
    #[error("policy rule {0:?} refers to a rule that refers to another, and so on for more than {LONGEST_CHAIN} rules")]
    TooLong(String),
}
