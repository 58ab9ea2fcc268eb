//! A project without networks, for which Neutron makes one.

use super::*;

/// A dry run gives no network.
pub(super) fn answer(state: &NeutronState, query: &str) -> StubAnswer {
    let id = if query == "fields=dry-run" { "dry-run=pass" } else { NETWORK };
    match state.topology {
        Some(200) => says(200, &json!({"auto_allocated_topology": {"id": id, "project_id": PROJECT}})),
        status => refusal(status.unwrap_or(404), "AutoAllocationFailure"),
    }
}

async fn without_networks(status: u16) -> NeutronStub {
    let neutron = NeutronStub::start().await;
    neutron.state.lock().unwrap().topology = Some(status);
    neutron
}

/// The requests for a topology: the rest of the path, and the token.
fn asked(neutron: &NeutronStub) -> Vec<(String, String)> {
    let calls = neutron.service.calls().into_iter();
    let of = |call: StubCall| {
        let rest = call.line.strip_prefix("GET /v2.0/auto-allocated-topology/")?.to_owned();
        Some((rest, call.header("x-auth-token").unwrap_or_default().to_owned()))
    };
    calls.filter_map(of).collect()
}

#[tokio::test]
async fn the_check_of_auto_makes_no_network_and_the_build_makes_one() {
    let neutron = without_networks(200).await;
    let request = wanted(vec![RequestedNic::automatic()]);
    let mut caller = ServiceCaller::system("test");
    caller.token = Some(UserToken::new("of-the-user"));
    neutron.networks.check(&request.project, &request.networks, &[], &caller).await.unwrap();
    neutron.networks.check_auto(&request.project, &caller).await.unwrap();
    let checked = (format!("{PROJECT}?fields=dry-run"), "of-the-user".to_owned());
    assert_eq!(asked(&neutron), std::slice::from_ref(&checked));
    let nics = neutron.networks.allocate(request.clone(), meta()).await.unwrap();
    assert_eq!(nics.iter().map(|nic| nic.network_label.as_str()).collect::<Vec<_>>(), ["inner"]);
    assert_eq!(asked(&neutron), [checked, (PROJECT.to_owned(), "of-the-account".to_owned())]);
    // A repeated call finds the port, and asks for no network.
    let again = neutron.networks.allocate(request, meta()).await.unwrap();
    assert_eq!((again[0].port, neutron.ports().len(), asked(&neutron).len()), (nics[0].port, 1, 2));
}

#[tokio::test]
async fn a_request_without_networks_gets_no_network_that_is_made_for_it() {
    let neutron = without_networks(200).await;
    let mut request = wanted(Vec::new());
    request.networks = RequestedNetworks::Auto;
    assert_eq!(neutron.networks.allocate(request, meta()).await.unwrap(), []);
    assert_eq!(asked(&neutron), []);
}

#[tokio::test]
async fn a_neutron_that_can_make_no_network_refuses_auto_in_nova_s_words() {
    let words = format!("Unable to automatically allocate a network for project {PROJECT}");
    let neutron = without_networks(409).await;
    let request = wanted(vec![RequestedNic::automatic()]);
    let caller = ServiceCaller::system("test");
    let checked = neutron.networks.check_auto(&request.project, &caller).await;
    assert_eq!(checked, Err(PortError::Invalid(words.clone())));
    assert_eq!(neutron.networks.allocate(request.clone(), meta()).await, Err(PortError::Invalid(words)));
    // Another refusal keeps its own words.
    neutron.state.lock().unwrap().topology = Some(403);
    let refused = neutron.networks.check_auto(&request.project, &caller).await;
    assert_eq!(refused, Err(PortError::Forbidden("AutoAllocationFailure happened.".to_owned())));
}
