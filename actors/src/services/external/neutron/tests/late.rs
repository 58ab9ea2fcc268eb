//! A Neutron that hung and then continues: it makes a change after the call for this change was given up.

use chronova_events::ids::RequestId;

use super::*;

/// Answers a call. Delays changes as the state says.
pub(super) fn answer(state: &SharedState, url: &str, call: &StubCall) -> StubAnswer {
    let is_change = !call.line.starts_with("GET ") && !call.line.contains("/auth/tokens");
    if is_change && delays(&mut state.lock().unwrap(), call) {
        return says(504, &json!({}));
    }
    let answer = super::answer(state, url, call);
    let due = call.line.contains(state.lock().unwrap().until);
    let delayed = if due { std::mem::take(&mut state.lock().unwrap().delayed) } else { Vec::new() };
    for call in &delayed {
        super::answer(state, url, call);
    }
    answer
}

fn delays(state: &mut NeutronState, call: &StubCall) -> bool {
    let Some(left) = state.delays.checked_sub(1) else { return false };
    state.delays = left;
    state.delayed.push(call.clone());
    true
}

impl NeutronStub {
    /// The next change is delayed until after the next call that has `until`.
    fn delay(&self, until: &'static str) {
        let mut state = self.state.lock().unwrap();
        (state.delays, state.until) = (1, until);
    }

    fn is_delayed(&self) -> bool {
        !self.state.lock().unwrap().delayed.is_empty()
    }
}

fn asked() -> Arc<Meta> {
    Arc::new(Meta { request_id: Some(RequestId::new("req-1")), ..(*meta()).clone() })
}

/// Repeats a call until Neutron answers, as a process does.
async fn persist<T, F: Future<Output = Result<T, PortError>>>(call: impl Fn() -> F) -> T {
    loop {
        match call().await {
            Err(PortError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            done => return done.unwrap(),
        }
    }
}

#[tokio::test]
async fn an_undo_finds_what_a_neutron_that_hung_makes_later() {
    let neutron = NeutronStub::with_timeout(false, Duration::from_millis(500)).await;
    let (networks, request, grants) = (&neutron.networks, wanted(vec![on_network()]), PortGrants::default());
    let (id, project) = (request.instance, request.project.clone());
    neutron.state.lock().unwrap().others = Some(Vec::new());
    let bound_to = || neutron.ports()[0]["binding:host_id"].clone();

    neutron.delay("GET /v2.0/ports?device_id");
    while !neutron.is_delayed() {
        let given_up = networks.allocate(request.clone(), asked()).await;
        assert!(matches!(given_up, Err(PortError::Unavailable(_))), "{given_up:?}");
    }
    persist(|| networks.release(id, &project, &[], asked())).await;
    assert!(!neutron.is_delayed() && neutron.ports().is_empty(), "a port is left: {:?}", neutron.ports());

    persist(|| networks.allocate(request.clone(), asked())).await;
    neutron.delay("GET /v2.0/ports?device_id");
    while !neutron.is_delayed() {
        let given_up = networks.rebind(id, &project, Some("h2"), "nova", &grants, asked()).await;
        assert!(matches!(given_up, Err(PortError::Unavailable(_))), "{given_up:?}");
    }
    persist(|| networks.rebind(id, &project, Some("h1"), "nova", &grants, asked())).await;
    assert!(!neutron.is_delayed() && bound_to() == "h1", "the port is bound to {}", bound_to());

    neutron.delay("/bindings");
    while !neutron.is_delayed() {
        let given_up = networks.bind_destination(id, &project, "h2", &grants, asked()).await;
        assert!(matches!(given_up, Err(PortError::Unavailable(_))), "{given_up:?}");
    }
    persist(|| networks.unbind_destination(id, &project, "h2", asked())).await;
    let others = neutron.others();
    assert!(!neutron.is_delayed() && others.is_empty(), "a binding is left: {others:?}");
}
