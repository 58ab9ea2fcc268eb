//! The program `chronova-dev`: parses the command line and runs the command.

use std::process::ExitCode;

/// The allocator of the program `chronova`, so that benchmarks in this process behave like the server. Debug builds of
/// both programs use libc's allocator, for valgrind and heaptrack.
#[cfg(not(debug_assertions))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    chronova_dev::run()
}
