//! Clients that create and use servers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{Random, Told, asked};
use crate::cloud::{Client, Cloud, Furniture, pause};

/// The most servers of one client at the same time.
const MAX_SERVERS: usize = 12;
/// The most volumes of one client that are attached to no server.
const SPARE: usize = 5;

/// The image, the network and the flavors of the servers.
#[derive(Clone)]
pub struct Goods {
    furniture: Furniture,
    /// The flavor that `Cloud::furnish` created, and a larger flavor.
    flavors: [String; 2],
}

impl Goods {
    pub fn new(cloud: &Cloud) -> Self {
        let furniture = cloud.furnish();
        let larger = json!({"flavor": {"name": "larger", "vcpus": 2, "ram": 128, "disk": 2}});
        let larger = cloud.client().post("/compute/v2.1/flavors", &larger).unwrap().expect(200).text("/flavor/id");
        Self { flavors: [furniture.flavor.clone(), larger], furniture }
    }
}

struct Trouble<'a> {
    client: Client,
    goods: Goods,
    told: &'a Mutex<Told>,
    random: Random,
    servers: Vec<String>,
    volumes: Vec<String>,
}

/// Runs one client until `over`.
pub fn trouble(client: Client, goods: Goods, told: &Mutex<Told>, over: &AtomicBool, random: Random) {
    let mut trouble = Trouble { client, goods, told, random, servers: Vec::new(), volumes: Vec::new() };
    while !over.load(Ordering::SeqCst) {
        pause(trouble.random.below(20));
        // The client sends nothing while the server does not answer.
        if trouble.client.get("/healthz").is_ok_and(|answer| answer.status == 200) {
            trouble.once();
        }
    }
}

impl Trouble<'_> {
    fn once(&mut self) {
        if self.servers.is_empty() {
            return self.create();
        }
        match self.random.below(40) {
            // The limit keeps the hosts from filling up.
            0..9 if self.servers.len() < MAX_SERVERS => self.create(),
            0..13 => self.delete(),
            13 | 14 if self.volumes.len() < SPARE => self.make_volume(),
            15 | 16 if !self.volumes.is_empty() => self.attach(),
            17 | 18 => self.act("os-start", &json!(null)),
            19 | 20 => self.act("os-stop", &json!(null)),
            21..24 => {
                let flavor = self.goods.flavors[self.random.index(2)].clone();
                self.act("resize", &json!({"flavorRef": flavor}));
            }
            24 | 25 => self.act("migrate", &json!(null)),
            26..29 => self.act("confirmResize", &json!(null)),
            29 | 30 => self.act("revertResize", &json!(null)),
            31..35 => self.act("os-migrateLive", &json!({"host": null, "block_migration": "auto"})),
            35 | 36 => self.act("shelve", &json!(null)),
            37..40 => self.act("unshelve", &json!(null)),
            _ => {}
        }
    }

    fn pick(&mut self) -> usize {
        self.random.index(self.servers.len())
    }

    fn create(&mut self) {
        let Goods { furniture, .. } = &self.goods;
        let server = json!({"server": {
            "name": "s", "imageRef": furniture.image, "flavorRef": furniture.flavor,
            "networks": [{"uuid": furniture.network}],
        }});
        let Ok(answer) = self.client.post("/compute/v2.1/servers", &server) else { return };
        match answer.status {
            202 => {
                let id = answer.text("/server/id");
                self.told.lock().unwrap().created.insert(id.clone());
                self.servers.push(id);
            }
            503 => {}
            _ => panic!("a server is refused: {answer:?}"),
        }
    }

    fn delete(&mut self) {
        let at = self.pick();
        let id = self.servers.swap_remove(at);
        self.told.lock().unwrap().maybe_deleted.insert(id.clone());
        if self.client.delete(&format!("/compute/v2.1/servers/{id}")).is_ok_and(|answer| answer.status == 204) {
            self.told.lock().unwrap().deleted.insert(id);
        }
    }

    fn act(&mut self, name: &str, body: &Value) {
        let at = self.pick();
        let path = format!("/compute/v2.1/servers/{}/action", self.servers[at]);
        match asked(&self.client, &path, &json!({name: body})) {
            Some(202 | 204) => self.told.lock().unwrap().count(name),
            // The server is in another state, has nothing to confirm, or already has this flavor. Or there was no
            // answer.
            Some(400 | 409) | None => {}
            Some(status) => panic!("{path} {name}: {status}"),
        }
    }

    fn make_volume(&mut self) {
        let body = json!({"volume": {"size": 1, "name": "v"}});
        let Ok(answer) = self.client.post("/volume/v3/admin/volumes", &body) else { return };
        match answer.status {
            202 => self.volumes.push(answer.text("/volume/id")),
            // The project's quota is used up, or the service is not available.
            413 | 503 => {}
            _ => panic!("a volume is refused: {answer:?}"),
        }
    }

    fn attach(&mut self) {
        let volume = self.volumes.pop().unwrap();
        let at = self.pick();
        let path = format!("/compute/v2.1/servers/{}/os-volume_attachments", self.servers[at]);
        let body = json!({"volumeAttachment": {"volumeId": volume}});
        match asked(&self.client, &path, &body) {
            Some(200 | 202) => self.told.lock().unwrap().count("attach"),
            // The volume does not exist yet, or the server is busy. So another try follows.
            Some(400 | 403 | 409) => self.volumes.insert(0, volume),
            // The client does not know whether the volume is attached.
            None => {}
            Some(status) => panic!("{path}: {status}"),
        }
    }
}
