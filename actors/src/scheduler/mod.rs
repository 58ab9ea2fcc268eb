//! The scheduler.
//!
//! | step | file | Nova's name for it |
//! |---|---|---|
//! | what is asked for | [`request`] | request spec |
//! | what hosts must be, from the indexes | [`prefilters`] | request filters |
//! | who has it, from the indexes | [`candidates`] | allocation candidates |
//! | who will do | [`filters`] | filters |
//! | who is best | [`weighers`] | weighers |
//! | who gets it | [`placing`] and `batch` | claim, alternates |
//! | what was decided | [`history`] | |
//!
//! [`choose`](choice::choose) is pure: the same read models, request and options give the same decision, also in a dry
//! run or a replay. A decision is a proposal made from views that may lag. When the host is claimed, the placement
//! ledger's `decide` checks capacity and server groups again. So the result is a list, best first.
//!
//! Filters and weighers are tables: adding one is a value and a line.

mod batch;
pub mod candidates;
pub mod choice;
mod comparison;
pub mod context;
pub mod filters;
pub mod history;
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
pub use self::options::{Multipliers, PrefilterOptions, SchedulerOptions};
pub use self::placing::Scheduler;
pub use self::request::RequestSpec;
