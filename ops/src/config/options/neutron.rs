//! `[neutron]`: real Neutron as the network service, and the metadata proxy of Neutron.

use std::path::PathBuf;

use super::super::account::{AccountFields, HasAccount};
use super::super::option::Default::Text;
use super::keystone::account_section;

account_section! {
    /// Nova's section for its client of Neutron. With `auth_url` that Neutron takes the place of the embedded network
    /// service.
    Neutron = "neutron" from Nova {
        endpoint_override: Option<String> => here {
            help: "Address of Neutron, in place of the one in Keystone's catalogue.",
        }
        service_type: String => here {
            default: Text("network"),
            help: "Type of the service in Keystone's catalogue.",
        }
        valid_interfaces: Vec<String> => here {
            default: Text("internal,public"),
            help: "Endpoints of the catalogue that may be used, in order of preference.",
        }
        region_name: Option<String> => here {
            help: "Region of the endpoint. Unset: any.",
        }
        timeout: Option<u32> => here {
            min: Some(1.0), max: Some(600.0), unit: "seconds",
            help: "How long one answer of Neutron may take. Unset: 60, where Nova waits without end.",
        }
        http_retries: u32 => here {
            default: Text("3"), max: Some(10.0),
            help: "How often a call is repeated when Neutron cannot be reached.",
        }
        extension_sync_interval: u32 => here {
            default: Text("600"), unit: "seconds",
            help: "Time after which Chronova reads the list of Neutron's extensions again.",
        }
        physnets: Vec<String> => here {
            help: "Physical networks with NUMA affinity. A section [neutron_physnet_NAME] of each has numa_nodes, a \
                   comma-separated list of the NUMA cells of hosts that are near the cards of the network. A guest with \
                   NUMA nodes that is on such a network gets a node on one of these cells. Applies to every host that \
                   has such a cell, and to the networks of the embedded network service, too.",
        }
        ovs_bridge: String => here {
            default: Text("br-int"),
            help: "Bridge of Open vSwitch on the hosts, for ports whose details name no bridge.",
        }
        default_floating_pool: String => web.default_floating_pool {
            help: "External network, by name or id, from which os-floating-ips (until 2.35) takes addresses if a \
                   request names no pool.",
        }
        service_metadata_proxy: bool => here {
            default: Text("false"),
            deprecated: &[("DEFAULT", "service_neutron_metadata_proxy")],
            help: "Identify the guest of a metadata request by the headers of Neutron's metadata proxy, and refuse \
                   others. Off: Chronova identifies a guest by the fixed address from which it sends the request.",
        }
        metadata_proxy_shared_secret: String => here {
            default: Text(""), secret: true,
            deprecated: &[("DEFAULT", "neutron_metadata_proxy_shared_secret")],
            help: "Secret with which the proxy signs the guest's id: metadata_proxy_shared_secret of Neutron's \
                   metadata agent. If service_metadata_proxy is on and this secret is not set, Chronova does not \
                   start. Nova logs a warning and believes every request.",
        }
    }
}
