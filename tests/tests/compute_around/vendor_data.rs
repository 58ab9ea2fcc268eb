//! Dynamic vendor data: data of other services for guests.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chronova_actors::metadata::dynamic::{DynamicVendorData, VendorServices};
use chronova_tests::world::World;
use chronova_web::metadata::MetadataConfig;
use serde_json::{Map, Value, json};

use super::interfaces::Cloud;
use super::metadata::Service8775;

/// A vendor data service that gives the same answer for every server, or fails, and records its requests.
#[derive(Debug, Default)]
struct Inventory {
    told: Mutex<Vec<Value>>,
    fails: Mutex<bool>,
}

#[async_trait]
impl VendorServices for Inventory {
    async fn ask(&self, about: Value) -> Result<Map<String, Value>, String> {
        self.told.lock().unwrap().push(about);
        if *self.fails.lock().unwrap() {
            return Err("out of order".to_owned());
        }
        let said = json!({"inventory": {"rack": "R-7781"}, "static": "not yours"});
        Ok(said.as_object().unwrap().clone())
    }
}

#[actix_rt::test]
async fn other_services_say_their_part_of_a_server() {
    let inventory = Arc::new(Inventory::default());
    let mut world = World::new(2);
    world.options.servers.metadata.dynamic = Some(DynamicVendorData(Arc::clone(&inventory) as _));
    let service = Service8775::around(Cloud::start_in(world).await, MetadataConfig::default());
    let told = |inventory: &Inventory| inventory.told.lock().unwrap().clone();
    let (plain, address) = service
        .server("2.100", json!({"metadata": {"role": "web"}, "user_data": "IyEvYmluL3No", "hostname": "web-1"}))
        .await;
    assert_eq!(told(&inventory), [Value::Null; 0], "the service was asked before a guest needed it");
    let path = "/openstack/latest/vendor_data2.json";
    let said = service.get(&address, path).await.json();
    assert_eq!(
        said,
        json!({"static": {}, "inventory": {"rack": "R-7781"}}),
        "the service's data is missing, or replaces `static`"
    );
    let about = told(&inventory);
    let image =
        service.cloud.api.life.instance_now(plain.parse().unwrap()).alive().unwrap().request.image.clone().unwrap().id;
    let expected = json!({
        "project-id": "web", "instance-id": plain, "image-id": image.to_string(),
        "user-data": "IyEvYmluL3No", "hostname": "web-1", "metadata": {"role": "web"},
        "boot-roles": "member,reader",
    });
    assert_eq!(about, [expected]);
    service.get(&address, "/openstack/latest/meta_data.json").await;
    assert_eq!(service.get(&address, "/openstack/latest/vendor_data.json").await.json(), json!({}));
    assert_eq!(told(&inventory).len(), 1, "documents without dynamic data ask the service");
    service.get(&address, path).await;
    assert_eq!(told(&inventory).len(), 2, "each request for dynamic data asks the service");

    // The data is also on the config drive.
    let (drive, _) = service.server("2.100", json!({"config_drive": true})).await;
    let drive = service.cloud.api.world.brakes.guest(drive.parse().unwrap()).unwrap().config_drive.unwrap();
    assert!(drive.windows(6).any(|window| window == b"R-7781"));

    // If the service fails, the document with its data gets 500, and a build with a config drive fails.
    *inventory.fails.lock().unwrap() = true;
    assert_eq!(service.get(&address, path).await.status, 500);
    assert_eq!(service.get(&address, "/openstack/latest/vendor_data.json").await.status, 200);
    let request = json!({"name": "x", "imageRef": chronova_tests::compute_api::IMAGE, "flavorRef": "1", "config_drive": true,
        "networks": [{"uuid": service.cloud.network}]});
    let failed = service.cloud.api.server("alice:web", request).await;
    let shown = service.cloud.show(&failed).await;
    assert_eq!(
        (&shown["status"], &shown["fault"]["message"]),
        (&json!("ERROR"), &json!("The config drive could not be created."))
    );
    service.cloud.api.stop().await;
}
