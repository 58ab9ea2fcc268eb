//! Describes the machine on which the figures were measured. Without this description, the figures mean nothing.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// The machine and the program, as a report prints them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineInfo {
    pub version: &'static str,
    pub profile: &'static str,
    pub cores: usize,
    pub processor: String,
    pub memory_mib: u64,
    pub kernel: String,
    /// Where the benchmark's log is written.
    pub data: String,
    pub data_file_system: String,
    /// The load average over a minute when the benchmark began.
    pub load: String,
}

impl MachineInfo {
    /// Describes this machine. `data` is the folder to which the benchmark writes.
    pub fn here(data: &Path) -> Self {
        let first = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let load = first("/proc/loadavg");
        Self {
            version: env!("CARGO_PKG_VERSION"),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: field(&first("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            memory_mib: kib(&first("/proc/meminfo"), "MemTotal") / 1024,
            kernel: first("/proc/sys/kernel/osrelease"),
            data: data.display().to_string(),
            data_file_system: file_system(&first("/proc/self/mountinfo"), data),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
        }
    }

    /// Reasons why the figures may be wrong.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.profile != "release" {
            warnings.push("this is a debug build: build with --release for figures that mean something".to_owned());
        }
        if matches!(self.data_file_system.as_str(), "tmpfs" | "ramfs") {
            warnings.push(format!("{} is in memory, where a sync costs nothing: see --dir", self.data));
        }
        if self.load.parse::<f64>().is_ok_and(|load| load > 0.5) {
            warnings.push(format!("the machine is not quiet: its load was {} before the first run", self.load));
        }
        warnings
    }
}

/// Memory of this process in KiB: the present value, and the peak since [`forget_peak`].
pub fn memory_kib() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    (kib(&status, "VmRSS"), kib(&status, "VmHWM"))
}

/// Resets the peak (proc(5), `clear_refs`). If that is not allowed, the peak stays that of the whole process.
pub fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The value of `key : value` in a file of /proc.
fn field(text: &str, key: &str) -> Option<String> {
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}

fn kib(text: &str, key: &str) -> u64 {
    field(text, key).and_then(|value| value.trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// The type of the file system that `path` is on: that of the longest mount point above it (proc(5), `mountinfo`).
fn file_system(mounts: &str, path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounted = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        path.starts_with(&point).then(|| (point.len(), after.split(' ').next().unwrap_or_default()))
    });
    // The later of two mounts hides the earlier one.
    mounted.max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_tells_the_file_system() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:26 / /nowhere/near rw - tmpfs tmpfs rw\n\
                      31 30 0:27 / /nowhere/near/me\\040too rw shared:5 master:2 - xfs /dev/vdb rw\n";
        assert_eq!(file_system(mounts, Path::new("/nowhere")), "ext4");
        assert_eq!(file_system(mounts, Path::new("/nowhere/nearby")), "ext4");
        assert_eq!(file_system(mounts, Path::new("/nowhere/near/x")), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/nowhere/near/me too/x")), "xfs");
        assert_eq!(file_system("", Path::new("/")), "unknown");
    }

    #[test]
    fn fields_of_proc_files_are_parsed() {
        let status = "Name:\tchronova\nVmHWM:\t  204800 kB\nVmRSS:\t1024 kB\n";
        assert_eq!((kib(status, "VmHWM"), kib(status, "VmRSS"), kib(status, "VmSwap")), (204_800, 1024, 0));
        let (now, peak) = memory_kib();
        assert!(now > 0 && peak > 0);
    }

    #[test]
    fn a_debug_build_and_a_log_in_memory_cause_warnings() {
        let quiet = MachineInfo {
            profile: "release",
            load: "0.04".into(),
            data_file_system: "ext4".into(),
            ..MachineInfo::here(Path::new("/"))
        };
        assert_eq!(quiet.warnings(), Vec::<String>::new());
        let poor = MachineInfo { profile: "debug", load: "3.1".into(), data_file_system: "tmpfs".into(), ..quiet };
        assert_eq!(poor.warnings().len(), 3);
    }
}
