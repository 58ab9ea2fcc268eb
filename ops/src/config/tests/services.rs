//! Tests the options of the services that Chronova calls: Keystone, Neutron, Glance, Cinder and Barbican.

use super::*;

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
    assert_eq!(both.len(), 5, "expected a note on each of the four services, and a warning about Cinder: {both:?}");
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

#[test]
fn an_account_of_keystone_is_complete_or_stops_the_start() {
    let whole = problems_in(&[ACCOUNT]);
    assert_eq!(whole.len(), 4, "expected three notes and a warning about Cinder: {whole:?}");
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
    let spelt = problems_in(&["[Glance]\nnum-retries = 1\n"]);
    assert!(spelt.iter().any(|line| line.starts_with("0.conf:2: warning: [glance] num_retries has no")), "{spelt:?}");
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
fn the_account_for_vendor_data_is_whole_and_has_an_effect() {
    let account = "[vendordata_dynamic_auth]\nauth_url = http://c:5000\nauth_type = password\nusername = nova\n\
                   password = s3cret-s3cret\nuser_domain_name = Default\nproject_name = service\n\
                   project_domain_name = Default\n";
    let calling = "[api]\nvendordata_providers = DynamicJSON\nvendordata_dynamic_targets = it@http://c:8000/\n";
    assert_eq!(problems_in(&[&format!("{calling}{account}")]), [""; 0]);
    let idle = problems_in(&[account]);
    assert!(idle.iter().any(|line| line.contains("warning: [vendordata_dynamic_auth] has no effect")), "{idle:?}");
    for (more, error) in [
        ("trust_id = 7\n", "[vendordata_dynamic_auth] trust_id is not supported"),
        ("keyfile = /k.pem\n", "[vendordata_dynamic_auth] keyfile needs certfile"),
    ] {
        let told = problems_in(&[&format!("{calling}{account}{more}")]);
        assert!(told.iter().any(|line| line.contains("error: ") && line.contains(error)), "{more}: {told:?}");
    }
    let lacking = problems_in(&[&format!("{calling}[vendordata_dynamic_auth]\nusername = nova\n")]);
    assert!(lacking.iter().any(|line| line.contains("username is set and auth_url is not")), "{lacking:?}");
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
    assert_eq!(about("[glance]\nverify_glance_signatures = false\n", "glance"), [""; 0]);
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
fn barbican_and_vault_are_key_managers() {
    for (text, words) in [
        ("[key_manager]\nbackend = vault\n", "backend = vault needs an account in Vault"),
        (
            "[key_manager]\nbackend = vault\n[vault]\nroot_token_id = t\nvault_url = controller\n",
            "write it as https://",
        ),
        ("[key_manager]\nbackend = vault\n[vault]\nroot_token_id = t\nkv_version = 3\n", "kv_version"),
        ("[key_manager]\napi_class = nova.keymgr.conf_key_mgr.ConfKeyManager\n", "is not supported: set barbican"),
        ("[barbican]\nbarbican_api_version = v2\n", "set v1"),
        ("[barbican]\nbarbican_endpoint = controller\n", "write it as http://controller:9311"),
        ("[barbican]\nbarbican_endpoint_type = outer\n", "public"),
    ] {
        let problems = problems_in(&[text]);
        let stops = problems.iter().filter(|line| line.contains("error: ") && line.contains(words)).count();
        assert_eq!(stops, 1, "{problems:?}");
    }
    let right = "[key_manager]\nbackend = castellan.key_manager.barbican_key_manager.BarbicanKeyManager\n\
                 [barbican]\nbarbican_endpoint = https://controller:9311/\nbarbican_api_version = v1\n\
                 barbican_endpoint_type = internal\nbarbican_region_name = here\nverify_ssl = false\n";
    assert_eq!(problems_in(&[right]), [""; 0]);
    let alone = problems_in(&["[chronova]\nkey_manager = external\n"]);
    assert!(alone.iter().any(|line| line.contains("error: [chronova] key_manager = external and")), "{alone:?}");
    // Vault needs no Keystone.
    let vault = "[key_manager]\nbackend = castellan.key_manager.vault_key_manager.VaultKeyManager\n\
                 [vault]\nvault_url = https://controller:8200/\napprole_role_id = r\napprole_secret_id = s\n\
                 kv_mountpoint = kv\nkv_path = nova\nkv_version = 1\nnamespace = n\ntimeout = 2.5\n\
                 [glance]\nverify_glance_signatures = true\n[chronova]\nkey_manager = external\n";
    assert_eq!(problems_in(&[vault]), [""; 0]);
    let others = "[barbican]\nauth_endpoint = http://controller:5000\nretry_delay = 3\n";
    assert!(problems_in(&[others]).iter().all(|line| line.contains(": note: ")), "{:?}", problems_in(&[others]));
}

#[test]
fn the_options_of_ovn_agree_with_each_other() {
    let problems = |text: &str| problems_in(&[&format!("[network]\nbackend = ovn\n{text}")]);
    assert_eq!(problems("gateway_chassis = h1, h2\n[ovn]\novn_nb_connection = ssl:a:6641,tcp:[::1]:6641\n"), [""; 0]);
    for (wrong, named) in [
        ("[ovn]\novn_nb_connection = 10.0.0.1:6641\n", "error: [ovn] ovn_nb_connection: `10.0.0.1:6641` is not"),
        ("[ovn]\novn_nb_certificate = /c.pem\n", "error: [ovn] ovn_nb_certificate needs ovn_nb_private_key"),
        ("[ovn]\novn_nb_private_key = /k.pem\n", "error: [ovn] ovn_nb_private_key needs ovn_nb_certificate"),
        (
            "[chronova]\nhypervisors = sim://3\n",
            "warning: [network] backend = ovn cannot plug the ports of simulated hosts",
        ),
    ] {
        let told = problems(wrong);
        assert_eq!(told.len(), 1, "{wrong}: {told:?}");
        assert!(told[0].contains(named), "{wrong}: {told:?}");
    }
    let unused = problems_in(&["[ovn]\novn_nb_connection = nonsense\n"]);
    assert_eq!(unused, [""; 0], "libvirt carries the networks: {unused:?}");
    assert_eq!(problems_in(&["[network]\nbackend = bridges\n"]).len(), 1);
}

#[test]
fn the_range_of_automatic_networks_has_room_for_a_subnet() {
    let problems = |range: &str| problems_in(&[&format!("[network]\nautomatic_range = {range}\n")]);
    assert_eq!(problems("10.128.0.0/9"), [""; 0]);
    for (range, words) in [("fd00::/48", "fd00::/48 is no network"), ("10.0.0.0/28", "10.0.0.0/28 is smaller than one")]
    {
        let told = problems(range);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&format!("error: [network] automatic_range: {words}")), "{told:?}");
    }
}
