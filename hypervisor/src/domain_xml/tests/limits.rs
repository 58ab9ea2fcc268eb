//! The limits of a flavor on disks and interfaces, its CPU topology, and the names of the property that hides the
//! hypervisor.

use super::*;

fn flat(properties: &[(&str, &str)], guest: &GuestSpec, host: &HostFacts) -> String {
    let guest = GuestSpec { hardware: with(properties).hardware, ..guest.clone() };
    render(&guest, host).unwrap().split('\n').map(str::trim).collect()
}

#[test]
fn each_limit_of_a_disk_is_set_on_each_local_disk() {
    let guest = GuestSpec { ephemerals_gib: vec![1], swap_mib: 64, ..guest() };
    let limits = [
        ("quota:disk_read_bytes_sec", "read_bytes_sec"),
        ("quota:disk_write_bytes_sec", "write_bytes_sec"),
        ("quota:disk_total_bytes_sec", "total_bytes_sec"),
        ("quota:disk_read_iops_sec", "read_iops_sec"),
        ("quota:disk_write_iops_sec", "write_iops_sec"),
        ("quota:disk_total_iops_sec", "total_iops_sec"),
    ];
    for (spec, word) in limits {
        let xml = flat(&[(spec, "1234")], &guest, &host());
        let tune = format!("<iotune><{word}>1234</{word}></iotune>");
        assert_eq!(xml.matches(&tune).count(), 3, "{spec}: root, ephemeral and swap: {xml}");
        assert_eq!(xml.matches("<iotune>").count(), 3, "{spec}: {xml}");
    }
    assert!(!flat(&[], &guest, &host()).contains("iotune"));
    let refused = render(&with(&[("quota:disk_read_iops_sec", "many")]), &host()).unwrap_err();
    assert!(refused.to_string().contains("quota:disk_read_iops_sec"), "{refused}");
}

#[test]
fn each_limit_of_an_interface_is_set_in_its_direction() {
    let of = |specs: &[(&str, &str)]| {
        let xml = flat(specs, &guest(), &host());
        let from = xml.find("<bandwidth>").map(|at| at + "<bandwidth>".len());
        from.map(|from| xml[from..from + xml[from..].find("</bandwidth>").unwrap()].to_owned())
    };
    for direction in ["inbound", "outbound"] {
        let spec = |part: &str| format!("quota:vif_{direction}_{part}");
        let [average, peak, burst] = ["average", "peak", "burst"].map(spec);
        let [average, peak, burst] = [(average.as_str(), "100"), (peak.as_str(), "200"), (burst.as_str(), "300")];
        assert_eq!(of(&[average]).unwrap(), format!("<{direction} average='100'/>"));
        let all = format!("<{direction} average='100' peak='200' burst='300'/>");
        assert_eq!(of(&[average, peak, burst]).unwrap(), all);
        // As in Nova, a peak or a burst without an average has no effect, because libvirt would refuse it.
        assert_eq!(of(&[peak, burst]), None, "{direction}");
    }
    let both = [("quota:vif_inbound_average", "1"), ("quota:vif_outbound_average", "2")];
    assert_eq!(of(&both).unwrap(), "<inbound average='1'/><outbound average='2'/>");
}

#[test]
fn exact_counts_of_a_topology_are_those_of_the_flavor_or_else_of_the_image() {
    let of = |vcpus: u32, properties: &[(&str, &str)]| {
        let xml = flat(properties, &GuestSpec { vcpus, ..guest() }, &host());
        let from = xml.find("<topology ").unwrap();
        xml[from..from + xml[from..].find("/>").unwrap() + 2].to_owned()
    };
    let topology = |sockets: u32, cores: u32, threads: u32| {
        format!("<topology sockets='{sockets}' cores='{cores}' threads='{threads}'/>")
    };
    assert_eq!(of(8, &[("hw:cpu_sockets", "2"), ("hw:cpu_cores", "4")]), topology(2, 4, 1), "Nova's example");
    for prefix in ["hw:cpu", "hw_cpu"] {
        let [sockets, cores, threads] = ["sockets", "cores", "threads"].map(|part| format!("{prefix}_{part}"));
        assert_eq!(of(8, &[(&sockets, "2")]), topology(2, 4, 1), "{prefix}");
        assert_eq!(of(8, &[(&cores, "2")]), topology(4, 2, 1), "{prefix}");
        assert_eq!(of(8, &[(&threads, "2")]), topology(4, 1, 2), "{prefix}");
        assert_eq!(of(8, &[(&sockets, "2"), (&cores, "2"), (&threads, "2")]), topology(2, 2, 2), "{prefix}");
    }
    let both = [("hw:cpu_sockets", "2"), ("hw_cpu_sockets", "4")];
    assert_eq!(of(8, &both), topology(2, 4, 1), "the flavor precedes the image");
}

#[test]
fn the_hypervisor_is_hidden_by_each_name_of_the_request() {
    let kvm = HostFacts { kvm: true, ..host() };
    for name in ["hw:hide_hypervisor_id", "hide_hypervisor_id", "img_hide_hypervisor_id"] {
        let hidden = "<kvm><hidden state='on'/></kvm>";
        assert!(flat(&[(name, "true")], &guest(), &kvm).contains(hidden), "{name}");
        assert!(!flat(&[(name, "false")], &guest(), &kvm).contains(hidden), "{name}");
    }
}
