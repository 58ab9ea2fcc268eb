//! The `chronova` binary: parses the command line and runs the command.

use std::process::ExitCode;

/// A server often frees memory on another thread than the allocating one. Sizes range from tens of bytes to the
/// megabytes of a password hash. libc's allocator then keeps the memory and contends on locks. Debug builds use libc's,
/// because valgrind and heaptrack know only that one.
#[cfg(not(debug_assertions))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    chronova::cli::run()
}
