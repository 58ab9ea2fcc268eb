//! Proof that a rule was checked. Only this folder can make a permit, so every caller of a function that takes a
//! `&Permit` has passed a check.

use std::sync::Arc;

use crate::auth::{Caller, Requester};

/// Proves that the requester may perform the operations that the rule guards.
#[derive(Debug, Clone)]
pub struct Permit {
    rule: &'static str,
    requester: Arc<Requester>,
}

impl Permit {
    pub(super) fn grant(rule: &'static str, requester: &Arc<Requester>) -> Self {
        Self { rule, requester: Arc::clone(requester) }
    }

    pub fn rule(&self) -> &'static str {
        self.rule
    }

    pub fn caller(&self) -> &Caller {
        &self.requester.caller
    }

    pub fn requester(&self) -> &Arc<Requester> {
        &self.requester
    }
}
