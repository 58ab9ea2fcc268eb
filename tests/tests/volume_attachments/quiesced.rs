//! Guests that are left quiesced.

use std::time::Duration;

use chronova_events::ids::InstanceId;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::compute_api::{Api, NETWORK};
use chronova_tests::world::World;
use serde_json::json;

use super::{OWNER, call};

/// Cuts a host off while a guest on it is quiesced. Returns the host and the guest. The image fails without the host.
async fn cut_off_while_quiesced(api: &Api) -> (usize, InstanceId) {
    let image = api.image(&[("hw_qemu_guest_agent", "yes")]).await;
    let root = json!({"source_type": "image", "uuid": image, "destination_type": "volume", "volume_size": 1,
        "boot_index": 0});
    let request =
        json!({"name": "s", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "block_device_mapping_v2": [root]});
    let server = api.server(OWNER, request).await;
    let id: InstanceId = server.parse().unwrap();
    let host = api.life.host_of(&api.world, id).unwrap();
    api.world.brakes.hold("create_volume");
    let path = format!("/servers/{server}/action");
    let (status, body, _) = call(api, "POST", &path, "2.45", Some(json!({"createImage": {"name": "cut"}}))).await;
    assert_eq!(status, 202, "{body}");
    api.world.brakes.reached("create_volume").await;
    api.world.fleet.kill_host(host);
    api.world.brakes.release("create_volume");
    api.life.settled().await;
    assert_eq!(api.world.fleet.frozen(), [id], "the guest was not quiesced when its host was cut off");
    (host, id)
}

async fn until_released(world: &World) {
    let released = async {
        while !world.fleet.frozen().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), released).await.expect("the guest stays quiesced");
}

#[actix_rt::test]
async fn a_guest_that_was_quiesced_on_a_lost_host_is_released_when_the_host_is_back() {
    let api = Api::start().await;
    let (host, _) = cut_off_while_quiesced(&api).await;
    api.world.fleet.revive_host(host, true).unwrap();
    until_released(&api.world).await;
    api.stop().await;
}

/// The host came back, but the control plane ended before it released the guest. In this test the host refuses the
/// release until the control plane has ended.
#[actix_rt::test]
async fn the_next_control_plane_releases_a_guest_that_is_left_quiesced() {
    let api = Api::start().await;
    let (host, id) = cut_off_while_quiesced(&api).await;
    let refused = FaultPlan::default().with(DriverCall::Thaw, FaultTrigger::Always, Effect::Refuse);
    api.world.fleet.set_all_faults(&refused);
    let before = api.world.fleet.calls(DriverCall::Thaw);
    api.world.fleet.revive_host(host, true).unwrap();
    api.life.until(|_| api.world.fleet.calls(DriverCall::Thaw) > before).await;
    let Api { world, life, .. } = api;
    life.stop().await;
    assert_eq!(world.fleet.frozen(), [id], "the guest was released although its agent refused");

    world.fleet.set_all_faults(&FaultPlan::default());
    let life = world.live(None, None).await;
    until_released(&world).await;
    life.stop().await;
}
