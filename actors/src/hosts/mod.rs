//! The control plane's side of the compute hosts.
//!
//! | file | what |
//! |---|---|
//! | [`fleet`] | finds the driver of a host |
//! | [`agent`] | one task per host: registers it, feels its pulse, turns what it tells into commands |
//! | [`consoles`] | brings what a guest wrote on its console after it |
//! | [`images`] | brings images to hosts beforehand |
//! | [`capacity`] | what a host offers, in the words of the events and of Placement |
//! | [`readings`] | what an API may reach on a host |
//! | [`context`], [`options`] | what an agent has at hand |
//! | [`resume`] | starts the guests of a host that lost its power |
//! | [`plan`] | what to do about a difference between a host and the log; pure |

pub mod agent;
pub mod capacity;
pub mod consoles;
pub mod context;
pub mod fleet;
pub mod images;
pub mod options;
pub mod plan;
pub mod readings;
mod resume;

#[cfg(test)]
mod tests;
