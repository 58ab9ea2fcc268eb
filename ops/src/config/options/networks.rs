//! `[network]` and `[ovn]`: what carries the networks of the embedded network service.

use std::path::PathBuf;

use super::super::option::Default::Text;

section! {
    /// The embedded network service. `[ovn]` has the names and defaults of Neutron's driver for OVN.
    NetworkSection = "network" from Chronova {
        backend: String => here {
            default: Text("libvirt"), choices: &["libvirt", "ovn"],
            help: "Carrier of the embedded network service's networks. libvirt: each host has its own networks, \
                   with NAT. ovn: networks span all hosts, which need ovn-host, and Chronova writes OVN's northbound \
                   database.",
        }
        automatic_range: Option<String> => here {
            help: "IPv4 network from which a project without a network gets one with 254 addresses, when a request for a \
                   server says that the network is chosen automatically (`--nic auto`). Unset: such a request is \
                   refused.",
        }
        gateway_chassis: Vec<String> => here {
            help: "Chassis of OVN (external_ids:system-id) that reach the external networks, in order of preference. \
                   Empty: routers have no gateway, and floating addresses do not work.",
        }
        tunnel_mtu: u32 => here {
            default: Text("1442"), min: Some(576.0), max: Some(65_535.0),
            help: "Largest MTU of guests on OVN's networks, and the MTU of a new network. It is the MTU between hosts \
                   without 58 bytes for Geneve. Networks with a physical network keep their own MTU.",
        }
    }
}

section! {
    /// The northbound database of OVN.
    OvnSection = "ovn" from Neutron {
        ovn_nb_connection: String => here {
            default: Text("tcp:127.0.0.1:6641"),
            help: "Addresses of OVN's northbound database: tcp:HOST:PORT, ssl:HOST:PORT or unix:PATH. Several with commas \
                   between them are those of one cluster. Only with [network] backend = ovn.",
        }
        ovn_nb_private_key: Option<PathBuf> => here {
            help: "File with the private key (PEM) of ovn_nb_certificate.",
        }
        ovn_nb_certificate: Option<PathBuf> => here {
            help: "File with the certificate (PEM) that Chronova shows to the northbound database.",
        }
        ovn_nb_ca_cert: Option<PathBuf> => here {
            help: "File with certificates (PEM) of authorities that sign the database's. Its certificate must have the \
                   name or address of ovn_nb_connection. Unset: the system's.",
        }
        ovsdb_connection_timeout: u32 => here {
            default: Text("180"), min: Some(1.0), unit: "seconds",
            help: "How long a connection to the database may take, with the first copy of its tables.",
        }
        ovsdb_probe_interval: u32 => here {
            default: Text("60000"), min: Some(1000.0), unit: "milliseconds",
            help: "After a silence of this length, Chronova asks whether the database still runs. Without an answer for \
                   as long again, it connects again.",
        }
    }
}

impl NetworkSection {
    pub fn is_ovn(&self) -> bool {
        self.backend == "ovn"
    }
}
