//! Tests the client on a stub of Neutron: its requests, their tokens, and its reaction to lost answers.

#![allow(clippy::unwrap_used)]

mod bindings;
mod devices;
mod late;
mod port_resources;
mod topology;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{RequestedNetworks, RequestedNic};
use chronova_hypervisor::guest::NicPlug;
use serde_json::{Map, Value, json};

use super::calls::NeutronCaller;
use super::documents::NeutronPort;
use super::plug::plug;
use super::{NeutronNetworks, NeutronOptions};
use crate::ports::{
    InterfaceRequest, InterfacesRequest, NetworkService, PlugState, PortError, PortGrants, ServiceCaller, UserToken,
};
use crate::services::external::http::{CallOptions, ServiceClient, TlsTrust};
use crate::services::external::keystone::{
    AccountScope, CalledService, CallingAccounts, Credentials, KeystoneSession, NamedInDomain, ServiceAccount,
    ServicePlace,
};
use crate::services::external::stub::{StubAnswer, StubCall, StubService};

const PROJECT: &str = "0123456789abcdef0123456789abcdef";
const NETWORK: &str = "11111111-1111-4111-8111-111111111111";
const SUBNET: &str = "22222222-2222-4222-8222-222222222222";

/// The ports of the stub, and its planned faults.
#[derive(Default)]
struct NeutronState {
    ports: Vec<Map<String, Value>>,
    /// How many more requests create a port or a binding, and are then answered with 504.
    loses: usize,
    /// How many more lists of ports are empty, as if the ports were created a moment later.
    hides: usize,
    /// How many more changes are answered with 504 at once, and made only after the next call that has `until`.
    delays: usize,
    until: &'static str,
    delayed: Vec<StubCall>,
    /// How many more lists of extensions get no answer.
    hangs: usize,
    /// The message with which the stub refuses to show a port (400).
    refuses: Option<&'static str>,
    /// The network belongs to another project and is external.
    external: bool,
    vif_type: Option<&'static str>,
    status: Option<&'static str>,
    /// The inactive bindings; `None`: a Neutron without the extension.
    others: Option<Vec<Map<String, Value>>>,
    /// The request of ports, if Neutron has the extension `port-resource-request`.
    requests: Option<Value>,
    /// Whether new ports on the network have the request.
    has_policy: bool,
    /// The body of each answer of the Network API.
    nonsense: Option<&'static str>,
    /// The project has no network. Neutron answers requests for a topology with this status.
    topology: Option<u16>,
}

type SharedState = Arc<Mutex<NeutronState>>;

fn says(status: u16, body: &Value) -> StubAnswer {
    StubAnswer::Says(status, body.to_string())
}

fn refusal(status: u16, kind: &str) -> StubAnswer {
    says(status, &json!({"NeutronError": {"type": kind, "message": format!("{kind} happened."), "detail": ""}}))
}

fn answer(state: &SharedState, url: &str, call: &StubCall) -> StubAnswer {
    let mut state = state.lock().unwrap();
    let (method, path) = call.line.split_once(' ').unwrap();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = path.trim_start_matches("/v2.0/").split('/').collect();
    if let (Some(body), true) = (state.nonsense, path.starts_with("/v2.0/")) {
        return StubAnswer::Says(200, body.to_owned());
    }
    match (method, parts.as_slice()) {
        ("POST", ["", "v3", "auth", "tokens"]) => {
            let endpoint = json!({"interface": "internal", "region_id": "RegionOne", "url": url});
            let catalog = json!([{"type": "network", "endpoints": [endpoint]}]);
            let user = json!({"id": "nova", "name": "nova"});
            let token = json!({"user": user, "expires_at": "2099-01-01T00:00:00.000000Z", "catalog": catalog});
            StubAnswer::Gives(201, "of-the-account", json!({"token": token}).to_string())
        }
        ("GET", ["extensions"]) => {
            if state.hangs > 0 {
                state.hangs -= 1;
                return StubAnswer::Silence;
            }
            let several = state.others.iter().map(|_| json!({"alias": "binding-extended"}));
            let requests = state.requests.iter().map(|_| json!({"alias": "port-resource-request"}));
            let topologies = state.topology.iter().map(|_| json!({"alias": "auto-allocated-topology"}));
            says(200, &json!({"extensions": several.chain(requests).chain(topologies).collect::<Vec<_>>()}))
        }
        ("GET", ["auto-allocated-topology", _]) => topology::answer(&state, query),
        ("GET", ["networks"]) if state.topology.is_some() && query.contains("shared=") => {
            says(200, &json!({"networks": []}))
        }
        ("GET", ["networks"]) => {
            let owner = if state.external { "ffffffffffffffffffffffffffffffff" } else { PROJECT };
            let network = json!({"id": NETWORK, "name": "inner", "project_id": owner, "mtu": 1442,
                "subnets": [SUBNET], "router:external": state.external, "provider:physical_network": "physnet1"});
            says(200, &json!({"networks": [network]}))
        }
        ("GET", ["subnets"]) => {
            let subnet = json!({"id": SUBNET, "network_id": NETWORK, "cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1",
                "enable_dhcp": true});
            says(200, &json!({"subnets": [subnet]}))
        }
        ("GET", ["security-groups"]) => says(200, &json!({"security_groups": []})),
        ("GET", ["quotas", _]) => says(200, &json!({"quota": {"port": 2}})),
        ("GET", ["ports"]) => {
            if state.hides > 0 {
                state.hides -= 1;
                return says(200, &json!({"ports": []}));
            }
            let wanted = |port: &&Map<String, Value>| {
                let of = |key: &str| format!("{key}={}", port[key].as_str().unwrap_or_default());
                query.contains(&of("device_id")) || query.contains(&of("id")) || query.contains(&of("project_id"))
            };
            let found: Vec<_> = state.ports.iter().filter(wanted).collect();
            says(200, &json!({"ports": found}))
        }
        ("POST", ["ports"]) => {
            let body: Value = serde_json::from_str(&call.body).unwrap();
            let mut port = body["port"].as_object().unwrap().clone();
            if state.ports.iter().any(|other| other.get("mac_address") == port.get("mac_address")) {
                return refusal(409, "MacAddressInUse");
            }
            port.insert("id".to_owned(), json!(PortId::random().to_string()));
            port.insert("fixed_ips".to_owned(), json!([{"subnet_id": SUBNET, "ip_address": "10.0.0.7"}]));
            port.insert("binding:vif_type".to_owned(), json!(state.vif_type.unwrap_or("ovs")));
            port.insert("status".to_owned(), json!(state.status.unwrap_or("DOWN")));
            if let Some(request) = state.requests.clone().filter(|_| state.has_policy) {
                port.insert("resource_request".to_owned(), request);
            }
            state.ports.push(port.clone());
            if state.loses > 0 {
                state.loses -= 1;
                return says(504, &json!({}));
            }
            says(201, &json!({"port": port}))
        }
        (_, ["ports", id, "bindings", rest @ ..]) => bindings::answer(&mut state, method, id, rest, &call.body),
        ("PUT" | "GET" | "DELETE", ["ports", id]) => {
            if let ("GET", Some(message)) = (method, state.refuses) {
                return says(400, &json!({"NeutronError": {"type": "BadRequest", "message": message, "detail": ""}}));
            }
            let Some(at) = state.ports.iter().position(|port| port["id"] == **id) else {
                return refusal(404, "PortNotFound");
            };
            if method == "DELETE" {
                state.ports.remove(at);
                return StubAnswer::Says(204, String::new());
            }
            if method == "PUT" {
                let body: Value = serde_json::from_str(&call.body).unwrap();
                state.ports[at].extend(body["port"].as_object().unwrap().clone());
            }
            says(200, &json!({"port": state.ports[at]}))
        }
        other => panic!("the stub does not know this call: {other:?}"),
    }
}

struct NeutronStub {
    state: SharedState,
    service: StubService,
    networks: Arc<NeutronNetworks>,
}

impl NeutronStub {
    async fn start() -> Self {
        Self::of(false).await
    }

    /// `vouches`: calls with a user's token also carry a token of the account.
    async fn of(vouches: bool) -> Self {
        Self::with_timeout(vouches, Duration::from_secs(30)).await
    }

    async fn with_timeout(vouches: bool, timeout: Duration) -> Self {
        let state = SharedState::default();
        let (seen, url) = (Arc::clone(&state), Arc::new(Mutex::new(String::new())));
        let at = Arc::clone(&url);
        let service = StubService::start(move |call, _| late::answer(&seen, &at.lock().unwrap().clone(), call)).await;
        url.lock().unwrap().clone_from(&service.url);
        let name = |name: &str| NamedInDomain::Id(name.to_owned());
        let account = ServiceAccount {
            auth_url: service.url.clone(),
            credentials: Credentials::Password { user: name("nova"), password: UserToken::new("secret") },
            scope: AccountScope::Project(name("service")),
        };
        let tls = TlsTrust { ca_file: None, insecure: false, certificate: None };
        let calls = CallOptions { name: "neutron", timeout, retries: 0, tls };
        let keystone = ServiceClient::new(calls.clone()).unwrap();
        let own = KeystoneSession::new(account, keystone, Arc::new(SystemClock));
        let place = ServicePlace {
            service_type: "network".to_owned(),
            interfaces: vec!["internal".to_owned()],
            version: "v2.0",
            ..ServicePlace::default()
        };
        let accounts = CallingAccounts { vouching: vouches.then(|| Arc::clone(&own)), own };
        let called = CalledService::new(calls, place, accounts).unwrap();
        let extension_sync_interval = Duration::from_mins(10);
        let options = NeutronOptions { ovs_bridge: "br-int".to_owned(), extension_sync_interval };
        let networks = NeutronNetworks::new(called, options);
        Self { state, service, networks }
    }

    fn ports(&self) -> Vec<Map<String, Value>> {
        self.state.lock().unwrap().ports.clone()
    }

    /// Adds a port that a user created.
    fn add(&self, project: &str, device: &str) -> PortId {
        let id = PortId::random();
        let port = json!({"id": id.to_string(), "network_id": NETWORK, "project_id": project, "device_id": device,
            "mac_address": "fa:16:3e:00:00:01", "binding:vif_type": "unbound",
            "fixed_ips": [{"subnet_id": SUBNET, "ip_address": "10.0.0.9"}]});
        self.state.lock().unwrap().ports.push(port.as_object().unwrap().clone());
        id
    }
}

fn wanted(nics: Vec<RequestedNic>) -> InterfacesRequest {
    InterfacesRequest {
        instance: InstanceId::random(),
        project: ProjectId::new(PROJECT),
        hostname: "web-1".to_owned(),
        host: "h1".to_owned(),
        availability_zone: "nova".to_owned(),
        networks: RequestedNetworks::These(nics),
        security_groups: vec!["default".to_owned()],
        grants: PortGrants::default(),
    }
}

fn on_network() -> RequestedNic {
    RequestedNic { network: Some(NETWORK.parse().unwrap()), port: None, fixed_ip: None, tag: None }
}

fn meta() -> Arc<Meta> {
    Meta::system("test")
}

#[tokio::test]
async fn a_port_is_made_bound_and_described() {
    let neutron = NeutronStub::start().await;
    let request = wanted(vec![on_network()]);
    let nics = neutron.networks.allocate(request.clone(), meta()).await.unwrap();
    let [port] = &neutron.ports()[..] else { panic!("there is not exactly one port") };
    let field = |key: &str| port[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(field("device_id"), request.instance.to_string());
    assert_eq!((field("device_owner"), field("binding:host_id")), ("compute:nova".to_owned(), "h1".to_owned()));
    assert_eq!(field("project_id"), PROJECT);
    assert!(!port.contains_key("security_groups"), "Neutron chooses the groups");
    assert_eq!((nics[0].network_label.as_str(), nics[0].mtu, nics[0].owned), ("inner", 1442, true));
    let ip = &nics[0].fixed_ips[0];
    assert_eq!((ip.address.as_str(), ip.prefix, ip.dhcp), ("10.0.0.7", 24, true));
    let setup = neutron.networks.realise(&nics).await.unwrap();
    assert_eq!(setup.nics[0].plug, NicPlug::OpenVswitch { bridge: "br-int".to_owned() });
    assert_eq!(setup.nics[0].mtu, 1442);
    assert!(neutron.service.calls().iter().skip(1).all(|call| call.header("x-auth-token") == Some("of-the-account")));
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_port() {
    let neutron = NeutronStub::start().await;
    let request = wanted(vec![on_network()]);
    neutron.state.lock().unwrap().loses = 1;
    let lost = neutron.networks.allocate(request.clone(), meta()).await;
    assert!(matches!(lost, Err(PortError::Unavailable(_))), "{lost:?}");
    assert_eq!(neutron.ports().len(), 1, "the stub has created the port");
    // With `hides` = 1, the first list is empty. Neutron then refuses the port's MAC address, and the client lists
    // again.
    for hides in [0, 1] {
        neutron.state.lock().unwrap().hides = hides;
        let nics = neutron.networks.allocate(request.clone(), meta()).await.unwrap();
        assert_eq!(neutron.ports().len(), 1, "there is one port");
        assert_eq!(nics[0].port.to_string(), neutron.ports()[0]["id"]);
    }
}

#[tokio::test]
async fn a_used_mac_address_is_left_to_neutron() {
    let neutron = NeutronStub::start().await;
    let request = wanted(vec![on_network()]);
    let mac = super::allocate::place(request.instance, 0).mac();
    neutron.add(PROJECT, "another");
    neutron.state.lock().unwrap().ports[0].insert("mac_address".to_owned(), json!(mac));
    let made = neutron.networks.allocate(request, meta()).await;
    // The stub assigns no MAC address, so the client cannot read the answer. But the request for a second port has
    // arrived.
    assert_eq!(neutron.ports().len(), 2, "{made:?}");
    assert!(!neutron.ports()[1].contains_key("mac_address"));
}

#[tokio::test]
async fn a_host_that_neutron_cannot_bind_is_left_for_another() {
    let neutron = NeutronStub::start().await;
    neutron.state.lock().unwrap().vif_type = Some("binding_failed");
    let failed = neutron.networks.allocate(wanted(vec![on_network()]), meta()).await;
    assert!(
        matches!(&failed, Err(PortError::NotHere(text)) if text.starts_with("Binding failed for port")),
        "{failed:?}"
    );
    assert_eq!(neutron.ports().len(), 0, "the port that cannot be bound is deleted");
}

#[tokio::test]
async fn only_ports_that_were_made_here_are_deleted() {
    let neutron = NeutronStub::start().await;
    let own = neutron.add(PROJECT, "");
    let mut request = wanted(vec![on_network()]);
    let given = RequestedNic { network: None, port: Some(own), fixed_ip: None, tag: None };
    request.networks = RequestedNetworks::These(vec![on_network(), given]);
    let foreign = neutron.add("ffffffffffffffffffffffffffffffff", &request.instance.to_string());
    let nics = neutron.networks.allocate(request.clone(), meta()).await.unwrap();
    assert_eq!(nics.iter().map(|nic| nic.owned).collect::<Vec<_>>(), [true, false]);
    for _ in 0..2 {
        neutron.networks.release(request.instance, &request.project, &[], meta()).await.unwrap();
        let left = neutron.ports();
        let of = |id: PortId| left.iter().find(|port| port["id"] == id.to_string()).unwrap().clone();
        assert_eq!(left.len(), 2, "exactly the port that was created for the server must be gone: {left:?}");
        assert_eq!((&of(own)["device_id"], &of(own)["binding:host_id"]), (&json!(""), &Value::Null));
        assert_eq!(of(foreign)["device_id"], request.instance.to_string(), "a port of another project stays unchanged");
    }
}

/// A detachment by the port's id, and the undo of an attachment, which finds the port by its mark.
#[tokio::test]
async fn a_port_of_another_project_is_not_detached() {
    let neutron = NeutronStub::start().await;
    let (server, project) = (InstanceId::random(), ProjectId::new(PROJECT));
    let process = ProcessId::random();
    let attached = InterfaceRequest {
        process,
        instance: server,
        project: ProjectId::new("ffffffffffffffffffffffffffffffff"),
        hostname: "web-1".to_owned(),
        host: "h1".to_owned(),
        availability_zone: "nova".to_owned(),
        nic: on_network(),
        grants: PortGrants::default(),
    };
    let marked = neutron.networks.attach(attached, meta()).await.unwrap().port;
    let foreign = neutron.add("ffffffffffffffffffffffffffffffff", &server.to_string());
    let before = neutron.ports();
    for port in [foreign, marked] {
        for owned in [false, true] {
            neutron.networks.detach(server, &project, port, owned, meta()).await.unwrap();
        }
    }
    neutron.networks.undo_attach(server, &project, process, meta()).await.unwrap();
    assert_eq!(neutron.ports(), before, "a port of another project stays unchanged");
    let own = neutron.add(PROJECT, &server.to_string());
    neutron.networks.detach(server, &project, own, false, meta()).await.unwrap();
    assert_eq!(neutron.ports()[2]["device_id"], "", "the server's own port is unbound");
}

#[tokio::test]
async fn a_port_of_another_project_is_none() {
    let neutron = NeutronStub::start().await;
    let foreign = neutron.add("ffffffffffffffffffffffffffffffff", "");
    let given = RequestedNic { network: None, port: Some(foreign), fixed_ip: None, tag: None };
    let request = wanted(vec![given]);
    let mut caller = ServiceCaller::system("test");
    caller.token = Some(UserToken::new("of-the-user"));
    let checked = neutron.networks.check(&request.project, &request.networks, &[], &caller).await;
    assert!(matches!(checked, Err(PortError::Invalid(_))), "{checked:?}");
    let asked = neutron.service.calls().into_iter().find(|call| call.line.starts_with("GET /v2.0/ports/")).unwrap();
    assert_eq!(asked.header("x-auth-token"), Some("of-the-user"), "the check carries the user's token");
    let taken = neutron.networks.allocate(request, meta()).await;
    assert!(matches!(taken, Err(PortError::Invalid(_))), "{taken:?}");
    assert_eq!(neutron.ports()[0]["device_id"], "");
}

#[tokio::test]
async fn only_administrators_use_an_external_network() {
    let neutron = NeutronStub::start().await;
    neutron.state.lock().unwrap().external = true;
    let mut caller = ServiceCaller::system("test");
    caller.token = Some(UserToken::new("of-the-user"));
    let check = async |networks| neutron.networks.check(&ProjectId::new(PROJECT), &networks, &[], &caller).await;
    let refused =
        PortError::Forbidden(format!("It is not allowed to create an interface on external network {NETWORK}"));
    assert_eq!(check(RequestedNetworks::These(vec![on_network()])).await, Err(refused));
    assert_eq!(check(RequestedNetworks::OfAnyProject(vec![on_network()])).await, Ok(()));
}

#[tokio::test]
async fn a_user_s_request_carries_the_service_s_token_too() {
    let neutron = NeutronStub::of(true).await;
    let mut caller = ServiceCaller::system("test");
    caller.token = Some(UserToken::new("of-the-user"));
    neutron.networks.find_ports(&[PortId::random()], &caller).await.unwrap();
    neutron.networks.allocate(wanted(vec![on_network()]), meta()).await.unwrap();
    let calls: Vec<_> = neutron.service.calls().into_iter().filter(|call| call.line.contains("/v2.0/")).collect();
    let tokens = |call: &StubCall| ["x-auth-token", "x-service-token"].map(|name| call.header(name).map(str::to_owned));
    let (user, own) = (Some("of-the-user".to_owned()), Some("of-the-account".to_owned()));
    assert_eq!(tokens(&calls[0]), [user, own.clone()]);
    assert!(
        calls[1..].iter().all(|call| tokens(call) == [own.clone(), None]),
        "a process sends the account's token alone: {calls:?}"
    );
}

#[tokio::test]
async fn a_hung_list_of_extensions_keeps_no_other_caller_waiting() {
    let neutron = NeutronStub::start().await;
    neutron.state.lock().unwrap().hangs = 1;
    let meta = meta();
    let ask = || neutron.networks.calls.has_extension(NeutronCaller::account(&meta), "router");
    let second = async {
        while neutron.service.count("GET /v2.0/extensions") < 1 {
            tokio::task::yield_now().await;
        }
        ask().await
    };
    tokio::select! {
        hung = ask() => panic!("the call that hangs has ended first: {hung:?}"),
        found = second => assert!(matches!(found, Ok(false)), "{found:?}"),
    }
}

#[tokio::test]
async fn a_missing_port_or_network_is_404_for_an_existing_server() {
    let neutron = NeutronStub::start().await;
    let (project, caller) = (ProjectId::new(PROJECT), ServiceCaller::system("test"));
    let port = RequestedNic { network: None, port: Some(PortId::random()), fixed_ip: None, tag: None };
    let network = RequestedNic { network: Some(SUBNET.parse().unwrap()), ..on_network() };
    for nic in [&port, &network] {
        let attached = neutron.networks.check_attach(&project, nic, &caller).await;
        assert!(matches!(&attached, Err(PortError::NotFound(text)) if text.ends_with("not be found.")), "{attached:?}");
        let networks = RequestedNetworks::These(vec![nic.clone()]);
        let new = neutron.networks.check(&project, &networks, &[], &caller).await;
        assert!(matches!(&new, Err(PortError::Invalid(text)) if text.ends_with("not be found.")), "{new:?}");
    }
    // A refusal stays 400, whatever its words are.
    neutron.state.lock().unwrap().refuses = Some("A field of the request could not be found.");
    let refused = neutron.networks.check_attach(&project, &port, &caller).await;
    assert!(matches!(refused, Err(PortError::Invalid(_))), "{refused:?}");
}

#[tokio::test]
async fn nonsense_of_neutron_s_is_no_answer() {
    let neutron = NeutronStub::start().await;
    for nonsense in ["", "<html>", "null", "[]", "7", "{}", r#"{"ports": {}, "port": []}"#] {
        neutron.state.lock().unwrap().nonsense = Some(nonsense);
        let port = neutron.networks.find_ports(&[PortId::random()], &ServiceCaller::system("test")).await;
        assert!(matches!(port, Err(PortError::Unavailable(_))), "{nonsense}: {port:?}");
        let made = neutron.networks.allocate(wanted(vec![on_network()]), meta()).await;
        assert!(matches!(made, Err(PortError::Unavailable(_))), "{nonsense}: {made:?}");
    }
}

#[tokio::test]
async fn the_quota_of_ports_counts() {
    let neutron = NeutronStub::start().await;
    let check = async |many: usize| {
        let networks = RequestedNetworks::These(vec![on_network(); many]);
        neutron.networks.check(&ProjectId::new(PROJECT), &networks, &[], &ServiceCaller::system("test")).await
    };
    assert_eq!(check(2).await, Ok(()));
    assert_eq!(check(3).await, Err(PortError::Forbidden("Maximum number of ports exceeded".to_owned())));
}

#[tokio::test]
async fn a_wait_ends_with_the_port_or_with_an_event() {
    let neutron = NeutronStub::start().await;
    let nics = neutron.networks.allocate(wanted(vec![on_network()]), meta()).await.unwrap();
    let ports = [nics[0].port];
    let wait = |patience| neutron.networks.await_plugged(&ports, patience);
    assert_eq!(wait(Duration::ZERO).await, Ok(PlugState::NotYet));
    let long = Duration::from_hours(1);
    let mut waiting = std::pin::pin!(wait(long));
    let asked = async |times: usize| {
        while neutron.service.count("GET /v2.0/ports?id=") < times {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = &mut waiting => panic!("the wait ended without an event: {ended:?}"),
        () = asked(2) => {}
    }
    neutron.networks.heard_of(PortId::random(), false);
    let a_while = async {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = &mut waiting => panic!("the event of another port ended the wait: {ended:?}"),
        () = a_while => {}
    }
    neutron.networks.heard_of(ports[0], false);
    assert_eq!(waiting.await, Ok(PlugState::Failed), "the event of its own port ends the wait");
    neutron.state.lock().unwrap().ports[0].insert("status".to_owned(), json!("ACTIVE"));
    assert_eq!(wait(long).await, Ok(PlugState::Plugged));
}

#[test]
fn each_kind_of_binding_has_its_plug() {
    let port = |kind: &str, details: Value| -> NeutronPort {
        serde_json::from_value(json!({"id": SUBNET, "network_id": NETWORK, "mac_address": "fa:16:3e:00:00:01",
            "binding:vif_type": kind, "binding:vif_details": details}))
        .unwrap()
    };
    let plugged = |kind: &str, details: Value| plug(&port(kind, details), "br-int").ok();
    let switch = |bridge: &str| Some(NicPlug::OpenVswitch { bridge: bridge.to_owned() });
    let bridge = |bridge: &str| Some(NicPlug::Bridge { bridge: bridge.to_owned() });
    assert_eq!(plugged("ovs", json!({})), switch("br-int"));
    assert_eq!(plugged("ovs", json!({"bridge_name": "br-ovn"})), switch("br-ovn"));
    assert_eq!(
        plugged("ovs", json!({"bridge_name": "br-'><x>"})),
        switch("br-'><x>"),
        "the XML writer escapes the name"
    );
    assert_eq!(plugged("ovs", json!({"bridge_name": "../../etc"})), switch("br-int"), "a path is no name of a device");
    assert_eq!(plugged("ovs", json!({"ovs_hybrid_plug": true})), None);
    assert_eq!(plugged("bridge", json!({"bridge_name": "br-ex"})), bridge("br-ex"));
    assert_eq!(plugged("bridge", json!({})), bridge("brq11111111-11"));
    assert_eq!(plugged("tap", json!({})), Some(NicPlug::Tap));
    assert_eq!((plugged("unbound", json!({})), plugged("hw_veb", json!({}))), (None, None));
}

/// A user takes a port away from the server that it was created for, and gives it to another one.
#[tokio::test]
async fn a_port_that_was_created_here_and_is_given_later_stays() {
    let neutron = NeutronStub::start().await;
    let nics = neutron.networks.allocate(wanted(vec![on_network()]), meta()).await.unwrap();
    neutron.state.lock().unwrap().ports[0].insert("device_id".to_owned(), json!(""));
    let given = RequestedNic { network: None, port: Some(nics[0].port), fixed_ip: None, tag: None };
    let second = wanted(vec![given]);
    let taken = neutron.networks.allocate(second.clone(), meta()).await.unwrap();
    assert!(!taken[0].owned);
    neutron.networks.release(second.instance, &second.project, &[], meta()).await.unwrap();
    let [left] = &neutron.ports()[..] else { panic!("a given port is deleted") };
    assert_eq!((&left["device_id"], &left["binding:host_id"]), (&json!(""), &Value::Null));
}

/// Nova created these ports, so they have no mark. Only the record of the adopted server says which of these ports are
/// deleted with the server.
#[tokio::test]
async fn a_port_that_a_nova_created_goes_with_its_adopted_server() {
    let neutron = NeutronStub::start().await;
    let (server, project) = (InstanceId::random(), ProjectId::new(PROJECT));
    let [first, second, given] = [0; 3].map(|_| neutron.add(PROJECT, &server.to_string()));
    neutron.networks.detach(server, &project, first, true, meta()).await.unwrap();
    assert_eq!(neutron.ports().len(), 2, "the detached port is deleted");
    let other = neutron.add(PROJECT, "another");
    neutron.networks.release(server, &project, &[second, other], meta()).await.unwrap();
    let left: Vec<_> = neutron.ports().iter().map(|port| (port["id"].clone(), port["device_id"].clone())).collect();
    let id = |port: PortId| json!(port.to_string());
    assert_eq!(
        left,
        [(id(given), json!("")), (id(other), json!("another"))],
        "the user's port and the other server's port must stay"
    );
}
