//! Ports with several bindings, as ML2 keeps them.

use super::*;

/// Answers calls on the bindings of a port. The active binding is part of the port. Like Neutron, the stub deletes even
/// an active binding.
pub(super) fn answer(state: &mut NeutronState, method: &str, port: &str, path: &[&str], body: &str) -> StubAnswer {
    let loses = state.loses > 0;
    let NeutronState { ports, others: Some(others), .. } = state else { return refusal(404, "HTTPNotFound") };
    let Some(port) = ports.iter_mut().find(|known| known["id"] == port) else { return refusal(404, "PortNotFound") };
    let field = |port: &Map<String, Value>, key: &str| port.get(key).cloned().unwrap_or_default();
    if !field(port, "device_owner").as_str().unwrap_or_default().starts_with("compute:") {
        return refusal(400, "BadRequest");
    }
    let at = |host: &str| {
        let (id, host) = (port["id"].clone(), json!(host));
        others.iter().position(|other| other["port"] == id && other["host"] == host)
    };
    match (method, path) {
        ("GET", []) => {
            let active = json!({"host": field(port, "binding:host_id"), "status": "ACTIVE", "vif_type": "ovs",
                "profile": field(port, "binding:profile")});
            let inactive = others.iter().filter(|other| other["port"] == port["id"]).cloned().map(Value::Object);
            says(200, &json!({"bindings": inactive.chain([active]).collect::<Vec<_>>()}))
        }
        ("POST", []) => {
            let wanted: Value = serde_json::from_str(body).unwrap();
            let mut binding = wanted["binding"].as_object().unwrap().clone();
            let host = binding["host"].as_str().unwrap().to_owned();
            if host == "unknown" {
                return refusal(500, "HTTPInternalServerError");
            }
            if at(&host).is_some() || port["binding:host_id"] == host.as_str() {
                return refusal(409, "PortBindingAlreadyExists");
            }
            binding.insert("port".to_owned(), port["id"].clone());
            binding.insert("status".to_owned(), json!("INACTIVE"));
            binding.insert("vif_type".to_owned(), json!("ovs"));
            binding.insert("vif_details".to_owned(), json!({"bridge_name": format!("br-{host}")}));
            others.push(binding.clone());
            if loses {
                state.loses -= 1;
                return says(504, &json!({}));
            }
            says(201, &json!({"binding": binding}))
        }
        ("PUT", [host, "activate"]) => {
            if !body.is_empty() {
                return refusal(500, "HTTPInternalServerError");
            }
            if port["binding:host_id"] == **host {
                return refusal(409, "PortBindingAlreadyActive");
            }
            let Some(at) = at(host) else { return refusal(404, "PortBindingNotFound") };
            let new = others.remove(at);
            let profile = port.insert("binding:profile".to_owned(), new["profile"].clone()).unwrap_or_default();
            let source = port.insert("binding:host_id".to_owned(), new["host"].clone()).unwrap_or_default();
            let old = json!({"port": port["id"], "host": source, "status": "INACTIVE", "profile": profile});
            others.push(old.as_object().unwrap().clone());
            says(200, &json!({"binding": new}))
        }
        ("DELETE", [host]) => {
            match at(host) {
                Some(at) => drop(others.remove(at)),
                None => drop(port.insert("binding:host_id".to_owned(), Value::Null)),
            }
            StubAnswer::Says(204, String::new())
        }
        other => panic!("the stub does not know this call: {other:?}"),
    }
}

impl NeutronStub {
    async fn with_several_bindings() -> Self {
        let neutron = Self::start().await;
        neutron.state.lock().unwrap().others = Some(Vec::new());
        neutron
    }

    pub(super) fn others(&self) -> Vec<Map<String, Value>> {
        self.state.lock().unwrap().others.clone().unwrap()
    }
}

const MARK: &str = "chronova_made_for";

#[tokio::test]
async fn a_port_is_bound_to_both_hosts_and_follows_its_guest() {
    let neutron = NeutronStub::with_several_bindings().await;
    let request = wanted(vec![on_network()]);
    let (id, project) = (request.instance, request.project.clone());
    let nics = neutron.networks.allocate(request, meta()).await.unwrap();
    let mark = neutron.ports()[0]["binding:profile"][MARK].clone();
    for _ in 0..2 {
        neutron.networks.bind_destination(id, &project, "h2", &PortGrants::default(), meta()).await.unwrap();
        let port = &neutron.ports()[0];
        assert_eq!((&port["binding:host_id"], &port["binding:profile"]["migrating_to"]), (&json!("h1"), &json!("h2")));
        let [there] = &neutron.others()[..] else {
            panic!("there is not exactly one other binding: {:?}", neutron.others())
        };
        assert_eq!((&there["host"], &there["profile"]), (&json!("h2"), &json!({MARK: mark})));
    }
    let plug = |setup: Result<crate::ports::HostNetworkSetup, PortError>| setup.unwrap().nics[0].plug.clone();
    let switch = |bridge: &str| NicPlug::OpenVswitch { bridge: bridge.to_owned() };
    assert_eq!(plug(neutron.networks.realise(&nics).await), switch("br-int"));
    assert_eq!(plug(neutron.networks.realise_at(&nics, "h2").await), switch("br-h2"));
    for _ in 0..2 {
        neutron.networks.activate_destination(id, &project, "h2", meta()).await.unwrap();
        assert_eq!(neutron.ports()[0]["binding:host_id"], "h2", "the destination's binding is active");
        assert_eq!(neutron.others()[0]["host"], "h1", "post-copy needs the source's binding");
    }
    for _ in 0..2 {
        neutron.networks.rebind(id, &project, Some("h2"), "nova", &PortGrants::default(), meta()).await.unwrap();
        let port = &neutron.ports()[0];
        assert_eq!((&port["binding:host_id"], &port["binding:profile"]), (&json!("h2"), &json!({MARK: mark})));
        assert_eq!(neutron.others(), [], "the source's binding is deleted");
        neutron.networks.unbind_destination(id, &project, "h2", meta()).await.unwrap();
        assert_eq!(neutron.ports()[0]["binding:host_id"], "h2", "the active binding stays");
    }
    neutron.networks.release(id, &project, &[], meta()).await.unwrap();
    assert_eq!(neutron.ports(), [], "the port with the mark is deleted");
}

#[tokio::test]
async fn a_move_without_an_activation_ends_well() {
    let neutron = NeutronStub::with_several_bindings().await;
    let request = wanted(vec![on_network()]);
    let (id, project) = (request.instance, request.project.clone());
    neutron.networks.allocate(request, meta()).await.unwrap();
    neutron.networks.bind_destination(id, &project, "h2", &PortGrants::default(), meta()).await.unwrap();
    neutron.networks.rebind(id, &project, Some("h2"), "other", &PortGrants::default(), meta()).await.unwrap();
    let port = &neutron.ports()[0];
    assert_eq!((&port["binding:host_id"], &port["device_owner"]), (&json!("h2"), &json!("compute:other")));
    assert_eq!((neutron.others(), neutron.service.count("PUT /v2.0/ports/")), (vec![], 3));
}

#[tokio::test]
async fn a_binding_to_a_destination_is_taken_back() {
    let neutron = NeutronStub::with_several_bindings().await;
    let own = neutron.add(PROJECT, "");
    let mut request = wanted(vec![on_network()]);
    let given = RequestedNic { network: None, port: Some(own), fixed_ip: None, tag: None };
    request.networks = RequestedNetworks::These(vec![on_network(), given]);
    let (id, project) = (request.instance, request.project.clone());
    neutron.networks.allocate(request, meta()).await.unwrap();
    let before = neutron.ports();
    // The answer to the first request is lost, but Neutron has created the binding.
    neutron.state.lock().unwrap().loses = 1;
    let lost = neutron.networks.bind_destination(id, &project, "h2", &PortGrants::default(), meta()).await;
    assert!(matches!(lost, Err(PortError::Unavailable(_))), "{lost:?}");
    neutron.networks.bind_destination(id, &project, "h2", &PortGrants::default(), meta()).await.unwrap();
    assert_eq!(neutron.others().len(), 2);
    for _ in 0..2 {
        neutron.networks.unbind_destination(id, &project, "h2", meta()).await.unwrap();
        assert_eq!(neutron.others(), []);
        let profile = |port: &Map<String, Value>| port.get("binding:profile").cloned().unwrap_or(json!({}));
        let profiles = |ports: &[Map<String, Value>]| ports.iter().map(profile).collect::<Vec<_>>();
        assert_eq!(profiles(&neutron.ports()), profiles(&before), "no profile announces the move");
    }
    neutron.networks.bind_destination(id, &project, "h2", &PortGrants::default(), meta()).await.unwrap();
    neutron.networks.release(id, &project, &[], meta()).await.unwrap();
    let left = neutron.others().iter().filter(|other| other["port"] == own.to_string()).count();
    assert_eq!(left, 0, "a given port has no inactive binding");
}

#[tokio::test]
async fn a_destination_that_neutron_cannot_bind_is_refused() {
    let neutron = NeutronStub::with_several_bindings().await;
    let request = wanted(vec![on_network()]);
    let (id, project) = (request.instance, request.project.clone());
    neutron.networks.allocate(request, meta()).await.unwrap();
    let refused = neutron.networks.bind_destination(id, &project, "unknown", &PortGrants::default(), meta()).await;
    assert!(matches!(&refused, Err(PortError::NotHere(text)) if text.starts_with("Binding failed")), "{refused:?}");
    assert_eq!((neutron.others(), neutron.ports()[0]["binding:profile"].get("migrating_to")), (vec![], None));
}

#[tokio::test]
async fn a_neutron_without_the_extension_is_asked_for_one_binding() {
    let neutron = NeutronStub::start().await;
    let request = wanted(vec![on_network()]);
    let (id, project) = (request.instance, request.project.clone());
    let nics = neutron.networks.allocate(request, meta()).await.unwrap();
    neutron.networks.bind_destination(id, &project, "h2", &PortGrants::default(), meta()).await.unwrap();
    neutron.networks.unbind_destination(id, &project, "h2", meta()).await.unwrap();
    assert_eq!(neutron.ports()[0]["binding:host_id"], "h1");
    neutron.networks.realise_at(&nics, "h2").await.unwrap();
    neutron.networks.rebind(id, &project, Some("h2"), "nova", &PortGrants::default(), meta()).await.unwrap();
    assert_eq!(neutron.ports()[0]["binding:host_id"], "h2");
    assert!(!neutron.service.calls().iter().any(|call| call.line.contains("/bindings")));
}
