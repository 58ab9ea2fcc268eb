//! The embedded network service on OVN: how hosts plug guests, and when a port counts as plugged.

use std::time::Duration;

use chronova_events::clock::SystemClock;
use chronova_events::instance::NicInfo;
use chronova_hypervisor::guest::NicPlug;

use super::super::wanted::{LiveDestinations, chassis};
use super::*;
use crate::gateway::CommandGateway;
use crate::ports::{NetworkService as _, PlaneOwner, PlugState};
use crate::services::embedded::network::service::EmbeddedNetworks;

fn nic() -> NicInfo {
    NicInfo {
        port: GUEST,
        network: INNER,
        network_label: "private".to_owned(),
        mac: "fa:16:3e:00:00:03".to_owned(),
        mtu: 1500,
        fixed_ips: vec![],
        tag: None,
        owned: true,
        security_groups: vec![],
    }
}

/// The service of a member that only reads.
fn service(cloud: &Cloud, ovn: Option<Arc<OvnPlane>>) -> Arc<EmbeddedNetworks> {
    let gateway = CommandGateway::refusing(Arc::clone(&cloud.log) as _, Arc::new(SystemClock));
    EmbeddedNetworks::with(gateway, Arc::clone(&cloud.views), Arc::new(SystemClock), ovn, None)
}

#[tokio::test]
async fn guests_are_plugged_into_open_vswitch_and_hosts_need_nothing_else() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    let setup = service(&cloud, Some(plane)).realise(&[nic()]).await.unwrap();
    assert!(setup.networks.is_empty() && setup.filters.is_empty(), "{setup:?}");
    let [plugged] = setup.nics.as_slice() else { panic!("{setup:?}") };
    assert_eq!(plugged.plug, NicPlug::OpenVswitch { bridge: "br-int".to_owned() });
    assert_eq!((plugged.mtu, plugged.filter.as_deref(), plugged.port), (1442, None, GUEST));

    let setup = service(&cloud, None).realise(&[nic()]).await.unwrap();
    assert_eq!((setup.networks.len(), setup.filters.len()), (1, 1), "libvirt's networks are per host");
    assert_eq!((&setup.nics[0].plug, setup.nics[0].mtu), (&NicPlug::Network, 1500));
}

#[tokio::test]
async fn a_server_waits_until_ovn_carries_its_port() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    let networks = service(&cloud, Some(Arc::clone(&plane)));
    settled(&plane, &cloud).await;
    assert_eq!(networks.await_plugged(&[GUEST], Duration::ZERO).await, Ok(PlugState::NotYet));
    let guest = named(&server, "Logical_Switch_Port", &GUEST.to_string());
    let up = json!({"op": "update", "table": "Logical_Switch_Port", "where": of(&guest), "row": {"up": true}});
    server.change(vec![up]).await;
    assert_eq!(networks.await_plugged(&[GUEST], LONG).await, Ok(PlugState::Plugged));
    assert!(networks.plane().is_some_and(|plane| plane.carries(GUEST)));
    let past = networks.as_of(&cloud.views).unwrap();
    assert!(past.plane().is_none(), "OVN keeps no past");
    assert_eq!(service(&cloud, None).await_plugged(&[GUEST], Duration::ZERO).await, Ok(PlugState::Plugged));
}

#[tokio::test]
async fn nobody_waits_for_a_port_that_is_a_device_of_its_host() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    let device = PortId(id(0x30));
    let settings = PortSettings { vnic_type: "direct".to_owned(), ..PortSettings::default() };
    cloud.port(INNER, device, "fa:16:3e:00:00:30", (INNER_SUBNET, "10.0.0.30"), settings).await;
    settled(&plane, &cloud).await;
    let networks = service(&cloud, Some(plane));
    assert_eq!(networks.await_plugged(&[device], Duration::ZERO).await, Ok(PlugState::Plugged));
    assert_eq!(networks.await_plugged(&[device, GUEST], Duration::ZERO).await, Ok(PlugState::NotYet));
}

#[tokio::test]
async fn one_log_writes_a_database() {
    let server = FakeOvsdb::start().await;
    let row = json!({"external_ids": ["map", [["other", "kept"]]]});
    server.change(vec![json!({"op": "insert", "table": "NB_Global", "uuid-name": "global", "row": row})]).await;
    let plane = connected(&server).await;
    let owner = |installation: u128, generation: u128, is_admitted: bool| PlaneOwner {
        installation: id(installation),
        generation: id(generation),
        is_admitted,
    };
    plane.claim(owner(1, 1, false)).await.unwrap();
    plane.claim(owner(1, 1, false)).await.unwrap();
    for other in [owner(2, 2, true), owner(1, 2, false)] {
        let refused = plane.claim(other).await;
        assert!(matches!(refused, Err(PortError::Conflict(_))), "{other:?}: {refused:?}");
    }
    plane.claim(owner(1, 2, true)).await.unwrap();
    assert!(plane.claim(owner(1, 1, false)).await.is_err(), "the hosts have admitted a copy of this log");
    let known = server.rows("NB_Global")[0]["external_ids"].to_json();
    let now = format!("{}/{}", id(1), id(2));
    assert_eq!(known, json!(["map", [["chronova-log", now], ["other", "kept"]]]));
    assert_eq!(server.state.lock().unwrap().transactions, 2, "a claim is written once");
}

#[tokio::test]
async fn during_a_live_migration_two_hosts_may_bind_a_port() {
    let cloud = Cloud::furnished().await;
    let port = cloud.views.networks.read(|view| view.port(GUEST).cloned()).unwrap();
    let of = |host: &str| LiveDestinations::from([(id(5).to_string(), host.to_owned())]);
    assert_eq!(chassis(&port, &LiveDestinations::new()), [("requested-chassis", "h1".to_owned())]);
    assert_eq!(chassis(&port, &of("h1")), [("requested-chassis", "h1".to_owned())], "the server has arrived");
    let both = [("requested-chassis", "h1,h2".to_owned()), ("activation-strategy", "rarp".to_owned())];
    assert_eq!(chassis(&port, &of("h2")), both);
}
