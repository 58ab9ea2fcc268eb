//! The standard names of resource classes and traits.

pub use super::standard_traits::TRAITS;

/// The resource classes of the `os-resource-classes` library. Placement lists them in this order.
pub const CLASSES: &[&str] = &[
    "VCPU",
    "MEMORY_MB",
    "DISK_GB",
    "PCI_DEVICE",
    "SRIOV_NET_VF",
    "NUMA_SOCKET",
    "NUMA_CORE",
    "NUMA_THREAD",
    "NUMA_MEMORY_MB",
    "IPV4_ADDRESS",
    "VGPU",
    "VGPU_DISPLAY_HEAD",
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
    "PCPU",
    "MEM_ENCRYPTION_CONTEXT",
    "FPGA",
    "PGPU",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
];

/// The trait of a sharing provider: all providers in its aggregates may use its inventory.
pub const SHARES: &str = "MISC_SHARES_VIA_AGGREGATE";

pub fn is_standard_class(name: &str) -> bool {
    CLASSES.contains(&name)
}

pub fn is_standard_trait(name: &str) -> bool {
    TRAITS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traits_are_sorted() {
        assert!(TRAITS.is_sorted());
        assert!(is_standard_trait(SHARES) && !is_standard_trait("CUSTOM_FAST"));
    }
}
