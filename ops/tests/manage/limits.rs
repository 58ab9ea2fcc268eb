//! `limits migrate_to_unified_limits`: copies the quota limits to the embedded identity service or to a Keystone, here a
//! small HTTP server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::site::ManagedCloud;

const TOKEN: &str = "a-token-of-keystone";

/// The limits that the Keystone has, and whether it refuses new ones.
#[derive(Default)]
struct KeystoneState {
    registered: Vec<Value>,
    of_projects: Vec<Value>,
    refuses: bool,
    /// The first line of each request.
    asked: Vec<String>,
}

struct SmallKeystone {
    address: SocketAddr,
    state: Arc<Mutex<KeystoneState>>,
}

impl SmallKeystone {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(KeystoneState::default())));
        let known = Arc::clone(&state);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| serve(stream, &known)));
        Self { address, state }
    }

    fn names(&self) -> Vec<String> {
        let name = |limit: &Value| limit["resource_name"].as_str().unwrap().to_owned();
        let mut names: Vec<String> = self.state.lock().unwrap().registered.iter().map(name).collect();
        names.sort();
        names
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<KeystoneState>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let request = line();
    let (mut length, mut token) = (0, String::new());
    loop {
        let header = line();
        let Some((name, value)) = header.split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "x-auth-token" => value.clone_into(&mut token),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (status, answer) = answer(&request, &token, &body, &mut state.lock().unwrap());
    let answer = answer.to_string();
    let _ = write!(
        stream,
        "HTTP/1.1 {status} Status\r\nX-Subject-Token: {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{answer}",
        answer.len()
    );
}

fn answer(request: &str, token: &str, body: &Value, state: &mut KeystoneState) -> (u16, Value) {
    state.asked.push(request.to_owned());
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let name = path.strip_prefix("/v3/").unwrap().split('?').next().unwrap();
    if name != "auth/tokens" && token != TOKEN {
        return (401, json!({"error": {"message": "no token"}}));
    }
    let kept = match name {
        "auth/tokens" => return (201, json!({"token": {}})),
        "services" => return (200, json!({"services": [{"id": "the-service", "name": "nova", "type": "compute"}]})),
        "registered_limits" => &mut state.registered,
        "limits" => &mut state.of_projects,
        other => panic!("{other}"),
    };
    if method == "POST" {
        if state.refuses {
            return (403, json!({"error": {"message": "You may not."}}));
        }
        kept.extend(body[name].as_array().unwrap().iter().cloned());
        return (201, body.clone());
    }
    (200, json!({name: kept}))
}

/// The account of the service in the Keystone at this address.
fn account(address: SocketAddr) -> String {
    format!(
        "[keystone_authtoken]\nauth_url = http://{address}\nauth_type = password\nusername = nova\npassword = secret\n\
         user_domain_name = Default\nproject_name = service\nproject_domain_name = Default\n"
    )
}

#[test]
fn quota_limits_are_copied_to_keystone() {
    const MIGRATE: &str = "limits migrate_to_unified_limits";
    let site = ManagedCloud::running();
    let keystone = SmallKeystone::start();
    site.cloud.configure(&account(keystone.address));
    let own = json!({"quota_set": {"cores": 40}});
    site.client().put("/compute/v2.1/os-quota-sets/admin", &own).unwrap().expect(200);
    assert_eq!(
        site.manage(&format!("{MIGRATE} --verbose --quiet"), 1),
        "--verbose and --quiet are mutually exclusive\n"
    );

    let text = site.manage(&format!("{MIGRATE} --project-id admin --dry-run"), 3);
    assert!(text.contains("| class:MEMORY_MB | missing ") && text.contains("WARNING"), "{text}");
    assert_eq!(keystone.names(), Vec::<String>::new());

    let text = site.manage(&format!("{MIGRATE} --project-id admin --verbose"), 3);
    assert!(text.contains("Creating default limit: server_key_pairs = 100\n"), "{text}");
    assert!(text.contains("Creating project limit: class:VCPU = 40\n"), "{text}");
    assert!(text.contains("| class:DISK_GB   | missing "), "{text}");
    let expected = [
        "class:MEMORY_MB",
        "class:PCPU",
        "class:VCPU",
        "server_group_members",
        "server_groups",
        "server_injected_file_content_bytes",
        "server_injected_file_path_bytes",
        "server_injected_files",
        "server_key_pairs",
        "server_metadata_items",
        "servers",
    ];
    assert_eq!(keystone.names(), expected);
    {
        let state = keystone.state.lock().unwrap();
        let servers = state.registered.iter().find(|limit| limit["resource_name"] == "servers").unwrap();
        assert_eq!(*servers, json!({"resource_name": "servers", "default_limit": -1, "service_id": "the-service"}));
        let pair = |limit: &Value| (limit["resource_name"].clone(), limit["resource_limit"].clone());
        let own: Vec<_> = state.of_projects.iter().map(pair).collect();
        assert_eq!(own, [(json!("class:PCPU"), json!(40)), (json!("class:VCPU"), json!(40))]);
        let is_whole = |limit: &Value| limit["project_id"] == "admin" && limit["service_id"] == "the-service";
        assert!(state.of_projects.iter().all(is_whole), "{:?}", state.of_projects);
    }

    // The limits are there now. An operator adds the limit for disks, which quotas do not have.
    let disk = json!({"resource_name": "class:DISK_GB", "default_limit": 1000});
    keystone.state.lock().unwrap().registered.push(disk);
    let text = site.manage(&format!("{MIGRATE} --project-id admin --region-id north"), 0);
    assert_eq!(text, "SUCCESS: All resource classes have registered limits set.\n");
    assert_eq!(site.manage(&format!("{MIGRATE} --quiet --no-embedded-flavor-scan"), 0), "");
    let asked = keystone.state.lock().unwrap().asked.clone();
    assert!(asked.iter().any(|line| line.contains("limits?project_id=admin&region_id=north ")), "{asked:?}");
    assert!(asked.iter().any(|line| line.contains("registered_limits?service_id=the-service ")), "{asked:?}");
    assert_eq!(keystone.names().len(), 12, "a limit was copied twice");

    keystone.state.lock().unwrap().refuses = true;
    let more = json!({"quota_set": {"key_pairs": 7}});
    site.client().put("/compute/v2.1/os-quota-sets/admin", &more).unwrap().expect(200);
    let text = site.manage(&format!("{MIGRATE} --project-id admin --quiet"), 1);
    assert_eq!(text, "Failed to create project limit: You may not.\n");
}

#[test]
fn quota_limits_are_copied_to_the_embedded_identity_service() {
    const MIGRATE: &str = "limits migrate_to_unified_limits";
    let site = ManagedCloud::running();
    let client = site.client();
    let project = client.post("/identity/v3/projects", &json!({"project": {"name": "web"}})).unwrap().expect(201);
    let project = project.text("/project/id");
    let own = json!({"quota_set": {"cores": 41}});
    client.put(&format!("/compute/v2.1/os-quota-sets/{project}"), &own).unwrap().expect(200);
    // Registered limits for disks are missing, because quotas have none.
    site.manage(&format!("{MIGRATE} --project-id {project} --quiet --dry-run"), 3);
    let registered = || client.get("/identity/v3/registered_limits").unwrap().body["registered_limits"].clone();
    assert_eq!(registered(), json!([]));
    site.manage(&format!("{MIGRATE} --project-id {project} --quiet"), 3);
    assert_eq!(registered().as_array().unwrap().len(), 11);
    let limits = client.get(&format!("/identity/v3/limits?project_id={project}")).unwrap().body["limits"].clone();
    let pair = |limit: &Value| (limit["resource_name"].as_str().unwrap().to_owned(), limit["resource_limit"].as_i64());
    let mut limits: Vec<_> = limits.as_array().unwrap().iter().map(pair).collect();
    limits.sort();
    assert_eq!(limits, [("class:PCPU".to_owned(), Some(41)), ("class:VCPU".to_owned(), Some(41))]);
    // A second run finds everything.
    let text = site.manage(&format!("{MIGRATE} --project-id {project} --verbose"), 3);
    assert!(text.contains("class:VCPU = 41 already exists in Keystone, skipping"), "{text}");
}

/// Nova exits with 2 if its database does not answer.
#[test]
fn limits_of_a_stopped_server_are_not_copied() {
    let site = ManagedCloud::stopped();
    let text = site.manage("limits migrate_to_unified_limits", 2);
    assert!(text.starts_with("Failed to read the quota limits, so aborting this migration attempt."), "{text}");
}
