//! The request specs of servers, and the resources that they request.

use super::*;
use crate::ports::PortRequestGroup;
use chronova_events::ids::{FlavorId, PortId};

pub(in crate::scheduler) fn flavor(vcpus: u32, memory_mib: u64, root_gib: u32) -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("1"),
        name: "m1.tiny".into(),
        vcpus,
        memory_mib,
        root_gib,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: vec![],
    }
}

pub(in crate::scheduler) fn request(flavor: FlavorSnapshot) -> RequestSpec {
    RequestSpec::of_flavor(flavor.into(), ProjectId::new("p"), "nova")
}

/// The specs of a flavor with two groups, as in Nova's documentation: a VF with bandwidth on each of two networks. The
/// first group also has its traits.
pub(in crate::scheduler) const TWO_GROUPS: [(&str, &str); 6] = [
    ("resources1:SRIOV_NET_VF", "1"),
    ("resources1:CUSTOM_NET_EGRESS_BYTES_SEC", "1000"),
    ("trait1:CUSTOM_PHYSNET_NET1", "required"),
    ("trait1:HW_NIC_ACCEL_SSL", "required"),
    ("resources2:SRIOV_NET_VF", "1"),
    ("resources2:CUSTOM_NET_EGRESS_BYTES_SEC", "2000"),
];

/// A group of a port's resources, with one class and one trait.
pub(in crate::scheduler) fn port_group(id: &str, class: &str, amount: u64, name: &str) -> PortRequestGroup {
    PortRequestGroup {
        id: id.to_owned(),
        resources: [(class.to_owned(), amount)].into(),
        traits: vec![name.to_owned()],
    }
}

/// A port that requests groups of resources from one subtree.
pub(in crate::scheduler) fn port_with(groups: Vec<PortRequestGroup>) -> PortResourceRequest {
    PortResourceRequest {
        port: PortId::random(),
        same_subtree: groups.iter().map(|group| group.id.clone()).collect(),
        has_groups: groups.len() > 1,
        groups,
        bound_to: None,
    }
}

fn with(specs: &[(&str, &str)]) -> RequestSpec {
    let specs = specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    request(FlavorSnapshot { extra_specs: specs, ..flavor(4, 512, 10) })
}

/// The request as text: `VCPU=4 | suffix: CLASS=1 +TRAIT -TRAIT`.
fn words(wanted: &ResourceRequest) -> String {
    let group = |group: &RequestGroup| {
        let mut parts: Vec<String> = Vec::new();
        if !group.suffix.is_empty() {
            parts.push(format!("{}:", group.suffix));
        }
        parts.extend(group.resources.iter().map(|(class, amount)| format!("{class}={amount}")));
        parts.extend(group.traits.required.iter().flatten().map(|name| format!("+{name}")));
        parts.extend(group.traits.forbidden.iter().map(|name| format!("-{name}")));
        parts.join(" ")
    };
    wanted.groups.values().map(group).collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_flavor_becomes_resources_as_in_nova() {
    let resources = |root: u32, ephemeral: u32, swap: u32| {
        let flavor = FlavorSnapshot { ephemeral_gib: ephemeral, swap_mib: swap, ..flavor(2, 512, root) };
        words(&ResourceRequest::of(&request(flavor), true))
    };
    assert_eq!(resources(10, 5, 1), "DISK_GB=16 MEMORY_MB=512 VCPU=2", "a MiB of swap is a GiB of disk");
    assert_eq!(resources(10, 0, 1024), "DISK_GB=11 MEMORY_MB=512 VCPU=2");
    assert_eq!(resources(0, 0, 0), "MEMORY_MB=512 VCPU=2", "a flavor without disks claims no disk");
}

#[test]
fn extra_specs_override_add_and_group() {
    let of = |specs: &[(&str, &str)]| words(&ResourceRequest::of(&with(specs), true));
    assert_eq!(
        of(&[("resources:VCPU", "0"), ("resources:CUSTOM_GOLD", "1")]),
        "CUSTOM_GOLD=1 DISK_GB=10 MEMORY_MB=512"
    );
    assert_eq!(
        of(&[("resources:VCPU", "2"), ("resources:MEMORY_MB", "2048"), ("resources:DISK_GB", "1")]),
        "DISK_GB=1 MEMORY_MB=2048 VCPU=2"
    );
    assert_eq!(of(&[("resources:MEMORY_MB", "0"), ("resources:DISK_GB", "0")]), "VCPU=4");
    assert_eq!(
        of(&[("trait:HW_A", "required"), ("trait:HW_B", "forbidden")]),
        "DISK_GB=10 MEMORY_MB=512 VCPU=4 +HW_A -HW_B"
    );
    let grouped =
        with(&[("resources1:SRIOV_NET_VF", "1"), ("trait1:CUSTOM_LEFT", "required"), ("group_policy", "isolate")]);
    let wanted = ResourceRequest::of(&grouped, true);
    assert_eq!(words(&wanted), "DISK_GB=10 MEMORY_MB=512 VCPU=4 | 1: SRIOV_NET_VF=1 +CUSTOM_LEFT");
    assert!(wanted.isolate);
    assert_eq!(wanted.required_traits(), BTreeSet::from(["CUSTOM_LEFT"]));
    assert_eq!(
        of(&[("resources:VCPU", "many"), ("capabilities:x", "1"), ("hw:x", "1")]),
        "DISK_GB=10 MEMORY_MB=512 VCPU=4"
    );
}

#[test]
fn several_groups_of_resources_need_a_policy() {
    let traits = [("trait2:CUSTOM_PHYSNET_NET2", "required"), ("trait2:CUSTOM_SLOW", "forbidden")];
    let of = |policy: Option<&str>| {
        let policy = policy.map(|policy| ("group_policy", policy));
        let specs: Vec<_> = TWO_GROUPS.into_iter().chain(traits).chain(policy).collect();
        let wanted = ResourceRequest::of(&with(&specs), true);
        let groups = "DISK_GB=10 MEMORY_MB=512 VCPU=4 \
                      | 1: CUSTOM_NET_EGRESS_BYTES_SEC=1000 SRIOV_NET_VF=1 +CUSTOM_PHYSNET_NET1 +HW_NIC_ACCEL_SSL \
                      | 2: CUSTOM_NET_EGRESS_BYTES_SEC=2000 SRIOV_NET_VF=1 +CUSTOM_PHYSNET_NET2 -CUSTOM_SLOW";
        assert_eq!(words(&wanted), groups);
        (wanted.isolate, wanted.undecided)
    };
    assert_eq!(of(Some("isolate")), (true, false));
    assert_eq!(of(Some("none")), (false, false));
    assert_eq!(of(None), (false, true));
    assert_eq!(of(Some("whatever")), (false, true));
    let one = ResourceRequest::of(&with(&TWO_GROUPS[..4]), true);
    assert!(!one.undecided, "one group by itself needs no policy");
}

#[test]
fn ports_add_groups_of_their_own() {
    let ports = vec![
        port_with(vec![port_group("p1", "NET_BW_EGR_KILOBIT_PER_SEC", 1000, "CUSTOM_A")]),
        port_with(vec![
            port_group("p2", "NET_BW_EGR_KILOBIT_PER_SEC", 1000, "CUSTOM_B"),
            port_group("p3", "NET_PACKET_RATE_KILOPACKET_PER_SEC", 1000, "CUSTOM_C"),
        ]),
    ];
    let of = |specs: &[(&str, &str)]| {
        ResourceRequest::of(&RequestSpec { port_requests: ports.clone(), ..with(specs) }, true)
    };
    let wanted = of(&[]);
    assert_eq!(
        words(&wanted),
        "DISK_GB=10 MEMORY_MB=512 VCPU=4 | p1: NET_BW_EGR_KILOBIT_PER_SEC=1000 +CUSTOM_A \
         | p2: NET_BW_EGR_KILOBIT_PER_SEC=1000 +CUSTOM_B | p3: NET_PACKET_RATE_KILOPACKET_PER_SEC=1000 +CUSTOM_C"
    );
    assert_eq!(wanted.same_subtrees, [BTreeSet::from(["p2".to_owned(), "p3".to_owned()])]);
    // Nova then sets the policy `none`.
    assert_eq!((wanted.undecided, wanted.isolate), (false, false));
    assert!(!of(&[("resources1:SRIOV_NET_VF", "1")]).undecided, "the flavor has one group by itself");
    assert!(of(&[("group_policy", "isolate")]).isolate);
    let several = [("resources1:SRIOV_NET_VF", "1"), ("resources2:SRIOV_NET_VF", "1")];
    assert!(of(&several).undecided);
}

#[test]
fn pinned_cpus_are_another_class() {
    let threads = |policy| {
        words(&ResourceRequest::of(&with(&[("hw:cpu_policy", "dedicated"), ("hw:cpu_thread_policy", policy)]), true))
    };
    assert_eq!(threads("require"), "DISK_GB=10 MEMORY_MB=512 PCPU=4 +HW_CPU_HYPERTHREADING");
    assert_eq!(threads("isolate"), "DISK_GB=10 MEMORY_MB=512 PCPU=4 -HW_CPU_HYPERTHREADING");
    assert_eq!(threads("prefer"), "DISK_GB=10 MEMORY_MB=512 PCPU=4");
    let of = |specs: &[(&str, &str)]| words(&ResourceRequest::of(&with(specs), true));
    let equivalent = |state: &str| of(&[("resources:PCPU", "4"), ("trait:HW_CPU_HYPERTHREADING", state)]);
    assert_eq!([equivalent("required"), equivalent("forbidden")], [threads("require"), threads("isolate")]);
    let dedicated = ("hw:cpu_policy", "dedicated");
    assert_eq!(of(&[dedicated]), "DISK_GB=10 MEMORY_MB=512 PCPU=4");
    assert_eq!(of(&[dedicated, ("hw:emulator_threads_policy", "isolate")]), "DISK_GB=10 MEMORY_MB=512 PCPU=5");
    assert_eq!(
        of(&[("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "^0")]),
        "DISK_GB=10 MEMORY_MB=512 PCPU=3 VCPU=1"
    );
    let realtime = [("hw:cpu_policy", "mixed"), ("hw:cpu_realtime", "yes"), ("hw:cpu_realtime_mask", "3")];
    assert_eq!(of(&realtime), "DISK_GB=10 MEMORY_MB=512 PCPU=1 VCPU=3");
    let image = crate::instance::sample_image::image_with(&[("hw_cpu_realtime_mask", "^3,0")]);
    let masked = RequestSpec { image: Some(image.into()), ..with(&realtime) };
    assert_eq!(words(&ResourceRequest::of(&masked, true)), "DISK_GB=10 MEMORY_MB=512 PCPU=3 VCPU=1");
    let pinned = masked.topology().ok().flatten().map(|topology| topology.nodes[0].dedicated.len());
    assert_eq!(pinned, Some(3), "the claim and the topology differ");
    assert_eq!(words(&ResourceRequest::of(&with(&[dedicated]), false)), "DISK_GB=10 MEMORY_MB=512 VCPU=4");
    assert_eq!(cpus_in("0-2,^1", 4), 2);
    assert_eq!(cpus_in("0-99999999999", 4), 4, "the mask names CPUs beyond the count");
}

#[test]
fn features_become_traits_and_classes() {
    let of = |specs: &[(&str, &str)]| words(&ResourceRequest::of(&with(specs), true));
    let image = crate::instance::sample_image::image_with(&[("hw_emulation_architecture", "aarch64")]);
    let arm = words(&ResourceRequest::of(&RequestSpec { image: Some(image.into()), ..with(&[]) }, true));
    assert_eq!(arm, "DISK_GB=10 MEMORY_MB=512 VCPU=4 +COMPUTE_ARCH_AARCH64");
    let iommu = of(&[("hw:viommu_model", "intel")]);
    assert_eq!(iommu, "DISK_GB=10 MEMORY_MB=512 VCPU=4 +COMPUTE_VIOMMU_MODEL_INTEL");
    let port = |vnic| DevicePort {
        port: chronova_events::ids::PortId(uuid::Uuid::nil()),
        vnic,
        network: None,
        policy: None,
        trusted: false,
    };
    let of_port =
        |vnic| words(&ResourceRequest::of(&RequestSpec { device_ports: vec![port(vnic)], ..with(&[]) }, true));
    assert_eq!(of_port(DeviceVnic::Direct), "DISK_GB=10 MEMORY_MB=512 VCPU=4");
    let remote = of_port(DeviceVnic::RemoteManaged);
    assert_eq!(remote, "DISK_GB=10 MEMORY_MB=512 VCPU=4 +COMPUTE_REMOTE_MANAGED_PORTS");
    let tpm = of(&[("hw:tpm_version", "2.0"), ("hw:tpm_model", "tpm-crb")]);
    assert_eq!(tpm, "DISK_GB=10 MEMORY_MB=512 VCPU=4 +COMPUTE_SECURITY_TPM_2_0 +COMPUTE_SECURITY_TPM_CRB");
    assert_eq!(
        of(&[("hw:mem_encryption", "t"), ("hw:pmem", "6GB,6GB")]),
        "CUSTOM_PMEM_NAMESPACE_6GB=2 DISK_GB=10 MEMORY_MB=512 MEM_ENCRYPTION_CONTEXT=1 VCPU=4 +HW_CPU_X86_AMD_SEV"
    );
}
