//! The `chronova` binary: parses the command line and runs the command.

use std::process::ExitCode;

/// A server often frees memory on another thread than the thread that allocated it. Sizes range from tens of bytes to
/// the megabytes of a password hash. libc's allocator would then keep the memory and contend on locks. Debug builds use
/// libc's allocator, because valgrind and heaptrack know no other.
#[cfg(not(debug_assertions))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    chronova::cli::run()
}
