//! Options about the NUMA affinity of networks.

use super::super::{Config, Severity, derived};
use super::Clash;

/// Checks the cells of tunnels, and that each physical network has a section and each section a physical network.
pub(super) fn networks(config: &Config) -> Vec<Clash> {
    const PHYSNETS: (&str, &str) = ("neutron", "physnets");
    let named = &config.neutron.physnets;
    let mut clashes: Vec<Clash> = derived::network_cells(config)
        .err()
        .map(|reason| Clash {
            severity: Severity::Error,
            at: ("neutron_tunnel", "numa_nodes"),
            message: format!("[neutron_tunnel] numa_nodes: {reason}").into(),
        })
        .into_iter()
        .collect();
    let mut warn = |message: String| {
        clashes.push(Clash { severity: Severity::Warning, at: PHYSNETS, message: message.into() });
    };
    for name in named.iter().filter(|name| !name.is_empty() && config.physnet_groups.of(name).is_empty()) {
        warn(format!("[neutron] physnets: {name} has no effect: [neutron_physnet_{name}] numa_nodes is not set"));
    }
    for name in config.physnet_groups.names().filter(|name| !named.iter().any(|named| named == name)) {
        warn(format!("[neutron_physnet_{name}] has no effect: [neutron] physnets does not name {name}"));
    }
    clashes
}
