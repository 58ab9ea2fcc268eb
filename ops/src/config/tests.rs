//! Tests that load whole files and compare the configuration or the problems.

#![allow(clippy::unwrap_used)]

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
    assert_eq!(config.filter_scheduler.enabled_filters.len(), 5);
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
            "[vnc]\nnovncproxy_port = 99999\n[libvirt]\nvirt_type = lxc\n",
        ]),
        [
            "0.conf:2: warning: [DEFAULT] shutdown_timout is not a known option; did you mean `shutdown_timeout`?",
            "0.conf:3: error: [DEFAULT] debug: `maybe` is not a boolean (true, 1, on, yes or false, 0, off, no)",
            "0.conf:4: error: neither a section, a comment nor an assignment (no `=` or `:`)",
            "0.conf:6: error: [api] max_limit: -4 is out of bounds (at least 0)",
            "1.conf:2: error: [vnc] novncproxy_port: 99999 is out of bounds (0 to 65535)",
            "1.conf:4: error: [libvirt] virt_type: `lxc` is not one of auto, kvm, qemu",
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
    let old = problems_in(&["[DEFAULT]\nimage_cache_subdirectory_name = cache\n"]);
    assert!(old.len() == 1 && old[0].starts_with("0.conf:2: warning: ") && old[0].contains("cached images"), "{old:?}");
}

/// An operator who names a service believes that Chronova calls it.
#[test]
fn a_service_that_is_named_and_not_asked_causes_a_warning() {
    for (section, option, service) in [
        ("glance", "api_servers = http://c:9292", "no Glance is called"),
        ("neutron", "endpoint_override = http://c:9696", "no Neutron is called"),
        ("cinder", "catalog_info = volumev3:cinderv3:internalURL", "no Cinder is called"),
        ("keystone_authtoken", "region_name = RegionOne", "the embedded identity service validates tokens"),
        ("keystone_authtoken", "cafile = /etc/ssl/ca.pem", "the embedded identity service validates tokens"),
    ] {
        let told = problems_in(&[&format!("[{section}]\n{option}\n")]);
        assert_eq!(told.len(), 1, "{section} {option}: {told:?}");
        assert!(told[0].starts_with("0.conf:2: warning: ") && told[0].contains(service), "{told:?}");
    }
    assert_eq!(problems_in(&["[keystone_authtoken]\nwww_authenticate_uri = http://c:5000\n"]), [""; 0]);
}

#[test]
fn a_neutron_needs_a_keystone_and_a_whole_account() {
    let neutron = ACCOUNT.replace("keystone_authtoken", "neutron");
    let both = problems_in(&[&format!("{ACCOUNT}{neutron}")]);
    assert_eq!(both.len(), 5, "a note on each of the four services, and a warning about Cinder: {both:?}");
    assert!(
        both.iter().any(|told| told.contains("note: [neutron] auth_url: Neutron is the network service")),
        "{both:?}"
    );
    let alone = problems_in(&[&neutron]);
    assert!(
        alone
            .iter()
            .any(|told| told.contains("error: [neutron] auth_url is set and [keystone_authtoken] auth_url is not"))
    );
    let half = problems_in(&["[neutron]\nauth_type = password\n"]);
    assert_eq!(half.len(), 1, "{half:?}");
    assert!(half[0].contains("error: [neutron] auth_type is set and auth_url is not"), "{half:?}");
}

const ACCOUNT: &str = "[keystone_authtoken]\nauth_url = http://c:5000\nauth_type = password\nusername = nova\n\
                       password = s3cret-s3cret\nuser_domain_name = Default\nproject_name = service\n\
                       project_domain_name = Default\n";

#[test]
fn an_account_of_keystone_is_complete_or_stops_the_start() {
    let whole = problems_in(&[ACCOUNT]);
    assert_eq!(whole.len(), 4, "a note on Keystone, Glance and Cinder each, and a warning about Cinder: {whole:?}");
    let note = "0.conf:2: note: [keystone_authtoken] auth_url: Keystone at http://c:5000 is";
    assert!(whole.iter().any(|told| told.starts_with(note)), "{whole:?}");
    for (lacking, named) in [
        ("auth_url = http://c:5000\n", "auth_type is set and auth_url is not"),
        ("auth_type = password\n", "auth_type is not set"),
        ("username = nova\n", "username is not set"),
        ("password = s3cret-s3cret\n", "password is not set"),
        ("user_domain_name = Default\n", "user_domain_name is not set"),
        ("project_name = service\n", "project_name is not set"),
        ("project_domain_name = Default\n", "project_domain_name is not set"),
    ] {
        let told = problems_in(&[&ACCOUNT.replacen(lacking, "", 1)]);
        let stops = |line: &String| line.contains("error: ") && line.contains(named);
        assert!(told.iter().any(stops), "{lacking}: {told:?}");
        assert!(!told.iter().any(|line| line.contains("s3cret")), "a secret is printed: {told:?}");
    }
    for (more, named) in [
        ("trust_id = 7", "trust_id is not supported"),
        ("auth_section = other", "auth_section is not supported"),
        ("certfile = /c.pem", "certfile needs keyfile"),
        ("[chronova]\nidentity_listen = 127.0.0.1:5000", "identity_listen serves the embedded identity service"),
    ] {
        let told = problems_in(&[&format!("{ACCOUNT}{more}\n")]);
        assert!(told.iter().any(|line| line.contains("error: ") && line.contains(named)), "{more}: {told:?}");
    }
    let nobody = problems_in(&[&format!("{ACCOUNT}[api]\nauth_strategy = noauth2\n")]);
    assert!(
        nobody.iter().any(|line| line.contains("warning: ") && line.contains("uses no identity service")),
        "{nobody:?}"
    );
}

const VOUCHING: &str = "[service_user]\nsend_service_user_token = true\nauth_url = http://c:5000\nauth_type = password\n\
                        username = nova\npassword = s3cret-s3cret\nuser_domain_name = Default\nproject_name = service\n\
                        project_domain_name = Default\n";

#[test]
fn glance_is_called_where_there_is_a_keystone() {
    let note = "note: [chronova] image_service: Glance at ";
    for (more, told) in [
        ("", "the image endpoint of Keystone's catalogue is the image service"),
        ("[glance]\napi_servers = http://a:9292,http://b:9292\n", "http://a:9292, http://b:9292 is the image service"),
        ("[glance]\nendpoint_override = http://a:9292\n", "http://a:9292 is the image service"),
        ("[glance]\ntimeout = 9\n", "a long snapshot fails once the user's token has expired"),
    ] {
        let found = problems_in(&[&format!("{ACCOUNT}{more}")]);
        assert!(found.iter().any(|line| line.contains(note) && line.contains(told)), "{more}: {found:?}");
    }
    let vouched = problems_in(&[&format!("{ACCOUNT}{VOUCHING}")]);
    assert!(!vouched.iter().any(|line| line.contains("long snapshot")), "{vouched:?}");
    let embedded =
        problems_in(&[&format!("{ACCOUNT}[chronova]\nimage_service = embedded\n[glance]\nnum_retries = 1\n")]);
    assert!(embedded.iter().any(|line| line.contains("warning: [glance] num_retries has no effect")), "{embedded:?}");
    for (more, error) in [
        ("[glance]\nendpoint_override = c:9292\n", "[glance] endpoint_override: c:9292 is no address"),
        ("[glance]\nvalid_interfaces = secret\n", "[glance] valid_interfaces: secret is none of"),
        ("[glance]\nkeyfile = /k.pem\n", "[glance] keyfile needs certfile"),
        (
            "[service_user]\nsend_service_user_token = true\n",
            "send_service_user_token is on and the section has no account",
        ),
        ("[service_user]\nusername = nova\n", "[service_user] username is set and auth_url is not"),
    ] {
        let told = problems_in(&[&format!("{ACCOUNT}{more}")]);
        assert!(told.iter().any(|line| line.contains("error: ") && line.contains(error)), "{more}: {told:?}");
    }
    for (alone, told) in [
        ("[chronova]\nimage_service = glance\n", "error: [chronova] image_service = glance needs a Keystone"),
        (VOUCHING, "warning: [service_user] send_service_user_token has no effect without"),
    ] {
        let found = problems_in(&[alone]);
        assert!(found.iter().any(|line| line.contains(told)), "{alone}: {found:?}");
    }
}

#[test]
fn choices_of_cpus_and_memory_that_contradict_are_errors() {
    for (text, error) in [
        ("[libvirt]\ncpu_mode = custom\n", "cpu_mode = custom needs cpu_models"),
        ("[libvirt]\ncpu_models = Nehalem\n", "cpu_models has an effect with cpu_mode = custom alone"),
        ("[libvirt]\nfile_backed_memory = 1024\n[DEFAULT]\nram_allocation_ratio = 1.5\n", "ram_allocation_ratio = 1.0"),
    ] {
        let found = problems_in(&[text]);
        assert!(found.iter().any(|line| line.contains("error: ") && line.contains(error)), "{text}: {found:?}");
    }
    let fitting = problems_in(&["[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\nfile_backed_memory = 1024\n"]);
    assert!(!fitting.iter().any(|line| line.contains("error: ")), "{fitting:?}");
}

#[test]
fn cinder_is_called_where_there_is_a_keystone() {
    let note = "note: [chronova] volume_service: Cinder at ";
    for (more, told) in [
        ("", "the endpoint volumev3::publicURL of Keystone's catalogue is the volume service"),
        (
            "[cinder]\nendpoint_template = http://a:8776/v3/%(project_id)s\n",
            "http://a:8776/v3/%(project_id)s is the volume",
        ),
    ] {
        let found = problems_in(&[&format!("{ACCOUNT}{more}")]);
        assert!(found.iter().any(|line| line.contains(note) && line.contains(told)), "{more}: {found:?}");
        assert!(found.iter().any(|line| line.contains("warning: ") && line.contains("no volume can be detached")));
    }
    let vouched = problems_in(&[&format!("{ACCOUNT}{VOUCHING}")]);
    assert!(!vouched.iter().any(|line| line.contains("can be detached")), "{vouched:?}");
    let embedded =
        problems_in(&[&format!("{ACCOUNT}[chronova]\nvolume_service = embedded\n[cinder]\nhttp_retries = 1\n")]);
    assert!(embedded.iter().any(|line| line.contains("warning: [cinder] http_retries has no effect")), "{embedded:?}");
    for (more, error) in [
        ("[cinder]\nendpoint_template = c:8776\n", "[cinder] endpoint_template: c:8776 is no address"),
        ("[cinder]\ncatalog_info = volumev3:secret\n", "[cinder] catalog_info: volumev3:secret is not TYPE"),
        ("[cinder]\ncatalog_info = volumev3::secretURL\n", "is not TYPE:NAME:INTERFACE"),
        ("[cinder]\nkeyfile = /k.pem\n", "[cinder] keyfile needs certfile"),
        ("[cinder]\nusername = cinder\n", "[cinder] username is set and auth_url is not"),
        ("[chronova]\nvolume_listen = 127.0.0.1:8776\n", "volume_listen serves the embedded volume service"),
    ] {
        let told = problems_in(&[&format!("{ACCOUNT}{more}")]);
        assert!(told.iter().any(|line| line.contains("error: ") && line.contains(error)), "{more}: {told:?}");
    }
    let alone = problems_in(&["[chronova]\nvolume_service = cinder\n"]);
    assert!(alone.iter().any(|line| line.contains("error: [chronova] volume_service = cinder needs a Keystone")));
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
fn two_simulated_fleets_need_two_names() {
    let told = problems_in(&["[chronova]\nhypervisors = sim://3 sim://2\n"]);
    assert!(told.len() == 1 && told[0].contains("named sim") && told[0].contains("sim://2?name="), "{told:?}");
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
fn checks_of_images_need_a_key_manager() {
    const KEYSTONE: &str = "[keystone_authtoken]\nauth_url = http://controller:5000\nauth_type = password\nusername = nova\n\
                            password = s\nuser_domain_name = Default\nproject_name = service\n\
                            project_domain_name = Default\n";
    let about = |text: &str, name: &str| -> Vec<String> {
        let problems = problems_in(&[text]);
        problems.into_iter().filter(|line| line.contains(name) && !line.contains(": note: ")).collect()
    };
    for name in ["verify_glance_signatures", "enable_certificate_validation"] {
        let text = format!("[glance]\n{name} = true\n");
        let stops = about(&text, "this cloud has no key manager");
        assert!(stops.len() == 1 && stops[0].starts_with("0.conf:2: error: "), "{stops:?}");
        assert_eq!(about(&format!("{text}{KEYSTONE}"), "this cloud has no key manager"), [""; 0]);
    }
    let whole = "verify_glance_signatures = true\nenable_certificate_validation = true\n";
    for (options, name, warns) in [
        ("enable_certificate_validation = true\n", "no effect without verify_glance_signatures", true),
        ("default_trusted_certificate_ids = a\n", "default_trusted_certificate_ids has no effect", true),
        (whole, "default_trusted_certificate_ids is empty", true),
        ("unchecked_certificates = true\n", "unchecked_certificates has no effect", true),
        (&format!("{whole}default_trusted_certificate_ids = a,b\n"), "default_trusted", false),
    ] {
        let told = about(&format!("{KEYSTONE}[glance]\n{options}"), name);
        assert_eq!(told.iter().filter(|line| line.contains(": warning: ")).count(), usize::from(warns), "{told:?}");
    }
}

#[test]
fn only_barbican_is_a_key_manager() {
    for (text, words) in [
        ("[key_manager]\nbackend = vault\n", "backend = vault is not supported: set barbican"),
        ("[key_manager]\napi_class = nova.keymgr.conf_key_mgr.ConfKeyManager\n", "is not supported: set barbican"),
        ("[barbican]\nbarbican_api_version = v2\n", "set v1"),
        ("[barbican]\nbarbican_endpoint = controller\n", "write it as http://controller:9311"),
    ] {
        let problems = problems_in(&[text]);
        let stops = problems.iter().filter(|line| line.contains("error: ") && line.contains(words)).count();
        assert_eq!(stops, 1, "{problems:?}");
    }
    let right = "[key_manager]\nbackend = castellan.key_manager.barbican_key_manager.BarbicanKeyManager\n\
                 [barbican]\nbarbican_endpoint = https://controller:9311/\nbarbican_api_version = v1\n\
                 barbican_endpoint_type = internal\nbarbican_region_name = here\nverify_ssl = false\n";
    assert_eq!(problems_in(&[right]), [""; 0]);
    let others = "[barbican]\nauth_endpoint = http://controller:5000\nretry_delay = 3\n";
    assert!(problems_in(&[others]).iter().all(|line| line.contains(": note: ")), "{:?}", problems_in(&[others]));
}

#[test]
fn choices_that_are_not_supported_stop_the_start_and_say_what_to_choose() {
    for (section, option, advice) in [
        ("DEFAULT", "config_drive_format = vfat", "iso9660"),
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
    let supported = "[DEFAULT]\nconfig_drive_format = iso9660\n[quota]\ndriver = nova.quota.NoopQuotaDriver\n";
    assert_eq!(problems_in(&[supported]), [""; 0]);
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
    assert_eq!(facility("syslog_log_facility = LOG_LOCAL0\n"), None, "it is off by default");
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
    assert_eq!(&*options.broker.transport_url, "rabbit://u:p@notes:5672/", "a queue of their own");
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
