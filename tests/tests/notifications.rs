//! Notifications: how each change is notified, the fields of the payloads, and that a crash loses and reorders nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "notifications/services.rs"]
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chronova_actors::notifications::outbox::{NotificationCommand, NotificationOutboxId, NotificationOutboxRoot};
use chronova_actors::notifications::publisher::NotificationPublisher;
use chronova_actors::notifications::{
    NotificationDriver, NotificationFormat, NotificationOptions, NotificationTransport, OutgoingNotification,
    StateChangeUpdates, TransportError,
};
use chronova_actors::runtime::{Leadership, Member};
use chronova_events::clock::SystemClock;
use chronova_events::envelope::{Meta, Position};
use chronova_events::store::EventStore;
use chronova_events::store::faulty::FuseStore;
use chronova_projections::views::Views;
use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use chronova_tests::world::{Life, World};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A broker that keeps the messages sent to it. It stops answering after a number of messages, like a killed broker.
#[derive(Clone, Default)]
struct Broker {
    kept: Arc<Mutex<Vec<OutgoingNotification>>>,
    /// The number of messages that the broker still accepts; `None` means no limit.
    budget: Arc<Mutex<Option<usize>>>,
    gone: Arc<Notify>,
}

#[async_trait]
impl NotificationTransport for Broker {
    async fn publish(&mut self, messages: &[OutgoingNotification]) -> Result<(), TransportError> {
        for message in messages {
            let takes = match &mut *self.budget.lock().unwrap() {
                Some(0) => false,
                Some(left) => {
                    *left -= 1;
                    true
                }
                None => true,
            };
            if !takes {
                self.gone.notify_one();
                return std::future::pending().await;
            }
            self.kept.lock().unwrap().push(message.clone());
        }
        Ok(())
    }
}

fn options(format: NotificationFormat) -> NotificationOptions {
    NotificationOptions {
        drivers: vec![NotificationDriver::MessagingV2],
        format,
        block_devices: true,
        host: "control".to_owned(),
        ..NotificationOptions::default()
    }
}

fn publisher(life: &Life, options: NotificationOptions, broker: &Broker) -> NotificationPublisher {
    NotificationPublisher {
        gateway: Arc::clone(&life.context().gateway),
        log: Arc::clone(&life.store) as Arc<dyn EventStore>,
        options,
        servers: Arc::clone(&life.context().server_options),
        transport: Some(Box::new(broker.clone())),
    }
}

/// Turns notifications on after `position`, whatever was published before.
async fn begin_at(life: &Life, position: Position) {
    for command in [NotificationCommand::End, NotificationCommand::Begin { after: position }] {
        let meta = Meta::system("test");
        life.context().gateway.send::<NotificationOutboxRoot>(&NotificationOutboxId, command, meta).await.unwrap();
    }
}

async fn published(life: &Life) -> u64 {
    let outbox = life.context().gateway.look::<NotificationOutboxRoot>(&NotificationOutboxId).await.unwrap();
    outbox.published.unwrap()
}

/// The message inside of oslo's envelope.
fn opened(message: &OutgoingNotification) -> Value {
    let envelope: Value = serde_json::from_str(&message.body).unwrap();
    assert_eq!(envelope["oslo.version"], "2.0");
    serde_json::from_str(envelope["oslo.message"].as_str().unwrap()).unwrap()
}

/// Publishes everything since `position`, and returns the messages.
async fn all_since(life: &Life, options: NotificationOptions, position: Position) -> Vec<OutgoingNotification> {
    begin_at(life, position).await;
    let broker = Broker::default();
    let run = tokio::spawn(publisher(life, options, &broker).run());
    let end = life.store.head();
    // The publisher appends its own records after `end`. They cause no notification, so nothing waits for them.
    while published(life).await < last_change(life, end).await {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    run.abort();
    broker.kept.lock().unwrap().clone()
}

/// The position of the last completed change of a server up to `end`. When the publisher records this position or a
/// later one, the broker has the notifications of that change.
async fn last_change(life: &Life, end: Position) -> u64 {
    let events = life.store.read_all(Position::START, usize::try_from(end.0).unwrap()).await.unwrap();
    let notified = [
        "instance.deleted",
        "instance.power_completed",
        "instance.build_succeeded",
        "instance.nic_attached",
        "instance.resize_confirmed",
        "instance.snapshot_taken",
        "instance.live_moved",
    ];
    events.iter().rev().find(|event| notified.contains(&&*event.kind)).unwrap().position.0
}

async fn act(api: &Api, id: &str, body: Value) {
    let answer = api.call("POST", &format!("/servers/{id}/action"), "2.100", ADMIN, Some(body)).await;
    assert!(matches!(answer.status, 202 | 204), "{} {}", answer.status, answer.body);
    api.life.settled().await;
}

/// A server that is created, stopped, started, rebooted, gets an interface, and is deleted.
async fn lived(api: &Api) -> String {
    let id = api.server(ADMIN, Api::wish("web")).await;
    act(api, &id, json!({"os-stop": null})).await;
    act(api, &id, json!({"os-start": null})).await;
    act(api, &id, json!({"reboot": {"type": "HARD"}})).await;
    let wish = json!({"interfaceAttachment": {}});
    let attached = api.call("POST", &format!("/servers/{id}/os-interface"), "2.100", ADMIN, Some(wish)).await;
    assert_eq!(attached.status, 200, "{}", attached.body);
    api.life.settled().await;
    assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.100", ADMIN, None).await.status, 204);
    api.life.settled().await;
    id
}

#[actix_rt::test]
async fn each_change_is_notified_in_both_forms_and_in_order() {
    let api = Api::start_of(World::new(2), "", None).await;
    let id = lived(&api).await;
    let all = all_since(&api.life, options(NotificationFormat::Both), Position::START).await;
    let of = |topic: &str| -> Vec<String> {
        let mine = all.iter().filter(|message| message.routing_key == topic);
        let servers = mine.filter(|message| !message.event_type.starts_with("scheduler."));
        servers.map(|message| message.event_type.clone()).collect()
    };
    let versioned = [
        "create.start",
        "create.end",
        "power_off.start",
        "power_off.end",
        "power_on.start",
        "power_on.end",
        "reboot.start",
        "reboot.end",
        "interface_attach.start",
        "interface_attach.end",
        "delete.start",
        "shutdown.start",
        "shutdown.end",
        "delete.end",
    ];
    assert_eq!(of("versioned_notifications.info"), versioned.map(|name| format!("instance.{name}")));
    let unversioned = versioned.into_iter().filter(|name| !name.starts_with("interface"));
    let expected: Vec<String> = unversioned.map(|name| format!("compute.instance.{name}")).collect();
    assert_eq!(of("notifications.info"), expected);
    let messages: Vec<Value> = all.iter().map(opened).collect();
    for message in &messages {
        let keys = ["message_id", "publisher_id", "event_type", "priority", "payload", "timestamp"];
        assert!(keys.iter().all(|key| message.get(key).is_some()), "{message}");
        assert_eq!(message["_unique_id"].as_str().unwrap().len(), 32);
        assert!(message["_context_request_id"].as_str().unwrap().starts_with("req-"), "{message}");
    }
    let named = |name: &str| messages.iter().find(|message| message["event_type"] == name).unwrap();
    let host = named("instance.create.end")["payload"]["nova_object.data"]["host"].as_str().unwrap().to_owned();
    assert_eq!(named("instance.create.start")["publisher_id"], "nova-api:control");
    assert_eq!(named("instance.create.end")["publisher_id"], json!(format!("nova-compute:{host}")));
    assert_eq!(named("compute.instance.create.end")["publisher_id"], json!(format!("compute.{host}")));
    let state = |name: &str| {
        let data = &named(name)["payload"]["nova_object.data"];
        let text = |key: &str| data[key].as_str().unwrap_or("-").to_owned();
        [text("state"), text("task_state"), text("power_state")]
    };
    assert_eq!(state("instance.create.start"), ["building", "scheduling", "pending"]);
    assert_eq!(state("instance.create.end"), ["active", "-", "running"]);
    assert_eq!(state("instance.power_off.start"), ["active", "powering-off", "running"]);
    assert_eq!(state("instance.power_off.end"), ["stopped", "-", "shutdown"]);
    assert_eq!(state("instance.delete.start")[..2], ["active", "deleting"]);
    assert_eq!(state("instance.delete.end"), ["deleted", "-", "pending"]);
    let data = &named("instance.interface_attach.end")["payload"]["nova_object.data"];
    assert_eq!((&data["uuid"], data["ip_addresses"].as_array().unwrap().len()), (&json!(id), 2));
    api.life.stop().await;
}

/// The scheduler notifies the start of each decision. It notifies the end only if the decision found a host.
#[actix_rt::test]
async fn the_scheduler_notifies_the_beginning_and_the_end_of_each_decision() {
    let api = Api::start_of(World::new(2), "", None).await;
    let flavor = json!({"id": "huge", "name": "huge", "ram": 512, "vcpus": 1, "disk": 1_000_000});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(json!({"flavor": flavor}))).await.status, 200);
    let mut huge = Api::wish("huge");
    huge["flavorRef"] = json!("huge");
    let refused = api.server(ADMIN, huge).await;
    let mut wish = Api::wish("web");
    wish["availability_zone"] = json!("nova");
    let placed = api.server(ADMIN, wish).await;
    act(&api, &placed, json!({"migrate": null})).await;
    act(&api, &placed, json!({"confirmResize": null})).await;
    let all = all_since(&api.life, options(NotificationFormat::Both), Position::START).await;
    let messages: Vec<Value> = all.iter().map(opened).collect();
    let of = |id: &str, subject: &str| -> Vec<String> {
        let data = |message: &Value| match subject {
            "nova-scheduler:control" => message["payload"]["nova_object.data"]["instance_uuid"].clone(),
            _ => message["payload"]["request_spec"]["instance_properties"]["uuid"].clone(),
        };
        let mine = messages.iter().filter(|message| message["publisher_id"] == subject && data(message) == json!(id));
        mine.map(|message| message["event_type"].as_str().unwrap().to_owned()).collect()
    };
    let both = ["scheduler.select_destinations.start", "scheduler.select_destinations.end"];
    for publisher in ["nova-scheduler:control", "scheduler.control"] {
        assert_eq!(of(&placed, publisher), [both, both].concat(), "{publisher}: a build and a migration");
        assert_eq!(of(&refused, publisher), both[..1], "{publisher}");
    }
    let of_placed = |message: &&Value| message["payload"]["nova_object.data"]["instance_uuid"] == json!(placed);
    let start = messages.iter().find(of_placed).unwrap();
    let payload = &start["payload"];
    assert_eq!(
        (&payload["nova_object.name"], &payload["nova_object.version"]),
        (&json!("RequestSpecPayload"), &json!("1.1"))
    );
    let data = &payload["nova_object.data"];
    // The fields of Nova's sample.
    let fields: BTreeSet<&str> = data.as_object().unwrap().keys().map(String::as_str).collect();
    let sample = "availability_zone flavor force_hosts force_nodes ignore_hosts image instance_group instance_uuid \
                  num_instances numa_topology pci_requests project_id requested_destination retry scheduler_hints \
                  security_groups user_id";
    assert_eq!(fields, sample.split_whitespace().collect());
    assert_eq!((&data["availability_zone"], &data["num_instances"]), (&json!("nova"), &json!(1)));
    assert_eq!(data["flavor"]["nova_object.name"], "FlavorPayload");
    assert_eq!(data["image"]["nova_object.data"]["properties"]["nova_object.name"], "ImageMetaPropsPayload");
    api.life.stop().await;
}

/// Name and type of each field, from Nova's `doc/notification_samples`. `?` after a type: the field may be null.
const INSTANCE: &str = "action_initiator_project:s action_initiator_user:s architecture:s? auto_disk_config:s \
     availability_zone:s? block_devices:l created_at:s deleted_at:s? display_description:s? display_name:s flavor:o \
     host:s? host_name:s image_uuid:s ip_addresses:l kernel_id:s key_name:s? launched_at:s? locked:b locked_reason:s? \
     metadata:o node:s? os_type:s? power_state:s progress:n ramdisk_id:s request_id:s? reservation_id:s shares:l state:s \
     task_state:s? tenant_id:s terminated_at:s? updated_at:s? user_id:s uuid:s";

/// Each object's name, version, and the fields in addition to those of an instance.
const OBJECTS: [(&str, &str, &str); 6] = [
    ("InstanceActionPayload", "1.9", "fault:o?"),
    ("InstanceCreatePayload", "1.13", "fault:o? instance_name:s keypairs:l tags:l trusted_image_certificates:l?"),
    ("InstanceActionVolumePayload", "1.7", "fault:o? volume_id:s"),
    ("InstanceActionResizePrepPayload", "1.4", "fault:o? new_flavor:o"),
    ("InstanceUpdatePayload", "2.1", "audit_period:o old_display_name:s? state_update:o tags:l"),
    ("InstanceActionSnapshotPayload", "1.10", "fault:o? snapshot_image_id:s"),
];

/// The objects inside the others.
const PARTS: [(&str, &str, &str); 6] = [
    (
        "FlavorPayload",
        "1.4",
        "description:s? disabled:b ephemeral_gb:n extra_specs:o flavorid:s is_public:b memory_mb:n name:s projects:l? \
         root_gb:n rxtx_factor:n swap:n vcpu_weight:n vcpus:n",
    ),
    ("IpPayload", "1.0", "address:s device_name:s label:s mac:s meta:o port_uuid:s version:n"),
    ("BlockDevicePayload", "1.0", "boot_index:n? delete_on_termination:b device_name:s tag:s? volume_id:s"),
    ("AuditPeriodPayload", "1.0", "audit_period_beginning:s audit_period_ending:s"),
    ("InstanceStateUpdatePayload", "1.0", "new_task_state:s? old_state:s? old_task_state:s? state:s?"),
    ("ExceptionPayload", "1.1", "exception:s exception_message:s function_name:s module_name:s traceback:s"),
];

/// Compares each object below `value` with its table. Collects the names of the objects.
fn compare(value: &Value, seen: &mut BTreeSet<String>) {
    if let Some(name) = value["nova_object.name"].as_str() {
        let whole =
            OBJECTS.iter().find(|object| object.0 == name).map(|object| (object.1, format!("{INSTANCE} {}", object.2)));
        let part = PARTS.iter().find(|object| object.0 == name).map(|object| (object.1, object.2.to_owned()));
        let (version, fields) = whole.or(part).unwrap_or_else(|| panic!("an object {name}"));
        assert_eq!(
            (&value["nova_object.namespace"], &value["nova_object.version"]),
            (&json!("nova"), &json!(version)),
            "{name}"
        );
        let data = value["nova_object.data"].as_object().unwrap();
        let wanted: BTreeMap<&str, &str> =
            fields.split_whitespace().map(|field| field.split_once(':').unwrap()).collect();
        assert_eq!(
            data.keys().map(String::as_str).collect::<BTreeSet<_>>(),
            wanted.keys().copied().collect(),
            "{name}"
        );
        for (key, kind) in wanted {
            let fits = match (&data[key], kind.trim_end_matches('?')) {
                (Value::Null, _) => kind.ends_with('?'),
                (found, "s") => found.is_string(),
                (found, "b") => found.is_boolean(),
                (found, "n") => found.is_number(),
                (found, "l") => found.is_array(),
                (found, _) => found.is_object(),
            };
            assert!(fits, "{name}.{key} is {}", data[key]);
        }
        seen.insert(name.to_owned());
    }
    match value {
        Value::Object(map) => map.values().for_each(|below| compare(below, seen)),
        Value::Array(list) => list.iter().for_each(|below| compare(below, seen)),
        _ => {}
    }
}

#[actix_rt::test]
async fn payloads_have_the_fields_of_novas_samples() {
    let api = Api::start_of(World::new(2), "", None).await;
    api.flavor("2", 256, 1).await;
    let id = lived(&api).await;
    let other = api.server(ADMIN, Api::wish("other")).await;
    act(&api, &other, json!({"resize": {"flavorRef": "2"}})).await;
    act(&api, &other, json!({"confirmResize": null})).await;
    let image = api
        .call("POST", &format!("/servers/{other}/action"), "2.100", ADMIN, Some(json!({"createImage": {"name": "i"}})))
        .await;
    assert_eq!(image.status, 202, "{}", image.body);
    api.life.settled().await;
    act(&api, &other, json!({"os-migrateLive": {"host": null, "block_migration": "auto"}})).await;
    let updates =
        NotificationOptions { state_changes: StateChangeUpdates::VmAndTaskState, ..options(NotificationFormat::Both) };
    let all = all_since(&api.life, updates, Position::START).await;
    let mut seen = BTreeSet::new();
    let mut names = BTreeSet::new();
    for message in all.iter().map(opened) {
        let name = message["event_type"].as_str().unwrap().to_owned();
        if name.starts_with("instance.") {
            compare(&message["payload"], &mut seen);
        } else if !name.starts_with("scheduler.") {
            let keys =
                ["tenant_id", "instance_id", "instance_type", "state", "host", "memory_mb", "created_at", "image_meta"];
            assert!(keys.iter().all(|key| message["payload"].get(key).is_some()), "{message}");
        }
        names.insert(name);
    }
    for name in [
        "InstanceActionPayload",
        "InstanceCreatePayload",
        "InstanceActionResizePrepPayload",
        "InstanceUpdatePayload",
        "InstanceActionSnapshotPayload",
        "FlavorPayload",
        "IpPayload",
        "AuditPeriodPayload",
        "InstanceStateUpdatePayload",
    ] {
        assert!(seen.contains(name), "no {name} in {seen:?}");
    }
    for action in [
        "resize_prep",
        "resize",
        "resize_finish",
        "resize_confirm",
        "snapshot",
        "live_migration_pre",
        "live_migration_post",
        "live_migration_post_dest",
    ] {
        for phase in ["start", "end"] {
            let name = format!("instance.{action}.{phase}");
            assert!(names.contains(&name), "no {name} in {names:?}");
        }
    }
    assert!(names.contains("instance.update") && names.contains("compute.instance.update"));
    assert_ne!(id, other);
    api.life.stop().await;
}

#[actix_rt::test]
async fn formats_topics_levels_and_drivers_are_those_of_the_options() {
    let api = Api::start_of(World::new(1), "", None).await;
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "volume", "volume_size": 1,
        "boot_index": 0});
    let request = json!({"name": "on-a-volume", "flavorRef": "1", "networks": [{"uuid": NETWORK}],
        "block_device_mapping_v2": [root]});
    api.server(ADMIN, request).await;
    lived(&api).await;
    let keys = async |options: NotificationOptions| -> BTreeSet<String> {
        let all = all_since(&api.life, options, Position::START).await;
        all.into_iter().map(|message| message.routing_key).collect()
    };
    let set = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<String>>();
    let unversioned = options(NotificationOptions::default().format);
    assert_eq!(keys(unversioned.clone()).await, set(&["notifications.info"]), "the default");
    let topics = vec!["one".to_owned(), "two".to_owned()];
    let renamed = NotificationOptions { topics: topics.clone(), level: "WARN".to_owned(), ..unversioned };
    assert_eq!(keys(renamed).await, set(&["one.warn", "two.warn"]));
    let versioned = NotificationOptions { versioned_topics: topics, ..options(NotificationFormat::Versioned) };
    assert_eq!(keys(versioned).await, set(&["one.info", "two.info"]));
    let plain = NotificationOptions {
        drivers: vec![NotificationDriver::Messaging],
        block_devices: false,
        state_changes: StateChangeUpdates::VmState,
        ..options(NotificationFormat::Versioned)
    };
    // Without an envelope, and with updates of the vm_state alone.
    let all = all_since(&api.life, plain, Position::START).await;
    let bodies: Vec<Value> = all.iter().map(|message| serde_json::from_str(&message.body).unwrap()).collect();
    let updates: Vec<&Value> = bodies.iter().filter(|body| body["event_type"] == "instance.update").collect();
    let moves: Vec<(&str, &str)> = updates
        .iter()
        .map(|body| &body["payload"]["nova_object.data"]["state_update"]["nova_object.data"])
        .map(|state| (state["old_state"].as_str().unwrap(), state["state"].as_str().unwrap()))
        .collect();
    let building = moves.iter().filter(|(old, _)| *old == "building").count();
    assert!(
        building >= 1 && moves.contains(&("active", "stopped")) && moves.contains(&("stopped", "active")),
        "{moves:?}"
    );
    assert!(moves.last().is_some_and(|(_, new)| *new == "deleted"), "{moves:?}");
    assert!(!moves.contains(&("active", "active")), "a change of the task_state alone is sent: {moves:?}");
    for body in bodies.iter().filter(|body| !body["event_type"].as_str().unwrap().starts_with("scheduler.")) {
        assert_eq!(body["payload"]["nova_object.data"]["block_devices"], json!([]), "{body}");
    }
    let of_tasks = NotificationOptions {
        state_changes: StateChangeUpdates::VmAndTaskState,
        ..options(NotificationFormat::Versioned)
    };
    let all: Vec<Value> = all_since(&api.life, of_tasks, Position::START).await.iter().map(opened).collect();
    let devices =
        |message: &Value| message["payload"]["nova_object.data"]["block_devices"][0]["nova_object.name"].clone();
    assert!(all.iter().any(|message| devices(message) == "BlockDevicePayload"), "no volume in {all:?}");
    let updates = all.iter().filter(|message| message["event_type"] == "instance.update");
    let mut states = updates.map(|message| &message["payload"]["nova_object.data"]["state_update"]["nova_object.data"]);
    let powering_off = json!({"old_state": "active", "state": "active", "old_task_state": null,
        "new_task_state": "powering-off"});
    assert!(states.any(|state| *state == powering_off), "no update of the task_state alone");
    api.life.stop().await;
}

/// The messages without repetitions, in the order of their first arrival.
fn without_doubles(kept: &[OutgoingNotification]) -> Vec<OutgoingNotification> {
    let mut seen = BTreeSet::new();
    kept.iter().filter(|message| seen.insert(message.id)).cloned().collect()
}

/// The publisher is killed after each message, and right before and after its first three records.
#[actix_rt::test]
async fn a_crash_loses_and_reorders_nothing() {
    let api = Api::start_of(World::new(2), "", None).await;
    lived(&api).await;
    let whole = all_since(&api.life, options(NotificationFormat::Both), Position::START).await;
    assert!(whole.len() > 20, "{}", whole.len());
    let end = api.life.store.head();
    let last = last_change(&api.life, end).await;
    api.life.stop().await;
    for budget in 0..=whole.len() {
        let broker = Broker::default();
        crash(&api.world, &broker, Some(budget), None, last).await;
        crash(&api.world, &broker, None, None, last).await;
        let kept = broker.kept.lock().unwrap().clone();
        assert_eq!(without_doubles(&kept), whole, "after {budget} messages");
    }
    for fuse in 1..=3 {
        for loses in [false, true] {
            let broker = Broker::default();
            crash(&api.world, &broker, None, Some((fuse, loses)), last).await;
            crash(&api.world, &broker, None, None, last).await;
            let kept = broker.kept.lock().unwrap().clone();
            assert_eq!(without_doubles(&kept), whole, "crash at append {fuse}, append lost: {loses}");
        }
    }
}

/// One life of the publisher, until the broker is gone, the log's fuse blows, or everything is published. A broker
/// that has nothing yet gets the whole log from its start. Nothing else runs on the log.
async fn crash(world: &World, broker: &Broker, budget: Option<usize>, fuse: Option<(u64, bool)>, last: u64) {
    *broker.budget.lock().unwrap() = budget;
    let store = FuseStore::new(Arc::clone(&world.log) as Arc<dyn EventStore>, None);
    let log = Arc::clone(&store) as Arc<dyn EventStore>;
    let member = Member::start(Arc::clone(&log), Arc::new(SystemClock), Views::default()).await.unwrap();
    let gateway = Leadership::take(&member, 1).unwrap().gateway;
    if broker.kept.lock().unwrap().is_empty() {
        for command in [NotificationCommand::End, NotificationCommand::Begin { after: Position::START }] {
            let meta = Meta::system("test");
            gateway.send::<NotificationOutboxRoot>(&NotificationOutboxId, command, meta).await.unwrap();
        }
    }
    if let Some((append, loses)) = fuse {
        if loses {
            store.lose();
        }
        store.arm(Some(append));
    }
    let publisher = NotificationPublisher {
        gateway: Arc::clone(&gateway),
        log,
        options: options(NotificationFormat::Both),
        servers: Arc::default(),
        transport: Some(Box::new(broker.clone())),
    };
    let run = tokio::spawn(publisher.run());
    let done = async {
        loop {
            let outbox = gateway.look::<NotificationOutboxRoot>(&NotificationOutboxId).await;
            if store.is_blown() || outbox.is_ok_and(|outbox| outbox.published.is_some_and(|at| at >= last)) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = broker.gone.notified() => {}
        () = done => {}
    }
    run.abort();
    let _ended = run.await;
    gateway.stop();
    member.stop().await;
}

#[actix_rt::test]
async fn notifications_begin_where_they_are_turned_on() {
    let api = Api::start_of(World::new(2), "", None).await;
    lived(&api).await;
    let broker = Broker::default();
    let run = tokio::spawn(publisher(&api.life, options(NotificationFormat::Versioned), &broker).run());
    while api
        .life
        .context()
        .gateway
        .look::<NotificationOutboxRoot>(&NotificationOutboxId)
        .await
        .unwrap()
        .published
        .is_none()
    {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let id = api.server(ADMIN, Api::wish("later")).await;
    while broker.kept.lock().unwrap().len() < 4 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    run.abort();
    let kept: Vec<Value> = broker.kept.lock().unwrap().iter().map(opened).collect();
    let mine = |message: &Value| {
        let data = &message["payload"]["nova_object.data"];
        [&data["uuid"], &data["instance_uuid"]].contains(&&json!(id))
    };
    assert!(kept.iter().all(mine), "{kept:?}");
    // A publisher that runs without a transport turns notifications off: the outbox forgets its position.
    let off = NotificationOptions::default();
    NotificationPublisher { transport: None, ..publisher(&api.life, off, &broker) }.run().await;
    let outbox = api.life.context().gateway.look::<NotificationOutboxRoot>(&NotificationOutboxId).await.unwrap();
    assert_eq!(outbox.published, None);
    api.life.stop().await;
}
