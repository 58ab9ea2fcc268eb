//! Tests with the real binary that follow, page and erase the log, over HTTP and from the command line.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cloud::{Client, Cloud};

/// One live feed, read line by line from a plain socket.
struct Feed {
    lines: BufReader<TcpStream>,
}

impl Feed {
    fn open(cloud: &Cloud, query: &str, last: Option<u64>) -> Self {
        Self::open_as(cloud, "X-Auth-Token: admin", query, last)
    }

    fn open_as(cloud: &Cloud, who: &str, query: &str, last: Option<u64>) -> Self {
        Self::open_at(cloud, who, &format!("events{query}"), last)
    }

    fn open_at(cloud: &Cloud, who: &str, path: &str, last: Option<u64>) -> Self {
        let address = cloud.address();
        let mut socket = TcpStream::connect(&address).unwrap();
        socket.set_read_timeout(Some(crate::cloud::PATIENCE)).unwrap();
        let resume = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        write!(
            socket,
            "GET /chronova/v1/{path} HTTP/1.1\r\nHost: {address}\r\n{who}\r\n\
             Accept: text/event-stream\r\n{resume}\r\n"
        )
        .unwrap();
        let mut feed = Self { lines: BufReader::new(socket) };
        let status = feed.line().unwrap();
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        feed
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).unwrap_or(0);
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Reads the id and the data of the next event; `None` at the end of the feed.
    fn next(&mut self) -> Option<(u64, Value)> {
        let mut id = None;
        loop {
            let line = self.line()?;
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.parse().unwrap());
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((id.expect("an event has an id"), serde_json::from_str(data).unwrap()));
            }
        }
    }
}

const PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl annas-comment";

fn keypair(client: &Client, name: &str) {
    let body = json!({"keypair": {"name": name, "type": "ssh", "public_key": PUBLIC_KEY}});
    client.post("/compute/v2.1/os-keypairs", &body).unwrap().expect(201);
}

fn head(client: &Client) -> u64 {
    let page = client.get("/chronova/v1/events?after=0&limit=1000").unwrap().expect(200);
    page.body["position"].as_u64().unwrap()
}

#[test]
fn a_feed_resumes_without_loss_and_ends_with_the_server() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let client = cloud.client();
    let mut seen = Vec::new();
    let mut feed = Feed::open(&cloud, "", None);
    seen.push(feed.next().unwrap());
    // The feed is open while these events are recorded.
    for n in 0..3 {
        keypair(&client, &format!("live-{n}"));
    }
    while !seen.iter().any(|(_, event)| event["payload"]["name"] == "live-2") {
        seen.push(feed.next().unwrap());
    }
    drop(feed);
    for n in 0..3 {
        keypair(&client, &format!("missed-{n}"));
    }
    let last = seen.last().unwrap().0;
    let mut feed = Feed::open(&cloud, "", Some(last));
    while !seen.iter().any(|(_, event)| event["payload"]["name"] == "missed-2") {
        seen.push(feed.next().unwrap());
    }
    for (at, (id, event)) in seen.iter().enumerate() {
        assert_eq!((*id, event["position"].as_u64()), (at as u64 + 1, Some(*id)), "each event must come once");
    }
    // The feed sends no event outside the filter, and sends CloudEvents on request.
    let mut filtered = Feed::open(&cloud, "?kind=keypair&format=cloudevents", None);
    for n in 0..3 {
        let (id, event) = filtered.next().unwrap();
        assert_eq!(event["type"], "chronova.keypair.created");
        assert_eq!(event["data"]["payload"]["name"], format!("live-{n}"));
        assert_eq!(event["data"]["position"], id);
        for required in ["id", "source", "specversion", "type"] {
            assert!(event[required].as_str().is_some_and(|text| !text.is_empty()), "{required}: {event}");
        }
        assert_eq!(event["specversion"], "1.0");
        let names = event.as_object().unwrap().keys();
        assert!(names.into_iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())));
    }
    cloud.stop();
    while feed.next().is_some() {}
    while filtered.next().is_some() {}
}

/// An auditor reads the log of all projects without their personal data.
#[test]
fn a_reader_of_the_system_sees_events_without_personal_fields() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    keypair(&cloud.client(), "annas-key");
    let auditor = "X-Auth-Token: audrey:audit\r\nX-Roles: reader\r\nOpenStack-System-Scope: all";
    let created = |who: &str| {
        let mut feed = Feed::open_as(&cloud, who, "?kind=keypair.created", None);
        feed.next().expect("the feed lacks the key pair").1
    };
    let (whole, told) = (created("X-Auth-Token: admin"), created(auditor));
    assert_eq!((&whole["kind"], &whole["position"], &whole["id"]), (&told["kind"], &told["position"], &told["id"]));
    assert!(whole.to_string().contains("annas-key"), "{whole}");
    assert!(!told.to_string().contains("annas"), "{told}");
    let page = |who: &str| {
        let mut socket = TcpStream::connect(cloud.address()).unwrap();
        let request = "GET /chronova/v1/events?kind=keypair.created HTTP/1.0";
        write!(socket, "{request}\r\n{who}\r\n\r\n").unwrap();
        let mut text = String::new();
        BufReader::new(socket).read_to_string(&mut text).unwrap();
        text
    };
    assert!(page("X-Auth-Token: admin").contains("annas-key"));
    let told = page(auditor);
    assert!(told.contains("keypair.created") && !told.contains("annas"), "{told}");
    cloud.stop();
}

/// Reads a project's feed until it names `server`. Returns the lines that it read, among them the headers of the
/// answer.
fn lines_until(feed: &mut Feed, server: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        lines.push(feed.line().expect("the feed ended"));
        if lines.last().is_some_and(|line| line.contains(server)) {
            return lines;
        }
    }
}

/// Another project's servers change nothing in a project's feed: no id, no position, no message.
#[test]
fn a_project_follows_its_own_servers_and_receives_no_byte_of_another() {
    const MEMBER: &str = "\r\nX-Roles: member,reader";
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let furniture = cloud.furnish();
    let client = cloud.client();
    let image = json!({"name": "public", "disk_format": "raw", "container_format": "bare", "visibility": "public"});
    let image = client.post("/image/v2/images", &image).unwrap().expect(201).text("/id");
    client.put_bytes(&format!("/image/v2/images/{image}/file"), &[7; 4096]).unwrap().expect(204);
    let open = |user: &str| Feed::open_at(&cloud, &format!("X-Auth-Token: {user}{MEMBER}"), "changes", None);
    let (mut victim, mut attacker) = (open("vera:victim"), open("mallory:evil"));
    let build = |user: &str, name: &str| {
        let server_request =
            json!({"name": name, "imageRef": image, "flavorRef": furniture.flavor, "networks": "none"});
        let made = client.post_as(user, "/compute/v2.1/servers", &json!({"server": server_request})).unwrap();
        made.expect(202).text("/server/id")
    };
    let theirs: Vec<String> = (0..3).map(|n| build("vera:victim", &format!("secret-{n}"))).collect();
    for id in &theirs {
        assert!(lines_until(&mut victim, id).iter().any(|line| line.starts_with("data: ")), "no event");
        client.delete(&format!("/compute/v2.1/servers/{id}")).unwrap().expect(204);
    }
    let own = build("mallory:evil", "own");
    let told = lines_until(&mut attacker, &own);
    let data: Vec<&String> = told.iter().filter(|line| line.starts_with("data: ")).collect();
    assert_eq!(data, [&format!("data: {{\"servers\":[\"{own}\"]}}")], "{told:?}");
    // The feed itself adds the rest of the body: sizes of chunks, the pause between connections, heartbeats.
    let body = told.iter().position(String::is_empty).unwrap();
    let known = |line: &&String| {
        let own = ["", "retry: 2000", ": alive", data[0].as_str()];
        own.contains(&line.as_str()) || line.bytes().all(|b| b.is_ascii_hexdigit())
    };
    assert_eq!(told[body..].iter().find(|line| !known(line)), None, "{told:?}");
    // The server refuses a caller without a project, a caller without a role, and a request that does not accept a
    // stream of events.
    let auditor = "X-Auth-Token: audrey\r\nX-Roles: reader\r\nOpenStack-System-Scope: all";
    for (who, status) in [(auditor, "403"), ("X-Auth-Token: mallory:evil\r\nX-Roles: nobody", "403")] {
        let mut socket = TcpStream::connect(cloud.address()).unwrap();
        write!(socket, "GET /chronova/v1/changes HTTP/1.0\r\n{who}\r\nAccept: text/event-stream\r\n\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).unwrap();
        assert!(line.contains(status), "{who}: {line}");
    }
    client.get_as("mallory:evil", "/chronova/v1/changes").unwrap().expect(400);
    cloud.stop();
    while attacker.line().is_some() {}
}

#[test]
fn pages_hold_the_whole_log_and_invalid_queries_are_refused() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let client = cloud.client();
    keypair(&client, "k");
    let (mut after, mut lines) = (Value::from(0), Vec::new());
    while !after.is_null() {
        let page = client.get(&format!("/chronova/v1/events?limit=3&after={after}")).unwrap().expect(200).body;
        lines.extend(page["events"].as_array().unwrap().iter().map(ToString::to_string));
        after = page["next"].clone();
    }
    let up_to = lines.len().to_string();
    let (code, text) = cloud.command(&["audit", "--to-position", &up_to]);
    assert_eq!((code, text.lines().map(str::to_owned).collect::<Vec<_>>()), (0, lines));
    let (code, csv) = cloud.command(&["audit", "-o", "csv", "--kind", "keypair"]);
    assert_eq!(code, 0);
    assert!(csv.starts_with("position,recorded_at,stream,") && csv.contains(",create,data/security/key,"), "{csv}");
    let (code, alone) = cloud.command(&["audit", "-o", "csv", "--kind", "keypair", "--without-index"]);
    assert_eq!((code, alone), (0, csv));
    let (code, table) = cloud.command(&["audit", "-o", "table", "--kind", "keypair"]);
    assert!(code == 0 && table.starts_with("POSITION") && table.contains("keypair.created"), "{table}");
    for wrong in ["knd=x", "server=web", "since=now", "after=x", "limit=0", "format=xml"] {
        client.get(&format!("/chronova/v1/events?{wrong}")).unwrap().expect(400);
    }
    // A caller without the role is refused.
    client.get_as("somebody:p", "/chronova/v1/events").unwrap().expect(403);
    client.get_as("somebody:p", "/chronova/v1/erasures").unwrap().expect(403);
    cloud.stop();
}

/// The files under `folder` that contain `needle`, except those of simulated hosts.
fn files_with(folder: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "sim") {
            found.extend(files_with(&path, needle));
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(needle.len()).any(|window| window == needle.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

fn server(cloud: &mut Cloud, furniture: &crate::cloud::Furniture, name: &str, user_data: &str) -> String {
    // The server has a network, so that a port gets the server's host name.
    let more =
        json!({"user_data": user_data, "metadata": {"owner": name}, "description": name, "key_name": "annas-key"});
    cloud.server(furniture, name, &more)
}

#[test]
fn personal_data_is_erased_from_a_running_and_from_a_stopped_server() {
    // "annas secret", in base64.
    const USER_DATA: &str = "YW5uYXMgc2VjcmV0";
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let furniture = cloud.furnish();
    let client = cloud.client();
    keypair(&client, "annas-key");
    let first = server(&mut cloud, &furniture, "annas-laptop", USER_DATA);
    let second = server(&mut cloud, &furniture, "annas-desktop", USER_DATA);
    cloud.delete_server(&first);
    // The checkpoint of the read models has the user's data only in sealed form.
    cloud.stop();
    assert!(!files_with(&cloud.data().join("views"), "CHRVIEWS").is_empty());
    assert_eq!(files_with(&cloud.data().join("views"), "annas-"), Vec::<String>::new());
    cloud.start();
    let client = cloud.client();
    let erase = |body: Value| client.post("/chronova/v1/erasures", &json!({"erasure": body})).unwrap();
    let request = json!({"user": "admin", "reason": "she asked for it"});
    let plan = erase(request.clone()).expect(200).body;
    assert_eq!((plan["dry_run"].clone(), plan["erasure"]["alive"].clone()), (json!(true), json!([second])));
    let with = |key: &str, value: Value| {
        let mut request = request.clone();
        request[key] = value;
        request
    };
    erase(with("dry_run", json!(false))).expect(409);
    erase(with("server", json!(first))).expect(400);
    erase(with("reason", json!(" "))).expect(400);
    erase(with("user", json!("adnim"))).expect(404);
    cloud.delete_server(&second);
    let done = erase(with("dry_run", json!(false))).expect(200).body;
    assert!(done["erasure"]["keys_destroyed"].as_u64().unwrap() >= 3, "{done}");
    // The user's data is gone from the API, from the events that the API shows, and from every file.
    let keys = client.get("/compute/v2.1/os-keypairs").unwrap().expect(200).body;
    assert_eq!(keys["keypairs"], json!([]));
    let shown = client.get("/chronova/v1/events?limit=1000").unwrap().expect(200).body.to_string();
    assert!(!shown.contains("annas-") && !shown.contains(USER_DATA) && shown.contains("[erased]"));
    let listed = client.get("/chronova/v1/erasures").unwrap().expect(200).body;
    assert_eq!(listed["erasures"][0]["reason"], "she asked for it");
    assert_eq!(listed["erasures"][0]["asked_by"], "admin");
    for needle in ["annas-", USER_DATA] {
        assert_eq!(files_with(&cloud.data(), needle), Vec::<String>::new());
    }
    // An erasure of a user also reaches the identity service, which has the user's name.
    let user = client.post("/identity/v3/users", &json!({"user": {"name": "annas-login"}})).unwrap();
    let user = user.expect(201).text("/user/id");
    let mut request = json!({"user": user, "reason": "she left", "dry_run": false});
    erase(request.clone()).expect(409);
    request["even_alive"] = json!(true);
    erase(request).expect(200);
    let shown = client.get("/chronova/v1/events?kind=identity&limit=1000").unwrap().expect(200).body.to_string();
    assert!(shown.contains("identity.user_erased") && !shown.contains("annas-login"), "{shown}");
    // The user's new data is sealed under a new key and can be read.
    keypair(&client, "annas-new-key");
    let keys = client.get("/compute/v2.1/os-keypairs").unwrap().expect(200).body;
    assert_eq!(keys["keypairs"][0]["keypair"]["name"], "annas-new-key");
    // The command works while no server runs. While one runs, the error says what to do instead.
    let arguments = ["audit", "erase", "--user", "admin", "--reason", "the rest, too"];
    let (code, text) = cloud.command(&arguments);
    assert!(code == 2 && text.contains("POST /chronova/v1/erasures"), "{text}");
    cloud.stop();
    let (code, text) = cloud.command(&["rebuild"]);
    assert!(code == 0 && text.contains("equal"), "{text}");
    let (code, text) = cloud.command(&arguments);
    assert!(code == 0 && text.contains("nothing was erased"), "{text}");
    let typo = ["audit", "erase", "--user", "adnim", "--reason", "the rest, too", "--yes"];
    let (code, text) = cloud.command(&typo);
    assert!(code == 1 && text.contains("no user or server matches"), "{text}");
    let (_, before) = cloud.command(&["audit", "--kind", "keypair.created"]);
    assert!(before.contains("annas-new-key"));
    let (code, text) = cloud.command(&[&arguments[..], &["--yes"]].concat());
    assert!(code == 0 && text.contains("erased: 1 keys destroyed"), "{text}");
    let (_, after) = cloud.command(&["audit"]);
    assert!(!after.contains("annas-"), "{after}");
    assert_eq!(files_with(&cloud.data(), "annas-"), Vec::<String>::new());
    cloud.start();
    let keys = cloud.client().get("/compute/v2.1/os-keypairs").unwrap().expect(200).body;
    assert_eq!(keys["keypairs"], json!([]));
    assert!(head(&cloud.client()) > 0);
    cloud.stop();
    let (code, text) = cloud.command(&["rebuild"]);
    assert!(code == 0 && text.contains("equal"), "{text}");
}

/// Replaces the folder `to` by a copy of `from`.
fn restore(from: &Path, to: &Path) {
    if to.exists() {
        std::fs::remove_dir_all(to).unwrap();
    }
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

fn recorded(cloud: &Cloud, kind: &str) -> usize {
    let (code, text) = cloud.command(&["audit", "--kind", kind]);
    assert_eq!(code, 0, "{text}");
    text.lines().count()
}

/// Kills an erasure at system calls that write, sync, remove or rename: at every 13th such call. With `CHRONOVA_SOAK`,
/// at each such call. The next start or command completes a recorded erasure. An erasure that was not recorded is
/// requested again. Either way, all data is removed in the end.
#[test]
fn an_erasure_that_dies_at_any_write_is_completed_afterwards() {
    const ERASE: [&str; 7] = ["audit", "erase", "--user", "admin", "--reason", "asked for", "--yes"];
    let mut cloud = Cloud::new("sim://1");
    let how = match cloud.let_calls_fail("/data/") {
        Ok(how) => how,
        Err(reason) => return println!("skipped: calls cannot be made to fail here: {reason}"),
    };
    cloud.start();
    let furniture = cloud.furnish();
    keypair(&cloud.client(), "annas-key");
    let server = server(&mut cloud, &furniture, "annas-laptop", "YW5uYXMgc2VjcmV0");
    cloud.delete_server(&server);
    cloud.stop();
    let whole = cloud.folder.path().join("whole");
    restore(&cloud.data(), &whole);
    let every = if std::env::var_os("CHRONOVA_SOAK").is_some() { 1 } else { 13 };
    let (mut died, mut resumed, mut nothing) = (0, 0, 0);
    for call in (1..5_000).step_by(every) {
        restore(&whole, &cloud.data());
        std::fs::write(&how, format!("kill {call}")).unwrap();
        let (code, text) = cloud.command(&ERASE);
        std::fs::write(&how, "").unwrap();
        if code == 0 {
            break;
        }
        assert_eq!(code, -1, "call {call}: the process was not killed: {text}");
        died += 1;
        let (asked, done) = (recorded(&cloud, "erasure.requested"), recorded(&cloud, "erasure.completed"));
        if died % 2 == 0 && asked > 0 {
            cloud.start();
            cloud.stop();
            assert_eq!(recorded(&cloud, "erasure.completed"), 1, "call {call}: the start did not complete the erasure");
        } else {
            let (code, text) = cloud.command(&ERASE);
            assert_eq!(code, 0, "call {call}: {text}");
            assert_eq!(text.contains("completed 1 erasures"), asked > done, "call {call}: {text}");
        }
        resumed += usize::from(asked > done);
        nothing += usize::from(asked == 0);
        assert_eq!(recorded(&cloud, "erasure.requested"), recorded(&cloud, "erasure.completed"), "call {call}");
        for needle in ["annas-", "YW5uYXMgc2VjcmV0"] {
            assert_eq!(files_with(&cloud.data(), needle), Vec::<String>::new(), "call {call}");
            let (_, text) = cloud.command(&["audit"]);
            assert!(!text.contains(needle), "call {call}: {text}");
        }
        // This also compares the read models with a rebuild.
        let (code, text) = cloud.command(&["audit", "verify"]);
        assert_eq!(code, 0, "call {call}: {text}");
    }
    println!(
        "died at {died} calls: {nothing} times before it was asked for, {resumed} times it was completed afterwards"
    );
    assert!(died > 2 && resumed > 0, "died {died}, resumed {resumed}");
}

/// Creates a key pair with these headers.
fn keypair_from(cloud: &Cloud, name: &str, headers: &str) {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAgYCTjKdqPCWPQ3CVs7vkEYWVUzUJ1DnzWHjJGvU7Ja a";
    let body = json!({"keypair": {"name": name, "public_key": key}}).to_string();
    let (address, length) = (cloud.address(), body.len());
    let mut socket = TcpStream::connect(&address).unwrap();
    write!(
        socket,
        "POST /compute/v2.1/os-keypairs HTTP/1.1\r\nHost: {address}\r\nX-Auth-Token: admin\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

/// The client of the newest event of a key pair, as the audit of the log shows it.
fn newest_client(cloud: &Cloud) -> Value {
    let (code, text) = cloud.command(&["audit", "--kind", "keypair"]);
    assert_eq!(code, 0, "{text}");
    let newest: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(newest["initiator"]["host"], newest["cause"]["source"], "{newest}");
    newest["initiator"]["host"].clone()
}

/// A header that any client can write counts only if a trusted proxy sent it.
#[test]
fn events_name_the_address_and_the_program_of_the_client() {
    let mut cloud = Cloud::new("sim://1");
    cloud.configure("[oslo_middleware]\nenable_proxy_headers_parsing = true\n");
    cloud.start();
    let forged = "User-Agent: openstacksdk/4.0\r\nX-Forwarded-For: 198.51.100.7\r\n";
    keypair_from(&cloud, "a", forged);
    assert_eq!(newest_client(&cloud), json!({"address": "127.0.0.1", "agent": "openstacksdk/4.0"}));
    keypair_from(&cloud, "b", "");
    assert_eq!(newest_client(&cloud), json!({"address": "127.0.0.1"}));
    keypair_from(&cloud, "c", &format!("User-Agent: {}\r\n", "x".repeat(5_000)));
    assert_eq!(newest_client(&cloud)["agent"], "x".repeat(200), "the log must cut the client's name");
    let page = cloud.client().get("/chronova/v1/events?kind=keypair").unwrap().expect(200);
    let clients: Vec<&Value> =
        page.body["events"].as_array().unwrap().iter().map(|one| &one["initiator"]["host"]).collect();
    assert_eq!(clients[1], &json!({"address": "127.0.0.1"}), "{clients:?}");
    cloud.stop();
    cloud.configure("[chronova]\ntrusted_proxies = 127.0.0.1\n");
    cloud.start();
    keypair_from(&cloud, "d", forged);
    assert_eq!(newest_client(&cloud), json!({"address": "198.51.100.7", "agent": "openstacksdk/4.0"}));
    cloud.stop();
    let (code, text) = cloud.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{text}");
    let (_, csv) = cloud.command(&["audit", "--kind", "keypair", "-o", "csv"]);
    assert!(csv.lines().next().unwrap().contains(",project_id,address,agent,action,"), "{csv}");
    assert!(csv.contains(",198.51.100.7,openstacksdk/4.0,"), "{csv}");
}

/// The services that keep their state in the log answer as of a moment. All other operations refuse `as_of`: their
/// answer would be about today.
#[test]
fn the_services_answer_about_the_past_or_refuse_to() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let furniture = cloud.furnish();
    let client = cloud.client();
    let volume = client.post("/volume/v3/volumes", &json!({"volume": {"size": 1, "name": "disk"}})).unwrap();
    let volume = volume.expect(202).text("/volume/id");
    let aggregate = client.post("/compute/v2.1/os-aggregates", &json!({"aggregate": {"name": "rack"}})).unwrap();
    let aggregate = aggregate.expect(200).body["aggregate"]["id"].clone();
    let project = client.post("/identity/v3/projects", &json!({"project": {"name": "web"}})).unwrap();
    let project = project.expect(201).text("/project/id");
    let lists = [
        "/identity/v3/projects",
        "/identity/v3/users",
        "/identity/v3/role_assignments?include_names",
        "/image/v2/images",
        "/network/v2.0/networks",
        "/network/v2.0/subnets",
        "/network/v2.0/security-groups",
        "/volume/v3/types",
        "/compute/v2.1/os-aggregates",
        "/compute/v2.1/flavors/detail",
    ];
    let at = |path: &str, moment: &str| format!("{path}{}as_of={moment}", if path.contains('?') { '&' } else { '?' });
    let then: Vec<Value> = lists.iter().map(|path| client.get(path).unwrap().expect(200).body).collect();
    let before = head(&client);
    client.delete(&format!("/identity/v3/projects/{project}")).unwrap().expect(204);
    client.delete(&format!("/image/v2/images/{}", furniture.image)).unwrap().expect(204);
    client.delete(&format!("/network/v2.0/networks/{}", furniture.network)).unwrap().expect(204);
    client.delete(&format!("/compute/v2.1/flavors/{}", furniture.flavor)).unwrap().expect(202);
    client.delete(&format!("/compute/v2.1/os-aggregates/{aggregate}")).unwrap().expect(200);
    for (path, then) in lists.iter().zip(&then) {
        let mut past = client.get(&at(path, &before.to_string())).unwrap().expect(200).body;
        // Links to pages stay in that past.
        if let Some(first) = past.get_mut("first") {
            assert_eq!(first.take(), format!("/v2/images?as_of={before}"));
            *first = then["first"].clone();
        }
        assert_eq!(past, *then, "{path}");
        // Before the first event there is nothing but the default type of volumes.
        let nothing = client.get(&at(path, "0")).unwrap().expect(200).body;
        let rows = nothing.as_object().unwrap().values().find(|value| value.is_array());
        let count = usize::from(*path == "/volume/v3/types");
        assert_eq!(rows.and_then(Value::as_array).map(Vec::len), Some(count), "{path}: {nothing}");
    }
    for (path, status) in [
        (format!("/identity/v3/projects/{project}"), 404),
        (format!("/image/v2/images/{}", furniture.image), 404),
        (format!("/network/v2.0/networks/{}", furniture.network), 404),
        (format!("/compute/v2.1/os-aggregates/{aggregate}"), 404),
        (format!("/volume/v3/volumes/{volume}"), 200),
    ] {
        client.get(&path).unwrap().expect(status);
        client.get(&at(&path, &before.to_string())).unwrap().expect(200);
        client.get(&at(&path, "0")).unwrap().expect(404);
    }
    for path in [
        "/compute/v2.1/os-services",
        "/compute/v2.1/limits",
        "/placement/allocation_candidates",
        "/identity/v3/groups",
        "/image/v2/schemas/images",
        "/network/v2.0/quotas",
        "/volume/v3/limits",
        "/chronova/v1/hosts",
    ] {
        let refused = client.get(&at(path, "1")).unwrap().expect(400).body.to_string();
        assert!(refused.contains("does not take as_of"), "{path}: {refused}");
    }
}
