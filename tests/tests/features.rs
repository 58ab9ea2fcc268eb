//! The page `docs/features.md`: the maturity of each feature, the drivers that have it, and its evidence.
//!
//! The words and rules are those of Nova's documentation of its support matrix. The page is made from the table of
//! features, from the optional parts of the drivers and from the requirements.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "features/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_hypervisor::backend::{self, DriverOptions};
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::sim::CoreOnly;
use chronova_web::service::Service;

use table::{FEATURES, Feature, Persona, Standing};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maturity {
    Incomplete,
    Experimental,
    Complete,
    CompleteAndRequired,
    Deprecated,
}

impl Maturity {
    fn word(self) -> &'static str {
        match self {
            Self::Incomplete => "Incomplete",
            Self::Experimental => "Experimental",
            Self::Complete => "Complete",
            Self::CompleteAndRequired => "Complete and Required",
            Self::Deprecated => "Deprecated",
        }
    }
}

/// How well a feature is tested, as the requirement's status says.
fn rating(status: &str) -> &'static str {
    let on_real_hosts = status.contains("tests/real/");
    match status.split(':').next().unwrap_or_default() {
        "done" if on_real_hosts => "Checked",
        "partial" if on_real_hosts => "Regularly Tested",
        "done" | "partial" => "Implemented",
        "open" | "not planned" => "Not Implemented",
        _ => "Unknown",
    }
}

/// The five parts of the evidence for a complete feature.
#[derive(Debug, Clone, Copy)]
struct Evidence<'a> {
    /// The route tables, from which the API's documentation is generated, have the call.
    served: bool,
    /// The manual for operators has the page.
    documented: bool,
    /// A tempest test that must pass covers the feature.
    tempest: bool,
    /// The requirement's status. The status `done` with a script of `tests/real` proves that the feature is reliable on
    /// real hosts.
    status: &'a str,
    /// Whether no removal of the feature is planned.
    stays: bool,
}

impl Evidence<'_> {
    fn is_whole(&self) -> bool {
        self.served && self.documented && self.tempest && rating(self.status) == "Checked" && self.stays
    }
}

fn maturity(standing: Standing, evidence: Evidence<'_>) -> Maturity {
    match (evidence.is_whole(), standing) {
        (true, Standing::Mandatory) => Maturity::CompleteAndRequired,
        (true, _) => Maturity::Complete,
        (false, _) if !evidence.stays => Maturity::Deprecated,
        (false, _) if rating(evidence.status) == "Not Implemented" => Maturity::Incomplete,
        (false, _) => Maturity::Experimental,
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The requirements of part 2: what each demands, and its status.
fn rows() -> BTreeMap<String, (String, String)> {
    let part = text("docs/requirements/part2.md");
    let rows = part.lines().filter(|line| line.starts_with("| P2-"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        (cells[0].to_owned(), (cells[1].to_owned(), cells[5].to_owned()))
    })
    .collect()
}

/// The operations of the Compute API, with unnamed parameters.
fn served() -> BTreeSet<String> {
    let plain = |path: &str| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let routes = chronova_web::tables::of(Service::Compute).iter().copied().flatten();
    routes
        .map(|route| {
            let action = route.action.map(|action| format!(" {action}")).unwrap_or_default();
            format!("{} {}{action}", route.method.as_str(), plain(route.path))
        })
        .collect()
}

/// The tempest tests that must pass.
fn tempest() -> String {
    ["passes.txt", "passes-volumes.txt", "passes-testbed.txt"]
        .map(|name| text(&format!("tests/tempest/{name}")))
        .concat()
}

/// The drivers, each with its name on the page. The last one is the minimum for a new driver.
fn drivers() -> [(&'static str, Arc<dyn Driver>); 3] {
    let open = |uri: &str| backend::open(uri, &DriverOptions::default()).unwrap().remove(0);
    let simulated = open("sim://1");
    let core = CoreOnly::around(Arc::clone(&simulated));
    [("libvirt", open("test:///default")), ("simulated", simulated), ("minimum", core)]
}

/// Whether the driver has the part that the feature needs.
fn has(driver: &dyn Driver, feature: &Feature) -> bool {
    feature.needs.is_none_or(|part| part.is_offered_by(driver))
}

fn evidence<'a>(
    feature: &Feature,
    served: &BTreeSet<String>,
    tempest: &str,
    rows: &'a BTreeMap<String, (String, String)>,
) -> Evidence<'a> {
    Evidence {
        served: served.contains(feature.call),
        documented: root().join("docs").join(feature.page).is_file(),
        tempest: feature.tempest.is_some_and(|name| tempest.contains(&format!(".{name}"))),
        status: &rows[feature.row].1,
        stays: !feature.leaves,
    }
}

const INTRODUCTION: &str = "\
# Features

Made from `tests/tests/features/table.rs` and the [requirements](requirements/README.md) by `cargo xtask gen`; do not edit.

The features are those of Nova's [support matrix](https://docs.openstack.org/nova/zed/user/support-matrix.html). The words
for users, maturity and rating are those of its
[feature classification](https://docs.openstack.org/nova/zed/user/feature-classification.html).

| maturity | |
|---|---|
| Incomplete | not there yet |
| Experimental | it works, but a part of the evidence for Complete is missing |
| Complete | the API has it, this manual has it, a tempest test decides it, a script on real hosts proves it in every run, and it stays |
| Complete and Required | Complete, and every driver has it |
| Deprecated | it was never Complete, and it will be removed |

| rating | |
|---|---|
| Unknown | not assessed |
| Not Implemented | no test, because there is nothing to test |
| Implemented | tests on simulated hosts |
| Regularly Tested | scripts on real hosts prove a part of it, or prove it in long runs |
| Checked | scripts on real hosts prove all of it in every run |

A mandatory feature works with every driver. If one driver lacks a feature, the feature is optional. Each driver has at
least one kind of console and one way of guest setup. The column *minimum* is a driver without optional parts, from which
a new driver starts. If a driver lacks a part, the operation fails before its first step, and the fault names the part.
The host also lacks the traits of the part.

## Deployments under test

| | simulated hosts | real hosts |
|---|---|---|
| hypervisor | driver `sim` | libvirt 9.0 and QEMU 7.2 of Debian 12, emulated processors |
| hosts | 1 to 4 | 1 to 3 libvirt daemons on one machine |
| storage | memory | directory pools; LVM, Ceph and Cinder in scripts of their own |
| network driver | the embedded network service | libvirt's networks; OVN and Neutron in scripts of their own |
| image types | raw, qcow2, iso | raw, qcow2, iso |

## The matrix
";

const GROUPS_HEAD: &str = "
## NFV and HPC

Nova classifies some features for NFV and for HPC, apart from those for general purposes, which are in the matrix. None
of them needs an optional part of a driver.

| group | feature | rating | evidence |
|---|---|---|---|
";

/// Group, title, page and requirement of the features that Nova classifies for NFV and for HPC.
const GROUPS: [(&str, &str, &str, &str); 5] = [
    ("NFV", "NUMA placement", "cpus.md", "P2-024"),
    ("NFV", "CPU pinning policy", "cpus.md", "P2-025"),
    ("NFV", "CPU pinning thread policy", "cpus.md", "P2-026"),
    ("HPC", "GPU passthrough", "pci.md", "P2-029"),
    ("HPC", "virtual GPUs", "virtual-gpus.md", "P2-030"),
];

fn page() -> String {
    let (rows, served, tempest, drivers) = (rows(), served(), tempest(), drivers());
    let mut page = INTRODUCTION.to_owned();
    page += "\n| feature | for | status | maturity | rating |";
    for (name, _) in &drivers {
        let _ = write!(page, " {name} |");
    }
    page += " evidence |\n|---|---|---|---|---|:---:|:---:|:---:|---|\n";
    for feature in FEATURES {
        let evidence = evidence(feature, &served, &tempest, &rows);
        let standing = match feature.standing {
            Standing::Mandatory => "mandatory".to_owned(),
            Standing::OneOf(group) => format!("one {group}"),
            Standing::Optional => "optional".to_owned(),
        };
        let maturity = maturity(feature.standing, evidence).word();
        let _ = write!(
            page,
            "| `{}`: {} | {} | {standing} | {maturity} | {} |",
            feature.key,
            feature.title,
            feature.persona.word(),
            rating(evidence.status)
        );
        let there = rating(evidence.status) != "Not Implemented";
        for (_, driver) in &drivers {
            page += if there && has(driver.as_ref(), feature) { " yes |" } else { " no |" };
        }
        let decided = feature.tempest.map(|name| format!(", tempest `{name}`")).unwrap_or_default();
        let (call, row, manual) = (feature.call, feature.row, feature.page);
        let _ = writeln!(page, " `{call}`, [{manual}]({manual}){decided}, [{row}](requirements/part2.md) |");
    }
    page += GROUPS_HEAD;
    for (group, title, manual, row) in GROUPS {
        let rating = rating(&rows[row].1);
        let _ =
            writeln!(page, "| {group} | {title} | {rating} | [{manual}]({manual}), [{row}](requirements/part2.md) |");
    }
    page
}

#[actix_rt::test]
async fn generated_features_are_current() {
    expectorate::assert_contents(root().join("docs/features.md"), &page());
}

/// A feature is a concept of the API. Its call is served, its page exists, and its requirement has the same key.
#[test]
fn a_feature_is_a_concept_of_the_api() {
    let (rows, served, tempest) = (rows(), served(), tempest());
    let mut keys = BTreeSet::new();
    for feature in FEATURES {
        let key = feature.key;
        assert!(keys.insert(key), "{key} is there twice");
        let found = evidence(feature, &served, &tempest, &rows);
        assert!(found.served, "{key}: {} is not served", feature.call);
        assert!(found.documented, "{key}: there is no docs/{}", feature.page);
        assert_eq!(found.tempest, feature.tempest.is_some(), "{key}: {:?} is on no list", feature.tempest);
        let demand = &rows[feature.row].0;
        let named = [format!("`operation.{key}`"), format!("`{key}`")].iter().any(|name| demand.starts_with(name));
        assert!(named, "{key}: {} is about another feature: {demand}", feature.row);
        for plumbing in ["iscsi", "rbd", "ceph", "lvm", "nfs", "kvm", "qemu", "libvirt", "tap", "bridge"] {
            assert!(!key.contains(plumbing), "{key} is no concept of the API");
        }
    }
}

/// The matrix has every entry of Nova's matrix, except those that are not planned. Back ends of storage are no
/// features.
#[test]
fn the_matrix_has_every_entry_of_novas() {
    let known: BTreeSet<&str> = FEATURES.iter().map(|feature| feature.row).collect();
    let rows = rows();
    let wanted = rows.iter().filter(|(id, (demand, status))| {
        ("P2-034"..="P2-090").contains(&id.as_str())
            && !status.starts_with("not planned")
            && !demand.contains("storage.block.backend.")
    });
    let missing: Vec<&String> = wanted.map(|(id, _)| id).filter(|id| !known.contains(id.as_str())).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[actix_rt::test]
async fn every_driver_has_the_mandatory_features_and_one_of_each_group() {
    let mandatory: BTreeSet<&str> =
        FEATURES.iter().filter(|feature| feature.standing == Standing::Mandatory).map(|feature| feature.key).collect();
    assert_eq!(mandatory, BTreeSet::from(["get-guest-info", "launch", "storage.image", "terminate"]));
    let (rows, drivers) = (rows(), drivers());
    for feature in FEATURES {
        let everywhere = drivers.iter().all(|(_, driver)| has(driver.as_ref(), feature));
        assert!(everywhere || feature.standing != Standing::Mandatory, "a driver lacks {}", feature.key);
        let proven = feature.standing != Standing::Mandatory || rating(&rows[feature.row].1) == "Checked";
        assert!(proven, "{} is mandatory and not proven", feature.key);
    }
    for group in ["console", "guest setup"] {
        let members: Vec<&Feature> =
            FEATURES.iter().filter(|feature| feature.standing == Standing::OneOf(group)).collect();
        assert!(members.len() > 1, "{group}: there is nothing to choose");
        for (name, driver) in &drivers[..2] {
            let one = members
                .iter()
                .any(|feature| has(driver.as_ref(), feature) && rating(&rows[feature.row].1) == "Checked");
            assert!(one, "{name} has no {group}");
        }
    }
    let (_, libvirt) = &drivers[0];
    assert!(FEATURES.iter().all(|feature| has(libvirt.as_ref(), feature)), "the driver of real hosts lacks a part");
}

#[test]
fn a_feature_is_complete_with_all_five_parts_of_the_evidence() {
    let status = "done: a_test, tests/real/client.sh";
    let whole = Evidence { served: true, documented: true, tempest: true, status, stays: true };
    assert_eq!(maturity(Standing::Optional, whole), Maturity::Complete);
    assert_eq!(maturity(Standing::OneOf("console"), whole), Maturity::Complete);
    assert_eq!(maturity(Standing::Mandatory, whole), Maturity::CompleteAndRequired);
    for lacking in [
        Evidence { served: false, ..whole },
        Evidence { documented: false, ..whole },
        Evidence { tempest: false, ..whole },
        Evidence { status: "done: a_test", ..whole },
        Evidence { status: "partial: in long runs only (tests/real/attached.sh)", ..whole },
    ] {
        for standing in [Standing::Optional, Standing::Mandatory] {
            assert_eq!(maturity(standing, lacking), Maturity::Experimental, "{lacking:?}");
        }
    }
    assert_eq!(maturity(Standing::Optional, Evidence { status: "open", ..whole }), Maturity::Incomplete);
    // A feature whose removal is planned is not Complete, so a Complete feature is never Deprecated.
    for status in [status, "done: a_test", "open"] {
        let leaving = Evidence { stays: false, status, ..whole };
        assert_eq!(maturity(Standing::Optional, leaving), Maturity::Deprecated, "{status}");
    }
    let words = [
        Maturity::Incomplete,
        Maturity::Experimental,
        Maturity::Complete,
        Maturity::CompleteAndRequired,
        Maturity::Deprecated,
    ]
    .map(Maturity::word);
    assert_eq!(words, ["Incomplete", "Experimental", "Complete", "Complete and Required", "Deprecated"]);
    assert!(words.iter().all(|word| INTRODUCTION.contains(&format!("\n| {word} |"))), "the page explains each word");
}

#[test]
fn a_rating_says_how_well_a_feature_is_tested() {
    let cases = [
        ("done: a_test, tests/real/live.sh \"a check\"", "Checked"),
        ("partial: in long runs only (`tests/real/attached.sh`)", "Regularly Tested"),
        ("done: a_test", "Implemented"),
        ("partial: one command for all servers of a host", "Implemented"),
        ("open", "Not Implemented"),
        ("not planned: no hardware", "Not Implemented"),
        ("", "Unknown"),
    ];
    for (status, word) in cases {
        assert_eq!(rating(status), word, "{status}");
        assert!(INTRODUCTION.contains(&format!("\n| {word} |")), "the page does not explain {word}");
    }
}

#[test]
fn each_persona_has_features() {
    for persona in Persona::ALL {
        let count = FEATURES.iter().filter(|feature| feature.persona == persona).count();
        assert!(count >= 4, "{}: {count}", persona.word());
    }
}
