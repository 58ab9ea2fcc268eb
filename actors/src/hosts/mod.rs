//! The compute hosts as the control plane meets them.
//!
//! | file | what |
//! |---|---|
//! | [`fleet`] | finds the driver of a host |
//! | [`agent`] | one task per host: registers it, feels its pulse, turns what it tells into commands |
//! | [`consoles`] | brings what a guest wrote on its console after it |
//! | [`plan`] | what to do about a difference between a host and the log; pure |

pub mod agent;
pub mod consoles;
pub mod fleet;
pub mod images;
pub mod plan;

#[cfg(test)]
mod tests;
