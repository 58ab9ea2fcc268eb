//! Runs three members of the real binary on one log in a real PostgreSQL. All serve and one leads. The leader is
//! killed and stopped under load, an operator lets another member lead, and all members are upgraded one after the other.
//!
//! `CHRONOVA_MEMBER_KILLS` sets how many times the leader is killed. The default is 3.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

#[path = "members/upgrades.rs"]
mod upgrades;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use serde_json::{Value, json};

use crate::cloud::{Client, Cloud, Furniture, pause};
use crate::database::Postgres;
use crate::load::{Load, Told};

const FLEET: &str = "sim://2?latency_ms=1&vcpus=4096&memory_mib=8388608&disk_gib=1000000";
const NAMES: [&str; 3] = ["a", "b", "c"];
const NOWHERE: &str = "00000000-0000-4000-8000-000000000000";

struct Members {
    all: Vec<Cloud>,
    /// The members' listeners for each other.
    peers: Vec<String>,
    database: Postgres,
    furniture: Option<Furniture>,
}

/// The address of a port that is free now.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The options of a member that uses the certificate `certificate` in `folder`.
fn section(folder: &str, certificate: &str, authority: &str, name: &str, address: &str) -> String {
    format!(
        "[cluster]\nlisten = {address}\nname = {name}\ncertificate = {folder}/{certificate}.pem\n\
         key = {folder}/{certificate}.key\nca = {folder}/{authority}.pem\n"
    )
}

impl Members {
    /// Starts three members on one database. `change` changes the configuration that they share.
    fn start(change: impl FnOnce(&Cloud)) -> Self {
        Self::start_as(&|_| {}, change)
    }

    /// Like [`Members::start`]. `version` makes each member start as a certain version.
    fn start_as(version: &dyn Fn(&mut Cloud), change: impl FnOnce(&Cloud)) -> Self {
        let database = Postgres::new();
        let first = Cloud::new(FLEET);
        crate::tls::certificates(first.folder.path()).expect("openssl makes certificates");
        let url = database.url();
        first.configure(&format!(
            "[chronova]\nevent_store = {url}\nevent_store_lease = 10\nevent_store_asynchronous = true\n"
        ));
        change(&first);
        let folder = first.folder.path().display().to_string();
        let mut all = vec![first.member(), first.member()];
        all.insert(0, first);
        let peers: Vec<String> = NAMES.iter().map(|_| free_address()).collect();
        for ((member, name), address) in all.iter_mut().zip(NAMES).zip(&peers) {
            member.configure(&section(&folder, "server", "authority", name, address));
            version(member);
            member.start();
        }
        let mut members = Self { all, peers, database, furniture: None };
        members.leader();
        members
    }

    /// Creates what servers need, through a follower.
    fn furnish(mut self) -> Self {
        let follower = self.followers()[0];
        self.furniture = Some(self.all[follower].furnish());
        self
    }

    /// The member that leads; waits until one does.
    fn leader(&mut self) -> usize {
        let begun = Instant::now();
        loop {
            let found = (0..self.all.len()).find(|nth| role(&self.all[*nth]).as_deref() == Some("leader"));
            if let Some(leader) = found {
                return leader;
            }
            let logs = || self.all.iter().map(Cloud::log).collect::<Vec<_>>().join("\n---\n");
            let is_late = begun.elapsed() >= crate::cloud::PATIENCE;
            assert!(!is_late, "nobody leads\n{}", logs());
            pause(20);
        }
    }

    /// The two members that do not lead.
    fn followers(&mut self) -> [usize; 2] {
        let leader = self.leader();
        [(leader + 1) % 3, (leader + 2) % 3]
    }

    fn client(&self, nth: usize) -> Client {
        self.all[nth].client()
    }

    fn server(&self, name: &str) -> Value {
        let furniture = self.furniture.as_ref().unwrap();
        json!({"server": {
            "name": name,
            "imageRef": furniture.image,
            "flavorRef": furniture.flavor,
            "networks": [{"uuid": furniture.network}],
        }})
    }

    /// The folder with the certificates.
    fn folder(&self) -> PathBuf {
        self.all[0].folder.path().to_owned()
    }

    fn command(&self, words: &[&str]) -> (i32, String) {
        let config = self.all[0].folder.path().join("chronova.conf").display().to_string();
        self.all[0].command(&[words, &["--config-file", &config]].concat())
    }
}

fn role(member: &Cloud) -> Option<String> {
    let answer = member.client().get("/healthz").ok().filter(|answer| answer.status == 200)?;
    answer.body["role"].as_str().map(str::to_owned)
}

/// The names of all servers, as this member shows them.
fn names(client: &Client) -> Vec<String> {
    let (mut names, mut marker) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/compute/v2.1/servers?all_tenants=1&limit=1000{marker}")).unwrap().expect(200);
        let servers = page.body["servers"].as_array().unwrap().clone();
        let Some(last) = servers.last() else { return names };
        marker = format!("&marker={}", last["id"].as_str().unwrap());
        names.extend(servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()));
    }
}

#[test]
fn each_member_shows_a_write_of_any_member_at_once() {
    let mut members = Members::start(|_| {}).furnish();
    let leader = members.leader();
    let [one, other] = members.followers();
    assert_eq!(role(&members.all[one]).as_deref(), Some("follower"));

    let created = members.client(one).post("/compute/v2.1/servers", &members.server("one")).unwrap().expect(202);
    let path = format!("/compute/v2.1/servers/{}", created.text("/server/id"));
    for nth in [other, leader, one] {
        members.client(nth).get(&path).unwrap().expect(200);
    }
    for round in 0..90 {
        let (writes, reads) = (round % 3, (round + 1 + round / 3 % 2) % 3);
        let name = format!("round-{round}");
        members.client(writes).put(&path, &json!({"server": {"name": name}})).unwrap().expect(200);
        let read = members.client(reads).get(&path).unwrap().expect(200);
        assert_eq!(read.text("/server/name"), name, "written at {writes}, read at {reads}, {leader} leads");
    }
    // Links in the answer to a forwarded request name the member that the client asked. A faulty request gets the leader's
    // fault.
    let link = created.body["server"]["links"][0]["href"].as_str().unwrap().to_owned();
    assert!(link.contains(&members.all[one].address()), "{link}");
    members.client(one).post("/compute/v2.1/servers", &json!({"server": {}})).unwrap().expect(400);
    members.client(one).delete(&format!("/compute/v2.1/servers/{NOWHERE}")).unwrap().expect(404);

    // This body is streamed, so the follower forwards it without reading all of it first.
    let image = json!({"name": "large", "disk_format": "raw", "container_format": "bare"});
    let image = members.client(one).post("/image/v2/images", &image).unwrap().expect(201).text("/id");
    let bytes = vec![7; 3 << 20];
    members.client(one).put_bytes(&format!("/image/v2/images/{image}/file"), &bytes).unwrap().expect(204);
    let shown = members.client(other).get(&format!("/image/v2/images/{image}")).unwrap().expect(200);
    assert_eq!(shown.body["size"], json!(bytes.len()), "{}", shown.body);
    assert_eq!(shown.body["status"], "active");

    // The follower forwards this request, because only the leader has measurements of hosts.
    let hosts = members.client(one).get("/compute/v2.1/os-hypervisors/detail").unwrap().expect(200);
    assert!(hosts.body["hypervisors"].as_array().unwrap().iter().all(|host| host["state"] == "up"), "{}", hosts.body);
}

/// Requests every list that needs no id. If a follower could neither answer nor forward a request, the request would
/// fail, or its status would differ from the leader's.
#[test]
fn a_follower_answers_every_list_with_the_leaders_status() {
    let mut members = Members::start(|_| {}).furnish();
    let (leader, [follower, _]) = (members.leader(), members.followers());
    members.client(follower).post("/compute/v2.1/servers", &members.server("one")).unwrap().expect(202);
    members.all[leader].wait("the server is active", |member| {
        let active = member.client().get("/compute/v2.1/servers?status=ACTIVE").unwrap().expect(200);
        active.body["servers"].as_array().is_some_and(|servers| servers.len() == 1)
    });
    let mut asked = 0;
    for service in ["compute", "placement", "identity", "image", "network", "volume", "chronova"] {
        let document = members.client(follower).get(&format!("/openapi.json?service={service}")).unwrap().expect(200);
        let root = document.text("/servers/0/url");
        for (path, operations) in document.body["paths"].as_object().unwrap() {
            if path.contains('{') || operations.get("get").is_none() {
                continue;
            }
            let path = format!("{root}{path}");
            let [ours, theirs] = [follower, leader].map(|nth| members.client(nth).get(&path).unwrap());
            assert_eq!(ours.status, theirs.status, "{path}: {} {}", ours.body, theirs.body);
            assert_ne!(ours.status, 503, "{path}: {}", ours.body);
            asked += 1;
        }
    }
    assert!(asked > 80, "only {asked} lists were asked");
}

#[test]
fn only_members_with_a_certificate_of_the_authority_are_heard() {
    let mut members = Members::start(|_| {});
    let (leader, folder) = (members.leader(), members.folder());
    let url = format!("https://{}/-/head", members.peers[leader]);
    let asked = |certificate: &[&str]| {
        let arguments = [&["--cacert", "authority.pem", "--include"], certificate].concat();
        crate::tls::curl(&folder, &arguments, &url)
    };
    let (code, told) = asked(&["--cert", "client.pem", "--key", "client.key"]);
    assert!(code == 0 && told.contains("x-chronova-acknowledged"), "{code} {told}");
    for refused in [&[][..], &["--cert", "foreign.pem", "--key", "foreign.key"]] {
        let (code, told) = asked(refused);
        assert!(code != 0 && !told.contains("x-chronova"), "{code} {told}");
    }
    // A member whose version is too far away is refused, and learns the leader's protocol.
    let newer = ["--cert", "client.pem", "--key", "client.key", "-H", "x-chronova-protocol: 999/999"];
    let (code, told) = asked(&newer);
    let names = |header: &str| told.to_ascii_lowercase().contains(header);
    assert!(code == 0 && told.contains(" 426") && names("x-chronova-protocol: "), "{code} {told}");
    assert!(!names("x-chronova-acknowledged"), "{told}");
    // A follower neither answers nor forwards what another member sends to it.
    let follower = members.followers()[0];
    let forwarded = ["--cacert", "authority.pem", "--cert", "client.pem", "--key", "client.key", "--include"];
    let url = format!("https://{}/compute/v2.1/servers", members.peers[follower]);
    let (_, told) = crate::tls::curl(&folder, &forwarded, &url);
    assert!(told.starts_with("HTTP/1.1 421") || told.starts_with("HTTP/2 421"), "{told}");

    // A member with a certificate of another authority does not start.
    let mut stranger = members.all[leader].member();
    let config = stranger.folder.path().join("chronova.conf");
    let text = std::fs::read_to_string(&config).unwrap();
    let (text, _) = text.split_once("[cluster]").unwrap();
    let configure = |authority: &str| {
        let own = section(&folder.display().to_string(), "foreign", authority, "d", &free_address());
        std::fs::write(&config, format!("{text}{own}")).unwrap();
    };
    configure("authority");
    stranger.launch();
    stranger.wait("it refuses to start", |stranger| stranger.ended().is_some());
    assert_eq!(stranger.ended().unwrap().code(), Some(2));
    assert!(stranger.log().contains("has not signed it"), "{}", stranger.log());
    // The other members do not accept a member that trusts another authority, so it can neither read nor write.
    configure("stranger");
    stranger.start();
    assert_eq!(role(&stranger).as_deref(), Some("follower"));
    let refused = stranger.client().get("/compute/v2.1/flavors").unwrap().expect(503);
    assert!(refused.retry_after.is_some(), "{refused:?}");
}

/// Sends JSON with curl, and returns the head and the body of the answer.
fn curl_json(folder: &std::path::Path, method: &str, token: &str, body: &Value, url: &str) -> String {
    let (token, body) = (format!("X-Auth-Token: {token}"), body.to_string());
    let kind = "Content-Type: application/json";
    let arguments = ["--include", "-X", method, "-H", &token, "-H", kind, "--data", &body];
    crate::tls::curl(folder, &arguments, url).1
}

#[test]
fn the_leader_authenticates_a_forwarded_request_again() {
    let mut members = Members::start(|first| {
        first.replace("auth_strategy = noauth2", "auth_strategy = keystone");
        std::fs::write(first.folder.path().join("password"), "correct horse").unwrap();
        let file = first.folder.path().join("password").display().to_string();
        first.configure(&format!("[chronova]\nadmin_password_file = {file}\n"));
    });
    let ([one, other], folder) = (members.followers(), members.folder());
    let at = |nth: usize, path: &str| format!("http://{}{path}", members.all[nth].address());
    let login = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": "admin", "domain": {"id": "default"}, "password": "correct horse",
        }}},
        "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
    }});
    let told = curl_json(&folder, "POST", "", &login, &at(one, "/identity/v3/auth/tokens"));
    let token = told.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("X-Subject-Token").then(|| value.trim().to_owned())
    });
    let token = token.unwrap_or_else(|| panic!("no token: {told}"));
    let group = |name: &str| json!({"server_group": {"name": name, "policies": ["affinity"]}});
    let groups = "/compute/v2.1/os-server-groups";
    let made = curl_json(&folder, "POST", &token, &group("mine"), &at(other, groups));
    assert!(made.starts_with("HTTP/1.1 200"), "{made}");
    // A forged or an empty token is refused.
    for forged in ["nonsense", ""] {
        let refused = curl_json(&folder, "POST", forged, &group("theirs"), &at(one, groups));
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    }
    // Sends the request as a follower would forward it. The leader itself judges the token. Headers that name a user
    // (`X-User-Id`, `X-Roles`) do not replace the token.
    let leader = 3 - one - other;
    let url = format!("https://{}{groups}", members.peers[leader]);
    let host = format!("x-chronova-host: http://{}", members.all[leader].address());
    let forwarded = |token: &str, name: &str| {
        let (token, body) = (format!("X-Auth-Token: {token}"), group(name).to_string());
        let member = ["--cacert", "authority.pem", "--cert", "client.pem", "--key", "client.key", "--include"];
        let headers = [host.as_str(), "x-chronova-request: req-1", "x-chronova-remote: 127.0.0.1", token.as_str()]
            .into_iter()
            .chain(["X-Identity-Status: Confirmed", "X-User-Id: admin", "X-Project-Id: admin", "X-Roles: admin"])
            .chain(["Content-Type: application/json"])
            .flat_map(|header| ["-H", header]);
        let arguments: Vec<&str> = member.into_iter().chain(headers).chain(["-X", "POST", "--data", &body]).collect();
        let told = crate::tls::curl(&folder, &arguments, &url).1;
        told.lines().next().unwrap_or_default().to_owned()
    };
    let accepted = forwarded(&token, "ours");
    assert!(accepted.contains(" 200"), "the leader refuses a forwarded request with a valid token: {accepted}");
    for forged in ["nonsense", ""] {
        let refused = forwarded(forged, "theirs");
        assert!(refused.contains(" 401"), "{refused}");
    }
    let events = members.command(&["audit", "--kind", "server_group.created"]).1;
    assert!(events.contains("ours") && !events.contains("theirs"), "{events}");
    // A token that was revoked at one member is invalid at every member.
    for nth in 0..3 {
        assert_eq!(members.client(nth).get_as(&token, groups).unwrap().status, 200, "at {nth}");
    }
    let subject = format!("X-Subject-Token: {token}");
    let mine = format!("X-Auth-Token: {token}");
    let arguments = ["--include", "-X", "DELETE", "-H", &mine, "-H", &subject];
    let (_, revoked) = crate::tls::curl(&folder, &arguments, &at(one, "/identity/v3/auth/tokens"));
    assert!(revoked.starts_with("HTTP/1.1 204"), "{revoked}");
    for nth in [other, one, members.leader()] {
        assert_eq!(members.client(nth).get_as(&token, groups).unwrap().status, 401, "at {nth}");
    }
}

#[test]
fn a_member_with_other_secrets_is_refused() {
    let members = Members::start(|_| {});
    let data = members.all[0].data();
    let refused = |change: &dyn Fn(&std::path::Path), expected: &str| {
        let mut stranger = Cloud::new(FLEET);
        let own = stranger.data();
        std::fs::create_dir(&own).unwrap();
        for file in ["log.db.keys", "token.key"] {
            std::fs::copy(data.join(file), own.join(file)).unwrap();
        }
        change(&own);
        let text = std::fs::read_to_string(members.all[0].folder.path().join("chronova.conf")).unwrap();
        let (text, _) = text.split_once("[cluster]").unwrap();
        let folder = members.folder().display().to_string();
        let text = format!("{text}{}", section(&folder, "server", "authority", "d", &free_address()));
        std::fs::write(stranger.folder.path().join("chronova.conf"), text).unwrap();
        stranger.launch();
        stranger.wait("it refuses to start", |stranger| stranger.ended().is_some());
        assert_eq!(stranger.ended().unwrap().code(), Some(2));
        assert!(stranger.log().contains(expected), "{}", stranger.log());
    };
    refused(&|own| std::fs::write(own.join("token.key"), [9; 32]).unwrap(), "sign tokens with another key");
    refused(
        &|own| std::fs::remove_file(own.join("log.db.keys")).unwrap(),
        "the keys of the personal fields are missing",
    );
}

/// Checks all invariants at every member.
fn check(members: &mut Members, told: &Told) {
    eprintln!("{} answers, {} times 503, {} servers", told.acknowledged, told.refused, told.created.len());
    assert_eq!(told.violations, Vec::<String>::new());
    assert!(told.created.len() > 20, "the clients created too few servers");
    let leader = members.leader();
    members.all[leader].wait("nothing is under way", |member| {
        let metrics = member.client().get("/metrics").unwrap().body;
        metrics.as_str().unwrap().lines().any(|line| line == "chronova_processes_unfinished 0")
    });
    for member in &members.all {
        let names = names(&member.client());
        let mut counted = BTreeMap::new();
        for name in &names {
            *counted.entry(name.as_str()).or_insert(0) += 1;
        }
        let lost: Vec<_> = told.created.iter().filter(|name| !counted.contains_key(name.as_str())).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        let twice: Vec<_> = counted.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "created twice: {twice:?}");
        let strange: Vec<_> =
            names.iter().filter(|name| name.starts_with("load-") && !told.sent.contains(*name)).collect();
        assert!(strange.is_empty(), "never sent: {strange:?}");
        let failed = member.client().get("/compute/v2.1/servers?all_tenants=1&status=ERROR").unwrap().expect(200);
        assert_eq!(failed.body["servers"], json!([]), "builds failed");
    }
    for member in &mut members.all {
        member.stop();
    }
    let epochs: u64 = members.database.sql("SELECT epoch FROM chronova_head").parse().unwrap();
    assert!(epochs > 1, "no other member has led");
    let (code, told) = members.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{told}");
}

/// Runs clients of the two followers while `fault` strikes the leader, until a write succeeds again. Returns what the
/// clients got, and how many milliseconds passed before that write.
fn strike(members: &mut Members, path: &str, numbers: &Arc<AtomicU64>, fault: impl FnOnce(&mut Cloud)) -> (Told, u128) {
    let (leader, survivors) = (members.leader(), members.followers());
    let clients = survivors.map(|nth| members.client(nth));
    let load = Load::begin(&clients, path, &members.server(""), numbers);
    pause(300);
    fault(&mut members.all[leader]);
    let begun = Instant::now();
    let probe = json!({"quota": {"port": -1}});
    while !clients[0].put("/network/v2.0/quotas/admin", &probe).is_ok_and(|answer| answer.status == 200) {
        let is_late = begun.elapsed() >= crate::cloud::PATIENCE;
        assert!(!is_late, "writes do not come back\n{}", members.all[survivors[0]].log());
    }
    let outage = begun.elapsed().as_millis();
    pause(500);
    let told = load.end();
    (told, outage)
}

#[test]
fn an_operator_lets_another_member_lead() {
    let mut members = Members::start(|_| {}).furnish();
    let leader = members.leader();
    let (code, told) = members.command(&["cluster", "status"]);
    assert!(code == 0 && told.contains(&format!("leader        {}", NAMES[leader])), "{code} {told}");
    for to in members.followers() {
        let before = members.leader();
        let (code, told) = members.command(&["cluster", "switchover", NAMES[to]]);
        assert!(code == 0 && told.contains(&format!("{} leads", NAMES[to])), "{code} {told}");
        members.all[before].wait("the former leader follows", |member| role(member).as_deref() == Some("follower"));
        assert_eq!(members.leader(), to);
        let name = format!("after-{to}");
        members.client(before).post("/compute/v2.1/servers", &members.server(&name)).unwrap().expect(202);
        assert!(names(&members.client(to)).contains(&name));
    }
    let (code, told) = members.command(&["cluster", "members"]);
    assert!(code == 0 && told.matches("follower").count() == 2 && told.matches("leader").count() == 1, "{code} {told}");
    let (code, told) = members.command(&["cluster", "switchover", "nobody"]);
    assert!(code == 2 && told.contains("no member has the name"), "{code} {told}");
    for member in &mut members.all {
        member.kill();
    }
    let begun = Instant::now();
    loop {
        let (code, told) = members.command(&["cluster", "status"]);
        if code == 1 && told.contains("leader        nobody") {
            break;
        }
        let is_late = begun.elapsed() >= crate::cloud::PATIENCE;
        assert!(!is_late, "somebody leads: {told}");
    }
}

/// Without the database, nobody can lead.
#[test]
fn a_follower_without_a_leader_answers_reads_with_their_age() {
    let mut members = Members::start(|first| first.configure("[cluster]\nstale_reads = 3600\n")).furnish();
    let (leader, [one, other]) = (members.leader(), members.followers());
    let created = members.client(one).post("/compute/v2.1/servers", &members.server("one")).unwrap().expect(202);
    let path = format!("/compute/v2.1/servers/{}", created.text("/server/id"));
    let read = members.client(other).get(&path).unwrap().expect(200);
    assert_eq!(read.age, None, "an answer that a leader confirms has no age");
    members.database.stop();
    members.all[leader].wait("the leader ends", |leader| leader.ended().is_some());
    let mut ages = Vec::new();
    for _ in 0..2 {
        let read = members.client(other).get(&path).unwrap().expect(200);
        assert_eq!(read.text("/server/name"), "one");
        ages.push(read.age.expect("an older answer has an age").parse::<u64>().unwrap());
    }
    // Each of these reads waits for some seconds before it is answered without a leader.
    assert!(ages[0] >= 3 && ages[1] > ages[0], "{ages:?}");
    let refused = members.client(one).put(&path, &json!({"server": {"name": "two"}})).unwrap().expect(503);
    assert!(refused.retry_after.is_some(), "{refused:?}");
    members.database.start();
    members.all[one].wait("a read is current again", |member| {
        member.client().get(&path).is_ok_and(|read| read.status == 200 && read.age.is_none())
    });
}

#[test]
fn clients_of_followers_see_only_success_or_503_while_leaders_die() {
    let kills = std::env::var("CHRONOVA_MEMBER_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(3_usize);
    let mut members = Members::start(|_| {}).furnish();
    let numbers = Arc::new(AtomicU64::new(1));
    let created = members.client(0).post("/compute/v2.1/servers", &members.server("0")).unwrap().expect(202);
    let path = format!("/compute/v2.1/servers/{}", created.text("/server/id"));
    let (mut told, mut outages) = (Told::default(), Vec::new());
    for _ in 0..kills {
        let leader = members.leader();
        let (round, outage) = strike(&mut members, &path, &numbers, Cloud::kill);
        told.add(round);
        outages.push(outage);
        // The next leader took the lead before the end of the lease. Only its work on hosts waits for that end.
        let next = members.leader();
        let log = std::fs::read_to_string(members.all[next].folder.path().join("log")).unwrap();
        assert!(log.contains("work on hosts waits for the end of the former leader's lease"), "{log}");
        members.all[leader].start();
    }
    // SIGSTOP: the stopped leader cannot renew its lease. A kernel timer kills it before another member leads.
    let leader = members.leader();
    let (round, outage) = strike(&mut members, &path, &numbers, |leader| leader.signal("STOP"));
    told.add(round);
    let ended = members.all[leader].ended().expect("another member led before the stopped leader died");
    assert_eq!(ended.signal(), Some(9), "{ended}");
    members.all[leader].start();
    eprintln!("writes were back after (ms): kills {outages:?}, stop {outage}");
    check(&mut members, &told);
}
