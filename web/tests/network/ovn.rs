//! The network API while OVN carries the networks. A stand-in for OVN's northbound database notes the transactions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chronova_actors::services::embedded::network::ovn::{OvnOptions, OvnPlace, OvnPlane};
use chronova_actors::services::external::http::TlsTrust;
use chronova_actors::services::external::ovsdb::OvsdbRemote;
use chronova_events::store::memory::MemoryStore;
use chronova_web::config::WebConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::world::World;

const ADMIN: &str = "admin:admin";
/// Only a hang reaches the limit.
const LONG: Duration = Duration::from_mins(1);

/// The database: empty at first, and then whatever the test says. It accepts every transaction.
struct Northbound {
    transactions: mpsc::Receiver<Value>,
    writer: OwnedWriteHalf,
}

impl Northbound {
    async fn accept(listener: TcpListener) -> Self {
        let (stream, _): (TcpStream, SocketAddr) = listener.accept().await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        let (note, transactions) = mpsc::channel(64);
        // The first message asks for the tables.
        let mut bytes = Vec::<u8>::new();
        while serde_json::from_slice::<Value>(&bytes).is_err() {
            assert!(reader.read_buf(&mut bytes).await.unwrap() > 0);
        }
        writer.write_all(br#"{"id":0,"result":{},"error":null}"#).await.unwrap();
        tokio::spawn(async move {
            let mut bytes = Vec::<u8>::new();
            while reader.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
                // The client sends nothing else before it has the answer.
                if let Ok(message) = serde_json::from_slice::<Value>(&bytes) {
                    bytes.clear();
                    if note.send(message).await.is_err() {
                        return;
                    }
                }
            }
        });
        Self { transactions, writer }
    }

    /// The operations of the next transaction, which is answered.
    async fn transaction(&mut self) -> Vec<Value> {
        let message = timeout(LONG, self.transactions.recv()).await.expect("no transaction comes").unwrap();
        assert_eq!(message["method"], "transact", "{message}");
        let operations = message["params"].as_array().unwrap()[1..].to_vec();
        self.say(&json!({"id": message["id"], "result": vec![json!({}); operations.len()], "error": null})).await;
        operations
    }

    async fn say(&mut self, message: &Value) {
        self.writer.write_all(message.to_string().as_bytes()).await.unwrap();
    }
}

async fn cloud() -> (World, Northbound, Arc<OvnPlane>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = OvnPlace {
        remotes: vec![OvsdbRemote::Tcp { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() }],
        trust: TlsTrust { insecure: true, ..TlsTrust::default() },
        connect_timeout: LONG,
        probe_interval: LONG,
    };
    let options = OvnOptions { bridge: "br-int".to_owned(), gateway_chassis: vec!["h1".to_owned()], tunnel_mtu: 1442 };
    let plane = OvnPlane::start(options, place).unwrap();
    let database = Northbound::accept(listener).await;
    let world = World::carried_by(Some(Arc::clone(&plane)), MemoryStore::new(), WebConfig::default()).await;
    (world, database, plane)
}

#[actix_web::test]
async fn a_new_network_is_written_at_once() {
    let (world, mut database, _plane) = cloud().await;
    let private = world.make(ADMIN, "/networks", "network", json!({"name": "private"})).await;
    assert_eq!(private["mtu"], 1442, "guests need room for the headers of the tunnel");
    let name = json!(format!("chronova-{}", private["id"].as_str().unwrap()));
    let inserted = database.transaction().await;
    let switch = inserted.iter().find(|operation| operation["table"] == "Logical_Switch").unwrap();
    assert_eq!((&switch["op"], &switch["row"]["name"]), (&json!("insert"), &name));
    // The comparison at the start may have come before the connection.
    let failures = world.failures("ovn-northbound");
    let physical = json!({"name": "wire", "provider:network_type": "vlan", "provider:physical_network": "physnet1",
                          "provider:segmentation_id": 7});
    let wire = world.make(ADMIN, "/networks", "network", physical).await;
    assert_eq!(wire["mtu"], 1500, "a physical network has no tunnel");
    let inserted = database.transaction().await;
    let port = inserted.iter().find(|operation| operation["row"]["type"] == "localnet").unwrap();
    assert_eq!(port["row"]["tag"], 7);
    assert_eq!(port["row"]["options"], json!(["map", [["network_name", "physnet1"]]]));
    assert_eq!(world.failures("ovn-northbound"), failures);
    world.end().await;
}

#[actix_web::test]
async fn a_port_is_active_when_ovn_says_so() {
    let (world, mut database, plane) = cloud().await;
    let private = world.make(ADMIN, "/networks", "network", json!({"name": "private"})).await;
    let bound = json!({"network_id": private["id"], "binding:host_id": "h1", "device_id": "d",
                       "device_owner": "compute:nova", "port_security_enabled": false});
    let port = world.make(ADMIN, "/ports", "port", bound).await;
    assert_eq!((&port["status"], &port["binding:vif_type"]), (&json!("BUILD"), &json!("ovs")));
    database.transaction().await;

    let id = port["id"].as_str().unwrap().to_owned();
    let row = json!({"name": id, "up": true, "external_ids": ["map", []]});
    let uuid = "00000000-0000-0000-0000-000000000001";
    let mut changes = plane_changes(&plane);
    changes.mark_unchanged();
    let update = json!({"Logical_Switch_Port": {uuid: {"new": row}}});
    database.say(&json!({"method": "update", "params": [null, update], "id": null})).await;
    timeout(LONG, changes.changed()).await.unwrap().unwrap();
    assert_eq!(world.get(ADMIN, &format!("/ports/{id}")).await["port"]["status"], "ACTIVE");
    world.end().await;
}

fn plane_changes(plane: &OvnPlane) -> tokio::sync::watch::Receiver<u64> {
    use chronova_actors::ports::NetworkPlane as _;
    plane.changes()
}
