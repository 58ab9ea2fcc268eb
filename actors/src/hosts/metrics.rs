//! The metrics of hosts, which the scheduler may weigh (`[metrics] weight_setting`).
//!
//! They are measurements of the last heartbeats. The log does not record them. The names are those of Nova's monitor
//! `cpu.virt_driver`. Its shares are fractions from 0 to 1 of the time between two heartbeats, and its times are
//! nanoseconds since the host's boot.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::ids::HostId;
use chronova_hypervisor::guest::CpuTimes;

/// The metrics of one host, by name.
pub type MetricsOfHost = BTreeMap<&'static str, f64>;

/// The metrics of all hosts that report any.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostMetrics(pub BTreeMap<HostId, Arc<MetricsOfHost>>);

impl HostMetrics {
    pub fn value(&self, host: HostId, name: &str) -> Option<f64> {
        self.0.get(&host)?.get(name).copied()
    }
}

/// The metrics of a host's processors between two heartbeats; `None` if no time has passed. If the host has booted in
/// between, the metrics count from the boot.
pub(super) fn of_cpu(last: CpuTimes, now: CpuTimes) -> Option<MetricsOfHost> {
    let parts = |times: CpuTimes| [times.kernel, times.user, times.idle, times.iowait];
    let has_booted = parts(now).iter().zip(parts(last)).any(|(now, last)| *now < last);
    let last = if has_booted { CpuTimes::default() } else { last };
    let [kernel, user, idle, iowait] = [0, 1, 2, 3].map(|part| number(parts(now)[part] - parts(last)[part]));
    let all = kernel + user + idle + iowait;
    (all > 0.0).then(|| {
        BTreeMap::from([
            ("cpu.frequency", f64::from(now.mhz)),
            ("cpu.idle.percent", idle / all),
            ("cpu.idle.time", number(now.idle)),
            ("cpu.iowait.percent", iowait / all),
            ("cpu.iowait.time", number(now.iowait)),
            ("cpu.kernel.percent", kernel / all),
            ("cpu.kernel.time", number(now.kernel)),
            ("cpu.percent", 1.0 - idle / all),
            ("cpu.user.percent", user / all),
            ("cpu.user.time", number(now.user)),
        ])
    })
}

#[expect(clippy::cast_precision_loss, reason = "a metric needs no more than the precision of a float")]
fn number(time: u64) -> f64 {
    time as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn shares_are_of_the_time_between_two_heartbeats() {
        let times = |kernel, user, idle, iowait| CpuTimes { kernel, user, idle, iowait, mhz: 2_400 };
        let (last, now) = (times(100, 100, 100, 100), times(150, 125, 200, 125));
        let found = of_cpu(last, now).unwrap();
        let of = |name: &str| found[name];
        let share = |part: &str| of(&format!("cpu.{part}.percent"));
        assert_eq!((share("kernel"), share("user"), share("idle"), share("iowait")), (0.25, 0.125, 0.5, 0.125));
        assert_eq!((of("cpu.percent"), of("cpu.frequency"), of("cpu.user.time")), (0.5, 2_400.0, 125.0));
        assert_eq!(found.len(), 10, "Nova's monitor has ten metrics");
        // At the first heartbeat, and if the host has booted in between, this is the average since the boot.
        for before in [CpuTimes::default(), times(900, 900, 900, 900)] {
            let busy = of_cpu(before, times(0, 30, 10, 0)).unwrap()["cpu.percent"];
            assert!((busy - 0.75).abs() < f64::EPSILON, "{before:?}: {busy}");
        }
        assert_eq!(of_cpu(now, now), None, "no time has passed");
    }
}
