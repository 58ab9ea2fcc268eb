//! Network interfaces: users attach and detach them, and the network service changes them.

use serde::{Deserialize, Serialize};

use super::payloads::{FaultInfo, NicInfo, RequestedNic};
use crate::ids::{PortId, ProcessId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicAttachRequested {
    pub process: ProcessId,
    /// The requested network or port. A request without network and port means the only network that the project can
    /// use.
    pub wanted: RequestedNic,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicAttached {
    pub process: ProcessId,
    pub nic: NicInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicDetachRequested {
    pub process: ProcessId,
    pub port: PortId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicDetached {
    pub process: ProcessId,
    pub port: PortId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicDetachFailed {
    pub process: ProcessId,
    pub port: PortId,
    pub fault: FaultInfo,
}

/// The network service reported a change of the server's ports. This is their present state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicsRefreshed {
    pub nics: Vec<NicInfo>,
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let uuid = |n: u128| uuid::Uuid::from_u128(n);
    let process = ProcessId(uuid(2));
    let port = PortId(uuid(6));
    let network = crate::ids::NetworkId(uuid(4));
    let nic = NicInfo {
        port,
        network,
        network_label: "private".into(),
        mac: "fa:16:3e:00:00:02".into(),
        mtu: 1500,
        fixed_ips: vec![],
        tag: Some("nic2".into()),
        owned: true,
        security_groups: vec!["default".into()],
    };
    let wanted = RequestedNic {
        network: Some(network),
        port: None,
        fixed_ip: Some("10.0.0.6".into()),
        tag: Some("nic2".into()),
    };
    let fault = FaultInfo { code: 500, message: "The hypervisor refused.".into(), details: "device is in use".into() };
    vec![
        NicAttachRequested { process, wanted }.into(),
        NicAttached { process, nic: nic.clone() }.into(),
        NicDetachRequested { process, port }.into(),
        NicDetached { process, port }.into(),
        NicDetachFailed { process, port, fault }.into(),
        NicsRefreshed { nics: vec![nic] }.into(),
    ]
}
