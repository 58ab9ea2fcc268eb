//! Scheduling decisions: why a server is on its host, or why no host was valid.
//!
//! This record is for people. It has the request, the number of hosts that pass each check, and the choice. It also has
//! some rejected hosts with the reasons, and the weights of the best hosts. Its size does not grow with the number of
//! hosts in the cell.

use serde::{Deserialize, Serialize};

use crate::ids::{HostId, ProcessId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scheduled {
    pub process: ProcessId,
    /// The number of this attempt, from 1. Each attempt is on another host.
    pub attempt: u32,
    /// The requested resources: class and amount, sorted by class.
    pub wanted: Vec<(String, u64)>,
    /// Other requirements, as text: `zone north`, `trait HW_CPU_X86_AVX`, `group apart (anti-affinity)`.
    pub required: Vec<String>,
    /// The number of hosts before the checks.
    pub hosts: u32,
    /// The checks in the order of their use.
    pub checks: Vec<CheckRecord>,
    /// The weights of the best hosts, best first.
    pub weighed: Vec<WeighedHost>,
    /// The chosen host; `None`: no valid host was found.
    pub chosen: Option<HostId>,
    /// The hosts that are tried next if the chosen host fails.
    pub alternates: Vec<String>,
    /// Hosts that passed the filters but failed the claim, with the reason.
    pub lost: Vec<RefusedHost>,
}

/// One check: a requirement that Placement evaluates, or a filter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRecord {
    pub name: String,
    pub left: u32,
    /// Some of the hosts that the check rejected.
    pub refused: Vec<RefusedHost>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedHost {
    pub hostname: String,
    /// The reason with its numbers, for example `RAM: wants 4096 MiB, free 1024 MiB of 16384 x 1.0`.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeighedHost {
    pub host: HostId,
    pub hostname: String,
    pub weight: f64,
    /// The contribution of each weigher that distinguished the candidates.
    pub parts: Vec<WeightPart>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightPart {
    pub weigher: String,
    /// The raw value of the weigher.
    pub value: f64,
    /// The value normalised to 0..1 among the candidates, times the multiplier.
    pub weight: f64,
}

pub(super) fn sample(process: ProcessId) -> Scheduled {
    let host = HostId(uuid::Uuid::from_u128(5));
    let refused =
        RefusedHost { hostname: "h2".into(), reason: "RAM: wants 4096 MiB, free 1024 MiB of 16384 x 1.0".into() };
    Scheduled {
        process,
        attempt: 1,
        wanted: vec![("MEMORY_MB".into(), 4096), ("VCPU".into(), 2)],
        required: vec!["zone north".into()],
        hosts: 3,
        checks: vec![CheckRecord { name: "capacity".into(), left: 2, refused: vec![refused.clone()] }],
        weighed: vec![WeighedHost {
            host,
            hostname: "h1".into(),
            weight: 1.5,
            parts: vec![WeightPart { weigher: "RAMWeigher".into(), value: 8192.0, weight: 1.0 }],
        }],
        chosen: Some(host),
        alternates: vec!["h3".into()],
        lost: vec![refused],
    }
}
