//! PCI devices: `[pci]`.

use super::super::option::Multi;

section! {
    /// Nova's `[pci]`.
    Pci = "pci" from Nova {
        device_spec: Multi => here {
            deprecated: &[
                ("DEFAULT", "pci_passthrough_whitelist"),
                ("pci", "passthrough_whitelist"),
                ("pci", "pci_passthrough_whitelist"),
            ],
            help: "PCI devices that guests may get, each a JSON object or a list of objects: vendor_id, product_id, \
                   address, and tags. Applies to every host that [chronova] host_pci_device_spec does not name.",
        }
        alias: Multi => here {
            deprecated: &[("DEFAULT", "pci_alias")],
            help: "Name of a kind of PCI devices, for pci_passthrough:alias of flavors; a JSON object with name, \
                   vendor_id, product_id, device_type, numa_policy, resource_class and traits.",
        }
        report_in_placement: bool => runtime.hosts.host_pci.reports {
            help: "Track PCI devices in Placement, as children of the hosts' providers. Once a host has such \
                   providers, the option cannot be turned off again.",
        }
    }
}
