//! Determines how a host plugs the interfaces of a server, and waits until Neutron reports their ports as active.

use std::time::Duration;

use chronova_events::envelope::Meta;
use chronova_events::ids::PortId;
use chronova_events::instance::NicInfo;
use chronova_hypervisor::guest::{Nic, NicPlug};
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use super::NeutronNetworks;
use super::bind::ensure_bound;
use super::calls::{NeutronCaller, NeutronError};
use super::devices::device_plug;
use super::documents::NeutronPort;
use crate::ports::{HostNetworkSetup, PlugState, PortError};

/// The number of characters of an id in the name of a device. With a prefix of three characters (`tap`, `brq`), the
/// name has 14 characters as in Nova, and fits into a Linux interface name.
const DEVICE_ID: usize = 11;
/// The longest pause between two questions to Neutron. An event may be lost, so the wait does not rely on events.
const LOOK: Duration = Duration::from_secs(3);

impl NeutronNetworks {
    /// `host`: the destination of a live migration. The setup then uses the ports' bindings to that host.
    pub(super) async fn setup_of(&self, nics: &[NicInfo], host: Option<&str>) -> Result<HostNetworkSetup, PortError> {
        let meta = Meta::system("neutron");
        let ids: Vec<String> = nics.iter().map(|nic| nic.port.to_string()).collect();
        let asker = NeutronCaller::account(&meta);
        let mut ports: Vec<NeutronPort> = self.calls.list_by(asker, "ports", "id", &ids, "").await?;
        if let Some(host) = host {
            for port in &mut ports {
                self.see_from(port, host, asker).await?;
            }
        }
        let realised = nics.iter().map(|nic| {
            let port = ports.iter().find(|port| port.id == nic.port).cloned();
            let port = port.ok_or_else(|| PortError::NotFound(format!("Port {} could not be found.", nic.port)))?;
            let port = ensure_bound(port)?;
            Ok(Nic {
                port: nic.port,
                network: nic.network,
                mac: port.mac_address.clone(),
                mtu: nic.mtu,
                filter: None,
                tap: format!("tap{}", short(nic.port)),
                plug: plug(&port, &self.ovs_bridge)?,
            })
        });
        let nics = realised.collect::<Result<Vec<Nic>, PortError>>()?;
        Ok(HostNetworkSetup { nics, ..HostNetworkSetup::default() })
    }

    pub(super) async fn wait_for(&self, ports: &[PortId], patience: Duration) -> Result<PlugState, PortError> {
        let end = Instant::now() + patience;
        // The subscription begins before the first question, so that no event is missed in between.
        let mut events = self.plugged.subscribe();
        loop {
            match self.all_active(ports).await {
                Ok(true) => return Ok(PlugState::Plugged),
                Ok(false) => {}
                Err(NeutronError::Unavailable(_)) if Instant::now() < end => {}
                Err(error) => return Err(error.into()),
            }
            let look = (Instant::now() + LOOK).min(end);
            loop {
                match timeout_at(look, events.recv()).await {
                    Ok(Ok((port, plugged))) if ports.contains(&port) => match plugged {
                        true => break,
                        false => return Ok(PlugState::Failed),
                    },
                    Ok(Ok(_)) => {}
                    Ok(Err(RecvError::Lagged(_))) | Err(_) => break,
                    Ok(Err(RecvError::Closed)) => return Ok(PlugState::NotYet),
                }
            }
            if Instant::now() >= end {
                return Ok(PlugState::NotYet);
            }
        }
    }

    /// Whether all ports are active. A port that is gone does not count.
    async fn all_active(&self, ports: &[PortId]) -> Result<bool, NeutronError> {
        let meta = Meta::system("neutron");
        let ids: Vec<String> = ports.iter().map(PortId::to_string).collect();
        let more = "&fields=id&fields=status";
        let found: Vec<Value> = self.calls.list_by(NeutronCaller::account(&meta), "ports", "id", &ids, more).await?;
        Ok(found.iter().all(|port| port["status"].as_str() == Some("ACTIVE")))
    }
}

fn short(id: impl std::fmt::Display) -> String {
    id.to_string().chars().take(DEVICE_ID).collect()
}

/// The plug for a port's `vif_type`. Only types that libvirt can plug by itself are supported, because Chronova
/// installs no agent on hosts.
pub(super) fn plug(port: &NeutronPort, ovs_bridge: &str) -> Result<NicPlug, PortError> {
    let detail = |key: &str| port.vif_details.get(key).and_then(Value::as_str).filter(|name| is_device(name));
    let refused = |why: String| PortError::NotHere(format!("Port {} cannot be plugged: {why}", port.id));
    if let Some(plug) = device_plug(port) {
        return plug.map_err(refused);
    }
    match port.vif_type.as_deref().unwrap_or("unbound") {
        "ovs" if port.vif_details["ovs_hybrid_plug"] == Value::Bool(true) => Err(refused(
            "its firewall driver needs a Linux bridge on the host (ovs_hybrid_plug). Use OVN or Neutron's openvswitch firewall driver."
                .to_owned(),
        )),
        "ovs" => Ok(NicPlug::OpenVswitch { bridge: detail("bridge_name").unwrap_or(ovs_bridge).to_owned() }),
        "bridge" => {
            let default = || format!("brq{}", short(port.network_id));
            Ok(NicPlug::Bridge { bridge: detail("bridge_name").map_or_else(default, str::to_owned) })
        }
        "tap" => Ok(NicPlug::Tap),
        "unbound" => Err(refused("the port is not bound to a host".to_owned())),
        other => Err(refused(format!("Unexpected vif_type={other}"))),
    }
}

/// Whether Linux accepts this name of a device.
fn is_device(name: &str) -> bool {
    !name.is_empty() && name.len() < 16 && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
}
