//! Common settings of all benchmarks: repetitions, disk, size, and runtime.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// The options of every benchmark.
#[derive(Debug, Clone, clap::Args)]
pub struct Common {
    /// Print JSON instead of the table
    #[arg(long, global = true)]
    pub json: bool,
    /// Write the JSON to a file as well
    #[arg(long, global = true, value_name = "FILE")]
    pub json_file: Option<PathBuf>,
    /// Number of runs; the figures are the medians
    #[arg(long, global = true, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
    /// Folder on the disk to measure; files written there are removed [default: the folder for temporary files]
    #[arg(long, global = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Smaller sizes and fewer operations: a functional check of a few seconds
    #[arg(long, global = true)]
    pub short: bool,
}

impl Common {
    /// A folder on the disk to measure.
    pub fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// A folder on the disk to measure; removed when dropped.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        let parent = self.folder();
        tempfile::Builder::new()
            .prefix("chronova-bench-")
            .tempdir_in(&parent)
            .with_context(|| format!("nothing can be written to {}", parent.display()))
    }

    /// Runs `once` the requested number of times, and reports progress on standard error.
    pub fn repeat<T>(&self, what: &str, mut once: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
        (1..=self.runs)
            .map(|run| {
                chronova::output::complain(&format!("\r{what}: run {run} of {} ", self.runs));
                let done = once();
                chronova::output::complain("\r\x1b[K");
                done.with_context(|| what.to_owned())
            })
            .collect()
    }

    /// Like [`Common::repeat`], but runs once before, without measuring: this warm-up fills caches and takes memory
    /// from the system.
    pub fn repeat_warm<T>(&self, what: &str, mut once: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
        once().with_context(|| what.to_owned())?;
        self.repeat(what, once)
    }

    /// Returns `short` for the short form of the benchmark, else `whole`.
    pub fn sized<T>(&self, whole: T, short: T) -> T {
        if self.short { short } else { whole }
    }
}

/// Runs `work` as the server runs: an actix system on a tokio runtime with several threads.
pub fn in_system<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads")?;
    actix_rt::System::with_tokio_rt(move || runtime).block_on(work)
}
