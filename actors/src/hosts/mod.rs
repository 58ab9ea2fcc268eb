//! The compute hosts as the control plane meets them.
//!
//! | file | what |
//! |---|---|
//! | [`fleet`] | finds the driver of a host |
//! | [`agent`] | one task per host: registers it, feels its pulse, turns what it tells into commands |
//! | [`consoles`] | brings what a guest wrote on its console after it |
//! | [`images`], [`image_use`] | images brought to hosts beforehand; which ones are about to be used, or removed |
//! | [`resume`] | starts the guests of a host that lost its power |
//! | [`plan`] | what to do about a difference between a host and the log; pure |

pub mod agent;
pub mod consoles;
pub mod fleet;
pub mod image_use;
pub mod images;
pub mod plan;
mod resume;

#[cfg(test)]
mod tests;
