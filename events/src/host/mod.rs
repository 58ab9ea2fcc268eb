//! A compute host: its properties, its liveness, and whether it accepts new servers.
//!
//! A heartbeat is not an event. The log records only when a host goes down and when it comes up again.

mod drain;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::HostId;

pub use drain::{
    Departure, DepartureBegun, Drain, DrainCancelled, DrainEnded, DrainRequested, LeavingServer, Maintenance,
    MaintenanceBegun, MaintenanceEnded, ServerLeft, ServerStayed,
};

noun! {
    /// Events of a host.
    HostEvent = "host" {
        /// A host was seen for the first time.
        Registered = "registered" @ 1,
        /// The properties of a host changed (CPUs, memory, software).
        CapabilitiesChanged = "capabilities_changed" @ 1,
        /// The host answers (again).
        CameUp = "came_up" @ 1,
        /// The host stopped answering.
        WentDown = "went_down" @ 1,
        /// An administrator allows new servers.
        Enabled = "enabled" @ 1,
        /// An administrator forbids new servers.
        Disabled = "disabled" @ 1,
        /// An administrator forced the host down (`force_down`, 2.11).
        ForcedDown = "forced_down" @ 1,
        /// An administrator removed the host; a removed host that still answers is registered again.
        Deregistered = "deregistered" @ 1,
        /// An administrator asked to drain the host: a process moves its servers away.
        DrainRequested = "drain_requested" @ 1,
        /// A server is about to be moved away by a drain.
        DepartureBegun = "departure_begun" @ 1,
        /// A server has left a host that is being drained.
        ServerLeft = "server_left" @ 1,
        /// A server of a host that is being drained cannot be moved now.
        ServerStayed = "server_stayed" @ 1,
        /// An administrator cancelled a drain: no other server is moved.
        DrainCancelled = "drain_cancelled" @ 1,
        /// A drain is over.
        DrainEnded = "drain_ended" @ 1,
        /// An administrator put the host into maintenance.
        MaintenanceBegun = "maintenance_begun" @ 1,
        /// An administrator ended the maintenance.
        MaintenanceEnded = "maintenance_ended" @ 1,
    }
}

/// The properties of a host: the fields that the hypervisors API shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    pub hypervisor_type: String,
    pub hypervisor_version: u32,
    pub libvirt_version: u32,
    pub host_ip: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
    pub kvm: bool,
    pub cpu_arch: String,
    pub cpu_model: String,
    pub cpu_vendor: String,
    pub cpu_sockets: u32,
    pub cpu_cores: u32,
    pub cpu_threads: u32,
    pub cpu_features: Vec<String>,
    pub traits: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registered {
    pub host: HostId,
    /// The host's number in the order of registration, deregistered hosts included. It is the integer id in the API
    /// before 2.53.
    pub number: u64,
    pub hostname: String,
    /// The URI of its hypervisor, without credentials.
    pub uri: String,
    pub capabilities: Capabilities,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapabilitiesChanged {
    pub hostname: String,
    pub uri: String,
    pub capabilities: Capabilities,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CameUp {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WentDown {
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Enabled {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disabled {
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForcedDown {
    pub forced: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deregistered {}

/// A host that was registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownHost {
    pub id: HostId,
    pub number: u64,
    pub hostname: String,
    pub uri: String,
    pub capabilities: Capabilities,
    pub up: bool,
    pub down_reason: Option<String>,
    pub enabled: bool,
    pub disabled_reason: Option<String>,
    pub forced_down: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The newest drain, under way or ended.
    pub drain: Option<Arc<Drain>>,
    pub maintenance: Option<Maintenance>,
}

impl KnownHost {
    /// The drain under way.
    pub fn draining(&self) -> Option<&Drain> {
        self.drain.as_deref().filter(|drain| drain.ended_at.is_none())
    }

    /// Whether the control plane can operate on the host's servers.
    pub fn answers(&self) -> bool {
        self.up && !self.forced_down
    }
}

/// A host: `None` until it is registered, and after it is deregistered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Host(pub Option<Box<KnownHost>>);

impl Fold for Host {
    type Event = HostEvent;
    const STATE_VERSION: u32 = 2;

    fn evolve(&mut self, event: &HostEvent, at: Timestamp) {
        if let HostEvent::Registered(registered) = event {
            self.0 = Some(Box::new(KnownHost {
                id: registered.host,
                number: registered.number,
                hostname: registered.hostname.clone(),
                uri: registered.uri.clone(),
                capabilities: registered.capabilities.clone(),
                up: true,
                down_reason: None,
                enabled: true,
                disabled_reason: None,
                forced_down: false,
                created_at: at,
                updated_at: at,
                drain: None,
                maintenance: None,
            }));
            return;
        }
        if let HostEvent::Deregistered(_) = event {
            self.0 = None;
        }
        let Some(host) = &mut self.0 else { return };
        host.updated_at = at;
        match event {
            HostEvent::Registered(_) | HostEvent::Deregistered(_) => {}
            HostEvent::CapabilitiesChanged(changed) => {
                host.hostname.clone_from(&changed.hostname);
                host.uri.clone_from(&changed.uri);
                host.capabilities = changed.capabilities.clone();
            }
            HostEvent::CameUp(_) => {
                host.up = true;
                host.down_reason = None;
            }
            HostEvent::WentDown(down) => {
                host.up = false;
                host.down_reason = Some(down.reason.clone());
            }
            HostEvent::Enabled(_) => {
                host.enabled = true;
                host.disabled_reason = None;
            }
            HostEvent::Disabled(disabled) => {
                host.enabled = false;
                host.disabled_reason.clone_from(&disabled.reason);
            }
            HostEvent::ForcedDown(forced) => host.forced_down = forced.forced,
            HostEvent::DrainRequested(requested) => host.drain = Some(Arc::new(Drain::begin(requested, at))),
            HostEvent::MaintenanceBegun(begun) => {
                host.maintenance = Some(Maintenance { reason: begun.reason.clone(), since: at });
            }
            HostEvent::MaintenanceEnded(_) => host.maintenance = None,
            HostEvent::DepartureBegun(_)
            | HostEvent::ServerLeft(_)
            | HostEvent::ServerStayed(_)
            | HostEvent::DrainCancelled(_)
            | HostEvent::DrainEnded(_) => {
                if let Some(drain) = &mut host.drain {
                    Arc::make_mut(drain).evolve(event, at);
                }
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<HostEvent> {
    let capabilities = Capabilities {
        hypervisor_type: "QEMU".into(),
        hypervisor_version: 7_002_000,
        libvirt_version: 9_000_000,
        host_ip: "192.0.2.10".into(),
        vcpus: 8,
        memory_mib: 16_384,
        disk_gib: 200,
        kvm: true,
        cpu_arch: "x86_64".into(),
        cpu_model: "EPYC-Rome".into(),
        cpu_vendor: "AMD".into(),
        cpu_sockets: 1,
        cpu_cores: 4,
        cpu_threads: 2,
        cpu_features: vec!["avx2".into()],
        traits: vec!["COMPUTE_NODE".into()],
    };
    let mut all = vec![
        Registered {
            host: HostId(uuid::Uuid::from_u128(1)),
            number: 1,
            hostname: "h1".into(),
            uri: "qemu+tls://h1/system".into(),
            capabilities: capabilities.clone(),
        }
        .into(),
        CapabilitiesChanged { hostname: "h1".into(), uri: "qemu:///system".into(), capabilities }.into(),
        CameUp {}.into(),
        WentDown { reason: "no answer".into() }.into(),
        Enabled {}.into(),
        Disabled { reason: Some("repair".into()) }.into(),
        ForcedDown { forced: true }.into(),
        Deregistered {}.into(),
    ];
    all.extend(drain::samples());
    all
}
