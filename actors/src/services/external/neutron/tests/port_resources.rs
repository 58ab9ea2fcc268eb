//! Ports that request resources.

use std::collections::BTreeMap;

use super::*;
use crate::ports::{PortProviders, PortResourceRequest};
use chronova_events::ids::ProviderId;

const BANDWIDTH: &str = "NET_BW_EGR_KILOBIT_PER_SEC";
const PACKETS: &str = "NET_PACKET_RATE_KILOPACKET_PER_SEC";

fn provider(n: u128) -> ProviderId {
    ProviderId(uuid::Uuid::from_u128(n))
}

/// A port with this request, and the service that shows it.
async fn with_request(request: Value) -> (NeutronStub, PortId) {
    let neutron = NeutronStub::start().await;
    let port = neutron.add(PROJECT, "");
    let mut state = neutron.state.lock().unwrap();
    state.requests = Some(request.clone());
    let known = state.ports.last_mut().unwrap();
    known.insert("resource_request".to_owned(), request);
    known.insert("binding:profile".to_owned(), json!({"of_the_user": "kept"}));
    drop(state);
    (neutron, port)
}

fn given(port: PortId, to: PortProviders) -> PortGrants {
    PortGrants { allocations: [(port, to)].into(), ..PortGrants::default() }
}

fn named(port: PortId) -> RequestedNic {
    RequestedNic { network: None, port: Some(port), fixed_ip: None, tag: None }
}

async fn only_request(neutron: &NeutronStub, port: PortId) -> PortResourceRequest {
    let mut found = neutron.networks.resource_requests(&[port], &meta()).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[tokio::test]
async fn a_request_without_groups_is_one_group() {
    let (neutron, port) = with_request(json!({"required": ["CUSTOM_A"], "resources": {BANDWIDTH: 1000}})).await;
    let request = only_request(&neutron, port).await;
    let [group] = &request.groups[..] else { panic!("{request:?}") };
    assert_eq!((group.id.clone(), group.traits.clone()), (port.to_string(), vec!["CUSTOM_A".to_owned()]));
    assert_eq!(group.resources, BTreeMap::from([(BANDWIDTH.to_owned(), 1000)]));
    assert!(!request.has_groups && request.same_subtree.is_empty() && request.bound_to.is_none());
    // The account asks, because users do not see the request.
    let asked = neutron.service.calls().into_iter().rfind(|call| call.line.contains("/ports?")).unwrap();
    assert!(asked.line.contains(&format!("id={port}")), "{}", asked.line);
    assert_eq!(asked.header("x-auth-token"), Some("of-the-account"));
    neutron.state.lock().unwrap().ports[0].insert("resource_request".to_owned(), Value::Null);
    assert_eq!(neutron.networks.resource_requests(&[port], &meta()).await.unwrap(), []);
}

#[tokio::test]
async fn a_port_with_groups_names_a_provider_for_each() {
    let (bandwidth, packets) = ("0000000a-0000-0000-0000-000000000001", "0000000b-0000-0000-0000-000000000002");
    let groups = json!([
        {"id": bandwidth, "required": ["CUSTOM_A"], "resources": {BANDWIDTH: 1000}},
        {"id": packets, "required": [], "resources": {PACKETS: 10}},
    ]);
    let (neutron, port) = with_request(json!({"request_groups": groups, "same_subtree": [bandwidth, packets]})).await;
    let request = only_request(&neutron, port).await;
    assert!(request.has_groups);
    assert_eq!(request.groups.iter().map(|group| group.id.as_str()).collect::<Vec<_>>(), [bandwidth, packets]);
    assert_eq!(request.same_subtree, [bandwidth, packets]);
    let both = BTreeMap::from([(bandwidth.to_owned(), provider(1)), (packets.to_owned(), provider(2))]);
    let grants = given(port, PortProviders::OfGroups(both.clone()));
    let request = InterfacesRequest { grants, ..wanted(vec![named(port)]) };
    neutron.networks.allocate(request, meta()).await.unwrap();
    let profile = &neutron.ports()[0]["binding:profile"];
    let expected = json!({bandwidth: provider(1).to_string(), packets: provider(2).to_string()});
    assert_eq!((&profile["allocation"], &profile["of_the_user"]), (&expected, &json!("kept")));
    assert_eq!(only_request(&neutron, port).await.bound_to, Some(PortProviders::OfGroups(both)));
}

#[tokio::test]
async fn the_binding_names_the_provider_on_each_host() {
    let (neutron, port) = with_request(json!({"required": [], "resources": {BANDWIDTH: 1000}})).await;
    let grants = given(port, PortProviders::One(provider(1)));
    let request = InterfacesRequest { grants, ..wanted(vec![named(port)]) };
    neutron.networks.allocate(request.clone(), meta()).await.unwrap();
    let profile = || neutron.ports()[0]["binding:profile"].clone();
    assert_eq!(profile(), json!({"of_the_user": "kept", "allocation": provider(1).to_string()}));
    let (id, project) = (request.instance, &request.project);
    let there = given(port, PortProviders::One(provider(2)));
    for _ in 0..2 {
        neutron.networks.rebind(id, project, Some("h2"), "nova", &there, meta()).await.unwrap();
        assert_eq!(neutron.ports()[0]["binding:host_id"], "h2");
        assert_eq!(profile(), json!({"of_the_user": "kept", "allocation": provider(2).to_string()}));
    }
    neutron.networks.rebind(id, project, None, "nova", &PortGrants::default(), meta()).await.unwrap();
    assert_eq!(profile(), json!({"of_the_user": "kept"}), "an unbound port has no provider");
    neutron.networks.release(id, project, &[], meta()).await.unwrap();
    assert_eq!(profile(), json!({}));
}

/// The destination's binding names the destination's provider; the source's binding keeps its own until the switch.
#[tokio::test]
async fn both_bindings_of_a_live_migration_name_their_providers() {
    let (neutron, port) = with_request(json!({"required": [], "resources": {BANDWIDTH: 1000}})).await;
    neutron.state.lock().unwrap().others = Some(Vec::new());
    let grants = given(port, PortProviders::One(provider(1)));
    let request = InterfacesRequest { grants, ..wanted(vec![named(port)]) };
    neutron.networks.allocate(request.clone(), meta()).await.unwrap();
    let (id, project) = (request.instance, &request.project);
    let there = given(port, PortProviders::One(provider(2)));
    neutron.networks.bind_destination(id, project, "h2", &there, meta()).await.unwrap();
    let asked = neutron
        .service
        .calls()
        .into_iter()
        .find(|call| call.line.starts_with("POST") && call.line.contains("/bindings"));
    let body: Value = serde_json::from_str(&asked.unwrap().body).unwrap();
    assert_eq!(body["binding"]["profile"]["allocation"], provider(2).to_string());
    assert_eq!(neutron.ports()[0]["binding:profile"]["allocation"], provider(1).to_string());
}

/// Nova refuses such networks: the server's claim does not include the resources of the new port.
#[tokio::test]
async fn a_network_whose_ports_request_resources_is_refused() {
    let neutron = NeutronStub::start().await;
    neutron.state.lock().unwrap().requests = Some(json!({"required": [], "resources": {BANDWIDTH: 1000}}));
    neutron.state.lock().unwrap().has_policy = true;
    let request = wanted(vec![on_network()]);
    let refused = neutron.networks.allocate(request.clone(), meta()).await.unwrap_err();
    let expected = format!(
        "Using networks with QoS policy is not supported for instance {}. (Network ID is {NETWORK})",
        request.instance
    );
    assert_eq!(refused, PortError::Invalid(expected));
    assert_eq!(neutron.ports(), [], "the port is left behind");
}

/// A heal of allocations names a port's provider without another binding.
#[tokio::test]
async fn a_provider_is_named_in_a_profile_and_taken_out_of_it() {
    let (neutron, port) = with_request(json!({"required": [], "resources": {BANDWIDTH: 1000}})).await;
    let profile = || neutron.ports()[0]["binding:profile"].clone();
    let one = PortProviders::One(provider(1));
    neutron.networks.name_providers(&[(port, Some(one.clone()))], &meta()).await.unwrap();
    assert_eq!(profile(), json!({"of_the_user": "kept", "allocation": provider(1).to_string()}));
    assert_eq!(only_request(&neutron, port).await.bound_to, Some(one));
    neutron.networks.name_providers(&[(port, None)], &meta()).await.unwrap();
    assert_eq!(profile(), json!({"of_the_user": "kept"}));
    let gone = neutron.networks.name_providers(&[(PortId::random(), None)], &meta()).await;
    assert!(matches!(gone, Err(PortError::NotFound(_))), "{gone:?}");
}
