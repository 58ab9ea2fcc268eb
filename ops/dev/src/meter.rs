//! Measures one run: its time, CPU and memory, and the time of each operation.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::machine;
use super::stats::Latencies;

/// One run of one benchmark.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub operations: u64,
    pub elapsed: Duration,
    /// CPU time of all threads of the measured process.
    pub cpu: Duration,
    pub latencies: Latencies,
    /// Resident memory at the end of the run, in KiB.
    pub resident_kib: u64,
    pub peak_kib: u64,
}

/// A run that has begun with [`Meter::start`].
#[derive(Debug)]
pub struct Meter {
    began: Instant,
    cpu: Duration,
}

impl Meter {
    pub fn start() -> Self {
        machine::forget_peak();
        Self { cpu: cpu_of_process(), began: Instant::now() }
    }

    /// Ends the run. `latencies` has one entry per operation.
    pub fn stop(self, latencies: Vec<Duration>) -> Run {
        let (elapsed, cpu) = (self.began.elapsed(), cpu_of_process().saturating_sub(self.cpu));
        let (resident_kib, peak_kib) = machine::memory_kib();
        let operations = u64::try_from(latencies.len()).unwrap_or(u64::MAX);
        Run { operations, elapsed, cpu, latencies: Latencies::of(latencies), resident_kib, peak_kib }
    }
}

/// Repeats `operation` `operations` times, one after the other.
pub fn measure<E>(operations: usize, mut operation: impl FnMut(usize) -> Result<(), E>) -> Result<Run, E> {
    let mut latencies = Vec::with_capacity(operations);
    let meter = Meter::start();
    for number in 0..operations {
        let began = Instant::now();
        operation(number)?;
        latencies.push(began.elapsed());
    }
    Ok(meter.stop(latencies))
}

/// User and system CPU time of the process so far (clock_gettime(2), `CLOCK_PROCESS_CPUTIME_ID`). It has nanoseconds,
/// while /proc/self/stat has only hundredths of a second.
fn cpu_of_process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_counted_and_the_first_failure_ends_the_run() {
        let run = measure(5, |number| if number < 5 { Ok(()) } else { Err(number) }).unwrap_or_default();
        assert_eq!((run.operations, run.latencies.count()), (5, 5));
        let failed = measure(5, |number| if number < 3 { Ok(()) } else { Err(number) });
        assert_eq!(failed.map(|run| run.operations), Err(3));
    }
}
