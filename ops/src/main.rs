//! The `chronova` binary: reads the command line, and hands over.

use std::process::ExitCode;

/// A server frees on other threads than it takes, in sizes from tens of bytes to the megabytes of a password hash: libc's
/// allocator keeps what it got for that, and takes locks. Not in debug builds, whose memory and instructions are looked at
/// with tools (valgrind, heaptrack) that know only libc's.
#[cfg(not(debug_assertions))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    chronova::cli::run()
}
