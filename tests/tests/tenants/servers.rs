//! Servers: number per request, filter patterns, image properties, and the rotation of backups.

use chronova_actors::ports::ImageDraft;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use serde_json::{Value, json};

use super::{OWNER, STRANGER, is};

/// The peak memory of this process, in KiB: proc(5), `VmHWM`.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn ask_for(api: &Api, least: u64, most: u64) -> Answer {
    let mut request = Api::wish("many");
    request["min_count"] = json!(least);
    request["max_count"] = json!(most);
    api.call("POST", "/servers", "2.1", OWNER, Some(json!({"server": request}))).await
}

/// Allocating the ids of all requested servers before the quota check would take 250 MB.
#[actix_rt::test]
async fn a_count_beyond_the_quota_takes_no_memory() {
    let api = Api::start().await;
    let before = peak_kib();
    let refused = ask_for(&api, 8_000_000, 8_000_000).await;
    is(&refused, 403, "Quota exceeded for cores, instances, ram: Requested 8000000, 8000000, 4096000000");
    assert!(peak_kib() - before < 64 << 10, "{} KiB more", peak_kib() - before);
    // The request still creates as many servers as the quota allows.
    assert_eq!(ask_for(&api, 1, 8_000_000).await.status, 202);
    assert!(peak_kib() - before < 64 << 10, "{} KiB more", peak_kib() - before);
    api.life.settled().await;
    let made = api.call("GET", "/servers", "2.1", OWNER, None).await;
    assert_eq!(made.body["servers"].as_array().unwrap().len(), 10, "not Nova's default quota");
    api.stop().await;
}

#[actix_rt::test]
async fn without_a_quota_the_number_of_servers_in_a_request_is_bounded() {
    let api = Api::start().await;
    let lift = json!({"quota_set": {"instances": -1, "cores": -1, "ram": -1}});
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(lift)).await.status, 200);
    is(&ask_for(&api, 1, 100_000).await, 400, "max_count");
    let none = api.call("GET", "/servers", "2.1", OWNER, None).await;
    assert_eq!(none.body["servers"], json!([]));
    api.stop().await;
}

async fn named(api: &Api, query: &[(&str, &str)]) -> (u16, Vec<String>) {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
    let pairs: Vec<String> = query.iter().map(|(key, value)| format!("&{key}={}", encoded(value))).collect();
    let text = pairs.concat();
    let answer =
        api.call("GET", &format!("/servers?sort_key=display_name&sort_dir=asc{text}"), "2.90", OWNER, None).await;
    let servers = answer.body["servers"].as_array().cloned().unwrap_or_default();
    (answer.status, servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect())
}

#[actix_rt::test]
async fn expensive_patterns_are_refused() {
    let api = Api::start().await;
    for name in ["web-1", "WEB-2", "db.1"] {
        api.server(OWNER, Api::wish(name)).await;
    }
    let look_ahead = r"(?=\w{100})".repeat(1_000);
    let long = "a?".repeat(2_000);
    for pattern in [&*look_ahead, r"(?=\w{100})", r"(a+)+\1$", r"(\w{1000}){1000}", r"(.{9}){999999}", &long, "("] {
        for key in ["name", "ip", "ip6", "reservation_id", "key_name", "power_state", "created_at", "availability_zone"]
        {
            let (status, _) = named(&api, &[(key, pattern)]).await;
            assert_eq!(status, 400, "{key} {}", &pattern[..pattern.len().min(20)]);
        }
    }
    // Patterns of MySQL's REGEXP work.
    for (pattern, found) in [
        ("web", &["WEB-2", "web-1"][..]),
        ("^w.*[0-9]$", &["WEB-2", "web-1"]),
        ("-1|db", &["db.1", "web-1"]),
        (r"b\.1", &["db.1"]),
        ("^.{4}$", &["db.1"]),
        (r"^[[:alpha:]]+-\d$", &["WEB-2", "web-1"]),
        (r"^\w+\W\d+$", &["WEB-2", "db.1", "web-1"]),
        ("(w|d)(e|b)", &["WEB-2", "db.1", "web-1"]),
        ("x*", &["WEB-2", "db.1", "web-1"]),
    ] {
        assert_eq!(
            named(&api, &[("name", pattern)]).await,
            (200, found.iter().map(|&f| f.to_owned()).collect()),
            "{pattern}"
        );
    }
    api.stop().await;
}

#[actix_rt::test]
async fn an_image_does_not_set_what_the_flavor_limits() {
    let api = Api::start().await;
    let specs = json!({"extra_specs": {"quota:disk_total_iops_sec": "100"}});
    assert_eq!(api.call("POST", "/flavors/1/os-extra_specs", "2.1", ADMIN, Some(specs)).await.status, 200);
    let image = api
        .image(&[
            ("quota:disk_total_iops_sec", "1000000"),
            ("quota:cpu_shares", "262144"),
            ("hw:watchdog_action", "reset"),
            ("hw_rng:rate_bytes", "1000000000"),
            ("hide_hypervisor_id", "true"),
            ("hw_disk_bus", "scsi"),
            ("os_type", "linux"),
            ("colour", "blue"),
        ])
        .await;
    let mut request = Api::wish("greedy");
    request["imageRef"] = json!(image);
    let server: InstanceId = api.server(OWNER, request).await.parse().unwrap();
    let mut hardware = api.world.brakes.guest(server).unwrap().hardware;
    hardware.sort();
    let said: Vec<(&str, &str)> = hardware.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // The machine type is the one that the server has recorded.
    let expected = [
        ("hw_disk_bus", "scsi"),
        ("hw_machine_type", "pc"),
        ("os_type", "linux"),
        ("quota:disk_total_iops_sec", "100"),
    ];
    assert_eq!(said, expected);
    api.stop().await;
}

/// An image of another project that claims to be a backup of the server.
async fn false_backup(api: &Api, server: &str) -> ImageId {
    let (image, images) = (ImageId::random(), &api.life.operations().queries().images);
    let says = [("instance_uuid", server), ("image_type", "backup"), ("backup_type", "daily")];
    let draft = ImageDraft {
        image,
        name: "b".to_owned(),
        owner: ProjectId::new("elsewhere"),
        format: "qcow2".to_owned(),
        min_disk_gib: 0,
        min_memory_mib: 0,
        properties: says.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    };
    images.create(draft, Meta::system("test")).await.unwrap();
    let bytes = futures::stream::iter([Ok(bytes::Bytes::from_static(b"false"))]);
    images.upload(image, Box::pin(bytes), Meta::system("test")).await.unwrap();
    image
}

#[actix_rt::test]
async fn a_strangers_images_push_no_backups_out() {
    let api = Api::start().await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let backup = async |token: &str| {
        let body = json!({"createBackup": {"name": "b", "backup_type": "daily", "rotation": 2}});
        let made = api.call("POST", &format!("/servers/{server}/action"), "2.45", token, Some(body)).await;
        assert_eq!(made.status, 202, "{}", made.body);
        api.life.settled().await;
        made.body["image_id"].as_str().unwrap().parse::<ImageId>().unwrap()
    };
    let first = backup(OWNER).await;
    let strange = [false_backup(&api, &server).await, false_backup(&api, &server).await];
    let second = backup(OWNER).await;
    let kept = api.world.images.made();
    assert!(kept.contains_key(&first) && kept.contains_key(&second), "a backup to keep is deleted");
    assert!(strange.iter().all(|image| kept.contains_key(image)), "an image of the stranger is deleted");
    // Backups that an administrator makes of the server belong to the administrator's project.
    let theirs = [backup(ADMIN).await, backup(ADMIN).await, backup(ADMIN).await];
    let kept = api.world.images.made();
    assert!(kept.contains_key(&first) && kept.contains_key(&second));
    assert_eq!(theirs.map(|image| kept.contains_key(&image)), [false, true, true]);
    let list: Value = api.call("GET", "/servers", "2.1", STRANGER, None).await.body;
    assert_eq!(list["servers"], json!([]));
    api.stop().await;
}

/// A server of another project is no marker of a list, so it cannot be told from a server that does not exist.
#[actix_rt::test]
async fn the_usage_of_a_project_names_no_server_of_another() {
    let api = Api::start().await;
    let own = api.server(OWNER, Api::wish("own")).await;
    let foreign = api.server(STRANGER, Api::wish("foreign")).await;
    let usage = async |marker: &str| {
        let window = "start=2020-01-01T00:00:00&end=2100-01-01T00:00:00";
        let path = format!("/os-simple-tenant-usage/web?{window}&marker={marker}");
        api.call("GET", &path, "2.40", OWNER, None).await
    };
    assert_eq!(usage(&own).await.status, 200);
    for marker in [foreign.as_str(), "00000000-0000-0000-0000-000000000000"] {
        is(&usage(marker).await, 400, &format!("Marker {marker} could not be found."));
    }
    api.stop().await;
}
