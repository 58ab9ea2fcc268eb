//! Several members of the real binary on one log in a real PostgreSQL. All serve, one leads, and the leader is killed, stopped
//! and cut off from the database under load.
//!
//! `CHRONOVA_MEMBER_KILLS` sets how often the leader is killed (20).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

mod cloud;
#[path = "../../events/tests/database/mod.rs"]
mod database;

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cloud::{Client, Cloud, Furniture, pause};
use database::Postgres;
use serde_json::{Value, json};

const FLEET: &str = "sim://2?latency_ms=1&vcpus=4096&memory_mib=8388608&disk_gib=1000000";

struct Members {
    all: Vec<Cloud>,
    database: Postgres,
    furniture: Furniture,
}

/// A member's own section, and the address that it answers others on.
fn section(secret: &str, name: &str) -> (String, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    (format!("[cluster]\nsecret_file = {secret}\nlisten = {address}\nname = {name}\n"), address)
}

impl Members {
    /// Three members, the first one leads.
    fn start(more: &str) -> Self {
        let database = Postgres::new();
        let first = Cloud::new(FLEET);
        let secret = first.folder.path().join("secret");
        std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").unwrap();
        let url = database.url();
        first.configure(&format!(
            "[chronova]\nevent_store = {url}\nevent_store_lease = 3\nevent_store_asynchronous = true\n{more}"
        ));
        let mut all = vec![first.member(), first.member()];
        all.insert(0, first);
        for (member, name) in all.iter_mut().zip(["a", "b", "c"]) {
            member.configure(&section(&secret.display().to_string(), name).0);
        }
        for member in &mut all {
            member.start();
        }
        let mut members = Self { all, database, furniture: Furniture::default() };
        members.leader();
        members.furniture = members.all[1].furnish();
        members
    }

    /// Which one leads; waits until one does.
    fn leader(&mut self) -> usize {
        let begun = Instant::now();
        loop {
            let leads = (0..self.all.len()).find(|nth| role(&self.all[*nth]).as_deref() == Some("leader"));
            if let Some(leader) = leads {
                return leader;
            }
            let logs = || self.all.iter().map(Cloud::log).collect::<Vec<_>>().join("\n---\n");
            assert!(begun.elapsed() < cloud::PATIENCE, "nobody leads\n{}", logs());
            pause(20);
        }
    }

    fn name(&self, nth: usize) -> &'static str {
        let _ = self;
        ["a", "b", "c"][nth]
    }

    fn server(&self, name: &str) -> Value {
        json!({"server": {
            "name": name,
            "imageRef": self.furniture.image,
            "flavorRef": self.furniture.flavor,
            "networks": [{"uuid": self.furniture.network}],
        }})
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

fn names(client: &Client) -> Vec<String> {
    let mut names = Vec::new();
    let mut marker = String::new();
    loop {
        let page = client.get(&format!("/compute/v2.1/servers?all_tenants=1&limit=1000{marker}")).unwrap().expect(200);
        let servers = page.body["servers"].as_array().unwrap().clone();
        let Some(last) = servers.last() else { return names };
        marker = format!("&marker={}", last["id"].as_str().unwrap());
        names.extend(servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()));
    }
}

#[test]
fn every_member_serves_reads_and_forwards_writes() {
    let mut members = Members::start("");
    let leader = members.leader();
    let [one, other] = [(leader + 1) % 3, (leader + 2) % 3];
    let client = |nth: usize| members.all[nth].client();
    assert_eq!(role(&members.all[one]).as_deref(), Some("follower"));

    // A write at one member is there for a read at any other, at once.
    let created = client(one).post("/compute/v2.1/servers", &members.server("one")).unwrap().expect(202);
    let path = format!("/compute/v2.1/servers/{}", created.text("/server/id"));
    for nth in [other, leader, one] {
        client(nth).get(&path).unwrap().expect(200);
    }
    for round in 0..100 {
        let (writes, reads) = (round % 3, (round + 1 + round / 3 % 2) % 3);
        let name = format!("round-{round}");
        client(writes).put(&path, &json!({"server": {"name": name}})).unwrap().expect(200);
        let read = client(reads).get(&path).unwrap().expect(200);
        assert_eq!(read.text("/server/name"), name, "written at {writes}, read at {reads}");
    }
    // The same answers and errors, with links to the member that was asked.
    assert!(created.body["server"]["links"][0]["href"].as_str().unwrap().contains(&members.all[one].address()));
    client(one).post("/compute/v2.1/servers", &json!({"server": {}})).unwrap().expect(400);
    client(one).delete("/compute/v2.1/servers/00000000-0000-4000-8000-000000000000").unwrap().expect(404);
    // What only the leader knows: measurements of hosts, and a host's own answer.
    let hosts = client(one).get("/compute/v2.1/os-hypervisors/detail").unwrap().expect(200);
    assert!(hosts.body["hypervisors"].as_array().unwrap().iter().all(|host| host["state"] == "up"), "{}", hosts.body);

    // An upload flows through, larger than what is kept in memory.
    let image = json!({"name": "large", "disk_format": "raw", "container_format": "bare"});
    let image = client(other).post("/image/v2/images", &image).unwrap().expect(201).text("/id");
    let bytes = vec![9; 5 << 20];
    client(other).put_bytes(&format!("/image/v2/images/{image}/file"), &bytes).unwrap().expect(204);
    let stored = client(one).get(&format!("/image/v2/images/{image}")).unwrap().expect(200);
    assert_eq!(stored.body["size"], json!(bytes.len()));

    let (code, told) = members.command(&["cluster", "status"]);
    assert!(code == 0 && told.contains(&format!("leader        {}", members.name(leader))), "{code} {told}");
    let (code, told) = members.command(&["cluster", "members"]);
    assert!(code == 0 && told.matches("follower").count() == 2, "{code} {told}");
    let address = members.database.sql("SELECT address FROM chronova_members ORDER BY name LIMIT 1");
    let stranger = ureq::get(format!("http://{address}/compute/v2.1/servers"));
    assert_eq!(stranger.call().map_err(|error| error.to_string()).unwrap_err(), "http status: 403");
    members.all.iter_mut().for_each(Cloud::stop);
    let (code, told) = members.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{told}");
}

#[test]
fn a_member_with_another_secret_is_refused() {
    let mut members = Members::start("");
    let mut stranger = members.all[0].member();
    let secret = stranger.folder.path().join("secret");
    std::fs::write(&secret, "another secret, which is as long as needed").unwrap();
    let config = stranger.folder.path().join("chronova.conf");
    let text = std::fs::read_to_string(&config).unwrap();
    let (text, _) = text.split_once("[cluster]").unwrap();
    std::fs::write(&config, format!("{text}{}", section(&secret.display().to_string(), "d").0)).unwrap();
    stranger.launch();
    stranger.wait("it refuses to start", |stranger| stranger.ended().is_some());
    assert_eq!(stranger.ended().unwrap().code(), Some(2));
    assert!(stranger.log().contains("have another secret"), "{}", stranger.log());
    members.leader();
}

#[test]
fn an_operator_has_another_member_lead() {
    let mut members = Members::start("");
    for _ in 0..3 {
        let leader = members.leader();
        let to = members.name((leader + 1) % 3);
        let (code, told) = members.command(&["cluster", "switchover", to]);
        assert!(code == 0 && told.contains(&format!("{to} leads")), "{code} {told}");
        members.all[leader].wait("the member before follows", |member| role(member).as_deref() == Some("follower"));
        let name = format!("after-{to}");
        members.all[leader].client().post("/compute/v2.1/servers", &members.server(&name)).unwrap().expect(202);
        assert!(names(&members.all[2].client()).contains(&name));
    }
    let (code, told) = members.command(&["cluster", "switchover", "nobody"]);
    assert!(code == 2 && told.contains("no member has the name"), "{code} {told}");
}

/// What clients were told.
#[derive(Default)]
struct Told {
    /// Ids and names of acknowledged servers.
    created: BTreeMap<String, String>,
    /// Names that were sent.
    sent: BTreeSet<String>,
    stale: Vec<String>,
    refused: u64,
}

struct Load {
    told: Arc<Mutex<Told>>,
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    /// Creates servers at each member, and reads each at another one.
    fn begin(members: &Members) -> Self {
        let (told, over) = (Arc::new(Mutex::new(Told::default())), Arc::new(AtomicBool::new(false)));
        let clients: Vec<Client> = members.all.iter().map(Cloud::client).collect();
        let number = Arc::new(AtomicU64::new(0));
        let threads = (0..3).map(|nth| {
            let (clients, told, over, number) =
                (clients.clone(), Arc::clone(&told), Arc::clone(&over), Arc::clone(&number));
            let template = members.server("");
            std::thread::spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let number = number.fetch_add(1, Ordering::SeqCst);
                    once(&clients, nth, number, &template, &told);
                }
            })
        });
        let threads = threads.collect();
        Self { told, over, threads }
    }

    fn end(self) -> Told {
        self.over.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

fn once(clients: &[Client], at: usize, number: u64, template: &Value, told: &Mutex<Told>) {
    let name = format!("load-{number}");
    let mut server = template.clone();
    server["server"]["name"] = json!(name);
    told.lock().unwrap().sent.insert(name.clone());
    let answer = clients[at].post("/compute/v2.1/servers", &server);
    let Some(answer) = answer.ok().filter(|answer| answer.status == 202) else {
        told.lock().unwrap().refused += 1;
        pause(10);
        return;
    };
    let id = answer.text("/server/id");
    told.lock().unwrap().created.insert(id.clone(), name);
    let other = (at + 1 + usize::try_from(number).unwrap() % 2) % 3;
    // A member that is down or has no leader says so; 404 would be a stale read.
    let read = clients[other].get(&format!("/compute/v2.1/servers/{id}"));
    if read.is_ok_and(|read| read.status == 404) {
        told.lock().unwrap().stale.push(format!("{id}: created at {at}, not there at {other}"));
    }
    pause(5);
}

/// All invariants, at every member.
fn check(members: &mut Members, told: &Told) {
    println!("{} creates acknowledged, {} refused or unanswered", told.created.len(), told.refused);
    assert!(told.created.len() > 20, "there was some load");
    assert_eq!(told.stale, Vec::<String>::new(), "stale reads");
    let leader = members.leader();
    members.all[leader].wait("nothing is under way", |member| {
        let metrics = member.client().get("/metrics").unwrap().body;
        metrics.as_str().unwrap().lines().any(|line| line == "chronova_processes_unfinished 0")
    });
    for member in &members.all {
        let names = names(&member.client());
        let mut counted = BTreeMap::new();
        names.iter().for_each(|name| *counted.entry(name.as_str()).or_insert(0) += 1);
        let lost: Vec<_> = told.created.values().filter(|name| !counted.contains_key(name.as_str())).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        let doubled: Vec<_> = counted.iter().filter(|(_, count)| **count > 1).collect();
        assert!(doubled.is_empty(), "doubled: {doubled:?}");
        let strange: Vec<_> =
            names.iter().filter(|name| name.starts_with("load-") && !told.sent.contains(*name)).collect();
        assert!(strange.is_empty(), "never sent: {strange:?}");
        let active = member.client().get("/compute/v2.1/servers?all_tenants=1&limit=1000&status=ERROR").unwrap();
        assert_eq!(active.expect(200).body["servers"], json!([]), "no build failed");
    }
    // Dense positions, whole chain, epochs that never fall.
    let dense = "SELECT count(*) = max(position) AND count(DISTINCT position) = count(*) FROM chronova_events";
    assert_eq!(members.database.sql(dense), "t");
    members.all.iter_mut().for_each(Cloud::stop);
    let (code, told) = members.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{told}");
}

#[test]
fn nothing_acknowledged_is_lost_or_stale_when_the_leader_is_killed_again_and_again() {
    let kills = std::env::var("CHRONOVA_MEMBER_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20_usize);
    let mut members = Members::start("");
    let probe = members.all[0].client().post("/compute/v2.1/servers", &members.server("probe")).unwrap().expect(202);
    let probe = format!("/compute/v2.1/servers/{}", probe.text("/server/id"));
    let load = Load::begin(&members);
    let mut outages = Vec::new();
    for kill in 0..kills {
        let leader = members.leader();
        pause(u64::try_from(kill * 37 % 200).unwrap());
        let survivor = members.all[(leader + 1 + kill % 2) % 3].client();
        members.all[leader].kill();
        let begun = Instant::now();
        let name = json!({"server": {"name": format!("probe-{kill}")}});
        while !survivor.put(&probe, &name).is_ok_and(|answer| answer.status == 200) {
            assert!(
                begun.elapsed() < cloud::PATIENCE,
                "writes do not come back\n{}",
                members.all[(leader + 1) % 3].log()
            );
        }
        outages.push(begun.elapsed().as_millis());
        members.all[leader].start();
    }
    outages.sort_unstable();
    println!("writes were back after (ms): median {}, all {outages:?}", outages[outages.len() / 2]);
    let told = load.end();
    check(&mut members, &told);
}

#[test]
fn nothing_acknowledged_is_lost_or_stale_when_the_leader_is_stopped_or_cut_off() {
    let mut members = Members::start("");
    let load = Load::begin(&members);
    for _ in 0..2 {
        // Stopped: the kernel ends it before another one leads.
        let leader = members.leader();
        pause(300);
        members.all[leader].signal("STOP");
        let other = (leader + 1) % 3;
        members.all[leader].wait("the stopped leader is dead", |member| member.ended().is_some());
        members.all[other].wait("another one leads", |member| {
            let told = member.client().get("/healthz").unwrap().body;
            let _ = told;
            member
                .client()
                .post("/compute/v2.1/servers", &json!({"server": {}}))
                .is_ok_and(|answer| answer.status == 400)
        });
        members.all[leader].start();
        // All its connections to the database end, and it opens new ones.
        let leader = members.leader();
        for _ in 0..3 {
            let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity, chronova_head \
                       WHERE application_name = 'chronova-' || encode(holder, 'hex')";
            members.database.sql(cut);
            pause(400);
        }
        assert!(members.all[leader].ended().is_none(), "a short cut ends nobody\n{}", members.all[leader].log());
    }
    let told = load.end();
    check(&mut members, &told);
}
