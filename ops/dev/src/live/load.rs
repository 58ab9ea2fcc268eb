//! Runs clients that each send the next request as soon as they have an answer, and measures the server's CPU.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::client::LoadClient;
use super::cloud::LoadedCloud;
use super::process;
use crate::meter::Run;
use crate::stats::Latencies;

/// When the clients stop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LoadLimit {
    /// After this many operations of all clients together.
    Count(usize),
    Time(Duration),
}

/// Lets `clients` clients repeat `operation`, each on its own connection. `operation` gets a client and the number of
/// the operation.
pub(crate) fn clients(
    cloud: &LoadedCloud,
    clients: usize,
    until: LoadLimit,
    operation: impl Fn(&mut LoadClient, usize) -> Result<()> + Sync,
) -> Result<Run> {
    let next = AtomicUsize::new(0);
    let (began, cpu) = (Instant::now(), process::cpu(cloud.pid()));
    let one = || {
        let mut client = cloud.client();
        let mut latencies = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let over = match until {
                LoadLimit::Count(count) => number >= count,
                LoadLimit::Time(time) => began.elapsed() >= time,
            };
            if over {
                return Ok(latencies);
            }
            let begun = Instant::now();
            operation(&mut client, number)?;
            latencies.push(begun.elapsed());
        }
    };
    let parts: Vec<Result<Vec<Duration>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a client broke")))).collect()
    });
    let elapsed = began.elapsed();
    let cpu = process::cpu(cloud.pid()).saturating_sub(cpu);
    let latencies: Vec<Duration> = parts.into_iter().collect::<Result<Vec<_>>>()?.concat();
    let memory = process::memory(cloud.pid());
    Ok(Run {
        operations: latencies.len() as u64,
        elapsed,
        cpu,
        latencies: Latencies::of(latencies),
        resident_kib: memory.rss,
        peak_kib: memory.peak,
    })
}
