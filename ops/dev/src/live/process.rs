//! Reads the CPU time and the memory of another process from /proc.

use std::fs;
use std::time::Duration;

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessMemory {
    /// Resident memory.
    pub(crate) rss: u64,
    /// Resident memory, with the process's share of each shared page. In the comparison with Nova, Nova's memory is the
    /// sum of this value over Nova's processes.
    pub(crate) pss: u64,
    /// The highest resident memory so far.
    pub(crate) peak: u64,
}

/// The memory of the process now.
pub(crate) fn memory(pid: u32) -> ProcessMemory {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    ProcessMemory { rss: kib(&status, "VmRSS:"), pss: kib(&rollup, "Pss:"), peak: kib(&status, "VmHWM:") }
}

/// CPU time of all threads of the process so far. The kernel counts hundredths of a second.
pub(crate) fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Duration::from_millis(10 * ticks(&stat))
}

/// The sum of `utime` and `stime` (proc(5)), the 14th and the 15th field. The second field is a name in brackets that
/// may contain any character.
fn ticks(stat: &str) -> u64 {
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
}

fn kib(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    value.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_files_are_parsed() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194304 100 0 0 0 17 25 0 0 20 0 9 0 100 0 0";
        assert_eq!(ticks(stat), 42);
        assert_eq!(kib("Name:\tx\nVmRSS:\t    1024 kB\n", "VmRSS:"), 1_024);
        let own = memory(std::process::id());
        assert!(own.rss > 0 && own.peak >= own.rss);
    }
}
