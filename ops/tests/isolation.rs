//! Tests on every route that no tenant can reach another tenant's resources.
//!
//! A victim has one resource of each kind, each with a unique secret word. An attacker has one of each kind, too. Any
//! id, name, address or body field in the attacker's requests may be the victim's. Three rules must hold, whatever a
//! request means:
//!
//! 1. **Nothing is revealed.** No answer contains an id or a word of the victim that the request did not name.
//! 2. **Nothing can be found out.** An answer about the victim's thing equals the answer about a thing that does not
//!    exist. The attacker sends each request three times: with unknown ids, with the victim's, and with unknown ids
//!    again. If the second answer differs from the first and the third, it depends on the victim's state.
//! 3. **Nothing changes.** An accepted request changes nothing that the victim sees, and nothing that the administrator
//!    sees as the owner of the shared network.
//!
//! The requests come from the route tables, so a new route is tested without a change here. `CHRONOVA_SEED` seeds the
//! random choices. `CHRONOVA_PROBES` sets the number of attacks. Each attack has three requests. `CHRONOVA_SOAK` raises
//! the default number.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

#[path = "isolation/answer_rules.rs"]
mod answer_rules;
#[path = "isolation/probes.rs"]
pub(crate) mod probes;
#[path = "isolation/resources.rs"]
pub(crate) mod resources;
#[path = "isolation/tenant_user.rs"]
pub(crate) mod tenant_user;

use std::collections::BTreeMap;

use answer_rules::{Secrets, VictimView, canonical};
use probes::{Generator, Probe};
use resources::TenantResources;
use serde_json::json;
use tenant_user::TenantUser;

use crate::cloud::Cloud;

const FLEET: &str = "sim://2?latency_ms=0&vcpus=4096&memory_mib=8388608&disk_gib=1000000";

/// Quotas are unlimited. Otherwise the attacker's own quota would refuse requests before the checks under test. The
/// policy `@` lets everybody call an operation. Even then, the operation must not reveal others' resources.
const CONFIG: &str = "[volume]\nshared = true\n[chronova]\ntrusted_proxies = 127.0.0.1\n[api]\nuse_forwarded_for = true\n\
                      [oslo_policy]\npolicy_file = open.yaml\n[quota]\nserver_groups = -1\nserver_group_members = -1\n\
                      key_pairs = -1\n";
const OPEN_RULES: &str = "\"os_compute_api:servers:index\": \"@\"\n\"os_compute_api:servers:detail\": \"@\"\n\
                          \"volume:attachment_index\": \"@\"\n\"volume:get_all_attachments\": \"@\"\n";

/// A rule that did not hold: the operation and the rule, with the first request that showed it.
type Findings = BTreeMap<(String, &'static str), String>;

#[test]
fn no_tenant_reaches_another() {
    let soak = std::env::var_os("CHRONOVA_SOAK").is_some();
    let count = number("CHRONOVA_PROBES", if soak { 200_000 } else { 6_500 });
    let seed = number("CHRONOVA_SEED", 11);
    let mut cloud = Cloud::new(FLEET);
    cloud.configure(CONFIG);
    std::fs::write(cloud.folder.path().join("open.yaml"), OPEN_RULES).unwrap();
    cloud.start();
    let admin = TenantUser::new(&cloud, "admin", "admin");
    let victim = TenantUser::new(&cloud, "vera", "victim");
    let attacker = TenantUser::new(&cloud, "mallory", "evil");
    let shared = resources::common(&mut cloud, &admin);
    let theirs = TenantResources::build(&mut cloud, &admin, &victim, &shared, "Xanadu");
    let mut own = TenantResources::build(&mut cloud, &admin, &attacker, &shared, "mine");

    let mut secrets = Secrets::of(&theirs);
    let mut before = VictimView::take(&victim, &admin, &theirs, &shared);
    let mut findings = Findings::new();
    let mut generator = Generator::new(seed);
    let mut tally = Tally::default();
    for number in 0..count {
        let probe = generator.next(&theirs, &own, &shared);
        let accepted = attack(&attacker, &probe, &secrets, &mut findings, &mut tally);
        if accepted && probe.writes() {
            if probe.op.starts_with("ports.") {
                secrets.written_as_devices(&probe.named[0]);
            }
            tally.views += 1;
            let after = VictimView::take(&victim, &admin, &theirs, &shared);
            if let Some(difference) = before.difference(&after) {
                note(&mut findings, &probe, "changes", format!("{} changed {difference}", probe.theirs));
                before = after;
            }
        }
        if number % 250 == 249 && !own.is_whole(&attacker) {
            tally.rebuilt += 1;
            own = TenantResources::build(&mut cloud, &admin, &attacker, &shared, &format!("mine{number}"));
        }
    }
    answer_rules::external_network_is_closed(&mut cloud, &attacker, &shared, &mut findings);
    let after = VictimView::take(&victim, &admin, &theirs, &shared);
    let lost = before.difference(&after);
    answer_rules::backups_survive(&mut cloud, &victim, &attacker, &theirs, &mut findings);
    let requests = tenant_user::requests();
    println!("CHRONOVA_SEED={seed}: {requests} requests, {tally:?}");
    for ((op, rule), text) in &findings {
        println!("{op} {rule}: {text}");
    }
    assert!(findings.is_empty(), "{} findings, seed {seed}", findings.len());
    assert_eq!(lost, None, "the victim's resources have changed");
    assert!(tally.accepted * 20 > count, "too few attacks were accepted: {tally:?}");
    assert!(tally.unsteady * 20 < count, "too few answers can be compared: {tally:?}");
    assert!(std::env::var_os("CHRONOVA_PROBES").is_some() || requests >= 20_000, "only {requests} requests");
}

/// A token without any scope reaches nothing, even if the policy rule is `@`. Users with projects create the resources
/// first. Then the same cloud restarts and accepts only tokens of its own identity service.
#[test]
fn a_token_without_scope_reaches_no_resource() {
    let soak = std::env::var_os("CHRONOVA_SOAK").is_some();
    let (count, seed) = (number("CHRONOVA_PROBES", if soak { 50_000 } else { 3_000 }), number("CHRONOVA_SEED", 20));
    let mut cloud = Cloud::new(FLEET);
    cloud.configure(CONFIG);
    // The operator has switched off the check of scopes, so the policy's scopes do not protect here.
    let password = cloud.folder.path().join("password");
    cloud.configure(&format!(
        "[chronova]\nadmin_password_file = {}\n[oslo_policy]\nenforce_scope = false\n",
        password.display()
    ));
    std::fs::write(cloud.folder.path().join("open.yaml"), OPEN_RULES).unwrap();
    std::fs::write(password, "an-administrators-password\n").unwrap();
    cloud.start();
    let admin = TenantUser::new(&cloud, "admin", "admin");
    let (victim, attacker) = (TenantUser::new(&cloud, "vera", "victim"), TenantUser::new(&cloud, "mallory", "evil"));
    let shared = resources::common(&mut cloud, &admin);
    let theirs = TenantResources::build(&mut cloud, &admin, &victim, &shared, "Xanadu");
    let own = TenantResources::build(&mut cloud, &admin, &attacker, &shared, "mine");
    let (secrets, before) = (Secrets::of(&theirs), VictimView::take(&victim, &admin, &theirs, &shared));
    cloud.stop();

    cloud.replace("auth_strategy = noauth2", "auth_strategy = keystone");
    cloud.start();
    let root = TenantUser::login(&cloud, "admin", "an-administrators-password", Some("admin"));
    let eve = json!({"user": {"name": "eve", "password": "a-password-of-eves"}});
    root.post("/identity/v3/users", &eve).expect(&[201]);
    let eve = TenantUser::login(&cloud, "eve", "a-password-of-eves", None);
    let (mut findings, mut generator, mut tally) = (Findings::new(), Generator::new(seed), Tally::default());
    for _ in 0..count {
        let probe = generator.next(&theirs, &own, &shared);
        attack(&eve, &probe, &secrets, &mut findings, &mut tally);
    }
    cloud.stop();

    cloud.replace("auth_strategy = keystone", "auth_strategy = noauth2");
    cloud.start();
    println!("CHRONOVA_SEED={seed}: {tally:?}");
    for ((op, rule), text) in &findings {
        println!("{op} {rule}: {text}");
    }
    assert!(findings.is_empty(), "{} findings, seed {seed}", findings.len());
    assert!(tally.unauthorized * 2 < count, "the server refuses the token too often: {tally:?}");
    let after = VictimView::take(&victim, &admin, &theirs, &shared);
    assert_eq!(before.difference(&after), None, "the victim's resources have changed");
}

#[derive(Debug, Default)]
struct Tally {
    /// Attacks that were answered with 2xx.
    accepted: u64,
    /// Attacks with an unknown token. They prove nothing about the rights of a valid token.
    unauthorized: u64,
    /// Attacks in which the two answers about unknown resources differed, so the comparison says nothing.
    unsteady: u64,
    /// How many times the test compared everything that the victim sees.
    views: u64,
    /// How many times the attacker had to create its own resources again.
    rebuilt: u64,
}

/// Sends the three requests of a probe; says whether the request about the victim was accepted.
fn attack(person: &TenantUser, probe: &Probe, secrets: &Secrets, findings: &mut Findings, tally: &mut Tally) -> bool {
    let before = person.send(&probe.unknown);
    let asked = person.send(&probe.theirs);
    let after = person.send(&probe.unknown);
    if let Some(word) = secrets.revealed_by(&asked.text, &probe.theirs) {
        note(findings, probe, "tells", format!("{}: {} tells {word}", probe.theirs, asked.status));
    }
    let [theirs, unknown] = &probe.named;
    let (first, middle, last) = (canonical(&before, unknown), canonical(&asked, theirs), canonical(&after, unknown));
    // An accepted write changes the attacker's own state, so the next answer may differ for that reason.
    let moved = probe.writes() && (200..300).contains(&before.status);
    let own_words = probe.op.starts_with("ports.") && secrets.are_devices(theirs);
    if first != last {
        tally.unsteady += 1;
    } else if middle != first && !probe.may_differ() && !moved && !own_words {
        let shown = format!("{}: {} but {} for an unknown one", probe.theirs, asked.shown(), before.shown());
        note(findings, probe, "depends", shown);
    }
    let accepted = (200..300).contains(&asked.status);
    tally.accepted += u64::from(accepted);
    tally.unauthorized += u64::from(asked.status == 401);
    accepted
}

fn note(findings: &mut Findings, probe: &Probe, rule: &'static str, text: String) {
    findings.entry((probe.op.to_owned(), rule)).or_insert(text);
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
