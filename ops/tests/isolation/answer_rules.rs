//! The rules that answers to an attacker must keep.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Findings;
use super::resources::{SharedResources, TenantResources};
use super::tenant_user::{Request, Response, TenantUser};
use crate::cloud::Cloud;

/// The ids and words of the victim.
pub struct Secrets {
    words: Vec<String>,
    /// Ids that the attacker wrote into `device_id` of its own ports. Neutron allows any text there, so the attacker
    /// may read them again.
    devices: BTreeSet<String>,
}

/// Values that the attacker may know, because addresses, MAC addresses and projects are not secrets by themselves.
const KNOWN: [&str; 3] = ["address", "project", "mac"];

impl Secrets {
    pub fn of(theirs: &TenantResources) -> Self {
        let secret = theirs.resources.iter().filter(|(name, _)| !KNOWN.contains(name));
        let words = secret.map(|(_, value)| value.clone());
        Self { words: words.chain(["WGFuYWR1".to_owned()]).collect(), devices: BTreeSet::new() }
    }

    /// Notes that ports of the attacker may name these devices from now on.
    pub fn written_as_devices(&mut self, words: &[String]) {
        let ids = words.iter().filter(|word| uuid::Uuid::try_parse(word).is_ok());
        self.devices.extend(ids.cloned());
    }

    /// Whether a list of the attacker's own ports may depend on these words.
    pub fn are_devices(&self, words: &[String]) -> bool {
        words.iter().any(|word| self.devices.contains(word))
    }

    /// The secret that this text reveals although the request did not name it.
    pub fn revealed_by(&self, text: &str, request: &Request) -> Option<String> {
        let named = request.to_string();
        let text = self.devices.iter().fold(text.to_owned(), |text, device| {
            text.replace(&format!("\"device_id\":\"{device}\""), "\"device_id\":\"<written>\"")
        });
        let secret = self.words.iter().find(|secret| text.contains(*secret) && !named.contains(*secret))?;
        let at = text.find(secret)?.saturating_sub(150);
        Some(format!(
            "{secret}: ..{}",
            String::from_utf8_lossy(&text.as_bytes()[at..]).chars().take(300).collect::<String>()
        ))
    }
}

/// The answer without words that differ between equal requests: words of the request, ids, numbers, times, keys.
pub fn canonical(response: &Response, named: &[String]) -> (u16, String) {
    let mut text = response.text.clone();
    // Addresses stay here and become "#" below. Another project may use the same address, so an answer may contain it
    // by chance.
    for word in named.iter().filter(|word| word.parse::<std::net::IpAddr>().is_err()) {
        text = without_word(&text, word);
        text = without_word(&text, &word.replace(':', "%3A"));
    }
    let mut plain = String::with_capacity(text.len());
    let mut run = String::new();
    let flush = |run: &mut String, plain: &mut String| {
        // A hexadecimal word with a digit in it is an id, a time, an address or a number.
        plain.push_str(if run.contains(|c: char| c.is_ascii_digit()) { "#" } else { run });
        run.clear();
    };
    for c in text.chars() {
        if c.is_ascii_hexdigit() || ":.-TZ+".contains(c) {
            run.push(c);
        } else {
            flush(&mut run, &mut plain);
            plain.push(c);
        }
    }
    flush(&mut run, &mut plain);
    (response.status, without_random_words(&plain))
}

/// Replaces a word of the request, but not at the beginning of a longer word.
fn without_word(text: &str, word: &str) -> String {
    let mut parts = text.split(word);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let inside = part.starts_with(|c: char| c.is_ascii_alphanumeric());
        plain.push_str(if inside { word } else { "<named>" });
        plain.push_str(part);
    }
    plain
}

/// Replaces the values of the fields in [`RANDOM`], which differ between equal requests.
fn without_random_words(text: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    blank(&mut value);
    value.to_string()
}

const RANDOM: [&str; 7] = ["adminPass", "device", "url", "private_key", "public_key", "fingerprint", "name"];

fn blank(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.is_string() && RANDOM.contains(&key.as_str()) {
                    true => *value = json!("*"),
                    false => blank(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(blank),
        _ => {}
    }
}

/// Everything that the victim sees of its own resources, and that the administrator sees of shared resources.
#[derive(Debug, PartialEq)]
pub struct VictimView(BTreeMap<String, Value>);

impl VictimView {
    pub fn take(victim: &TenantUser, admin: &TenantUser, theirs: &TenantResources, shared: &SharedResources) -> Self {
        let of = |name: &str| theirs.resources[name].as_str();
        let compute = |path: String| format!("/compute/v2.1{path}");
        let server = of("server");
        let (volume, mut view) = (format!("/volume/v3/{}", victim.project), BTreeMap::new());
        let victim_paths = [
            compute("/servers/detail".to_owned()),
            compute(format!("/servers/{server}")),
            compute(format!("/servers/{server}/os-interface")),
            compute(format!("/servers/{server}/os-volume_attachments")),
            compute(format!("/servers/{server}/os-instance-actions")),
            compute(format!("/servers/{server}/os-security-groups")),
            compute(format!("/servers/{server}/os-server-password")),
            compute("/os-keypairs".to_owned()),
            compute("/os-server-groups".to_owned()),
            compute("/limits".to_owned()),
            compute("/flavors/detail".to_owned()),
            format!("{volume}/volumes/detail"),
            format!("{volume}/snapshots/detail"),
            format!("{volume}/attachments/detail"),
            format!("{volume}/types"),
            format!("{volume}/limits"),
            "/network/v2.0/networks".to_owned(),
            "/network/v2.0/subnets".to_owned(),
            "/network/v2.0/ports".to_owned(),
            "/network/v2.0/routers".to_owned(),
            "/network/v2.0/floatingips".to_owned(),
            "/network/v2.0/security-groups".to_owned(),
            "/network/v2.0/security-group-rules".to_owned(),
            "/network/v2.0/quotas/victim/details.json".to_owned(),
            format!("/image/v2/images/{}", of("image")),
            "/image/v2/images".to_owned(),
        ];
        for path in victim_paths {
            let answer = victim.get(&path).json();
            view.insert(path, without_foreign_images(answer));
        }
        for path in [
            format!("/network/v2.0/networks/{}", shared.shared_network),
            format!("/network/v2.0/subnets/{}", shared.shared_subnet),
            format!("/network/v2.0/networks/{}", shared.external_network),
            format!("/image/v2/images/{}", shared.public_image),
        ] {
            view.insert(path.clone(), without_foreign_images(admin.get(&path).json()));
        }
        // The guest's address identifies it. No other port may block the guest's request or get its answer.
        let answer = victim.metadata(&theirs.address, "/openstack/latest/meta_data.json");
        view.insert("the guest's metadata".to_owned(), json!({"status": answer.status, "uuid": answer.json()["uuid"]}));
        Self(view)
    }

    /// The first difference, if any.
    pub fn difference(&self, now: &Self) -> Option<String> {
        let (path, before) = self.0.iter().find(|(path, before)| now.0.get(*path) != Some(before))?;
        let (before, after) = (before.to_string(), now.0.get(path).unwrap_or(&Value::Null).to_string());
        let same = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
        let end = |text: &str| {
            String::from_utf8_lossy(&text.as_bytes()[same.saturating_sub(60)..]).chars().take(240).collect::<String>()
        };
        Some(format!("{path} from ..{} to ..{}", end(&before), end(&after)))
    }
}

/// Removes the images of other tenants, who may share an image with the victim at any time.
fn without_foreign_images(mut answer: Value) -> Value {
    if let Some(images) = answer.get_mut("images").and_then(Value::as_array_mut) {
        images.retain(|image| image["owner"] == "victim");
    }
    answer
}

/// The victim creates backups and keeps two. No image of the attacker may count as one of them.
pub fn backups_survive(
    cloud: &mut Cloud,
    victim: &TenantUser,
    attacker: &TenantUser,
    theirs: &TenantResources,
    findings: &mut Findings,
) {
    let server = &theirs.resources["server"];
    let mut backups = Vec::new();
    for number in 0..2 {
        let before = backups_of(victim, server);
        let body =
            json!({"createBackup": {"name": format!("Xanadu-backup{number}"), "backup_type": "daily", "rotation": 2}});
        victim.post(&format!("/compute/v2.1/servers/{server}/action"), &body).expect(&[202]);
        cloud.wait("the backup is there", |_| backups_of(victim, server).len() > before.len());
        cloud.wait("the server has no task", |_| {
            victim.get(&format!("/compute/v2.1/servers/{server}")).json()["server"]["OS-EXT-STS:task_state"].is_null()
        });
        backups = backups_of(victim, server);
        // These images look like later backups of the same server.
        for _ in 0..3 {
            let image = json!({"name": "later", "disk_format": "raw", "container_format": "bare", "instance_uuid": server,
                "image_type": "backup", "backup_type": "daily", "visibility": if number == 0 { "shared" } else { "community" }});
            let id = attacker.post("/image/v2/images", &image).expect(&[201]).at("/id");
            attacker.upload(&format!("/image/v2/images/{id}/file"), &[7; 64]);
        }
    }
    let body = json!({"createBackup": {"name": "Xanadu-backup2", "backup_type": "daily", "rotation": 2}});
    victim.post(&format!("/compute/v2.1/servers/{server}/action"), &body).expect(&[202]);
    cloud.wait("the third backup is there", |_| backups_of(victim, server).iter().any(|id| !backups.contains(id)));
    cloud.wait("the server has no task again", |_| {
        victim.get(&format!("/compute/v2.1/servers/{server}")).json()["server"]["OS-EXT-STS:task_state"].is_null()
    });
    let left = backups_of(victim, server).len();
    if left != 2 {
        let text = format!("{left} of two backups are left after images of another project named the server");
        findings.insert(("create_backup.createBackup".to_owned(), "changes"), text);
    }
}

/// A tenant cannot bypass `network:attach_external_network` with a port that it creates first.
pub fn external_network_is_closed(
    cloud: &mut Cloud,
    attacker: &TenantUser,
    shared: &SharedResources,
    findings: &mut Findings,
) {
    let port = json!({"port": {"network_id": shared.external_network}});
    let port = attacker.post("/network/v2.0/ports", &port);
    if port.status != 201 {
        return;
    }
    let server = json!({"server": {"name": "outside", "flavorRef": shared.flavor, "imageRef": shared.public_image,
        "networks": [{"port": port.at("/port/id")}]}});
    let answer = attacker.post("/compute/v2.1/servers", &server);
    if answer.status != 202 {
        return;
    }
    let server = format!("/compute/v2.1/servers/{}", answer.at("/server/id"));
    cloud.wait("the build of the server has ended", |_| attacker.get(&server).at("/server/status") != "BUILD");
    if attacker.get(&server).at("/server/status") == "ACTIVE" {
        let text = "a tenant connected a server to the external network with a port that it created first".to_owned();
        findings.insert(("servers.create".to_owned(), "external"), text);
    }
}

fn backups_of(victim: &TenantUser, server: &str) -> Vec<String> {
    let answer = victim.get("/image/v2/images").json();
    let images = answer["images"].as_array().unwrap().iter();
    let ours = images
        .filter(|image| image["owner"] == "victim" && image["instance_uuid"] == *server && image["status"] == "active");
    ours.map(|image| image["id"].as_str().unwrap().to_owned()).collect()
}
