//! A control plane to measure from outside: the installed program `chronova`, as a process, over HTTP on the loopback.
//!
//! The server's CPU and memory are those of that process alone; the clients are threads of this one. The log is durable,
//! the callers have tokens, and the hosts are simulated ones that answer at once. Only the quotas are lifted.

pub(super) mod client;
pub(super) mod cloud;
pub(super) mod load;
pub(super) mod process;
pub(super) mod reference;

/// Waits on a thread of its own.
#[expect(clippy::disallowed_methods, reason = "the benchmark's clients are threads, not tasks")]
pub(super) fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}
