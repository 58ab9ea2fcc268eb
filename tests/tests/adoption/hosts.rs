//! The hosts of an adopted cloud answer. The control plane recognizes their guests, does not change them by itself, and
//! can operate on them at a user's request.

use std::sync::Arc;

use chronova_events::host::HostEvent;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::store::EventStore;
use chronova_hypervisor::guest::{CpuInfo, GuestStatus, HostCapabilities, PowerState};
use chronova_hypervisor::pci::HostPci;
use chronova_projections::processes::Processes;
use serde_json::{Value, json};

use super::given::{AdoptedCloud, AdoptedHostDriver, Tables, text};

const WEB: &str = "e7ee3d45-92a9-43a3-9ab0-40bd8d075433";
const DB: &str = "44b43f74-d5b3-4298-9c19-639f27993b59";
const OLD: &str = "555e52b6-108a-4e4d-801e-af68c8d5923c";

/// The status of a recorded domain, with its name and UUID.
fn domain(file: &str, power: PowerState) -> GuestStatus {
    let xml = text(file);
    let between = |open: &str, close: &str| {
        let rest = xml.split_once(open).unwrap().1;
        rest.split_once(close).unwrap().0.to_owned()
    };
    let instance = InstanceId(between("<uuid>", "</uuid>").parse().unwrap());
    GuestStatus { instance, domain_name: between("<name>", "</name>"), power }
}

fn host(id: &str, name: &str) -> HostCapabilities {
    HostCapabilities {
        host: HostId(id.parse().unwrap()),
        hostname: name.to_owned(),
        hypervisor_type: "QEMU".to_owned(),
        hypervisor_version: 7_002_022,
        libvirt_version: 9_000_000,
        host_ip: "10.231.0.11".to_owned(),
        vcpus: 2,
        memory_mib: 17_370,
        disk_gib: 20,
        cpu: CpuInfo::default(),
        kvm: false,
        emulates_because: None,
        traits: vec![],
        guest_flags: vec![],
        encrypted_guests: 0,
        pmem: vec![],
        cells: vec![],
        pci: HostPci::default(),
        mdevs: vec![],
        iommu: false,
        emulator_account: None,
    }
}

pub(super) async fn cloud() -> (AdoptedCloud, [Arc<AdoptedHostDriver>; 2]) {
    let (report, history) = Tables::recorded().judge();
    assert!(report.is_clear());
    let first = vec![
        domain("h1.instance-00000001.xml", PowerState::Running),
        domain("h1.instance-00000003.xml", PowerState::Shutdown),
    ];
    let second = vec![domain("h2.instance-00000002.xml", PowerState::Running)];
    let hosts = [
        AdoptedHostDriver::with_guests(host("a261fc0e-0f9f-4de8-bba7-d4bf39a559a3", "h1"), first),
        AdoptedHostDriver::with_guests(host("f5c502ad-8e91-4963-bdd0-d3ff5a0b3afc", "h2"), second),
    ];
    let cloud = AdoptedCloud::on(history, hosts.to_vec()).await;
    // Waits until both hosts have reported, and then long enough for several comparisons with the log.
    let views = Arc::clone(&cloud.leader.contexts.steps.views);
    for _ in 0..600 {
        let known = views.hosts.read(|hosts| hosts.all().filter(|host| host.capabilities.libvirt_version > 0).count());
        if known == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    (cloud, hosts)
}

async fn status(cloud: &AdoptedCloud, id: &str) -> Value {
    cloud.compute(&format!("/servers/{id}"), "2.93").await["server"]["status"].clone()
}

pub(super) async fn settled(cloud: &AdoptedCloud) {
    let views = Arc::clone(&cloud.leader.contexts.steps.views);
    for _ in 0..1_000 {
        if views.position() >= cloud.log.head() && views.processes.read(Processes::is_empty) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("something is still under way");
}

pub(super) async fn act(cloud: &AdoptedCloud, id: &str, action: Value) -> u16 {
    let (status, _) = cloud.ask("POST", &format!("/compute/v2.1/servers/{id}/action"), "2.93", Some(action)).await;
    settled(cloud).await;
    status
}

#[actix_rt::test]
async fn guests_are_recognised_by_their_uuid_and_left_alone() {
    let (report, history) = Tables::recorded().judge();
    assert!(report.is_clear());
    let written = history.len() as u64;
    let (cloud, hosts) = cloud().await;
    for host in &hosts {
        assert!(host.calls.lock().unwrap().is_empty(), "{:?}", host.calls);
    }
    assert_eq!(status(&cloud, WEB).await, "ACTIVE");
    assert_eq!(status(&cloud, DB).await, "ACTIVE");
    assert_eq!(status(&cloud, OLD).await, "SHUTOFF");
    // The log has new events about the hosts, and none about servers, except for machine types that Nova had not recorded.
    let after = cloud.log.read_all(chronova_events::envelope::Position(written), 100).await.unwrap();
    let of_servers = after.iter().filter(|event| event.stream.category() == "instance");
    let of_servers: Vec<_> = of_servers.filter(|event| &*event.kind != "instance.machine_type_recorded").collect();
    assert!(of_servers.is_empty(), "{of_servers:?}");
    let registered = after.iter().filter(|event| {
        matches!(&**event.event().unwrap(), chronova_events::registry::Event::HostEvent(HostEvent::Registered(_)))
    });
    assert_eq!(registered.count(), 0, "a host of Nova is registered as a new one");
    cloud.stop().await;
}

#[actix_rt::test]
async fn stop_soft_reboot_and_delete_work_and_a_start_says_why_not() {
    let (cloud, hosts) = cloud().await;
    assert_eq!(act(&cloud, WEB, json!({"reboot": {"type": "SOFT"}})).await, 202);
    assert_eq!(status(&cloud, WEB).await, "ACTIVE");
    assert_eq!(act(&cloud, WEB, json!({"os-stop": null})).await, 202);
    assert_eq!(status(&cloud, WEB).await, "SHUTOFF");
    assert_eq!(*hosts[0].calls.lock().unwrap(), [format!("reboot_soft {WEB}"), format!("stop {WEB}")]);
    // The network service here does not have the server's port, so the start cannot plug the port again.
    assert_eq!(act(&cloud, OLD, json!({"os-start": null})).await, 202);
    assert_eq!(status(&cloud, OLD).await, "SHUTOFF");
    let actions = cloud.compute(&format!("/servers/{OLD}/os-instance-actions"), "2.93").await;
    let newest = &actions["instanceActions"][0];
    assert_eq!((&newest["action"], &newest["message"]), (&json!("start"), &json!("Error")), "{actions}");
    let request = newest["request_id"].as_str().unwrap();
    let shown = cloud.compute(&format!("/servers/{OLD}/os-instance-actions/{request}"), "2.93").await;
    assert!(shown.to_string().contains("could not be found"), "{shown}");
    let (deleted, _) = cloud.ask("DELETE", &format!("/compute/v2.1/servers/{OLD}"), "2.93", None).await;
    assert_eq!(deleted, 204);
    settled(&cloud).await;
    let (gone, _) = cloud.ask("GET", &format!("/compute/v2.1/servers/{OLD}"), "2.93", None).await;
    assert_eq!(gone, 404);
    assert!(hosts[0].calls.lock().unwrap().contains(&format!("destroy {OLD}")));
    let held = cloud.get(&format!("/placement/allocations/{OLD}"), "1.36").await;
    assert_eq!(held["allocations"], json!({}));
    cloud.stop().await;
}
