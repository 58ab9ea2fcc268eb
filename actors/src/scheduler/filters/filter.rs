//! The type of a filter.

use crate::scheduler::context::{HostState, SchedulingContext};

/// One check of a host.
#[derive(Debug)]
pub struct Filter {
    pub name: &'static str,
    /// Whether the filter runs even if it is not enabled, and even for a forced host. In Nova, such a check is part of
    /// the claim on the compute host.
    pub always: bool,
    /// Whether the filter runs when a server is rebuilt with another image on its host.
    pub on_rebuild: bool,
    /// Whether the filter applies to this request. If not, every host passes.
    pub applies: fn(&SchedulingContext<'_>) -> bool,
    pub passes: fn(&HostState<'_>) -> bool,
    /// Why this host did not pass. If the check compares values, the text has the host's value and the limit.
    pub says: fn(&HostState<'_>) -> String,
    /// The message for the user when no host passes. It names no host.
    pub lacks: fn(&SchedulingContext<'_>) -> String,
}

/// The defaults that most filters share.
pub(super) const PLAIN: Filter = Filter {
    name: "",
    always: false,
    on_rebuild: false,
    applies: |_| true,
    passes: |_| true,
    says: |_| String::new(),
    lacks: |_| String::new(),
};
