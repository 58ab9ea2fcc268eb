//! Tests that load whole files and compare the configuration or the problems.

#![allow(clippy::unwrap_used)]

mod affinity;
mod services;

use std::fs;
use std::path::PathBuf;

use chronova_actors::pci::alias::PciAliases;

use super::*;

struct Files {
    dir: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

fn files(texts: &[&str]) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let paths = texts
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let path = dir.path().join(format!("{number}.conf"));
            fs::write(&path, text).unwrap();
            path
        })
        .collect();
    Files { dir, paths }
}

fn machine() -> MachineDefaults {
    MachineDefaults { host_name: "control-1".to_owned(), host_address: "192.0.2.7".to_owned() }
}

fn good(texts: &[&str]) -> Loaded {
    load_on(&machine(), &files(texts).paths).unwrap()
}

/// Problems as printed, without the directory.
fn problems_in(texts: &[&str]) -> Vec<String> {
    let files = files(texts);
    let problems = match load_on(&machine(), &files.paths) {
        Ok(loaded) => loaded.remarks,
        Err(invalid) => invalid.problems,
    };
    let dir = format!("{}/", files.dir.path().display());
    problems.iter().map(|problem| problem.to_string().replace(&dir, "")).collect()
}

#[test]
fn without_files_options_have_their_defaults() {
    let loaded = good(&[]);
    assert_eq!(loaded.remarks, []);
    let config = loaded.config;
    assert_eq!(config.default.shutdown_timeout, 60);
    assert_eq!(config.default.host.as_deref(), Some("control-1"));
    assert_eq!(config.default.my_ip, "192.0.2.7");
    assert_eq!(config.default.instances_path, PathBuf::from("/var/lib/nova/instances"));
    assert_eq!(config.default.cpu_allocation_ratio, None);
    assert_eq!(config.api.max_limit, 1000);
    assert_eq!(config.quota.ram, 51200);
    assert_eq!(config.chronova.listen.0, ["127.0.0.1:8774"]);
    assert_eq!(config.libvirt.virt_type, "auto");
}

#[test]
fn later_files_win_and_repeatable_options_collect() {
    let loaded = good(&[
        "[api]\nmax_limit = 10\n[chronova]\nhypervisors = qemu:///system sim://3\n[oslo_policy]\npolicy_dirs = /usr\n",
        "[api]\nmax_limit = 20\n[chronova]\nhypervisors = qemu+tls://h2/system\n[oslo_policy]\npolicy_dirs = /etc\n",
    ]);
    assert_eq!(loaded.config.api.max_limit, 20);
    assert_eq!(loaded.config.chronova.hypervisors.0, ["qemu:///system", "sim://3", "qemu+tls://h2/system"]);
    assert_eq!(loaded.config.oslo_policy.policy_dirs.0, ["/usr", "/etc"]);
}

#[test]
fn references_reach_set_values_and_defaults() {
    let config = good(&["[DEFAULT]\nstate_path = /srv\nlog_file = $state_path/${host}.log\n"]).config;
    assert_eq!(config.default.log_file, Some(PathBuf::from("/srv/control-1.log")));
    assert_eq!(config.default.instances_path, PathBuf::from("/srv/instances"));
    let config = good(&["[chronova]\npublic_host = $my_ip\nregion_name = ${chronova.public_host}-x\n"]).config;
    assert_eq!(config.chronova.region_name, "192.0.2.7-x");
}

#[test]
fn a_circle_of_references_is_reported_and_ends() {
    let problems = problems_in(&["[DEFAULT]\nhost = $my_ip\nmy_ip = $host\n"]);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("0.conf:2: error: [DEFAULT] host: its `$` references form a loop"), "{problems:?}");
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_files() {
    assert_eq!(
        problems_in(&[
            "[DEFAULT]\nshutdown_timout = 5\ndebug = maybe\nnonsense\n[api]\nmax_limit = -4\n",
            "[vnc]\nnovncproxy_port = 99999\n[libvirt]\nvirt_type = lxc\n[chronova]\ndriver_threads = 0\n",
        ]),
        [
            "0.conf:2: warning: [DEFAULT] shutdown_timout is not a known option; did you mean `shutdown_timeout`?",
            "0.conf:3: error: [DEFAULT] debug: `maybe` is not a boolean (true, 1, on, yes or false, 0, off, no)",
            "0.conf:4: error: neither a section, a comment nor an assignment (no `=` or `:`)",
            "0.conf:6: error: [api] max_limit: -4 is out of bounds (at least 0)",
            "1.conf:2: error: [vnc] novncproxy_port: 99999 is out of bounds (0 to 65535)",
            "1.conf:4: error: [libvirt] virt_type: `lxc` is not one of auto, kvm, qemu",
            "1.conf:6: error: [chronova] driver_threads: 0 is out of bounds (1 to 256)",
        ]
    );
}

#[test]
fn options_that_only_nova_has_cause_a_note_or_a_warning() {
    assert_eq!(
        problems_in(&[concat!(
            "[DEFAULT]\ncompute_driver = fake\n[ironic]\nauth-type = password\n",
            "[database]\nconnection = mysql://x\n[libvirt]\nuid-maps = a\nmax_limit = 3\n[quotas]\ncores = 3\n"
        )]),
        [
            "0.conf:2: note: [DEFAULT] compute_driver is an option of Nova and has no effect in Chronova",
            "0.conf:4: note: [ironic] auth-type is an option of Nova and has no effect in Chronova",
            "0.conf:6: warning: [database] connection is an option of Nova and has no effect: the event log under \
             [chronova] data_dir takes the place of Nova's databases",
            "0.conf:8: note: [libvirt] uid-maps is an option of Nova and has no effect in Chronova",
            "0.conf:9: warning: [libvirt] max_limit is not a known option; did you mean [api] max_limit?",
            "0.conf:11: warning: [quotas] cores is not a known option; did you mean [quota] cores?",
        ]
    );
}

#[test]
fn options_without_a_meaning_are_noted_with_their_reason_and_their_choices_cause_a_warning() {
    let harmless = "[libvirt]\ntx_queue_size =\ninject_password = False\n[quota]\nrecheck_quota = false\n";
    let reason = "is an option of Nova and has no effect in Chronova: ";
    assert_eq!(
        problems_in(&[harmless]),
        [
            format!("0.conf:2: note: [libvirt] tx_queue_size {reason}no network here has vhost-user cards"),
            format!(
                "0.conf:3: note: [libvirt] inject_password {reason}no file in a guest's disk is changed; the guest reads \
                 its password from its metadata, or its agent sets it"
            ),
            format!(
                "0.conf:5: note: [quota] recheck_quota {reason}quota is claimed before anything is made, so two requests \
                 at once cannot exceed it"
            ),
        ]
    );
    let chosen =
        problems_in(&["[libvirt]\ntx-queue-size = 512\n[workarounds]\ndisable_deep_image_inspection = true\n"]);
    assert_eq!(
        chosen,
        [
            format!("0.conf:2: warning: [libvirt] tx-queue-size {reason}no network here has vhost-user cards"),
            format!(
                "0.conf:4: warning: [workarounds] disable_deep_image_inspection {reason}for safety every image is \
                 inspected before a guest uses it, and nothing turns that off"
            ),
        ]
    );
    let asked = "[DEFAULT]\ndefault_ephemeral_format = ext4\n[libvirt]\niscsi_iface = bnx2i.1\n[workarounds]\n\
                 disable_group_policy_check_upcall = true\n[filter_scheduler]\ntrack_instance_changes = false\n";
    let (asked, kinds) = (problems_in(&[asked]), ["warning", "warning", "warning", "note"]);
    assert_eq!(asked.len(), kinds.len(), "{asked:?}");
    for ((told, kind), words) in asked.iter().zip(kinds).zip(["its own", "QEMU is the", "asks it back", "same log"]) {
        assert!(told.contains(&format!(": {kind}: [")) && told.contains(reason) && told.contains(words), "{told}");
    }
    let old = problems_in(&["[DEFAULT]\nimage_cache_subdirectory_name = cache\n"]);
    assert!(old.len() == 1 && old[0].starts_with("0.conf:2: warning: ") && old[0].contains("cached images"), "{old:?}");
}

const ACCOUNT: &str = "[keystone_authtoken]\nauth_url = http://c:5000\nauth_type = password\nusername = nova\n\
                       password = s3cret-s3cret\nuser_domain_name = Default\nproject_name = service\n\
                       project_domain_name = Default\n";

const VOUCHING: &str = "[service_user]\nsend_service_user_token = true\nauth_url = http://c:5000\nauth_type = password\n\
                        username = nova\npassword = s3cret-s3cret\nuser_domain_name = Default\nproject_name = service\n\
                        project_domain_name = Default\n";

#[test]
fn choices_of_cpus_and_memory_that_contradict_are_errors() {
    for (text, error) in [
        ("[libvirt]\ncpu_mode = custom\n", "cpu_mode = custom needs cpu_models"),
        ("[libvirt]\ncpu_models = Nehalem\n", "cpu_models has an effect only with cpu_mode = custom"),
        ("[chronova]\nhost_cpu_models = node1\n", "host_cpu_models: \"node1\" is not HOST=MODEL"),
        ("[libvirt]\nfile_backed_memory = 1024\n[DEFAULT]\nram_allocation_ratio = 1.5\n", "ram_allocation_ratio = 1.0"),
    ] {
        let found = problems_in(&[text]);
        assert!(found.iter().any(|line| line.contains("error: ") && line.contains(error)), "{text}: {found:?}");
    }
    let fitting = problems_in(&["[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\nfile_backed_memory = 1024\n"]);
    assert!(!fitting.iter().any(|line| line.contains("error: ")), "{fitting:?}");
}

#[test]
fn memory_in_files_is_not_overcommitted_and_none_is_reserved() {
    let files = "[libvirt]\nfile_backed_memory = 1024\n[DEFAULT]\nreserved_host_memory_mb = ";
    let warned = problems_in(&[&format!("{files}512\n")]);
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("warning: [libvirt] file_backed_memory: no guest gets the 512 MiB"), "{warned:?}");
    assert_eq!(problems_in(&[&format!("{files}0\n")]), [""; 0]);
    let all = problems_in(&[&format!("{files}1024\n")]);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(
        all[0].contains("error: [libvirt] file_backed_memory has to be greater than [DEFAULT] reserved"),
        "{all:?}"
    );
    // Each report of a host gives its inventory this ratio again, whatever a client of Placement has chosen.
    let imposed = |text: &str| good(&[text]).config.targets().runtime.hosts.imposed_ratios;
    assert_eq!(imposed(&format!("{files}0\n")), [("MEMORY_MB".to_owned(), 1.0)]);
    assert_eq!(imposed(&format!("{files}0\nram_allocation_ratio = 1.0\n")), [("MEMORY_MB".to_owned(), 1.0)]);
    assert!(imposed("[DEFAULT]\nreserved_host_memory_mb = 0\n").is_empty());
}

#[test]
fn a_host_that_overcommits_memory_is_no_place_for_encrypted_guests() {
    let of = |text: &str| problems_in(&[text]);
    let warned = of("[libvirt]\nnum_memory_encrypted_guests = 15\n[DEFAULT]\nram_allocation_ratio = 1.5\n");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].starts_with("0.conf:2: warning: [libvirt] num_memory_encrypted_guests"), "{warned:?}");
    assert!(warned[0].contains("hw:mem_page_size = small"), "{warned:?}");
    assert_eq!(of("[libvirt]\nnum_memory_encrypted_guests = 15\n"), [""; 0], "the ratio is 1.0");
    assert_eq!(of("[libvirt]\nnum_memory_encrypted_guests = 0\n[DEFAULT]\nram_allocation_ratio = 1.5\n"), [""; 0]);
    let loaded = good(&["[libvirt]\nnum_memory_encrypted_guests = 15\n"]);
    assert_eq!(loaded.config.targets().drivers.libvirt.encrypted_guests, Some(15));
}

#[test]
fn old_names_work_and_current_ones_win() {
    let loaded = good(&["[DEFAULT]\nquota_cores = 7\nquota_ram = 1\n[quota]\nram = 2\n"]);
    assert_eq!(loaded.config.quota.cores, 7);
    assert_eq!(loaded.config.quota.ram, 2);
    assert_eq!(loaded.remarks.len(), 2);
    assert!(loaded.remarks[0].message.contains("is the old name of [quota] cores"));
}

#[test]
fn half_configured_encryption_of_migrations_is_reported() {
    let both = "[libvirt]\nlive_migration_tunnelled = true\nlive_migration_with_native_tls = true\n\
                live_migration_scheme = tls\n";
    let error = "0.conf:3: error: [libvirt] live_migration_tunnelled and live_migration_with_native_tls exclude each \
                 other: take out live_migration_tunnelled, which encrypts no disks";
    assert_eq!(problems_in(&[both]), [error]);
    let files = files(&[both]);
    assert!(load_on(&machine(), &files.paths).is_err(), "the start must fail");
    let warning = "0.conf:2: warning: [libvirt] live_migration_with_native_tls without live_migration_scheme = tls: hosts \
                   reach each other's libvirtd by plain TCP";
    for scheme in ["", "live_migration_scheme = ssh\n", "live_migration_uri = qemu+tcp://%s/system\n"] {
        let text = format!("[libvirt]\nlive_migration_with_native_tls = true\n{scheme}");
        assert_eq!(problems_in(&[&text]), [warning], "{scheme}");
    }
    for good in ["live_migration_scheme = tls\n", "live_migration_uri = qemu+tls://%s/system\n"] {
        let text = format!("[libvirt]\nlive_migration_with_native_tls = true\n{good}");
        assert_eq!(problems_in(&[&text]), [""; 0], "{good}");
    }
    assert_eq!(problems_in(&["[libvirt]\nlive_migration_tunnelled = true\n"]), [""; 0]);
}

#[test]
fn every_simulated_fleet_has_its_own_name() {
    let named = |uris: &str| good(&[&format!("[chronova]\nhypervisors = {uris}\n")]).config.chronova.hypervisors.0;
    assert_eq!(named("sim://3 sim://2 qemu:///system"), ["sim://3", "sim://2?name=sim2", "qemu:///system"]);
    let mixed = named("sim://3 sim://2?vcpus=4 sim://1?name=sim2");
    assert_eq!(mixed, ["sim://3", "sim://2?vcpus=4&name=sim3", "sim://1?name=sim2"]);
    let told = problems_in(&["[chronova]\nhypervisors = sim://3?name=b sim://2?name=b\n"]);
    assert!(told.len() == 1 && told[0].contains("named b") && told[0].contains("sim://2?name="), "{told:?}");
    assert_eq!(problems_in(&["[chronova]\nhypervisors = sim://3 sim://2?name=b qemu:///system\n"]), [""; 0]);
}

#[test]
fn check_warns_of_a_control_plane_without_hosts() {
    let none = "hypervisors names no host";
    let (text, usable) = check(&files(&["[api]\nmax_limit = 10\n"]).paths);
    assert!(usable && text.contains(none), "{text}");
    let (text, usable) = check(&files(&["[chronova]\nhypervisors = sim://3\n"]).paths);
    assert!(usable && !text.contains(none), "{text}");
}

#[test]
fn unreadable_files_are_reported_with_the_rest() {
    let files = files(&["[api]\nmax_limit = x\n"]);
    let paths = [vec![PathBuf::from("/nonexistent/nova.conf")], files.paths.clone()].concat();
    let invalid = load_on(&machine(), &paths).unwrap_err();
    assert_eq!(invalid.problems.len(), 2);
    assert_eq!(invalid.to_string(), "the configuration has 2 errors");
}

#[test]
fn check_prints_problems_and_counts() {
    let files = files(&["[api]\nmax_limit = x\nmax_limits = 3\n"]);
    let (text, usable) = check(&files.paths);
    assert!(!usable);
    // The bad value is on line 2, the unknown option on line 3.
    assert!(text.ends_with("not usable: 1 error, 1 warning, 0 notes\n"), "{text}");
    assert!(text.contains("did you mean `max_limit`?"), "{text}");
}

#[test]
fn this_machine_has_a_name_and_an_address() {
    let here = MachineDefaults::here();
    assert!(!here.host_name.is_empty());
    assert!(here.host_address.parse::<std::net::IpAddr>().is_ok());
}

#[test]
fn a_policy_file_that_an_option_names_must_exist() {
    let named = files(&["[oslo_policy]\npolicy_file = rules.yaml\npolicy_dirs = more\n", "[DEFAULT]\n"]);
    let dir = named.dir.path();
    let lacking = load_on(&machine(), &named.paths).unwrap_err().problems;
    let lacking: Vec<String> = lacking.iter().map(ToString::to_string).collect();
    let at = |line: u32, severity: &str, option: &str, kind: &str, name: &str| {
        let (file, path) = (dir.join("0.conf"), dir.join(name));
        format!("{}:{line}: {severity}: [oslo_policy] {option}: there is no {kind} {}", file.display(), path.display())
    };
    let file = at(2, "error", "policy_file", "file", "rules.yaml");
    assert_eq!(lacking, [file, at(3, "warning", "policy_dirs", "directory", "more")]);
    fs::write(dir.join("rules.yaml"), "").unwrap();
    fs::create_dir(dir.join("more")).unwrap();
    let policy = load_on(&machine(), &named.paths).unwrap().config.oslo_policy;
    assert_eq!(policy.policy_file, dir.join("rules.yaml"));
    assert_eq!(policy.policy_dirs.0, [dir.join("more").to_string_lossy()]);
    // A file that no option names may be absent.
    let unnamed = files(&["[DEFAULT]\n"]);
    let policy = load_on(&machine(), &unnamed.paths).unwrap().config.oslo_policy;
    assert_eq!(policy.policy_file, unnamed.dir.path().join("policy.yaml"));
}

#[test]
fn choices_that_are_not_supported_stop_the_start_and_say_what_to_choose() {
    for (section, option, advice) in [
        ("scheduler", "query_placement_for_routed_network_aggregates = true", "set it to false"),
        ("quota", "driver = nova.quota.UnifiedLimitsDriver", "set nova.quota.DbQuotaDriver"),
        ("libvirt", "snapshot_image_format = vmdk", "raw or qcow2"),
        ("libvirt", "snapshot_image_format = vdi", "raw or qcow2"),
    ] {
        let problems = problems_in(&[&format!("[{section}]\n{option}\n")]);
        assert_eq!(problems.len(), 1, "{option}: {problems:?}");
        assert!(problems[0].starts_with(&format!("0.conf:2: error: [{section}] ")), "{problems:?}");
        assert!(problems[0].contains(advice), "{problems:?}");
    }
    let supported = "[DEFAULT]\nconfig_drive_format = vfat\n[quota]\ndriver = nova.quota.NoopQuotaDriver\n";
    assert_eq!(problems_in(&[supported]), [""; 0]);
}

#[test]
fn half_set_options_of_vencrypt_stop_the_start() {
    for (text, place, advice) in [
        ("auth_schemes =", "0.conf:2", "name none, vencrypt, or both"),
        ("auth_schemes = vencrypt,none", "0.conf:2", "vencrypt_ca_certs is not set"),
        ("vencrypt_client_cert = /c.pem", "0.conf:2", "needs vencrypt_client_key"),
        ("vencrypt_client_key = /c.key", "0.conf:2", "needs vencrypt_client_cert"),
        ("auth_schemes = tls", "0.conf:2", "one of none, vencrypt"),
    ] {
        let problems = problems_in(&[&format!("[vnc]\n{text}\n")]);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].starts_with(&format!("{place}: error: ")), "{text}: {problems:?}");
        assert!(problems[0].contains(advice), "{text}: {problems:?}");
    }
    let whole = "[vnc]\nauth_schemes = vencrypt,none\nvencrypt_ca_certs = /ca.pem\nvencrypt_client_cert = /c.pem\n\
                 vencrypt_client_key = /c.key\n";
    assert_eq!(problems_in(&[whole]), [""; 0]);
}

#[test]
fn options_of_hardware_and_scheduling_are_checked_before_the_start() {
    let missing = "/nonexistent/extra_specs.json";
    let unread = format!("[chronova]\nextra_spec_validators = {missing}\n");
    for (text, parts) in [
        ("[scheduler_hook]\nurl = localhost:9300\n", ["[scheduler_hook] url", "http://"]),
        ("[scheduler_hook]\nurl = http:///judge\n", ["[scheduler_hook] url", "with a host"]),
        (unread.as_str(), ["[chronova] extra_spec_validators", missing]),
        ("[DEFAULT]\nreserved_huge_pages = node:0\n", ["reserved_huge_pages", "has no size"]),
        ("[libvirt]\npmem_namespaces = a:ns0\n", ["pmem_namespaces", "the label a has no size"]),
    ] {
        let problems = problems_in(&[text]);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].starts_with("0.conf:2: error: "), "{problems:?}");
        assert!(parts.iter().all(|part| problems[0].contains(part)), "{problems:?}");
    }
    let right = files(&["[{\"name\": \"acme:rack\", \"value\": {\"type\": \"integer\"}}]"]);
    let conf = format!(
        "[DEFAULT]\nreserved_huge_pages = node:0,size:2048,count:64\n[scheduler_hook]\nurl = https://hook:9300/judge\n\
         timeout = 1\nfail_open = false\n[libvirt]\npmem_namespaces = 6GB:ns0|ns1,LARGE:ns2\n[chronova]\n\
         pmem_path = /mnt/pmem0\npmem_sizes = 6GB=6144,LARGE=16384\nextra_spec_validators = {}\n",
        right.paths[0].display()
    );
    assert_eq!(problems_in(&[&conf]), [""; 0]);
    let given = files(&[&conf]);
    let targets = load_on(&machine(), &given.paths).unwrap().config.targets();
    assert_eq!(
        (targets.runtime.hosts.reserved_huge_pages[0].count, targets.runtime.scheduler.hook.fails_open),
        (64, false)
    );
    assert_eq!(targets.drivers.libvirt.guests.pmem.offered().len(), 2);
}

#[test]
fn contradictory_storage_options_stop_the_start() {
    let lines = |text: &str| problems_in(&[&format!("[libvirt]\n{text}")]);
    for (text, place, option, advice) in [
        ("images_type = lvm", "0.conf:2", "images_volume_group is not set", "name the volume group"),
        ("images_type = lvm\nimages_volume_group = /dev/vg0", "0.conf:3", "images_volume_group", "not a path"),
        ("images_type = raw\nsparse_logical_volumes = true", "0.conf:3", "sparse_logical_volumes", "take it out"),
        ("images_type = rbd", "0.conf:2", "[chronova] rbd_monitors is not set", "name Ceph's monitors"),
        (
            "images_type = ceph\nimages_rbd_pool =\n[chronova]\nrbd_monitors = m",
            "0.conf:2",
            "images_rbd_pool",
            "name the",
        ),
        (
            "images_type = rbd\nrbd_user = nova\n[chronova]\nrbd_monitors = m",
            "0.conf:2",
            "rbd_secret_uuid",
            "both, or neither",
        ),
        ("rbd_secret_uuid = secret", "0.conf:2", "rbd_secret_uuid", "UUID"),
    ] {
        let problems = lines(text);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].starts_with(&format!("{place}: error: ")), "{text}: {problems:?}");
        assert!(problems[0].contains(option) && problems[0].contains(advice), "{text}: {problems:?}");
    }
    for text in [
        "images_type = flat",
        "images_type = lvm\nimages_volume_group = nova-vol\nsparse_logical_volumes = true",
        "images_type = rbd\n[chronova]\nrbd_monitors = 10.0.0.1:6789, 10.0.0.2",
    ] {
        assert_eq!(lines(text), Vec::<String>::new(), "{text}");
    }
    let space = "[DEFAULT]\npreallocate_images = space\n";
    assert!(problems_in(&[space])[0].starts_with("0.conf:2: warning: "));
    assert_eq!(problems_in(&[&format!("{space}use_cow_images = false")]), Vec::<String>::new());
}

#[test]
fn syslog_has_the_facility_of_the_option() {
    let facility = |text: &str| good(&[&format!("[DEFAULT]\n{text}")]).config.targets().log.syslog;
    assert_eq!(facility("syslog_log_facility = LOG_LOCAL0\n"), None, "syslog must be off by default");
    assert_eq!(facility("use_syslog = true\n"), Some(1));
    for local in 0..8_u8 {
        let text = format!("debug = False\nuse_syslog = True\nsyslog_log_facility = LOG_LOCAL{local}\n");
        assert_eq!(facility(&text), Some(16 + local));
    }
    assert!(problems_in(&["[DEFAULT]\nsyslog_log_facility = LOG_LOCAL8\n"])[0].contains("LOG_LOCAL8"));
}

#[test]
fn notifications_need_a_known_driver_and_a_broker() {
    let of = |text: &str| problems_in(&[text]);
    assert_eq!(of("[oslo_messaging_notifications]\ndriver = noop\n"), [""; 0]);
    assert!(of("[oslo_messaging_notifications]\ndriver = pigeon\n")[0].contains("pigeon is not supported"));
    assert!(of("[oslo_messaging_notifications]\ndriver = messagingv2\n")[0].contains("no transport_url says where"));
    let both = good(&["[DEFAULT]\ntransport_url = rabbit://u:p@rpc:5672/\n[oslo_messaging_notifications]\n\
                       driver = messagingv2\ntransport_url = rabbit://u:p@notes:5672/\n"]);
    let options = both.config.targets().runtime.notifications;
    assert_eq!(
        &*options.broker.transport_url, "rabbit://u:p@notes:5672/",
        "notifications must use their own transport_url"
    );
    let off = good(&["[oslo_messaging_notifications]\ndriver = noop\n"]).config.targets().runtime.notifications;
    assert!(off.drivers.is_empty());
}

/// A guest's metadata contains secrets of its owner, so only known proxies may ask for it.
#[test]
fn metadata_proxies_without_a_secret_or_address_are_reported() {
    let proxied = "[neutron]\nservice_metadata_proxy = true\n";
    let without = problems_in(&[proxied]);
    assert!(without.len() == 1 && without[0].starts_with("0.conf:2: error: "), "{without:?}");
    assert!(without[0].contains("metadata_proxy_shared_secret is empty"), "{without:?}");
    assert_eq!(problems_in(&[&format!("{proxied}metadata_proxy_shared_secret = s")]), Vec::<String>::new());
    let forwarded = "[api]\nuse_forwarded_for = true\n";
    let nobody = problems_in(&[forwarded]);
    assert!(nobody[0].starts_with("0.conf:2: warning: ") && nobody[0].contains("trusted_proxies"), "{nobody:?}");
    assert_eq!(problems_in(&[&format!("{forwarded}[chronova]\ntrusted_proxies = 10.0.0.1")]), Vec::<String>::new());
}

#[test]
fn wrong_pci_devices_stop_the_start() {
    let text = "[pci]\ndevice_spec = {\"devname\": \"eth0\"}\nalias = {\"name\": \"gpu\"}\n[chronova]\nhost_pci_device_spec = \
                {}\n[filter_scheduler]\npci_in_placement = true\n";
    let said = problems_in(&[text]).join("\n");
    for part in [
        "0.conf:2: error: [pci] device_spec: ",
        "write the address of the device",
        "0.conf:3: error: [pci] alias: ",
        "does not have vendor_id and product_id",
        "0.conf:5: error: [chronova] host_pci_device_spec: ",
        "0.conf:7: error: [filter_scheduler] pci_in_placement needs [pci] report_in_placement = true",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn pci_devices_and_aliases_reach_the_hosts_and_the_scheduler() {
    let text = "[DEFAULT]\npci_alias = {\"name\": \"gpu\", \"vendor_id\": \"10de\"}\n[pci]\npassthrough_whitelist = \
                [{\"vendor_id\": \"10de\"}, {\"address\": \"*:81:00.*\"}]\n[chronova]\nhost_pci_device_spec = h1 []\n";
    let targets = good(&[text]).config.targets();
    let pci = &targets.runtime.hosts.host_pci;
    assert_eq!((pci.others.len(), pci.of("h1").len(), pci.reports), (2, 0, false));
    assert_ne!(targets.runtime.scheduler.pci_aliases, PciAliases::default());
    assert_eq!(targets.runtime.servers.pci_aliases, targets.runtime.scheduler.pci_aliases);
}

#[test]
fn types_of_mediated_devices_reach_hosts_servers_and_driver() {
    let text = "[devices]\nenabled_mdev_types = nvidia-35,nvidia-36\n[mdev_nvidia-35]\ndevice_addresses = \
                0000:84:00.0,0000:85:00.0\n[vgpu_nvidia-36]\ndevice_addresses = 0000:86:00.0\nmdev_class = CUSTOM_GPU\n\
                max_instances = 2\n";
    assert_eq!(problems_in(&[text]), Vec::<String>::new());
    let targets = good(&[text]).config.targets();
    let options = &targets.runtime.hosts.mdevs;
    let of = |address: &str| options.type_of(address.parse().unwrap()).unwrap().clone();
    assert_eq!((of("0000:85:00.0").name.as_str(), of("0000:85:00.0").class.as_str()), ("nvidia-35", "VGPU"));
    assert_eq!((of("0000:86:00.0").class.as_str(), of("0000:86:00.0").most), ("CUSTOM_GPU", Some(2)));
    assert_eq!(targets.runtime.servers.mdevs, *options);
    assert!(targets.drivers.libvirt.reads_mdevs && !good(&[]).config.targets().drivers.libvirt.reads_mdevs);
    let old = good(&["[devices]\nenabled_vgpu_types = nvidia-35\n"]).config.targets().runtime.hosts.mdevs;
    assert_eq!(old.type_of("0000:99:00.0".parse().unwrap()).unwrap().name, "nvidia-35");
}

/// Nova's compute service does not start either.
#[test]
fn wrong_types_of_mediated_devices_stop_the_start() {
    let text = "[devices]\nenabled_mdev_types = a,b\n[mdev_a]\ndevice_addresses = 0000:84:00.0\n[mdev_b]\n\
                device_addresses = 0000:84:00.0\n[mdev_c]\nmax_instances = 1\n[mdev_a]\nother = 1\n";
    let said = problems_in(&[text]).join("\n");
    for part in [
        "0.conf:2: error: [devices] enabled_mdev_types: invalid configuration for mdev-capable devices: duplicate types for \
         PCI address 0000:84:00.0",
        "0.conf:2: warning: [mdev_c] has no effect",
        "0.conf:10: warning: [mdev_a] other: is not a known option",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let text =
        "[devices]\nenabled_mdev_types = a\n[mdev_a]\ndevice_addresses = eth0\nmdev_class = GPU\nmax_instances = 0\n";
    let said = problems_in(&[text]).join("\n");
    for part in [
        "0.conf:4: error: [mdev_a] device_addresses: \"eth0\" is not a PCI address",
        "0.conf:5: error: [mdev_a] mdev_class: `GPU` is neither VGPU nor a custom resource class",
        "0.conf:6: error: [mdev_a] max_instances: `0` is not a number above 0",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Any problem of a file of custom inventories and traits stops the start.
#[test]
fn a_wrong_file_of_provider_configs_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[compute]\nprovider_config_location = {}\n", folder.path().display());
    let write = |entry: &str| {
        let text = format!("meta: {{schema_version: '1.0'}}\nproviders:\n  - {entry}\n");
        fs::write(folder.path().join("a.yaml"), text).unwrap();
    };
    write("{identification: {name: node7}, traits: {additional: [CUSTOM_FAST]}}");
    let entries = good(&[&text]).config.targets().runtime.hosts.provider_configs.entries.len();
    assert_eq!(entries, 1);
    write("{identification: {name: node7}, traits: {additional: [HW_CPU_X86_AVX]}}");
    let expected = format!(
        "0.conf:2: error: [compute] provider_config_location: {}/a.yaml: providers[0]: traits: HW_CPU_X86_AVX is not a \
         custom trait: a name consists of CUSTOM_ and of A to Z, 0 to 9 and _, 255 characters at most",
        folder.path().display()
    );
    assert_eq!(problems_in(&[&text]), [expected]);
    write("{identification: {name: node7}}");
    let remark = problems_in(&[&text]).concat();
    assert!(remark.starts_with("0.conf:2: warning: ") && remark.ends_with("it is ignored"), "{remark}");
    let absent = "[compute]\nprovider_config_location = /nonexistent/provider_config\n";
    assert!(problems_in(&[absent]).concat().contains("there is no directory /nonexistent/provider_config"));
}
