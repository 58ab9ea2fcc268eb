//! The scheduler.
//!
//! | step | file | Nova's name for it |
//! |---|---|---|
//! | reads the request | [`request`] | request spec |
//! | narrows the hosts by indexes | [`prefilters`] | request filters |
//! | finds hosts with the resources | [`candidates`] | allocation candidates |
//! | refuses unsuitable hosts | [`filters`] | filters |
//! | orders the hosts | [`weighers`] | weighers |
//! | asks the operator's program | `hook`, [`hook_answers`] | custom filters and weighers |
//! | claims a host | [`placing`] and `batch` | claim, alternates |
//! | reads past decisions | [`history`] | |
//!
//! [`choose`](choice::choose) is pure: the same read models, request and options give the same decision, also in a dry
//! run or a replay. A decision is a proposal made from views that may lag. When the host is claimed, the placement
//! ledger's `decide` checks capacity and server groups again. So the result is a list of hosts, best first.
//!
//! Filters and weighers are in tables. A new filter or weigher needs a value and a line in its table. [`context`] holds
//! the facts that they judge by, and `comparison` the language of extra specs. [`options`] holds the options. [`names`]
//! finds filters and weighers by Nova's names.

mod batch;
pub mod candidates;
pub mod choice;
mod comparison;
pub mod context;
pub mod filters;
pub mod history;
mod hook;
pub mod hook_answers;
pub mod names;
pub mod options;
pub mod placing;
pub mod prefilters;
pub mod request;
pub mod weighers;

#[cfg(test)]
mod tests;

pub use self::choice::{RankedHost, SchedulingDecision, SchedulingReasons, choose, choose_among, may_rebuild};
pub use self::context::{SchedulerViews, SchedulingContext};
pub use self::options::{HookOptions, Multipliers, PrefilterOptions, SchedulerOptions, SharedSchedulerHook};
pub use self::placing::Scheduler;
pub use self::request::RequestSpec;
