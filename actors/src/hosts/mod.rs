//! The control plane's side of the compute hosts.
//!
//! | file | contents |
//! |---|---|
//! | [`fleet`] | finds the driver of a host |
//! | [`agent`] | one task per host: registers the host, checks its heartbeat, turns its signals into commands |
//! | [`consoles`] | copies the console log of a guest to the guest's new host |
//! | [`images`] | caches images on hosts before servers are built from them |
//! | [`capacity`] | converts a host's resources into the types of the events and of Placement |
//! | [`metrics`] | the metrics of the last heartbeats, for the scheduler |
//! | [`readings`] | the readings of a host that APIs may use |
//! | [`context`], [`options`] | the parts that all agents share, and their options |
//! | [`due`] | which comparisons of a host with the log are due |
//! | [`doubt`] | the moment before which the log does not know everything that happened on its hosts |
//! | [`fence`] | refuses a host that a copy of this log drives |
//! | [`report`] | reports a host's resources, traits and ratios |
//! | [`resume`] | starts the guests of a host that lost its power |
//! | [`unquiesce`] | unfreezes the guests of a host that was away |
//! | [`plan`] | chooses the action on a difference between a host and the log; pure |

pub mod agent;
pub mod capacity;
pub mod consoles;
pub mod context;
pub mod doubt;
mod due;
pub mod fence;
pub mod fleet;
pub mod images;
pub mod metrics;
pub mod options;
pub mod plan;
pub mod readings;
mod report;
mod resume;
mod unquiesce;

#[cfg(test)]
mod tests;
