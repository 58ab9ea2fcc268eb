//! The targets: their seed inputs, their meaningful words, and the function that tries an input. The tests and `fuzz/`
//! use the same targets.

use std::cell::OnceCell;

use chronova_actors::metadata::{GuestMetadata, MetadataOptions};
use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold as _;
use chronova_events::ids::InstanceId;
use chronova_events::instance::{Alive, Instance, InstanceEvent};
use chronova_web::auth::Caller;
use chronova_web::config::PolicyConfig;
use chronova_web::policy::{Enforcer, Overrides, PolicyTarget, check};
use chronova_web::query::Query;
use chronova_web::service::Service;
use serde_json::Value;

use super::judge_bytes;
use crate::world::build_request;

/// A parser of outside data.
#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    /// The number of inputs in an ordinary test run.
    pub rounds: u64,
    pub seeds: &'static [&'static [u8]],
    pub words: &'static [&'static str],
    /// Tries an input; panics on a finding.
    pub judge: fn(&[u8]),
}

impl Target {
    pub fn run(&self) {
        judge_bytes(self.name, self.rounds, self.seeds, self.words, self.judge);
    }
}

/// All targets except the requests, which need a control plane: [`super::requests`].
pub const TARGETS: [&Target; 4] = [&POLICY, &QUERY, &USER_DATA, &CONFIGURATION];

pub const POLICY: Target = Target {
    name: "policy",
    rounds: 1_500,
    seeds: &[
        b"\"os_compute_api:servers:create\": \"role:admin and (project_id:%(project_id)s or not rule:default)\"\n",
        b"\"a\": \"@\"\n\"b\": \"!\"\nc: \"rule:a or rule:b\"\n",
        b"{\"admin_required\": [[\"role:admin\"], [\"is_admin:1\", \"rule:x\"]]}",
        b"default:\n  - - role:reader\n    - system_scope:all\n",
        b"x: \"'literal':%(target.user.id)s or None:%(a)s or True:%(b)s\"\n",
        b"x: &a \"role:y\"\ny: *a\n? complex\n: \"role:z\"\n",
        b"os_compute_api:os-flavor-manage: \"(((role:a)) and not (not role:b))\"\n---\n",
        b"http: \"http://host/check\"\n",
    ],
    words: &[
        "and",
        "or",
        "not",
        "(",
        ")",
        "((",
        "rule:",
        "role:",
        "@",
        "!",
        "%(project_id)s",
        "%(",
        ")s",
        ":",
        "\"",
        "'",
        "[",
        "]",
        "- ",
        "{",
        "}",
        "&a",
        "*a",
        "!!binary",
        "? ",
        "|",
        ">",
        "#",
        "---",
        "rule:default",
        "is_admin:True",
        "user_id:%(user_id)s",
        "os_compute_api:servers:create",
        "\n",
        "  ",
    ],
    judge: judge_policy,
};

fn judge_policy(input: &[u8]) {
    let caller = Caller::anonymous();
    let target = PolicyTarget::of(&caller);
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(parsed) = check::parse(text) {
        parsed.references();
        parsed.holds(&caller, &target, &|_| false);
    }
    let Ok(overrides) = Overrides::parse(text, "policy.yaml") else { return };
    let Ok(enforcer) = Enforcer::new(&PolicyConfig::default(), &overrides) else { return };
    for rule in overrides.names().take(20) {
        for service in [Service::Compute, Service::Placement] {
            let Some(rules) = enforcer.rules(service) else { continue };
            rules.allows(rule, &caller, &target);
        }
    }
}

pub const QUERY: Target = Target {
    name: "query",
    rounds: 5_000,
    seeds: &[
        b"limit=1&marker=70a599e0-31e7-49b7-b260-868f441e862b&sort_key=a&sort_key=b",
        b"a=%20b+c&a=&=x&&;",
        b"resources=VCPU:1,MEMORY_MB:512&required=in:A,!B&member_of=in:x,y&root_required=A&group_policy=none",
        b"changes-since=2026-01-31T12:00:00%2B01:00&tags=a,b&not-tags-any=c",
        b"name=%ff%fe&x=%",
        "ü=ß&🦀=%F0%9F%A6%80".as_bytes(),
    ],
    words: &["%", "%2", "%00", "%zz", "&", "=", "+", ";", "#", "?", "[]", "limit=", "marker=", "in:", "!", ","],
    judge: judge_query,
};

fn judge_query(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(query) = Query::parse(text) else { return };
    let (lists, single) = (query.as_lists(), query.as_single());
    assert_eq!(lists.as_object().unwrap().len(), single.as_object().unwrap().len());
    // Writing the parsed value gives an equivalent text.
    let pairs = query.pairs().iter().map(|(key, value)| (key.as_str(), value.as_str()));
    assert_eq!(Query::parse(&Query::encode(pairs)).unwrap(), query);
}

pub const USER_DATA: Target = Target {
    name: "user_data",
    rounds: 1_500,
    seeds: &[
        b"IyEvYmluL3NoCmVjaG8gaGVsbG8K",
        b"Y2xvdWQ=\nY29uZmln\r\n",
        b"TUlNRS1WZXJzaW9uOiAxLjA=",
        b"====",
        b"\xf0\x9f\xa6\x80",
    ],
    words: &["=", "==", "\n", "+/", "-_", "AAAA", " "],
    judge: judge_user_data,
};

thread_local! {
    /// The server for which config drives are made.
    static SERVER: OnceCell<Alive> = const { OnceCell::new() };
}

fn server() -> Alive {
    let make = || {
        let mut state = Instance::default();
        state.evolve(&InstanceEvent::BuildRequested(build_request(InstanceId::random())), Timestamp(1));
        state.alive().expect("a requested server must exist").clone()
    };
    SERVER.with(|server| server.get_or_init(make).clone())
}

fn judge_user_data(input: &[u8]) {
    let mut server = server();
    let text = String::from_utf8_lossy(input).into_owned();
    server.request.user_data = Some(text.clone());
    server.request.name = text.chars().take(255).collect();
    server.request.hostname = server.request.name.clone();
    server.request.metadata = [(server.request.name.clone(), text.chars().rev().take(255).collect())].into();
    // Either the guest gets its user data and valid JSON, or the input is refused.
    let options = MetadataOptions::default();
    let about = GuestMetadata {
        server: &server,
        password: Some(&text),
        options: &options,
        devices: &[],
        plugged: &[],
        floating_ip: None,
        said: None,
    };
    if let Ok(files) = about.files() {
        assert!(files.iter().any(|(name, _)| name == "openstack/latest/user_data"));
        for (name, content) in files.iter().filter(|(name, _)| name.rsplit('.').next() == Some("json")) {
            serde_json::from_slice::<Value>(content).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        about.config_drive().unwrap();
    }
}

pub const CONFIGURATION: Target = Target {
    name: "configuration",
    rounds: 400,
    seeds: &[
        b"[DEFAULT]\ndebug = true\nhost=a\n[chronova]\nhypervisors = sim://3 qemu:///system\nlisten = 127.0.0.1:1\n",
        b"[filter_scheduler]\nenabled_filters = ComputeFilter,\n  ImagePropertiesFilter\nram_weight_multiplier = 1.5\n",
        b"; comment\n# another\n[quota]\ninstances = -1\ncores=20\n\n[nonsense]\nx = y\n",
        b"[api]\nauth_strategy = noauth2\nmax_limit = 1000\n[cors]\nallowed_origin = http://a,https://b\n",
        b"[DEFAULT]\nstate_path = $instances_path\ninstances_path = $state_path\nmy_ip = ${host}\n",
        b"[wsgi]\nssl_cert_file = /a\nclient_socket_timeout = 900\n[eventstoredb]\nusers = a:read:b\nusers = c:peer:d\n",
    ],
    words: &[
        "[",
        "]",
        "=",
        ":",
        "$",
        "${",
        "}",
        "$state_path",
        "\\",
        "\n",
        "\n ",
        ",",
        "\"",
        "'",
        "#",
        ";",
        "%",
        "true",
        "-1",
        "[DEFAULT]\n",
        "[chronova]\n",
        "[libvirt]\n",
        "cpu_mode = ",
        "hypervisors = ",
        "sim://",
        "?",
        "&",
        "qemu+ssh://",
        "instance_name_template = ",
        "%(uuid)s",
        "%08x",
        "$my_ip",
        "allocation_ratio = ",
    ],
    judge: judge_configuration,
};

thread_local! {
    static SCRATCH: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

fn judge_configuration(input: &[u8]) {
    let file =
        SCRATCH.with(|scratch| scratch.get_or_init(|| tempfile::tempdir().unwrap()).path().join("chronova.conf"));
    std::fs::write(&file, input).unwrap();
    let (text, usable) = chronova::config::check(std::slice::from_ref(&file));
    assert!(text.contains(if usable { "\nusable: " } else { "\nnot usable: " }) || text.starts_with("usable: "));
}
