//! Tests the options of the NUMA affinity of networks.

use std::collections::BTreeSet;

use super::*;

#[test]
fn cells_near_networks_reach_the_scheduler() {
    let text = "[neutron]\nphysnets = foo,bar\n[neutron_physnet_foo]\nnuma_nodes = 0\n[neutron_physnet_bar]\n\
                numa_nodes = 2,3\n[neutron_tunnel]\nnuma_nodes = 1\n";
    assert_eq!(problems_in(&[text]), [""; 0]);
    let cells = good(&[text]).config.targets().runtime.scheduler.network_cells;
    assert_eq!((&cells.physical["foo"], &cells.physical["bar"]), (&BTreeSet::from([0]), &BTreeSet::from([2, 3])));
    assert_eq!(cells.tunnels, BTreeSet::from([1]));
    assert!(good(&["[neutron]\nphysnets =\n"]).config.targets().runtime.scheduler.network_cells.is_empty());
}

#[test]
fn wrong_cells_near_networks_are_reported() {
    let text = "[neutron]\nphysnets = foo\n[neutron_physnet_bar]\nnuma_nodes = 1\nother = 2\n[neutron_tunnel]\n\
                numa_nodes = x\n[neutron_physnet_foo]\nnuma_nodes = eth0\n";
    let said = problems_in(&[text]).join("\n");
    for part in [
        "0.conf:2: warning: [neutron] physnets: foo has no effect: [neutron_physnet_foo] numa_nodes is not set",
        "0.conf:2: warning: [neutron_physnet_bar] has no effect: [neutron] physnets does not name bar",
        "0.conf:5: warning: [neutron_physnet_bar] other: is not a known option",
        "0.conf:7: error: [neutron_tunnel] numa_nodes: `x` is not the number of a NUMA cell",
        "0.conf:9: error: [neutron_physnet_foo] numa_nodes: `eth0` is not the number of a NUMA cell",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
