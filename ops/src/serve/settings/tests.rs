//! What is written in a file reaches those who heed it.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::config::{Machine, load_on};

fn config(text: &str) -> Config {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let machine = Machine { host_name: "control-1".to_owned(), host_address: "192.0.2.7".to_owned() };
    load_on(&machine, &[file.path().to_owned()]).unwrap().config
}

/// Nothing is permitted that Nova does not permit by default.
#[test]
fn live_migrations_are_as_the_file_says() {
    let plain = actors(&config("")).live;
    assert_eq!(plain, LiveOptions::default());
    assert!(!plain.permit_auto_converge && !plain.permit_post_copy && !plain.native_tls && !plain.tunnelled);
    let text = "[DEFAULT]\nmax_concurrent_live_migrations = 3\n[libvirt]\nlive_migration_permit_auto_converge = true\n\
                live_migration_permit_post_copy = true\nlive_migration_with_native_tls = true\n\
                live_migration_scheme = tls\nlive_migration_inbound_addr = %s.migration\nlive_migration_bandwidth = 9\n\
                live_migration_timeout_action = force_complete\nlive_migration_completion_timeout = 0\n";
    let set = actors(&config(text)).live;
    let expected = LiveOptions {
        per_host: 3,
        permit_auto_converge: true,
        permit_post_copy: true,
        native_tls: true,
        scheme: Some("tls".to_owned()),
        inbound_addr: Some("%s.migration".to_owned()),
        bandwidth: 9,
        force_at_timeout: true,
        completion_timeout: 0,
        ..LiveOptions::default()
    };
    assert_eq!(set, expected);
    assert!(actors(&config("[libvirt]\nlive_migration_tunnelled = true\n")).live.tunnelled);
}

#[test]
fn screens_are_as_the_file_says() {
    let listens = |text: &str| drivers(&config(text)).libvirt.screens.vnc;
    assert_eq!(listens("").as_deref(), Some("127.0.0.1"));
    assert_eq!(listens("[vnc]\nserver_listen = 0.0.0.0\n").as_deref(), Some("0.0.0.0"));
    assert_eq!(listens("[vnc]\nserver_listen = 0.0.0.0\nenabled = false\n"), None);
    assert!(!compute(&config("[vnc]\nenabled = false\n")).config.consoles.vnc, "and nobody is sent to one");
}

#[test]
fn cpus_are_as_the_file_says() {
    let mode = |word: &str| drivers(&config(&format!("[libvirt]\ncpu_mode = {word}\n"))).libvirt.cpu_mode;
    assert_eq!(mode("host-passthrough"), Some(CpuMode::HostPassthrough));
    assert_eq!(mode("host-model"), Some(CpuMode::HostModel));
    assert_eq!(mode("none"), Some(CpuMode::None));
    let custom = drivers(&config("[libvirt]\ncpu_mode = custom\ncpu_models = IvyBridge,Nehalem\n")).libvirt;
    assert_eq!(
        (custom.cpu_mode, custom.cpu_models),
        (Some(CpuMode::Custom), vec!["IvyBridge".into(), "Nehalem".into()])
    );
    assert_eq!(drivers(&config("")).libvirt.cpu_mode, None, "the driver's own choice");
}

#[test]
fn what_new_servers_get_is_as_the_file_says() {
    let plain = compute(&config("")).config;
    assert!(plain.enable_instance_password && !plain.force_config_drive);
    assert_eq!((plain.default_schedule_zone, plain.max_local_block_devices), (None, 3));
    let text = "[api]\nenable_instance_password = false\n[DEFAULT]\nforce_config_drive = true\n\
                default_schedule_zone = north\nmax_local_block_devices = 0\nshutdown_timeout = 9\n\
                [compute]\nmax_disk_devices_to_attach = 4\n";
    let set = compute(&config(text)).config;
    assert!(!set.enable_instance_password && set.force_config_drive);
    assert_eq!((set.default_schedule_zone.as_deref(), set.max_local_block_devices), (Some("north"), 0));
    assert_eq!((set.max_disk_devices, plain.max_disk_devices), (Some(4), None));
    let options = actors(&config(text));
    assert_eq!((options.servers.shutdown_timeout, options.servers.max_disk_devices), (9, Some(4)));
    assert_eq!(actors(&config("")).servers.max_disk_devices, None);
}

/// `[api] vendordata_jsonfile_path`: a file that is not as it should be stops the start, and says which and why.
#[test]
fn what_all_guests_are_told_is_a_file_that_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vendor.json");
    let told = || {
        let config = config(&format!("[api]\nvendordata_jsonfile_path = {}\n", path.display()));
        metadata(&config).map(|options| options.vendor_data).map_err(|error| format!("{error:#}"))
    };
    let missing = told().unwrap_err();
    assert!(
        missing.contains(&format!("[api] vendordata_jsonfile_path: {} cannot be read", path.display())),
        "{missing}"
    );
    for wrong in ["", "nonsense", "[1, 2]", "\"text\"", "{\"a\": }"] {
        std::fs::write(&path, wrong).unwrap();
        let error = told().unwrap_err();
        assert!(error.contains("holds no JSON object"), "{wrong}: {error}");
    }
    std::fs::write(&path, "{\"ntp\": [\"10.0.0.1\"]}").unwrap();
    let good = told().unwrap();
    assert_eq!(good.as_deref(), Some(&serde_json::json!({"ntp": ["10.0.0.1"]})));
    // Read once: what becomes of the file later changes nothing of it.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(good.as_deref(), Some(&serde_json::json!({"ntp": ["10.0.0.1"]})));
}

#[test]
fn listeners_are_found_in_novas_words_too() {
    let all = |text: &str| -> Vec<(String, Option<Service>)> {
        let found = listeners(&config(text)).unwrap();
        found.iter().map(|listener| (listener.address.to_string(), listener.only)).collect()
    };
    let common = ("127.0.0.1:8774".to_owned(), None);
    assert_eq!(all(""), std::slice::from_ref(&common));
    assert_eq!(
        all("[DEFAULT]\nmetadata_listen = 192.0.2.1\nmetadata_listen_port = 0\n"),
        std::slice::from_ref(&common)
    );
    let nova = "[DEFAULT]\nmetadata_listen = ::1\nmetadata_listen_port = 8775\nosapi_compute_listen_port = 9774\n";
    let compute = ("0.0.0.0:9774".to_owned(), Some(Service::Compute));
    let metadata = |address: &str| (address.to_owned(), Some(Service::Metadata));
    assert_eq!(all(nova), [common.clone(), compute.clone(), metadata("[::1]:8775")]);
    let both = format!("{nova}[chronova]\nmetadata_listen = 192.0.2.1:1\n");
    assert_eq!(all(&both), [common, compute, metadata("192.0.2.1:1")], "ours win");
}

#[test]
fn how_guests_are_known_is_as_the_file_says() {
    let plain = web(&config("")).metadata;
    assert!(plain.proxy_secret.is_none() && !plain.use_forwarded_for);
    let unused =
        web(&config("[neutron]\nmetadata_proxy_shared_secret = s\n[api]\nuse_forwarded_for = true\n")).metadata;
    assert!(unused.proxy_secret.is_none() && unused.use_forwarded_for, "the proxy is off");
    let text = "[neutron]\nservice_metadata_proxy = true\nmetadata_proxy_shared_secret = s\n";
    assert_eq!(web(&config(text)).metadata.proxy_secret, Some(Secret::new("s")));
}

#[test]
fn providers_of_vendor_data_are_as_the_file_says() {
    let told = |text: &str| metadata(&config(&format!("[api]\n{text}\n"))).map_err(|error| format!("{error:#}"));
    let providers = |text: &str| told(text).map(|told| (told.vendor_data.is_some(), told.dynamic.is_some()));
    assert_eq!(providers(""), Ok((true, false)));
    assert_eq!(providers("vendordata_providers = DynamicJSON"), Ok((false, true)));
    assert_eq!(providers("vendordata_providers = StaticJSON,DynamicJSON"), Ok((true, true)));
    let lacking = "vendordata_providers = DynamicJSON\nvendordata_dynamic_ssl_certfile = /nowhere/ca.pem";
    assert!(providers(lacking).unwrap_err().contains("/nowhere/ca.pem"));
}
