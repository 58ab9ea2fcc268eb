//! Finds settings that work but are insecure. Only `chronova config check` reports them, because an operator who starts
//! a test system knows about them.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{Config, Problem, Severity};

/// Secrets that an attacker tries first.
const COMMON: [&str; 12] = [
    "admin",
    "changeme",
    "chronova",
    "default",
    "nova",
    "openstack",
    "pass",
    "password",
    "secret",
    "secrete",
    "test",
    "1234",
];
/// The least length of a secret. A shorter secret can be guessed.
const SHORTEST: usize = 12;

/// One warning for each insecure setting.
pub(super) fn warnings(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    believes_anybody(config, &mut found);
    plain_http(config, &mut found);
    open_screens(config, &mut found);
    unproven_keystone(config, &mut found);
    open_folder(&config.chronova.data_dir, &mut found);
    open_rules(config, &mut found);
    weak_secrets(config, &mut found);
    found.into_iter().map(|message| Problem { severity: Severity::Warning, place: None, message }).collect()
}

fn believes_anybody(config: &Config, found: &mut Vec<String>) {
    if config.api.auth_strategy == "noauth2" {
        found.push("[api] auth_strategy = noauth2 trusts every caller: set it to keystone outside of tests".to_owned());
    }
}

fn plain_http(config: &Config, found: &mut Vec<String>) {
    if config.wsgi.ssl_cert_file.is_some() {
        return;
    }
    let chronova = &config.chronova;
    let lists = [
        ("listen", &chronova.listen),
        ("compute_listen", &chronova.compute_listen),
        ("placement_listen", &chronova.placement_listen),
        ("identity_listen", &chronova.identity_listen),
        ("image_listen", &chronova.image_listen),
        ("network_listen", &chronova.network_listen),
        ("volume_listen", &chronova.volume_listen),
    ];
    for (name, addresses) in lists {
        let open = |address: &&String| address.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback());
        if let Some(address) = addresses.0.iter().find(open) {
            found.push(format!(
                "[chronova] {name} serves plain HTTP on {address}: passwords and tokens can be read on the way. Set [wsgi] \
                 ssl_cert_file and ssl_key_file, or listen on loopback behind a proxy with TLS"
            ));
        }
    }
}

/// Warns about guests' screens that a network carries in plain text. VNC servers ask nobody for a password.
fn open_screens(config: &Config, found: &mut Vec<String>) {
    let vnc = &config.vnc;
    let open = vnc.server_listen.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback());
    if vnc.enabled && open && !vnc.auth_schemes.iter().any(|scheme| scheme == "vencrypt") {
        found.push(format!(
            "[vnc] server_listen {}: whoever reaches the hosts' VNC ports sees and controls guests' screens. Set \
             auth_schemes = vencrypt with certificates, or let a firewall admit the gateway alone",
            vnc.server_listen
        ));
    }
}

/// Warns about a Keystone that an attacker could replace by a server that accepts every token.
fn unproven_keystone(config: &Config, found: &mut Vec<String>) {
    let section = &config.keystone_authtoken;
    let Some(url) = &section.auth_url else { return };
    let plain = url.strip_prefix("http://").and_then(|rest| rest.split(['/', ':']).next());
    if plain.is_some_and(|host| host != "localhost" && !host.starts_with("127.")) {
        found.push(format!(
            "[keystone_authtoken] auth_url {url} is plain HTTP: passwords and tokens can be read on the way. Use https, or a \
             network that only the control plane reaches"
        ));
    } else if section.insecure {
        found.push(
            "[keystone_authtoken] insecure trusts any certificate: name the authority in cafile instead".to_owned(),
        );
    }
}

/// Warns about a data folder that others can read, because it holds the log, the keys and the checkpoints.
fn open_folder(folder: &Path, found: &mut Vec<String>) {
    let Ok(metadata) = fs::metadata(folder) else { return };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let folder = folder.display();
        found.push(format!(
            "[chronova] data_dir {folder} has mode {mode:03o}: other users of this machine may read it. Run chmod \
             0700 {folder}"
        ));
    }
}

/// Warns about rules without a condition. Such a rule lets anybody with a token call its operations.
fn open_rules(config: &Config, found: &mut Vec<String>) {
    let policy = &config.oslo_policy;
    let mut files = vec![policy.policy_file.clone()];
    files.extend(policy.policy_dirs.0.iter().flat_map(|folder| files_of(Path::new(folder))));
    for file in files {
        let Some(rules) = rules_of(&file) else { continue };
        for (rule, check) in rules {
            if matches!(check.as_str().map(str::trim), Some("@" | "")) {
                found.push(format!("{}: rule {rule} allows everybody: name a role, as in role:member", file.display()));
            }
        }
    }
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// The rules of a policy file. Another check reports a file that cannot be read.
fn rules_of(file: &Path) -> Option<serde_json::Map<String, serde_json::Value>> {
    serde_saphyr::from_str(&fs::read_to_string(file).ok()?).ok()
}

fn weak_secrets(config: &Config, found: &mut Vec<String>) {
    let mut judge = |title: &str, secret: &str| {
        let weak = COMMON.contains(&secret.to_ascii_lowercase().as_str()) || secret.len() < SHORTEST;
        if !secret.is_empty() && weak {
            found.push(format!("{title} is easily guessed: set at least {SHORTEST} random characters"));
        }
    };
    judge("[neutron] metadata_proxy_shared_secret", &config.neutron.metadata_proxy_shared_secret);
    if let Some(file) = &config.chronova.admin_password_file
        && let Ok(password) = fs::read_to_string(file)
    {
        judge("the password in [chronova] admin_password_file", password.trim());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Loaded, MachineDefaults, load_on};
    use super::*;

    /// The warnings about this configuration, in a folder with these files.
    fn warnings_of(text: &str, files: &[(&str, &str)], mode: u32) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in files {
            fs::write(at(name), text).unwrap();
        }
        fs::create_dir(at("data")).unwrap();
        fs::set_permissions(at("data"), fs::Permissions::from_mode(mode)).unwrap();
        let text = format!(
            "[chronova]\ndata_dir = {}\n{}",
            at("data").display(),
            text.replace("HERE", &folder.path().display().to_string())
        );
        fs::write(at("a.conf"), text).unwrap();
        let machine = MachineDefaults { host_name: "control-1".to_owned(), host_address: "192.0.2.7".to_owned() };
        let Loaded { config, .. } = load_on(&machine, &[at("a.conf")]).unwrap();
        let here = format!("{}/", folder.path().display());
        warnings(&config).into_iter().map(|problem| problem.message.replace(&here, "")).collect()
    }

    /// A configuration, the files beside it, the mode of the data folder, and the expected warnings.
    type InsecureCase = (&'static str, &'static [(&'static str, &'static str)], u32, &'static str);

    #[test]
    fn each_insecure_setting_causes_its_warning() {
        const PLAIN: &str = "[keystone_authtoken]\nauth_url = http://c:5000\nauth_type = password\nuser_id = u\n\
                             password = w\nproject_id = p\n";
        const UNPROVEN: &str = "[keystone_authtoken]\nauth_url = https://c:5000\nauth_type = password\nuser_id = u\n\
                                password = w\nproject_id = p\ninsecure = true\n";
        let doors: [InsecureCase; 9] = [
            (PLAIN, &[], 0o700, "auth_url http://c:5000 is plain HTTP"),
            (UNPROVEN, &[], 0o700, "insecure trusts any certificate"),
            ("[api]\nauth_strategy = noauth2\n", &[], 0o700, "trusts every caller"),
            ("listen = 192.0.2.7:8774\n", &[], 0o700, "listen serves plain HTTP on 192.0.2.7:8774"),
            ("[vnc]\nserver_listen = 0.0.0.0\n", &[], 0o700, "server_listen 0.0.0.0: whoever reaches"),
            ("", &[], 0o755, "data has mode 755"),
            (
                "[oslo_policy]\npolicy_file = p.yaml\n",
                &[("p.yaml", "\"os_compute_api:servers:index\": \"@\"\n")],
                0o700,
                "p.yaml: rule os_compute_api:servers:index allows everybody",
            ),
            (
                "[neutron]\nmetadata_proxy_shared_secret = secret\n",
                &[],
                0o700,
                "metadata_proxy_shared_secret is easily guessed",
            ),
            (
                "admin_password_file = HERE/word\n",
                &[("word", "Password\n")],
                0o700,
                "admin_password_file is easily guessed",
            ),
        ];
        for (text, files, mode, expected) in doors {
            let warnings = warnings_of(text, files, mode);
            assert!(warnings.len() == 1 && warnings[0].contains(expected), "{expected}: {warnings:?}");
        }
    }

    #[test]
    fn secure_settings_cause_no_warning() {
        const LOCAL: &str = "[keystone_authtoken]\nauth_url = http://127.0.0.1:5000\nauth_type = password\nuser_id = u\n\
                             password = w\nproject_id = p\n";
        assert_eq!(warnings_of(LOCAL, &[], 0o700), [""; 0]);
        let screens = "[vnc]\nserver_listen = 0.0.0.0\nauth_schemes = vencrypt,none\nvencrypt_ca_certs = /ca.pem\n";
        assert_eq!(warnings_of(screens, &[], 0o700), [""; 0]);
        let shut = "listen = 127.0.0.1:8774\n[neutron]\nmetadata_proxy_shared_secret = Xo7eiph4oosu\n[oslo_policy]\npolicy_file = p.yaml\n";
        assert_eq!(
            warnings_of(shut, &[("p.yaml", "\"os_compute_api:servers:index\": \"role:member\"\n")], 0o700),
            [""; 0]
        );
    }
}
