//! Every action in every state, through the API: allowed, or refused with Nova's message.
//!
//! The expected values are repeated here from Nova's `compute/api.py`, not from this program's own table.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use chronova_events::store::EventStore;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_projections::history::{History, HistoryOptions};
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::world::{Setting, World};
use serde_json::{Value, json};

/// An action, and the states that Nova requires for it.
struct Act {
    name: &'static str,
    body: &'static str,
    vm_states: &'static str,
    /// The task states in which the action is allowed, besides no task; `*` allows all.
    task_states: &'static str,
}

const ANY: &str = "*";
const REBOOTABLE: &str = "rebooting rebooting_hard pausing unpausing suspending resuming";

const fn act(name: &'static str, body: &'static str, vm_states: &'static str, task_states: &'static str) -> Act {
    Act { name, body, vm_states, task_states }
}

const ACTS: &[Act] = &[
    act("start", r#"{"os-start": null}"#, "stopped", ""),
    act("stop", r#"{"os-stop": null}"#, "active error", ""),
    act("reboot", r#"{"reboot": {"type": "SOFT"}}"#, "active", ""),
    act("reboot", r#"{"reboot": {"type": "HARD"}}"#, "active stopped paused suspended error", REBOOTABLE),
    act("pause", r#"{"pause": null}"#, "active", ""),
    act("unpause", r#"{"unpause": null}"#, "paused", ""),
    act("suspend", r#"{"suspend": null}"#, "active", ""),
    act("resume", r#"{"resume": null}"#, "suspended", ""),
    act("trigger_crash_dump", r#"{"trigger_crash_dump": null}"#, "active paused error", ""),
    act("restore", r#"{"restore": null}"#, "soft-delete", ""),
    act("forceDelete", r#"{"forceDelete": null}"#, ANY, ANY),
    act("injectNetworkInfo", r#"{"injectNetworkInfo": null}"#, ANY, ANY),
    act("os-resetState", r#"{"os-resetState": {"state": "active"}}"#, ANY, ANY),
    act("lock", r#"{"lock": null}"#, ANY, ANY),
    act("delete", "", ANY, ANY),
    act("update metadata", "", "active paused suspended stopped", ANY),
    act("get_diagnostics", "", ANY, ANY),
    act("createImage", r#"{"createImage": {"name": "i"}}"#, "active paused suspended stopped", ""),
    act(
        "createBackup",
        r#"{"createBackup": {"name": "b", "backup_type": "daily", "rotation": 1}}"#,
        "active paused suspended stopped",
        "",
    ),
    act("rebuild", REBUILD, "active stopped error", ""),
    act("rescue", RESCUE, "active stopped error", ""),
    act("unrescue", r#"{"unrescue": null}"#, "rescued", ""),
    act("shelve", SHELVE, "active paused suspended stopped", ""),
    act("shelveOffload", r#"{"shelveOffload": null}"#, "shelved", ""),
    act("unshelve", r#"{"unshelve": null}"#, "shelved shelved_offloaded", ""),
    act("attach_volume", "", "active paused stopped resized soft-delete shelved shelved_offloaded", ""),
    act("changePassword", r#"{"changePassword": {"adminPass": "p"}}"#, "active", ""),
    act("resize", RESIZE, "active stopped", ""),
    act("migrate", r#"{"migrate": null}"#, "active stopped", ""),
    act("confirmResize", CONFIRM, "resized", ""),
    act("revertResize", REVERT, "resized", ""),
    // In these states the evacuation is still refused, because the server's host is up.
    act("evacuate", r#"{"evacuate": {}}"#, "active stopped error", ANY),
];

/// A state and the requests that lead to it. `hold` is the driver call at which the test holds the last request.
struct Situation {
    vm_state: &'static str,
    task_state: &'static str,
    /// The guest's state, as diagnostics name it.
    power: &'static str,
    before: &'static str,
    hold: &'static str,
    last: &'static str,
}

const fn rest(vm_state: &'static str, power: &'static str, before: &'static str) -> Situation {
    Situation { vm_state, task_state: "", power, before, hold: "", last: "" }
}

const fn during(
    vm_state: &'static str,
    task_state: &'static str,
    power: &'static str,
    before: &'static str,
    hold: &'static str,
    last: &'static str,
) -> Situation {
    Situation { vm_state, task_state, power, before, hold, last }
}

const STOP: &str = r#"{"os-stop": null}"#;
const PAUSE: &str = r#"{"pause": null}"#;
const SUSPEND: &str = r#"{"suspend": null}"#;

const REBUILD: &str = r#"{"rebuild": {"imageRef": "70a599e0-31e7-49b7-b260-868f441e862b"}}"#;
const RESCUE: &str = r#"{"rescue": null}"#;
const SHELVE: &str = r#"{"shelve": null}"#;
const IMAGE: &str = r#"{"createImage": {"name": "i"}}"#;
const RESIZE: &str = r#"{"resize": {"flavorRef": "other"}}"#;
const CONFIRM: &str = r#"{"confirmResize": null}"#;
const REVERT: &str = r#"{"revertResize": null}"#;
const OFFLOADED: &str = r#"[{"shelve": null}, {"shelveOffload": null}]"#;

const NO_VOLUME: &str = "0b7f0ef5-b1e0-4f2a-8ab2-6b8d1d7a3a10";

const STATES: &[Situation] = &[
    rest("rescued", "running", RESCUE),
    rest("shelved", "shutdown", SHELVE),
    rest("shelved_offloaded", "shutdown", OFFLOADED),
    during("active", "image_pending_upload", "running", "", "copy_root", IMAGE),
    during("stopped", "image_uploading", "shutdown", STOP, "read_copy", IMAGE),
    during("active", "rebuilding", "running", "", "ensure_image", REBUILD),
    during("stopped", "rebuild_spawning", "shutdown", STOP, "redefine", REBUILD),
    during("active", "rescuing", "running", "", "stop", RESCUE),
    during("rescued", "unrescuing", "running", RESCUE, "redefine", r#"{"unrescue": null}"#),
    during("active", "shelving", "running", "", "stop", SHELVE),
    during("stopped", "shelving_image_pending_upload", "shutdown", STOP, "copy_root", SHELVE),
    during("stopped", "shelving_image_uploading", "shutdown", STOP, "read_copy", SHELVE),
    during("shelved", "shelving_offloading", "shutdown", SHELVE, "destroy", r#"{"shelveOffload": null}"#),
    during("shelved_offloaded", "unshelving", "shutdown", OFFLOADED, "ensure_image", r#"{"unshelve": null}"#),
    during("shelved", "spawning", "shutdown", SHELVE, "start", r#"{"unshelve": null}"#),
    rest("resized", "running", RESIZE),
    during("active", "resize_prep", "running", "", "ensure_network", RESIZE),
    during("active", "resize_migrating", "running", "", "stop", RESIZE),
    during("stopped", "resize_finish", "shutdown", STOP, "install", RESIZE),
    during("resized", "resize_confirming", "running", RESIZE, "destroy", CONFIRM),
    during("resized", "resize_reverting", "running", RESIZE, "stop", REVERT),
    rest("active", "running", ""),
    rest("stopped", "shutdown", STOP),
    rest("paused", "paused", PAUSE),
    rest("suspended", "shutdown", SUSPEND),
    rest("error", "running", r#"{"os-resetState": {"state": "error"}}"#),
    during("building", "spawning", "pending", "", "spawn", ""),
    during("active", "powering-off", "running", "", "stop", STOP),
    during("stopped", "powering-on", "shutdown", STOP, "redefine", r#"{"os-start": null}"#),
    during("active", "rebooting", "running", "", "reboot_soft", r#"{"reboot": {"type": "SOFT"}}"#),
    during("active", "rebooting_hard", "running", "", "redefine", r#"{"reboot": {"type": "HARD"}}"#),
    during("active", "pausing", "running", "", "pause", PAUSE),
    during("paused", "unpausing", "paused", PAUSE, "unpause", r#"{"unpause": null}"#),
    during("active", "suspending", "running", "", "suspend", SUSPEND),
    during("suspended", "resuming", "shutdown", SUSPEND, "resume", r#"{"resume": null}"#),
    during("active", "deleting", "running", "", "destroy", r#"{"forceDelete": null}"#),
];

async fn action(api: &Api, id: &str, body: &str) -> Answer {
    let body: Value = serde_json::from_str(body).unwrap();
    api.call("POST", &format!("/servers/{id}/action"), "2.100", ADMIN, Some(body)).await
}

async fn ask(api: &Api, id: &str, act: &Act) -> Answer {
    let path = format!("/servers/{id}");
    match act.name {
        "delete" => api.call("DELETE", &path, "2.100", ADMIN, None).await,
        "get_diagnostics" => api.call("GET", &format!("{path}/diagnostics"), "2.48", ADMIN, None).await,
        "update metadata" => {
            let body = json!({"metadata": {"a": "b"}});
            api.call("POST", &format!("{path}/metadata"), "2.100", ADMIN, Some(body)).await
        }
        "attach_volume" => {
            let body = json!({"volumeAttachment": {"volumeId": NO_VOLUME}});
            api.call("POST", &format!("{path}/os-volume_attachments"), "2.60", ADMIN, Some(body)).await
        }
        _ => action(api, id, act.body).await,
    }
}

/// The status, and the message of a refusal.
fn expected(act: &Act, state: &Situation, id: &str, host: &str) -> (u16, String) {
    let named = |list: &str, word: &str| list == ANY || list.split(' ').any(|one| one == word);
    let refused = |attribute: &str, value: &str| {
        (409, format!("Cannot '{}' instance {id} while it is in {attribute} {value}", act.name))
    };
    // Nova runs `check_instance_host` before it checks the state.
    let needs_host = ["start", "stop", "trigger_crash_dump", "get_diagnostics"].contains(&act.name);
    // A server that is being unshelved has no host until its guest is being created on one.
    if needs_host && state.vm_state == "shelved_offloaded" {
        return (409, format!("Instance {id} is not ready"));
    }
    if !named(act.vm_states, state.vm_state) {
        return refused("vm_state", state.vm_state);
    }
    if !state.task_state.is_empty() && !named(act.task_states, state.task_state) {
        return refused("task_state", state.task_state);
    }
    match act.name {
        "get_diagnostics" if state.power != "running" => refused("power state", state.power),
        "get_diagnostics" | "update metadata" => (200, String::new()),
        "delete" | "confirmResize" => (204, String::new()),
        "rescue" => (200, String::new()),
        "evacuate" => (400, format!("Compute service of {host} is still in use.")),
        // The state allows the action, but the volume does not exist.
        "attach_volume" => (404, format!("Volume {NO_VOLUME} could not be found.")),
        _ => (202, String::new()),
    }
}

/// Creates a server and brings it to the state before the situation's last request.
async fn server(api: &Api, state: &Situation) -> String {
    let request = json!({"name": "s", "imageRef": chronova_tests::compute_api::IMAGE, "flavorRef": "small",
        "networks": [{"uuid": chronova_tests::compute_api::NETWORK}]});
    let made = api.call("POST", "/servers", "2.1", ADMIN, Some(json!({"server": request}))).await;
    assert_eq!(made.status, 202, "{:?}", made.body);
    let id = made.body["server"]["id"].as_str().unwrap().to_owned();
    if state.vm_state == "building" {
        return id;
    }
    api.life.settled().await;
    if !state.before.is_empty() {
        let before: Value = serde_json::from_str(state.before).unwrap();
        let before = before.as_array().cloned().unwrap_or_else(|| vec![before]);
        for body in before {
            let status = action(api, &id, &body.to_string()).await.status;
            assert!([200, 202].contains(&status), "{body}: {status}");
            api.life.settled().await;
        }
    }
    id
}

async fn in_state(api: &Api, state: &Situation) {
    let hold = !state.hold.is_empty();
    let (mut wrong, building) = (Vec::new(), state.vm_state == "building");
    if building {
        api.world.brakes.hold(state.hold);
    }
    // Refusals do not change the server, so one server serves all refused actions.
    let mut subjects = vec![(server(api, state).await, Vec::new())];
    for act in ACTS {
        match expected(act, state, "", "").0 {
            409 => subjects[0].1.push(act),
            _ => subjects.push((server(api, state).await, vec![act])),
        }
    }
    if hold {
        api.world.brakes.hold(state.hold);
    }
    for (id, acts) in &subjects {
        if hold && !building {
            let status = action(api, id, state.last).await.status;
            assert!([200, 202, 204].contains(&status), "{}: {status}", state.last);
        }
        let shown = async || {
            let server = api.get(&format!("/servers/{id}"), "2.1").await["server"].take();
            let word = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
            (word("OS-EXT-STS:vm_state"), word("OS-EXT-STS:task_state"))
        };
        let wanted = (state.vm_state.to_owned(), state.task_state.to_owned());
        for _ in 0..30_000 {
            if shown().await == wanted {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(shown().await, wanted);
        let server = api.get(&format!("/servers/{id}"), "2.1").await["server"].take();
        let host = server["OS-EXT-SRV-ATTR:host"].as_str().unwrap_or_default().to_owned();
        for act in acts {
            let (status, message) = expected(act, state, id, &host);
            let answer = ask(api, id, act).await;
            if answer.status != status || answer.message() != message {
                let body = act.body;
                wrong.push(format!("{} {body} in {wanted:?}: {} {}", act.name, answer.status, answer.message()));
            }
        }
    }
    if hold {
        api.world.brakes.release(state.hold);
    }
    for (id, _) in &subjects {
        let answer = action(api, id, r#"{"forceDelete": null}"#).await.status;
        assert!([202, 404].contains(&answer), "{answer}");
    }
    api.life.settled().await;
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[actix_rt::test]
async fn every_action_in_every_state_is_answered_as_nova_does() {
    let mut world = World::new(2);
    // Several servers wait in the same driver call, so the test lifts the limits of concurrent calls.
    (world.options.hosts.max_concurrent_builds, world.options.hosts.max_concurrent_snapshots) = (0, 0);
    let api = Api::start_of(world, "", None).await;
    api.flavor("small", 1, 0).await;
    api.flavor("other", 2, 0).await;
    let limits = json!({"quota_set": {"instances": -1, "cores": -1}});
    assert_eq!(api.call("PUT", "/os-quota-sets/admin", "2.1", ADMIN, Some(limits)).await.status, 200);
    for state in STATES {
        in_state(&api, state).await;
    }
    api.world.check().await;
    api.stop().await;
}

/// Nova checks the lock before the state (`check_instance_lock`). The lock does not bind administrators.
#[actix_rt::test]
async fn a_locked_server_refuses_every_action_that_the_lock_covers() {
    let api = Api::start().await;
    let user = "alice:web";
    api.flavor("other", 2, 2).await;
    let id = api.server(user, Api::wish("s")).await;
    let path = format!("/servers/{id}/action");
    let lock = api.call("POST", &path, "2.1", user, Some(json!({"lock": null}))).await;
    assert_eq!(lock.status, 202);
    let locked = (409, format!("Instance {id} is locked"));
    for act in ACTS.iter().filter(|act| !act.body.is_empty()) {
        let body: Value = serde_json::from_str(act.body).unwrap();
        let answer = api.call("POST", &path, "2.100", user, Some(body)).await;
        let answer = (answer.status, answer.message().to_owned());
        match act.name {
            "lock" => assert_eq!(answer.0, 202),
            // Only administrators may call these.
            "os-resetState" | "injectNetworkInfo" | "shelveOffload" | "migrate" | "evacuate" => {
                assert_eq!(answer.0, 403);
            }
            // A lock prevents changes, and an image or a backup changes nothing.
            "createImage" => {
                assert_eq!(answer.0, 202);
                api.life.settled().await;
            }
            "createBackup" => {
                assert_eq!(answer.0, 202);
                api.life.settled().await;
            }
            name => assert_eq!(answer, locked, "{name}"),
        }
    }
    assert_eq!(action(&api, &id, r#"{"injectNetworkInfo": null}"#).await.status, 202);
    assert_eq!(action(&api, &id, PAUSE).await.status, 202, "the lock stops an administrator");
    api.life.settled().await;
    assert_eq!(api.life.status(id.parse().unwrap()), "PAUSED");
    api.stop().await;
}

#[actix_rt::test]
async fn diagnostics_have_their_two_forms() {
    let api = Api::start().await;
    let id = api.server(ADMIN, Api::wish("s")).await;
    let path = format!("/servers/{id}/diagnostics");
    let own = api.get(&path, "2.47").await;
    assert_eq!((&own["memory"], &own["cpu0_time"]), (&json!(512 * 1024), &json!(0)));
    assert!(own.get("vda_read_req").is_some());
    let standard = api.get(&path, "2.48").await;
    let keys: Vec<&String> = standard.as_object().unwrap().keys().collect();
    let expected = [
        "config_drive",
        "cpu_details",
        "disk_details",
        "driver",
        "hypervisor",
        "hypervisor_os",
        "memory_details",
        "nic_details",
        "num_cpus",
        "num_disks",
        "num_nics",
        "state",
        "uptime",
    ];
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(sorted, expected);
    assert_eq!(standard["memory_details"], json!({"maximum": 512, "used": 512}));
    for (number, list) in [("num_cpus", "cpu_details"), ("num_disks", "disk_details"), ("num_nics", "nic_details")] {
        let count = standard[list].as_array().unwrap().len();
        assert!(count > 0 && standard[number] == count, "{number}: {standard}");
    }
    // The driver reports neither rates nor the utilisation of a CPU, so these fields are null.
    for (list, field) in [("cpu_details", "utilisation"), ("nic_details", "rx_rate"), ("nic_details", "tx_rate")] {
        assert_eq!(standard[list][0].get(field), Some(&Value::Null), "{list} {field}: {standard}");
    }
    assert_eq!((&standard["config_drive"], &standard["hypervisor_os"]), (&json!(false), &json!("linux")));
    assert!(standard["uptime"].as_u64().is_some_and(|seconds| seconds < 3600), "{standard}");
    assert_eq!((&standard["state"], &standard["driver"]), (&json!("running"), &json!("libvirt")));
    let user = "alice:web";
    let own = api.server(user, Api::wish("t")).await;
    let refused = api.call("GET", &format!("/servers/{own}/diagnostics"), "2.48", user, None).await;
    assert_eq!(refused.status, 403, "a user sees diagnostics");
    // The guest has posted no password.
    let path = format!("/servers/{own}/os-server-password");
    assert_eq!(api.call("GET", &path, "2.1", user, None).await.body, json!({"password": ""}));
    assert_eq!(api.call("DELETE", &path, "2.1", user, None).await.status, 204);
    api.stop().await;
}

#[actix_rt::test]
async fn diagnostics_say_whether_a_server_has_a_config_drive() {
    let api = Api::start().await;
    for asked in [true, false] {
        let mut request = Api::wish("s");
        request["config_drive"] = json!(asked);
        let id = api.server(ADMIN, request).await;
        let seen = api.get(&format!("/servers/{id}/diagnostics"), "2.48").await;
        assert_eq!(seen["config_drive"], json!(asked));
    }
    api.stop().await;
}

#[actix_rt::test]
async fn diagnostics_are_refused_with_novas_status() {
    let api = Api::start().await;
    let ask =
        async |api: &Api, id: &str| api.call("GET", &format!("/servers/{id}/diagnostics"), "2.48", ADMIN, None).await;
    let nobody = "11111111-2222-3333-4444-555555555555";
    let unknown = ask(&api, nobody).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.message(), format!("Instance {nobody} could not be found."));
    let id = api.server(ADMIN, Api::wish("s")).await;
    let fault = FaultPlan::default().with(DriverCall::Diagnostics, FaultTrigger::Nth(1), Effect::LoseReply);
    api.world.fleet.set_all_faults(&fault);
    let silent = ask(&api, &id).await;
    assert_eq!((silent.status, silent.message()), (409, format!("Instance {id} is not ready").as_str()));
    api.stop().await;

    // A driver without the optional part.
    let world = World::new(1);
    let life = world.begin(Setting { core_only: true, ..Setting::default() }).await;
    life.hosts_up(1).await;
    let store = Arc::clone(&world.log) as Arc<dyn EventStore>;
    let history = History::new(store, Arc::clone(&life.context().views), None, HistoryOptions::default());
    let api = Api::around(world, life, "", history);
    api.flavor("1", 512, 1).await;
    let mut request = Api::wish("s");
    request["networks"] = json!("none");
    let id = api.server(ADMIN, request).await;
    let unsupported = ask(&api, &id).await;
    let words = "The requested functionality is not supported.";
    assert_eq!((unsupported.status, unsupported.message()), (501, words), "{}", unsupported.body);
    let (path, body) = (format!("/servers/{id}/remote-consoles"), json!({"protocol": "vnc", "type": "novnc"}));
    let console = api.call("POST", &path, "2.6", ADMIN, Some(json!({"remote_console": body}))).await;
    assert_eq!((console.status, console.message()), (501, words), "{}", console.body);
    api.stop().await;
}

#[actix_rt::test]
async fn deleted_servers_can_be_restored_for_a_while() {
    let mut world = World::new(2);
    world.options.servers.reclaim_interval = std::time::Duration::from_hours(1);
    let api = Api::start_of(world, "", None).await;
    let user = "alice:web";
    let id = api.server(user, Api::wish("s")).await;
    let path = format!("/servers/{id}");
    let listed = async |token: &str, query: &str| {
        let list = api.call("GET", &format!("/servers{query}"), "2.1", token, None).await;
        list.body["servers"].as_array().unwrap().len()
    };
    let act = async |body: Value| api.call("POST", &format!("{path}/action"), "2.1", user, Some(body)).await;
    assert_eq!(api.call("DELETE", &path, "2.1", user, None).await.status, 204);
    api.life.settled().await;
    let shown = api.call("GET", &path, "2.1", user, None).await.body;
    assert_eq!(
        (&shown["server"]["status"], &shown["server"]["OS-EXT-STS:vm_state"]),
        (&json!("SOFT_DELETED"), &json!("soft-delete"))
    );
    assert_eq!(api.call("DELETE", &path, "2.1", user, None).await.status, 204, "the same request once more");
    assert_eq!(listed(user, "").await, 0);
    assert_eq!(listed(ADMIN, "?all_tenants=1").await, 0);
    assert_eq!(listed(ADMIN, "?all_tenants=1&soft_deleted=true").await, 1);
    assert_eq!(listed(ADMIN, "?all_tenants=1&deleted=true").await, 1);
    let refused = act(json!({"os-start": null})).await;
    let words = format!("Cannot 'start' instance {id} while it is in vm_state soft-delete");
    assert_eq!((refused.status, refused.message()), (409, words.as_str()));
    // A soft-deleted server uses no quota, and needs quota to be restored.
    let quota = async |instances: i64| {
        let limits = json!({"quota_set": {"instances": instances, "force": true}});
        assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(limits)).await.status, 200);
    };
    let used = api.call("GET", "/limits", "2.1", user, None).await.body;
    assert_eq!(used["limits"]["absolute"]["totalInstancesUsed"], 0);
    quota(0).await;
    let refused = act(json!({"restore": null})).await;
    assert_eq!(refused.status, 403, "{:?}", refused.body);
    quota(1).await;
    assert_eq!(act(json!({"restore": null})).await.status, 202);
    api.life.settled().await;
    let shown = api.call("GET", &path, "2.1", user, None).await.body;
    assert_eq!(shown["server"]["status"], "ACTIVE");
    assert_eq!(act(json!({"restore": null})).await.status, 409);
    // The server is deleted again, this time permanently.
    assert_eq!(api.call("DELETE", &path, "2.1", user, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(act(json!({"forceDelete": null})).await.status, 202);
    api.life.settled().await;
    assert_eq!(api.call("GET", &path, "2.1", user, None).await.status, 404);
    let actions = api.get(&format!("{path}/os-instance-actions"), "2.58").await;
    let names: Vec<&str> =
        actions["instanceActions"].as_array().unwrap().iter().map(|a| a["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["delete", "delete", "restore", "delete", "create"]);
    api.world.check().await;
    api.stop().await;
}
