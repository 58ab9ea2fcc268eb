//! A control plane to measure from outside: the very program, as a process of its own, over HTTP on the loopback.
//!
//! What is counted as the server's (CPU, memory) is of that process alone; who asks is in this one. The log is durable, the
//! callers have tokens, the hosts are simulated ones that answer at once. Only the quotas are lifted.

pub(super) mod client;
pub(super) mod cloud;
pub(super) mod drive;
pub(super) mod process;
pub(super) mod reference;

/// Waits on a thread of its own.
#[expect(clippy::disallowed_methods, reason = "the benchmark's clients are threads, not tasks")]
pub(super) fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}
