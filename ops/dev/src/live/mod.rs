//! Measures a control plane from outside: the program `chronova` runs as a process and serves HTTP on the loopback.
//!
//! The server's CPU and memory are those of that process alone; the clients are threads of the benchmark's process. The
//! log is durable, the callers have tokens, and the hosts are simulated ones that answer at once. The quotas are
//! lifted, and tokens are valid for longer than usual.

pub(super) mod client;
pub(super) mod cloud;
pub(super) mod load;
pub(super) mod process;
pub(super) mod reference;

/// Sleeps. Call it only on a thread of a client.
#[expect(clippy::disallowed_methods, reason = "the benchmark's clients are threads, not tasks")]
pub(super) fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}
