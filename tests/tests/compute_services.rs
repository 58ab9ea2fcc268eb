//! Hosts and their services in Placement, and the deletion of a service; `os-hosts`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chronova_actors::host::{HostCommand, HostRoot};
use chronova_actors::host_aggregate::{HostAggregateCommand, HostAggregatesId, HostAggregatesRoot};
use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot, Reserve};
use chronova_events::envelope::Meta;
use chronova_events::host::Registered;
use chronova_events::ids::{HostAggregateId, HostId, ProviderId};
use chronova_events::ledger::Provider;
use chronova_events::store::EventStore;
use chronova_hypervisor::sim::{DriverCall, SimFleet, SimUri};
use chronova_projections::history::{History, HistoryOptions};
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::world::{Life, Setting, World};
use serde_json::{Value, json};
use uuid::Uuid;

const DISABLED: &str = "COMPUTE_STATUS_DISABLED";

fn is(answer: &Answer, status: u16, words: &str) {
    assert!(answer.status == status && answer.message() == words, "{} {}", answer.status, answer.body);
}

fn provider(life: &Life, host: HostId) -> Provider {
    life.context().views.placement.read(|view| (*view.ledger.providers[&ProviderId(host.0)]).clone())
}

async fn ledger(life: &Life, command: LedgerCommand) {
    life.context().gateway.send::<LedgerRoot>(&CELL, command, Meta::system("test")).await.unwrap();
}

async fn compute(api: &Api) -> Vec<(HostId, String)> {
    let list = api.get("/os-services?binary=nova-compute", "2.53").await;
    let service = |service: &Value| {
        (service["id"].as_str().unwrap().parse().unwrap(), service["host"].as_str().unwrap().to_owned())
    };
    list["services"].as_array().unwrap().iter().map(service).collect()
}

/// The body that a client of Placement sends before 1.19.
fn aggregates_of(host: HostId, aggregates: Vec<Uuid>) -> LedgerCommand {
    let (provider, spellings) = (ProviderId(host.0), BTreeMap::new());
    LedgerCommand::SetAggregates { provider, generation: None, aggregates, spellings }
}

#[actix_rt::test]
async fn aggregates_and_disabled_hosts_show_in_placement() {
    let api = Api::start().await;
    let (host, name) = compute(&api).await.remove(0);
    let theirs = Uuid::from_u128(7);
    ledger(&api.life, aggregates_of(host, vec![theirs])).await;
    let made = api.call("POST", "/os-aggregates", "2.41", ADMIN, Some(json!({"aggregate": {"name": "a"}}))).await;
    let uuid: Uuid = made.body["aggregate"]["uuid"].as_str().unwrap().parse().unwrap();
    let act = async |verb: &str| {
        let body = json!({verb: {"host": name}});
        let answer = api.call("POST", "/os-aggregates/1/action", "2.1", ADMIN, Some(body)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        provider(&api.life, host)
    };
    let before = provider(&api.life, host).generation;
    let with = act("add_host").await;
    assert_eq!((with.aggregates, with.generation), (BTreeSet::from([theirs, uuid]), before + 1));
    assert_eq!(act("remove_host").await.aggregates, BTreeSet::from([theirs]), "another client's aggregate is gone");

    let switch = async |status: &str| {
        let body = json!({"status": status});
        let answer = api.call("PUT", &format!("/os-services/{host}"), "2.53", ADMIN, Some(body)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        provider(&api.life, host).traits
    };
    let traits = provider(&api.life, host).traits;
    let disabled = switch("disabled").await;
    assert_eq!(disabled.difference(&traits).collect::<Vec<_>>(), [DISABLED]);
    assert_eq!(switch("enabled").await, traits);

    // Placement does not know the host: the mirror changes nothing, and the requests succeed all the same.
    let path = format!("/placement/resource_providers/{host}");
    let gone = api.ask("DELETE", &path, "1.39", ADMIN, None).await;
    assert_eq!(gone.status, 204, "{}", gone.body);
    for verb in ["add_host", "remove_host"] {
        let body = json!({verb: {"host": name}});
        let answer = api.call("POST", "/os-aggregates/1/action", "2.1", ADMIN, Some(body)).await;
        assert_eq!(answer.status, 200, "{verb}: {}", answer.body);
    }
    api.stop().await;
}

/// After a crash between a decision and its mirror in Placement, the mirror is outdated. A client may also remove
/// mirrored data.
#[actix_rt::test]
async fn the_mirror_in_placement_is_repaired() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let host = world.fleet.uri().host_id(0);
    let gateway = &life.context().gateway;
    let aggregate = HostAggregateId::random();
    let name = world.fleet.hostname(0);
    let occupants = chronova_actors::host_aggregate::ServersPerHost::new();
    for command in [
        HostAggregateCommand::Create { aggregate, name: "a".into(), zone: None },
        HostAggregateCommand::AddHost { number: 1, host, hostname: name, occupants },
    ] {
        gateway.send::<HostAggregatesRoot>(&HostAggregatesId, command, Meta::system("test")).await.unwrap();
    }
    let disable = HostCommand::Disable { reason: None };
    gateway.send::<HostRoot>(&host, disable, Meta::system("test")).await.unwrap();
    life.stop().await;

    let life = world.live(None, None).await;
    let shows = |context: &chronova_actors::process::context::StepContext| {
        context.views.placement.read(|view| {
            let provider = &view.ledger.providers[&ProviderId(host.0)];
            provider.aggregates.contains(&aggregate.0) && provider.traits.contains(DISABLED)
        })
    };
    life.until(shows).await;
    ledger(&life, LedgerCommand::SetTraits { provider: ProviderId(host.0), generation: None, traits: vec![] }).await;
    ledger(&life, aggregates_of(host, vec![])).await;
    life.until(shows).await;
    // A client sets the trait of a disabled host on a host that is enabled.
    life.context().gateway.send::<HostRoot>(&host, HostCommand::Enable, Meta::system("test")).await.unwrap();
    let enabled = |context: &chronova_actors::process::context::StepContext| {
        context.views.placement.read(|view| !view.ledger.providers[&ProviderId(host.0)].traits.contains(DISABLED))
    };
    life.until(enabled).await;
    let stale = vec![DISABLED.to_owned()];
    ledger(&life, LedgerCommand::SetTraits { provider: ProviderId(host.0), generation: None, traits: stale }).await;
    life.until(enabled).await;
    life.stop().await;
}

#[actix_rt::test]
async fn reports_keep_what_placement_clients_set_and_drop_what_the_host_lost() {
    let mut world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let host = world.fleet.uri().host_id(0);
    let id = ProviderId(host.0);
    let known = provider(&life, host);
    let mut vcpu = known.inventories["VCPU"].inventory.clone();
    let first = vcpu.allocation_ratio;
    vcpu.allocation_ratio = 9.0;
    let generation = known.generation;
    ledger(&life, LedgerCommand::UpdateInventory { provider: id, generation, inventory: vcpu, reserve: Reserve::All })
        .await;
    // The host once reported this trait; a client added the trait "fast".
    let now = life.context().views.hosts.read(|hosts| hosts.get(host).unwrap().clone());
    let mut capabilities = now.capabilities.clone();
    capabilities.traits.push("HW_CPU_X86_AVX512F".into());
    let report = Registered { host, number: now.number, hostname: now.hostname, uri: now.uri, capabilities };
    life.context()
        .gateway
        .send::<HostRoot>(&host, HostCommand::Report { report, admitted: true }, Meta::system("test"))
        .await
        .unwrap();
    ledger(&life, LedgerCommand::CreateTrait { name: "CUSTOM_FAST".into() }).await;
    let add = vec!["CUSTOM_FAST".to_owned(), "HW_CPU_X86_AVX512F".to_owned(), "HW_GPU_API_VULKAN".to_owned()];
    let add = [add, vec!["COMPUTE_REMOTE_MANAGED_PORTS".to_owned(), DISABLED.to_owned()]].concat();
    let remove = vec!["COMPUTE_NODE".to_owned(), "HW_CPU_X86_AVX2".to_owned()];
    ledger(&life, LedgerCommand::AdjustTraits { provider: id, add, remove }).await;
    life.stop().await;

    let life = world.live(None, None).await;
    let lost = |context: &chronova_actors::process::context::StepContext| {
        context.views.placement.read(|view| !view.ledger.providers[&id].traits.contains("HW_CPU_X86_AVX512F"))
    };
    life.until(lost).await;
    let known = provider(&life, host);
    assert!(known.traits.contains("CUSTOM_FAST") && known.traits.contains("HW_GPU_API_VULKAN"), "{:?}", known.traits);
    assert!(known.traits.contains("COMPUTE_NODE") && known.traits.contains("HW_CPU_X86_AVX2"), "a trait stays removed");
    assert!(!known.traits.contains("COMPUTE_REMOTE_MANAGED_PORTS"), "a host's trait that no driver reports is left");
    assert!((known.inventories["VCPU"].inventory.allocation_ratio - 9.0).abs() < f64::EPSILON, "the ratio changed");
    life.stop().await;

    world.options.hosts.imposed_ratios = vec![("VCPU".to_owned(), first)];
    let life = world.live(None, None).await;
    let imposed = |context: &chronova_actors::process::context::StepContext| {
        context.views.placement.read(|view| {
            (view.ledger.providers[&id].inventories["VCPU"].inventory.allocation_ratio - first).abs() < f64::EPSILON
        })
    };
    life.until(imposed).await;
    life.stop().await;
}

fn ratio(life: &Life, host: HostId, class: &str) -> f64 {
    provider(life, host).inventories[class].inventory.allocation_ratio
}

/// Sets the allocation ratio of a class, as a client of Placement does.
async fn set_ratio(life: &Life, host: HostId, class: &str, ratio: f64) {
    // The host may report between the read and the change. Then the client reads again.
    loop {
        let known = provider(life, host);
        let mut inventory = known.inventories[class].inventory.clone();
        inventory.allocation_ratio = ratio;
        let (id, generation) = (ProviderId(host.0), known.generation);
        let update = LedgerCommand::UpdateInventory { provider: id, generation, inventory, reserve: Reserve::All };
        match life.context().gateway.send::<LedgerRoot>(&CELL, update, Meta::system("test")).await {
            Ok(_) => return,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// An operator removes a host while its agent reports its resources again.
#[actix_rt::test]
async fn a_late_report_does_not_bring_back_the_provider_of_a_removed_host() {
    let mut world = World::new(1);
    world.options.hosts.resources_poll = Some(Duration::from_millis(50));
    // A report reads the size of the image cache, so the test can stop it there.
    (world.options.image_cache.reserve_disk, world.options.image_cache.interval) = (true, None);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let host = world.fleet.uri().host_id(0);
    world.brakes.hold("cached_images");
    world.brakes.reached("cached_images").await;
    life.operations().remove_host(Meta::system("test"), host).await.unwrap();
    let caught_up = || life.until(|context| context.views.position() >= life.store.head());
    assert!(caught_up().await);
    world.brakes.hold("capabilities");
    world.brakes.release("cached_images");
    // The next report begins after the end of the first.
    world.brakes.reached("capabilities").await;
    assert!(caught_up().await);
    let left = life.context().views.placement.read(|view| view.ledger.providers.len());
    assert_eq!(left, 0, "the provider of the removed host is back");
    world.brakes.release("capabilities");
    life.stop().await;
}

/// At each `update_resources_interval`, a host reports its ratios and traits again. Other ratios and traits stay as
/// clients of Placement have set them.
#[actix_rt::test]
async fn each_update_of_a_hosts_resources_undoes_what_clients_changed_of_them() {
    let mut world = World::new(1);
    world.options.hosts.resources_poll = Some(Duration::from_millis(50));
    world.options.hosts.imposed_ratios = vec![("VCPU".to_owned(), 2.0)];
    // The reconciler that mirrors hosts in Placement must not run meanwhile.
    world.options.reconcile.period = Duration::from_hours(1);
    world.options.hosts.resync = Duration::from_hours(1);
    (world.options.hosts.power_sync, world.options.hosts.deleted_poll) = (None, None);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let host = world.fleet.uri().host_id(0);
    let id = ProviderId(host.0);
    set_ratio(&life, host, "DISK_GB", 3.0).await;
    set_ratio(&life, host, "VCPU", 9.0).await;
    // The read models show the changes of the client after its commands.
    life.until(|context| context.views.position() >= world.log.head()).await;
    life.until(|_| (ratio(&life, host, "VCPU") - 2.0).abs() < f64::EPSILON).await;
    assert!((ratio(&life, host, "DISK_GB") - 3.0).abs() < f64::EPSILON, "a ratio that no option sets has changed");

    ledger(&life, LedgerCommand::CreateTrait { name: "CUSTOM_FAST".into() }).await;
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let add = texts(&["CUSTOM_FAST", "HW_GPU_API_VULKAN", "COMPUTE_REMOTE_MANAGED_PORTS", DISABLED]);
    let remove = texts(&["COMPUTE_NODE", "HW_CPU_X86_AVX2"]);
    ledger(&life, LedgerCommand::AdjustTraits { provider: id, add, remove }).await;
    let has = |name: &str| provider(&life, host).traits.contains(name);
    let own = |_: &chronova_actors::process::context::StepContext| has("COMPUTE_NODE") && has("HW_CPU_X86_AVX2");
    life.until(|context| context.views.position() >= world.log.head()).await;
    life.until(|context| own(context) && !has("COMPUTE_REMOTE_MANAGED_PORTS") && !has(DISABLED)).await;
    assert!(has("CUSTOM_FAST") && has("HW_GPU_API_VULKAN"), "traits of clients are gone");

    // The trait of a disabled host, and a trait that the host reported once.
    life.context()
        .gateway
        .send::<HostRoot>(&host, HostCommand::Disable { reason: None }, Meta::system("test"))
        .await
        .unwrap();
    life.until(|_| has(DISABLED)).await;
    ledger(&life, LedgerCommand::SetTraits { provider: id, generation: None, traits: vec![] }).await;
    life.until(|context| context.views.position() >= world.log.head()).await;
    life.until(|context| own(context) && has(DISABLED)).await;
    assert!(!has("CUSTOM_FAST"), "a trait that its client removed is back");
    let now = life.context().views.hosts.read(|hosts| hosts.get(host).unwrap().clone());
    let mut capabilities = now.capabilities.clone();
    capabilities.traits.push("HW_CPU_X86_AVX512F".into());
    let report = Registered { host, number: now.number, hostname: now.hostname, uri: now.uri, capabilities };
    let report = HostCommand::Report { report, admitted: true };
    life.context().gateway.send::<HostRoot>(&host, report, Meta::system("test")).await.unwrap();
    let recorded = |context: &chronova_actors::process::context::StepContext| {
        context.views.hosts.read(|hosts| hosts.get(host).unwrap().capabilities == now.capabilities)
    };
    life.until(recorded).await;

    // Without a change, no event is recorded.
    let calls = world.fleet.calls(DriverCall::Capabilities);
    life.until(|_| world.fleet.calls(DriverCall::Capabilities) > calls + 2).await;
    let end = world.log.head();
    let calls = world.fleet.calls(DriverCall::Capabilities);
    let compared = world.fleet.calls(DriverCall::Guests);
    life.until(|_| world.fleet.calls(DriverCall::Capabilities) > calls + 2).await;
    assert_eq!(world.log.head(), end, "a report that changes nothing is recorded");
    assert_eq!(world.fleet.calls(DriverCall::Guests), compared, "a report compares the host with the log");
    life.stop().await;
}

/// Another provider in Placement has the host's name. The host comes up as soon as the name is free.
#[actix_rt::test]
async fn a_host_whose_name_is_taken_in_placement_waits_until_it_is_free() {
    let world = World::new(1);
    let life = world.begin(Setting { hosts: Some(0), ..Setting::default() }).await;
    let (name, other) = (world.fleet.hostname(0), ProviderId(Uuid::from_u128(9)));
    ledger(&life, LedgerCommand::CreateProvider { provider: other, name: name.clone(), parent: None }).await;
    life.stop().await;

    let life = world.live(None, None).await;
    let calls = || world.fleet.calls(DriverCall::Capabilities);
    life.until(|_| calls() > 2).await;
    let host = world.fleet.uri().host_id(0);
    let known = |context: &chronova_actors::process::context::StepContext| {
        let up = context.views.hosts.read(|hosts| hosts.get(host).is_some_and(|host| host.up));
        (up, context.views.placement.read(|view| view.ledger.providers.keys().copied().collect::<Vec<_>>()))
    };
    assert_eq!(known(life.context()), (false, vec![other]), "the host took over a provider of the same name");
    ledger(&life, LedgerCommand::DeleteProvider { provider: other }).await;
    life.until(|context| known(context) == (true, vec![ProviderId(host.0)])).await;
    assert_eq!(provider(&life, host).name, name);
    life.stop().await;
}

#[actix_rt::test]
async fn a_service_is_enabled_by_its_id_and_no_longer_by_its_name() {
    let api = Api::start().await;
    let (host, name) = compute(&api).await[0].clone();
    let put = async |path: &str, body: Value| {
        api.call("PUT", &format!("/os-services/{path}"), "2.53", ADMIN, Some(body)).await
    };
    let off = put(&host.to_string(), json!({"status": "disabled", "disabled_reason": "dust"})).await;
    assert_eq!((off.status, &off.body["service"]["status"]), (200, &json!("disabled")));
    let on = put(&host.to_string(), json!({"status": "enabled"})).await;
    let shown = &on.body["service"];
    assert_eq!((on.status, &shown["status"], &shown["disabled_reason"]), (200, &json!("enabled"), &Value::Null));
    for verb in ["enable", "disable", "disable-log-reason", "force-down"] {
        let old = put(verb, json!({"host": name, "binary": "nova-compute"})).await;
        assert_eq!(old.status, 400, "{verb}: {}", old.body);
    }
    api.stop().await;
}

#[actix_rt::test]
async fn a_service_ends_only_without_servers_and_takes_its_traces_along() {
    let api = Api::start().await;
    let services = compute(&api).await;
    let (host, name) = services[0].clone();
    api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(json!({"aggregate": {"name": "a"}}))).await;
    let add = json!({"add_host": {"host": name}});
    api.call("POST", "/os-aggregates/1/action", "2.1", ADMIN, Some(add)).await;
    let mut request = Api::wish("there");
    request["host"] = json!(name);
    let server = api.server(ADMIN, request).await;
    let delete =
        async |version: &str, id: &str| api.call("DELETE", &format!("/os-services/{id}"), version, ADMIN, None).await;
    let denied = api.call("DELETE", &format!("/os-services/{host}"), "2.53", "alice:web", None).await;
    is(&denied, 403, "Policy doesn't allow os_compute_api:os-services:delete to be performed.");
    is(&delete("2.53", "1").await, 400, "Invalid uuid 1");
    is(&delete("2.1", "x").await, 400, "Invalid input received: id must be an integer");
    is(&delete("2.1", "99").await, 404, "Service 99 not found.");
    let busy = "Unable to delete compute service that is hosting instances. Migrate or delete the instances first.";
    is(&delete("2.53", &host.to_string()).await, 409, busy);
    assert_eq!(compute(&api).await.len(), 2);

    assert_eq!(api.call("DELETE", &format!("/servers/{server}"), "2.1", ADMIN, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(delete("2.53", &host.to_string()).await.status, 204);
    assert_eq!(compute(&api).await, services[1..]);
    assert_eq!(api.get("/os-aggregates/1", "2.1").await["aggregate"]["hosts"], json!([]));
    let left = api.life.context().views.placement.read(|view| view.ledger.providers.len());
    assert_eq!(left, 1, "the provider of the deleted host is left");
    // The actions of a server that was on the host still name the host.
    let path = format!("/servers/{server}/os-instance-actions");
    let request = api.get(&path, "2.62").await["instanceActions"][0]["request_id"].take();
    let shown = api.get(&format!("{path}/{}", request.as_str().unwrap()), "2.62").await;
    assert_eq!(shown["instanceAction"]["events"][0]["host"], json!(name), "{shown}");
    let nova = delete("2.53", &host.to_string()).await;
    is(&nova, 404, &format!("Service {host} not found."));
    // Until 2.52 a service is deleted by number. The control plane's own services cannot be deleted.
    assert_eq!(delete("2.1", "1").await.status, 400);
    api.stop().await;
}

/// The service of a host that is not configured any more is listed as down until an administrator deletes it.
#[actix_rt::test]
async fn an_orphaned_service_is_listed_and_can_be_deleted() {
    let Api { world, life, .. } = Api::start().await;
    life.stop().await;
    let life = world.begin(Setting { hosts: Some(1), ..Setting::default() }).await;
    let store = Arc::clone(&world.log) as Arc<dyn EventStore>;
    let history = History::new(store, Arc::clone(&life.context().views), None, HistoryOptions::default());
    let api = Api::around(world, life, "", history);
    let orphan = api.world.fleet.hostname(1);
    let is_down = api
        .life
        .until(|context| context.views.hosts.read(|hosts| hosts.named(&orphan).is_some_and(|host| !host.up)))
        .await;
    assert!(is_down);
    let listed = api.get(&format!("/os-services?host={orphan}"), "2.53").await;
    let shown = &listed["services"][0];
    assert_eq!((&shown["state"], &shown["status"]), (&json!("down"), &json!("enabled")), "{shown}");
    let path = format!("/os-services/{}", shown["id"].as_str().unwrap());
    assert_eq!(api.call("DELETE", &path, "2.53", ADMIN, None).await.status, 204);
    let left: Vec<String> = compute(&api).await.into_iter().map(|(_, name)| name).collect();
    assert_eq!(left, [api.world.fleet.hostname(0)]);
    api.stop().await;
}

/// A host is not renamed in place. Its new name makes it a new host. The old host can be deleted once it has no
/// servers.
#[actix_rt::test]
async fn a_host_with_another_name_is_another_host() {
    let Api { mut world, life, .. } = {
        let api = Api::start_of(World::new(1), "", None).await;
        api.server(ADMIN, Api::wish("kept")).await;
        api
    };
    let old = world.fleet.hostname(0);
    life.stop().await;
    let (size, name) = (world.fleet.uri().clone(), "renamed".to_owned());
    world.fleet = SimFleet::new(SimUri { name, ..size });
    let new = world.fleet.hostname(0);
    let life = world.live(None, None).await;
    life.hosts_up_of(1, 2).await;
    life.until(|context| context.views.hosts.read(|hosts| hosts.named(&old).is_some_and(|host| !host.up))).await;
    let store = Arc::clone(&world.log) as Arc<dyn EventStore>;
    let history = History::new(store, Arc::clone(&life.context().views), None, HistoryOptions::default());
    let api = Api::around(world, life, "", history);
    let services = async || -> Vec<(String, String)> {
        let list = api.get("/os-services?binary=nova-compute", "2.53").await["services"].take();
        let text = |service: &Value, key: &str| service[key].as_str().unwrap().to_owned();
        list.as_array().unwrap().iter().map(|service| (text(service, "host"), text(service, "state"))).collect()
    };
    let (is_down, is_up) = ((old.clone(), "down".to_owned()), (new.clone(), "up".to_owned()));
    assert_eq!(services().await, [is_down, is_up.clone()]);
    // The server stays on the old host, so the old host cannot be deleted.
    let kept = api.get("/servers/detail?all_tenants=1&name=kept", "2.1").await["servers"][0].take();
    assert_eq!(kept["OS-EXT-SRV-ATTR:host"], *old);
    let (host, _) = compute(&api).await.into_iter().find(|(_, name)| *name == old).unwrap();
    let delete = async || api.call("DELETE", &format!("/os-services/{host}"), "2.53", ADMIN, None).await;
    let busy = "Unable to delete compute service that is hosting instances. Migrate or delete the instances first.";
    is(&delete().await, 409, busy);
    let path = format!("/servers/{}", kept["id"].as_str().unwrap());
    assert_eq!(api.call("DELETE", &path, "2.1", ADMIN, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(delete().await.status, 204);
    assert_eq!(services().await, [is_up]);
    let hypervisors = api.get("/os-hypervisors", "2.53").await["hypervisors"].take();
    assert_eq!(hypervisors.as_array().unwrap().len(), 1);
    assert_eq!(hypervisors[0]["hypervisor_hostname"], *new);
    let id = api.server(ADMIN, Api::wish("next")).await;
    assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"], *new);
    api.stop().await;
}

#[actix_rt::test]
async fn hosts_of_old_show_their_resources() {
    let api = Api::start().await;
    let (_, name) = compute(&api).await.remove(0);
    let mut request = Api::wish("there");
    request["host"] = json!(name);
    api.server(ADMIN, request).await;
    let list = api.get("/os-hosts", "2.42").await["hosts"].as_array().unwrap().clone();
    let text = |host: &Value, key: &str| host[key].as_str().unwrap().to_owned();
    let services: Vec<_> = list.iter().map(|host| text(host, "service")).collect();
    assert_eq!(services, ["conductor", "scheduler", "compute", "compute"]);
    let zones: Vec<_> = list.iter().map(|host| text(host, "zone")).collect();
    assert_eq!(zones, ["internal", "internal", "nova", "nova"]);
    let hosts: BTreeSet<_> = list[2..].iter().map(|host| text(host, "host_name")).collect();
    let known: BTreeSet<String> = compute(&api).await.into_iter().map(|(_, name)| name).collect();
    assert_eq!(hosts, known);
    assert!(list[..2].iter().all(|host| !text(host, "host_name").is_empty()), "{list:?}");
    let here = api.get("/os-hosts?zone=nova", "2.1").await["hosts"].as_array().unwrap().len();
    assert_eq!(here, 2);
    let zone = json!({"aggregate": {"name": "a", "availability_zone": "north"}});
    let made = api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(zone)).await;
    let add = json!({"add_host": {"host": compute(&api).await[1].1}});
    let path = format!("/os-aggregates/{}/action", made.body["aggregate"]["id"]);
    assert_eq!(api.call("POST", &path, "2.1", ADMIN, Some(add)).await.status, 200);
    let list = api.get("/os-hosts", "2.42").await["hosts"].as_array().unwrap().clone();
    let zones: Vec<_> = list.iter().map(|host| text(host, "zone")).collect();
    assert_eq!(zones, ["internal", "internal", "nova", "north"], "a host shows its own zone");
    let shown = api.get(&format!("/os-hosts/{name}"), "2.1").await["host"].clone();
    let line = |at: usize| {
        let resource = &shown[at]["resource"];
        (resource["project"].as_str().unwrap().to_owned(), resource["cpu"].as_u64().unwrap())
    };
    let lines: Vec<_> = (0..4).map(line).collect();
    let of = |project: &str, cpu| (project.to_owned(), cpu);
    assert_eq!(lines, [of("(total)", 8), of("(used_now)", 1), of("(used_max)", 1), of("admin", 1)]);
    let ask = async |method: &str, path: &str, body| api.call(method, path, "2.1", ADMIN, body).await;
    is(&ask("GET", "/os-hosts/nowhere", None).await, 404, "Compute host nowhere could not be found.");
    let unsupported = "The requested functionality is not supported.";
    assert_eq!(ask("PUT", &format!("/os-hosts/{name}"), Some(json!({}))).await.status, 400);
    assert_eq!(api.call("GET", "/os-hosts", "2.43", ADMIN, None).await.status, 404);
    assert_eq!(api.call("GET", &format!("/os-hosts/{name}"), "2.43", ADMIN, None).await.status, 404);
    // No host can be switched by this API, and from 2.43 on these requests do not exist.
    for (method, path, body) in [
        ("GET", format!("/os-hosts/{name}/reboot"), None),
        ("GET", format!("/os-hosts/{name}/startup"), None),
        ("GET", format!("/os-hosts/{name}/shutdown"), None),
        ("PUT", format!("/os-hosts/{name}"), Some(json!({"status": "disable"}))),
        ("PUT", format!("/os-hosts/{name}"), Some(json!({"maintenance_mode": "enable"}))),
    ] {
        is(&ask(method, &path, body.clone()).await, 501, unsupported);
        assert_eq!(api.call(method, &path, "2.43", ADMIN, body).await.status, 404, "{method} {path}");
    }
    api.stop().await;
}

/// `used_now` includes the amounts that the host reserves; `used_max` is the sum of the servers' flavors. The answer
/// needs no call to the host.
#[actix_rt::test]
async fn hosts_of_old_count_flavors_and_what_is_reserved() {
    let mut world = World::new(1);
    world.options.hosts.reserved_host_cpus = 2;
    world.options.hosts.reserved_host_memory_mb = 1024;
    world.options.hosts.reserved_host_disk_mb = 2048;
    world.options.hosts.heartbeat = std::time::Duration::from_hours(1);
    world.options.hosts.resync = std::time::Duration::from_hours(1);
    (world.options.hosts.power_sync, world.options.hosts.deleted_poll) = (None, None);
    let api = Api::start_of(world, "", None).await;
    let flavor = json!({"flavor": {"id": "f", "name": "f", "ram": 3000, "vcpus": 4, "disk": 5,
        "OS-FLV-EXT-DATA:ephemeral": 3, "swap": 0}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    for (name, token) in [("one", "u:p"), ("two", "u:q")] {
        let mut request = Api::wish(name);
        request["flavorRef"] = json!("f");
        assert_eq!(api.life.status(api.server(token, request).await.parse().unwrap()), "ACTIVE");
    }
    let (_, name) = compute(&api).await.remove(0);
    let probes = || {
        [DriverCall::Usage, DriverCall::Capabilities, DriverCall::Guests, DriverCall::Guest]
            .map(|call| api.world.fleet.calls(call))
    };
    let before = probes();
    let shown = api.get(&format!("/os-hosts/{name}"), "2.1").await["host"].clone();
    assert_eq!(probes(), before, "the host was asked");
    let line = |at: usize| {
        let resource = &shown[at]["resource"];
        let number = |key: &str| resource[key].as_u64().unwrap();
        (resource["project"].as_str().unwrap().to_owned(), number("cpu"), number("memory_mb"), number("disk_gb"))
    };
    let of = |project: &str, cpu, memory, disk| (project.to_owned(), cpu, memory, disk);
    let expected = [
        of("(total)", 8, 8192, 100),
        of("(used_now)", 10, 7024, 18),
        of("(used_max)", 8, 6000, 16),
        of("p", 4, 3000, 8),
        of("q", 4, 3000, 8),
    ];
    assert_eq!((0..5).map(line).collect::<Vec<_>>(), expected, "the lines differ; the usage may exceed the total");
    let lines = shown.as_array().unwrap();
    assert!(lines.len() == 5 && lines.iter().all(|line| line["resource"]["host"] == name.as_str()), "{shown}");
    api.stop().await;
}
