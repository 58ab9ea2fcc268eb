//! Tests that values in a file reach the fields that take them.

#![allow(clippy::unwrap_used)]

use chronova_actors::notifications::NotificationFormat;
use chronova_actors::process::options::LiveOptions;
use chronova_hypervisor::options::CpuMode;
use chronova_web::auth::Secret;
use chronova_web::console::{VncScheme, VncSecurity};

use super::*;
use crate::config::ini::{ConfigLine, IniAssignment};
use crate::config::options::SECTIONS;
use crate::config::values::Values;
use crate::config::{Config, MachineDefaults, OptionDef, OptionType, load_on};

fn targets(text: &str) -> Targets {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let machine = MachineDefaults { host_name: "control-1".to_owned(), host_address: "192.0.2.7".to_owned() };
    load_on(&machine, &[file.path().to_owned()]).unwrap().config.targets()
}

/// The targets where at most one option is set and everything else has its default.
fn with(set: Option<(&'static OptionDef, &str)>) -> Targets {
    let machine = MachineDefaults { host_name: "control-1".to_owned(), host_address: "192.0.2.7".to_owned() };
    let mut problems = Vec::new();
    let mut values = Values::new(&machine, &mut problems);
    if let Some((def, value)) = set {
        let place = ConfigLine { file: "one.conf".into(), line: 1 };
        let (section, key) = (def.section.to_owned(), def.name.to_owned());
        values.assign(def, IniAssignment { section, key, value: value.to_owned(), place });
    }
    let config = Config::read(&mut values);
    assert!(problems.is_empty(), "{problems:?}");
    config.unwrap().targets()
}

fn with_one(def: &'static OptionDef, value: &str) -> Targets {
    with(Some((def, value)))
}

/// A valid value other than the default.
fn another(def: &OptionDef) -> String {
    let default = def.owner_default();
    match (def.section, def.name) {
        ("DEFAULT", "instance_name_template") => return "guest-%d".to_owned(),
        ("chronova", "trusted_proxies" | "reserved_networks") => return "192.0.2.0/24".to_owned(),
        ("libvirt", "hw_machine_type") => return "x86_64=q35".to_owned(),
        ("filter_scheduler", "image_props_weight_setting") | ("metrics", "weight_setting") => return "a=2".to_owned(),
        _ => {}
    }
    if let Some(choice) = def.choices.iter().find(|choice| default.as_deref() != Some(**choice)) {
        return (*choice).to_owned();
    }
    match def.kind {
        OptionType::Boolean => (default.as_deref() != Some("true")).to_string(),
        OptionType::Integer => {
            let default: i64 = default.and_then(|text| text.parse().ok()).unwrap_or_default();
            (default + 7).to_string()
        }
        OptionType::Float => "17.5".to_owned(),
        OptionType::Path => "/another".to_owned(),
        OptionType::Text | OptionType::List | OptionType::Words | OptionType::Multi => "another".to_owned(),
    }
}

/// Each field that a declaration names takes the value.
#[test]
fn every_value_reaches_the_fields_that_its_declaration_names() {
    let mut reached = 0;
    for def in SECTIONS.iter().copied().flatten() {
        let value = another(def);
        let plain = def.uses.iter().any(|one| matches!(one, OptionUse::Field(_))).then(|| with_one(def, &value));
        for (one, targets) in def.uses.iter().zip(plain.iter().cycle()) {
            let OptionUse::Field(text) = one else { continue };
            // The field says only whether the number is above zero, so the number cannot be read back.
            if def.name == "consecutive_build_service_disable_threshold" {
                assert!(!with_one(def, "0").runtime.scheduler.counts_build_failures);
                continue;
            }
            assert_ne!(text(owners()).as_ref(), Some(&value), "{} is not another value", def.title());
            assert_eq!(text(targets), Some(value.clone()), "{}", def.title());
            reached += 1;
        }
    }
    assert!(reached > 150, "{reached}");
}

/// No two options share a field, so that none overwrites another.
#[test]
fn an_option_changes_the_fields_of_no_other() {
    let all = || SECTIONS.iter().copied().flatten();
    let fields = |def: &'static OptionDef, targets: &Targets| -> Vec<Option<String>> {
        let text = |one: &OptionUse| if let OptionUse::Field(text) = one { text(targets) } else { None };
        def.uses.iter().map(text).collect()
    };
    let plain = with(None);
    // Without `[vnc] enabled`, the field of `server_listen` is `None`.
    let alone = |def: &&OptionDef| (def.section, def.name) != ("vnc", "enabled");
    for def in all().filter(|def| matches!(def.uses, [OptionUse::Field(_), ..])).filter(alone) {
        let targets = with_one(def, &another(def));
        for other in all().filter(|other| !std::ptr::eq(*other, def)) {
            assert_eq!(fields(other, &plain), fields(other, &targets), "{} and {}", def.title(), other.title());
        }
    }
}

/// The defaults permit nothing that Nova's defaults forbid.
#[test]
fn options_of_live_migrations_reach_the_driver() {
    let plain = targets("").runtime.live;
    assert_eq!(plain, LiveOptions::default());
    assert!(!plain.permit_auto_converge && !plain.permit_post_copy && !plain.native_tls && !plain.tunnelled);
    assert!(!plain.force_at_timeout, "a late migration must be aborted");
    let text = "[DEFAULT]\nmax_concurrent_live_migrations = 3\n[libvirt]\nlive_migration_permit_auto_converge = true\n\
                live_migration_permit_post_copy = true\nlive_migration_with_native_tls = true\n\
                live_migration_scheme = tls\nlive_migration_inbound_addr = %s.migration\nlive_migration_bandwidth = 9\n\
                live_migration_timeout_action = force_complete\nlive_migration_completion_timeout = 0\n";
    let set = targets(text).runtime.live;
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
    assert!(targets("[libvirt]\nlive_migration_tunnelled = true\n").runtime.live.tunnelled);
}

#[test]
fn options_of_consoles_reach_the_driver_and_the_api() {
    let listens = |text: &str| targets(text).drivers.libvirt.screens.vnc;
    assert_eq!(listens("").as_deref(), Some("127.0.0.1"));
    assert_eq!(listens("[vnc]\nserver_listen = 0.0.0.0\n").as_deref(), Some("0.0.0.0"));
    assert_eq!(listens("[vnc]\nserver_listen = 0.0.0.0\nenabled = false\n"), None);
    assert!(!targets("[vnc]\nenabled = false\n").compute.consoles.vnc, "no user may be sent to a VNC console");
    let set = targets("[vnc]\nserver_proxyclient_address = %s.example\nnovncproxy_base_url = https://cloud/vnc.html\n");
    assert_eq!(set.drivers.libvirt.vnc_address.as_deref(), Some("%s.example"));
    assert_eq!(set.compute.consoles.novnc_url, "https://cloud/vnc.html");
    let set = targets("[spice]\nserver_proxyclient_address = %s.spice\n").drivers.libvirt;
    assert_eq!((set.spice_address.as_deref(), set.vnc_address), (Some("%s.spice"), None));
    let plain = targets("").compute.consoles;
    assert_eq!((plain.vnc_security.schemes, plain.record), (vec![VncScheme::None], None));
    let set = targets(
        "[DEFAULT]\nrecord = /var/log/console\n[vnc]\nauth_schemes = vencrypt, none\n\
         vencrypt_client_key = /pki/client-key.pem\nvencrypt_client_cert = /pki/client-cert.pem\n\
         vencrypt_ca_certs = /pki/ca-cert.pem\n",
    );
    let security = VncSecurity {
        schemes: vec![VncScheme::Vencrypt, VncScheme::None],
        client_key: Some("/pki/client-key.pem".into()),
        client_certificate: Some("/pki/client-cert.pem".into()),
        authorities: Some("/pki/ca-cert.pem".into()),
    };
    assert_eq!(set.compute.consoles.vnc_security, security);
    assert_eq!(set.compute.consoles.record.as_deref(), Some(std::path::Path::new("/var/log/console")));
}

#[test]
fn options_of_cpus_reach_the_driver() {
    let mode = |word: &str| targets(&format!("[libvirt]\ncpu_mode = {word}\n")).drivers.libvirt.cpu_mode;
    assert_eq!(mode("host-passthrough"), Some(CpuMode::HostPassthrough));
    assert_eq!(mode("host-model"), Some(CpuMode::HostModel));
    assert_eq!(mode("none"), Some(CpuMode::None));
    let custom = targets("[libvirt]\ncpu_mode = custom\ncpu_models = IvyBridge,Nehalem\n").drivers.libvirt;
    assert_eq!(
        (custom.cpu_mode, custom.cpu_models),
        (Some(CpuMode::Custom), vec!["IvyBridge".into(), "Nehalem".into()])
    );
    assert_eq!(targets("").drivers.libvirt.cpu_mode, None, "without cpu_mode, the driver must choose");
    let named = targets("[chronova]\nhost_cpu_models = n1=EPYC,Nehalem; n2=IvyBridge\n").drivers.libvirt;
    assert_eq!(named.cpus_of("n1"), (Some(CpuMode::Custom), &["EPYC".to_owned(), "Nehalem".to_owned()][..]));
    assert_eq!(named.cpus_of("n3"), (None, &[][..]));
}

#[test]
fn formats_and_topics_of_notifications_reach_their_fields() {
    let plain = targets("").runtime.notifications;
    assert_eq!(plain.format, NotificationFormat::Unversioned);
    assert_eq!(
        (plain.topics, plain.versioned_topics),
        (vec!["notifications".into()], vec!["versioned_notifications".into()])
    );
    for (word, expected) in [
        ("unversioned", NotificationFormat::Unversioned),
        ("versioned", NotificationFormat::Versioned),
        ("both", NotificationFormat::Both),
    ] {
        let topics = "versioned_notifications_topics = one, two";
        let set = targets(&format!("[notifications]\nnotification_format = {word}\n{topics}\n")).runtime.notifications;
        assert_eq!((set.format, set.versioned_topics), (expected, vec!["one".into(), "two".into()]));
    }
}

#[test]
fn options_of_new_servers_reach_their_fields() {
    let plain = targets("").compute;
    assert!(plain.enable_instance_password && !plain.force_config_drive);
    assert_eq!((plain.default_schedule_zone, plain.max_local_block_devices), (None, 3));
    let text = "[api]\nenable_instance_password = false\n[DEFAULT]\nforce_config_drive = true\n\
                default_schedule_zone = north\nmax_local_block_devices = 0\nshutdown_timeout = 9\n\
                [compute]\nmax_disk_devices_to_attach = 4\n[glance]\nunchecked_certificates = true\n";
    let set = targets(text).compute;
    assert!(!set.enable_instance_password && set.force_config_drive);
    assert_eq!((set.default_schedule_zone.as_deref(), set.max_local_block_devices), (Some("north"), 0));
    assert!(set.unchecked_certificates && !plain.unchecked_certificates);
    assert_eq!((set.max_disk_devices, plain.max_disk_devices), (Some(4), None));
    let runtime = targets(text).runtime;
    assert_eq!((runtime.servers.shutdown_timeout, runtime.servers.max_disk_devices), (9, Some(4)));
    assert_eq!(targets("").runtime.servers.max_disk_devices, None);
    let skipped =
        targets("[api]\nconfig_drive_skip_versions = 1.0 2009-04-04\n").runtime.servers.metadata.skipped_versions;
    assert_eq!(skipped, ["1.0", "2009-04-04"]);
}

/// A ratio that is set overwrites the inventory at each report. An initial ratio is only for new hosts.
#[test]
fn ratios_that_are_set_are_imposed_and_initial_ratios_are_not() {
    let ratios = |text: &str| {
        let hosts = targets(text).runtime.hosts;
        let initial = (hosts.cpu_allocation_ratio, hosts.ram_allocation_ratio, hosts.disk_allocation_ratio);
        (initial, hosts.imposed_ratios)
    };
    let nothing = Vec::<(String, f64)>::new();
    assert_eq!(ratios(""), ((4.0, 1.0, 1.0), nothing.clone()));
    let text = "[DEFAULT]\ninitial_cpu_allocation_ratio = 16.0\ninitial_ram_allocation_ratio = 1.5\n\
                initial_disk_allocation_ratio = 2.0\n";
    assert_eq!(ratios(text), ((16.0, 1.5, 2.0), nothing));
    let text = "[DEFAULT]\ncpu_allocation_ratio = 2.5\nram_allocation_ratio = 1.25\ndisk_allocation_ratio = 3.0\n";
    let imposed =
        [("DISK_GB", 3.0), ("MEMORY_MB", 1.25), ("VCPU", 2.5)].map(|(class, ratio)| (class.to_owned(), ratio));
    assert_eq!(ratios(text), ((2.5, 1.25, 3.0), imposed.to_vec()));
}

#[test]
fn the_time_after_which_resizes_are_confirmed_reaches_its_field() {
    let window = |text: &str| targets(text).runtime.reconcile.resize_confirm_window;
    assert_eq!(window(""), std::time::Duration::ZERO);
    assert_eq!(window("[DEFAULT]\nresize_confirm_window = 9\n"), std::time::Duration::from_secs(9));
}

#[test]
fn certificates_of_the_configuration_are_recorded_if_both_checks_are_on() {
    let ids = "[keystone_authtoken]\nauth_url = http://controller:5000\nauth_type = password\nusername = nova\n\
               password = s\nuser_domain_name = Default\nproject_name = service\nproject_domain_name = Default\n\
               [glance]\ndefault_trusted_certificate_ids = a,b\nenable_certificate_validation = true\n";
    let plain = targets("").runtime.signatures;
    assert!(!plain.verify && !plain.validate_certificates);
    let half = targets(ids);
    assert_eq!(half.runtime.signatures.default_trusted, ["a", "b"]);
    assert!(half.runtime.signatures.validate_certificates && !half.runtime.signatures.verify);
    assert_eq!(half.compute.default_trusted_certificates, [""; 0]);
    let whole = targets(&format!("{ids}verify_glance_signatures = true\n"));
    assert_eq!(whole.compute.default_trusted_certificates, ["a", "b"]);
    assert!(whole.runtime.signatures.verify && !whole.runtime.signatures.unchecked);
}

#[test]
fn options_of_metadata_proxies_reach_the_metadata_service() {
    let plain = targets("").web.metadata;
    assert!(plain.proxy_secret.is_none() && !plain.use_forwarded_for);
    let unused = targets("[neutron]\nmetadata_proxy_shared_secret = s\n[api]\nuse_forwarded_for = true\n").web.metadata;
    assert!(unused.proxy_secret.is_none() && unused.use_forwarded_for, "the proxy must be off");
    let text = "[neutron]\nservice_metadata_proxy = true\nmetadata_proxy_shared_secret = s\n";
    assert_eq!(targets(text).web.metadata.proxy_secret, Some(Secret::new("s")));
}
