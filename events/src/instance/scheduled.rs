//! Why a server is where it is, or nowhere.
//!
//! A record for people: what was asked for, how many hosts each check left over and some of those it refused with the
//! numbers that it saw, how the best of the rest were weighed, and the choice. It is bounded whatever the size of the cell.

use serde::{Deserialize, Serialize};

use crate::ids::{HostId, ProcessId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scheduled {
    pub process: ProcessId,
    /// 1 for the first host tried.
    pub attempt: u32,
    /// Class and amount, sorted by class.
    pub wanted: Vec<(String, u64)>,
    /// What else was required, in words: `zone north`, `trait HW_CPU_X86_AVX`, `group apart (anti-affinity)`.
    pub required: Vec<String>,
    /// How many hosts there were to choose from.
    pub hosts: u32,
    /// In the order of their use.
    pub checks: Vec<CheckRecord>,
    /// The best, best first.
    pub weighed: Vec<WeighedHost>,
    /// `None`: no host would do.
    pub chosen: Option<HostId>,
    /// The hosts that are tried next if this one fails.
    pub alternates: Vec<String>,
    /// Hosts that seemed to fit and were refused when claimed, with what was said.
    pub lost: Vec<RefusedHost>,
}

/// One check: a requirement that Placement knows of, or a filter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRecord {
    pub name: String,
    pub left: u32,
    /// Some of those that it refused.
    pub refused: Vec<RefusedHost>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedHost {
    pub hostname: String,
    /// With the numbers that it saw: `RAM: wants 4096 MiB, free 1024 MiB of 16384 x 1.0`.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeighedHost {
    pub host: HostId,
    pub hostname: String,
    pub weight: f64,
    /// What each weigher that told the candidates apart contributed.
    pub parts: Vec<WeightPart>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightPart {
    pub weigher: String,
    /// What was measured.
    pub value: f64,
    /// The value between 0 and 1 among the candidates, times the multiplier.
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
