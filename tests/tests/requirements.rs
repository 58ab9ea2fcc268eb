//! Every row of docs/requirements has a unique id and a valid status. The tests that a status names exist, and ran.
//! If only a long run has a test or check, the result of the last long run in `tests/soak.txt` counts.
//!
//! `CHRONOVA_RAN` is the folder in which `ops/test.sh` gathers what ran. Without it only the texts are compared.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "requirements/long_runs.rs"]
mod long_runs;
#[path = "requirements/ran.rs"]
mod ran;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use long_runs::LongRuns;
use ran::{Outcome, Ran};

/// (part, rows). Ids are never reused and rows never removed, so these numbers only grow.
const PARTS: [(u32, usize); 4] = [(1, 321), (2, 283), (3, 282), (4, 287)];

#[derive(Debug)]
struct Row {
    id: String,
    place: String,
    status: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Status {
    Open,
    Partial,
    NotPlanned,
    Done(Vec<Proof>),
}

/// A test function or a script that a row names. A row may also name one check of a script.
#[derive(Debug, PartialEq, Eq)]
struct Proof {
    test: String,
    check: Option<String>,
}

impl Proof {
    /// `a_test`, `tests/real/live.sh` or `tests/real/live.sh "the guest runs on no other host"`.
    fn parse(text: &str) -> Self {
        let (test, check) =
            text.trim().split_once(" \"").map_or((text.trim(), None), |(test, check)| (test, Some(check)));
        let check = check.map(|check| check.trim_end_matches('"').to_owned());
        Self { test: test.trim_matches('`').to_owned(), check }
    }

    fn outcome(&self, ran: &Ran) -> Option<Outcome> {
        match &self.check {
            Some(check) => ran.check(&self.test, check),
            None => ran.outcome(&self.test),
        }
    }

    /// Whether only a long run has this proof: it is a script of `tests/soak`, or a check in the long form of its
    /// script. `script` is the text of that script.
    fn is_long(&self, script: &str) -> bool {
        let in_long_form =
            |check: &str| short_form(script).is_some_and(|short| script.contains(check) && !short.contains(check));
        self.test.starts_with("tests/soak/") || self.check.as_deref().is_some_and(in_long_form)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn rows(part: u32) -> Vec<Row> {
    let name = format!("docs/requirements/part{part}.md");
    let text = fs::read_to_string(root().join(&name)).unwrap();
    let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with(&format!("| P{part}-")));
    rows.map(|(number, line)| {
        let place = format!("{name}:{}", number + 1);
        let cells = cells(line);
        assert_eq!(cells.len(), 6, "{place}: a row has six cells, this one has {}", cells.len());
        Row { id: cells[0].clone(), place, status: cells[5].clone() }
    })
    .collect()
}

/// The cells of a table row; `\|` is a bar inside a cell.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')).expect("no bar at both ends");
    inner.replace("\\|", "\u{1}").split('|').map(|cell| cell.trim().replace('\u{1}', "\\|")).collect()
}

fn parse(status: &str) -> Result<Status, String> {
    let (word, rest) = status.split_once(": ").unwrap_or((status, ""));
    match (word, rest.trim()) {
        ("open", "") => Ok(Status::Open),
        ("partial", what) if !what.is_empty() => Ok(Status::Partial),
        ("not planned", why) if !why.is_empty() => Ok(Status::NotPlanned),
        ("done", tests) if !tests.is_empty() => Ok(Status::Done(tests.split(',').map(Proof::parse).collect())),
        _ => Err(format!(
            "`{status}` is none of `open`, `partial: WHAT LACKS`, `done: TEST[, TEST]`, `not planned: WHY`"
        )),
    }
}

/// The names of all test functions of the tree.
fn test_functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in rust_files(&root()) {
        names.extend(tests_in(&fs::read_to_string(file).unwrap()));
    }
    names
}

/// The functions below a test attribute: `#[test]`, `#[tokio::test]`, `#[actix_web::test]`, ... If a macro makes tests,
/// its call lists them with such an attribute.
fn tests_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test") || path == "proptest";
            is_test &= path != "ignore";
        }
        let function =
            line.split_once("fn ").filter(|(before, _)| before.chars().all(|c| c.is_alphabetic() || c == ' '));
        if let Some((_, rest)) = function {
            if is_test {
                names.push(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
            }
            is_test = false;
        }
    }
    names
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Whether the name is that of a script: an existing file below `tests` or `ops` that ends in `.sh` or `.py`.
fn is_script(name: &str) -> bool {
    let checked = name.starts_with("tests/") || name.starts_with("ops/");
    checked && Path::new(name).extension().is_some_and(|e| e == "sh" || e == "py") && root().join(name).is_file()
}

/// The part of a script that every run has; the rest is for long runs. `None` if the script has no long form.
fn short_form(script: &str) -> Option<&str> {
    let end = script.starts_with("long_run ||").then_some(0).or_else(|| script.find("\nlong_run ||"))?;
    Some(&script[..end])
}

fn text_of(script: &str) -> String {
    fs::read_to_string(root().join(script)).unwrap()
}

fn last_long_runs() -> LongRuns {
    LongRuns::of(&text_of("tests/soak.txt"))
}

/// Why this script, or this check in it, proves nothing. `None` if a normal run includes it, or if the last long run
/// proved it. `script` is the text of the script.
fn lacks_in_script(proof: &Proof, script: &str, long_runs: &LongRuns) -> Option<String> {
    let Proof { test, check } = proof;
    match (check, short_form(script)) {
        (Some(check), _) if !script.contains(check.as_str()) => Some(format!("`{test}` has no check \"{check}\"")),
        _ if proof.is_long(script) => long_runs.lacks(test),
        (None, Some(_)) => Some(format!("`{test}` has a long form: name the check, as in `{test} \"it is ACTIVE\"`")),
        _ => None,
    }
}

fn lacks(proof: &Proof, functions: &BTreeSet<String>, long_runs: &LongRuns) -> Option<String> {
    let Proof { test, check } = proof;
    if is_script(test) {
        return lacks_in_script(proof, &text_of(test), long_runs);
    }
    match check {
        None if functions.contains(test) => None,
        None => Some(format!("no test is called `{test}`")),
        Some(_) => Some(format!("`{test}` is not a script, so it has no checks with names")),
    }
}

/// The outcome of the run that has the proof: this run, or the last long run.
fn outcome(proof: &Proof, ran: &Ran, long_runs: &LongRuns) -> Option<Outcome> {
    let is_long = is_script(&proof.test) && proof.is_long(&text_of(&proof.test));
    if is_long { long_runs.outcome(&proof.test) } else { proof.outcome(ran) }
}

/// Why a row is not proven by these tests with these outcomes.
fn unproven(proofs: &[Proof], outcome: impl Fn(&Proof) -> Option<Outcome>) -> Option<String> {
    let outcomes: Vec<_> = proofs.iter().map(|proof| (proof, outcome(proof))).collect();
    for (Proof { test, check }, outcome) in &outcomes {
        let name = check.as_ref().map_or_else(|| format!("`{test}`"), |check| format!("`{test} \"{check}\"`"));
        match outcome {
            None => return Some(format!("{name} did not run")),
            Some(Outcome::Failed) => return Some(format!("{name} failed")),
            Some(Outcome::Passed | Outcome::Skipped) => {}
        }
    }
    let skipped = outcomes.iter().all(|(_, outcome)| *outcome == Some(Outcome::Skipped));
    skipped.then(|| "all its tests skipped".to_owned())
}

#[test]
fn every_requirement_has_its_own_id() {
    for (part, expected) in PARTS {
        let rows = rows(part);
        assert_eq!(rows.len(), expected, "part {part}: rows");
        for (row, number) in rows.iter().zip(1..) {
            assert_eq!(row.id, format!("P{part}-{number:03}"), "{}", row.place);
        }
    }
}

#[test]
fn every_status_holds() {
    let (functions, long_runs) = (test_functions(), last_long_runs());
    let mut wrong = Vec::new();
    for row in PARTS.into_iter().flat_map(|(part, _)| rows(part)) {
        match parse(&row.status) {
            Err(reason) => wrong.push(format!("{} {}: {reason}", row.place, row.id)),
            Ok(Status::Done(proofs)) => {
                let missing = proofs.iter().filter_map(|proof| lacks(proof, &functions, &long_runs));
                wrong.extend(missing.map(|reason| format!("{} {}: {reason}", row.place, row.id)));
            }
            Ok(Status::Open | Status::Partial | Status::NotPlanned) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// After a run of `ops/test.sh`: each row with the status `done` names tests that ran.
#[test]
fn every_row_that_is_done_ran() {
    let Some(folder) = std::env::var_os("CHRONOVA_RAN") else {
        println!("skipped: CHRONOVA_RAN does not name what a run of ops/test.sh gathered");
        return;
    };
    let (ran, long_runs) = (Ran::read(Path::new(&folder)), last_long_runs());
    assert!(!ran.is_empty(), "no test is in {}", folder.display());
    let mut wrong = Vec::new();
    for row in PARTS.into_iter().flat_map(|(part, _)| rows(part)) {
        if let Ok(Status::Done(proofs)) = parse(&row.status) {
            let reason = unproven(&proofs, |proof| outcome(proof, &ran, &long_runs));
            wrong.extend(reason.map(|reason| format!("{} {}: {reason}", row.place, row.id)));
        }
    }
    assert!(wrong.is_empty(), "{} rows are not proven by this run:\n{}", wrong.len(), wrong.join("\n"));
}

/// If the original inventory is beside the checkout, docs/requirements must have all its rows.
#[test]
fn no_requirement_was_dropped() {
    let inventory = std::env::var_os("CHRONOVA_REQUIREMENTS").map(PathBuf::from);
    let Some(inventory) = inventory.filter(|dir| dir.is_dir()) else {
        println!("skipped: CHRONOVA_REQUIREMENTS does not name the folder of the original inventory");
        return;
    };
    for (part, _) in PARTS {
        let text = fs::read_to_string(inventory.join(format!("part{part}.md"))).unwrap();
        let head = format!("P{part}-");
        let wanted: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.trim_start_matches("| ").split(" | ").next())
            .filter(|id| id.starts_with(&head) && id.len() == 6)
            .collect();
        let have: BTreeSet<String> = rows(part).into_iter().map(|row| row.id).collect();
        let lost: Vec<_> = wanted.iter().filter(|id| !have.contains(**id)).collect();
        assert!(lost.is_empty() && !wanted.is_empty(), "part {part}: {lost:?}");
    }
}

#[test]
fn statuses_have_one_of_four_forms() {
    assert_eq!(parse("open"), Ok(Status::Open));
    assert_eq!(parse("partial: no pagination"), Ok(Status::Partial));
    assert_eq!(
        parse("done: a_b, tests/real/boot.sh"),
        Ok(Status::Done(vec![named("a_b", None), named("tests/real/boot.sh", None)]))
    );
    assert_eq!(
        parse("done: `a_b`, tests/real/boot.sh \"it is ACTIVE\""),
        Ok(Status::Done(vec![named("a_b", None), named("tests/real/boot.sh", Some("it is ACTIVE"))]))
    );
    for bad in ["", "done", "done: ", "partial", "open: x", "Done: a", "not planned", "closed"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

fn named(test: &str, check: Option<&str>) -> Proof {
    Proof { test: test.to_owned(), check: check.map(str::to_owned) }
}

#[test]
fn a_check_of_a_long_run_is_proof_only_if_its_last_long_run_passed() {
    let script = "set -u\nexpect \"it boots\" true\nlong_run || verdict\nexpect \"it moves\" true\n";
    let test = "tests/real/live.sh";
    let passed = LongRuns::of("# date, commit, ...\n2026-11-28\t0123abc\tok\t60\ttests/real/live.sh\n");
    let failed = LongRuns::of("2026-11-28\t0123abc\tfailed\t60\ttests/real/live.sh\n");
    let skipped = LongRuns::of("2026-11-28\t0123abc\tskipped\t1\ttests/real/live.sh\n");
    let other = LongRuns::of("2026-11-28\t0123abc\tok\t60\ttests/real/storage.sh\n");
    let moves = named(test, Some("it moves"));
    assert_eq!(lacks_in_script(&moves, script, &passed), None);
    for no_proof in [&failed, &skipped, &other] {
        assert!(lacks_in_script(&moves, script, no_proof).is_some(), "no long run showed the check");
        assert_eq!(lacks_in_script(&named(test, Some("it boots")), script, no_proof), None, "a normal run has it");
    }
    assert!(lacks_in_script(&named(test, Some("it sings")), script, &passed).is_some(), "no run has the check");
    assert!(lacks_in_script(&named(test, None), script, &passed).is_some(), "a row that names no check was accepted");
    let no_long_form = "[ -z \"${CHRONOVA_SOAK:-}\" ] || HOSTS=3\n";
    assert_eq!(lacks_in_script(&named(test, None), no_long_form, &failed), None);
    let functions = test_functions();
    let name = "a_check_of_a_long_run_is_proof_only_if_its_last_long_run_passed";
    assert_eq!(lacks(&named(name, None), &functions, &other), None);
    assert!(lacks(&named(name, Some("it boots")), &functions, &passed).is_some());
    assert_eq!(lacks(&named("tests/real/client.sh", None), &functions, &other), None);
}

#[test]
fn a_script_for_long_runs_alone_is_proof_only_if_its_last_run_passed() {
    let lines = |result| LongRuns::of(&format!("2026-11-28\t0123abc\t{result}\t60\ttests/soak/nfs.sh\n"));
    let (whole, functions) = (named("tests/soak/nfs.sh", None), BTreeSet::new());
    assert_eq!(lacks(&whole, &functions, &lines("ok")), None);
    assert!(lacks(&whole, &functions, &lines("failed")).is_some());
    assert!(lacks(&whole, &functions, &LongRuns::of("")).is_some());
    assert!(lacks(&named("tests/soak/nfs.sh", Some("it sings")), &functions, &lines("ok")).is_some());
    // The normal run did not have it, so the long run's result decides.
    let ran = Ran::default();
    let judge =
        |long_runs: &LongRuns| unproven(&[named("tests/soak/nfs.sh", None)], |proof| outcome(proof, &ran, long_runs));
    assert_eq!(judge(&lines("ok")), None);
    assert_eq!(judge(&lines("failed")).unwrap(), "`tests/soak/nfs.sh` failed");
    assert_eq!(judge(&LongRuns::of("")).unwrap(), "`tests/soak/nfs.sh` did not run");
}

#[test]
fn reports_of_runners_are_read() {
    let junit = r#"<testsuite name="chronova-events"><testcase name="a::b::holds" classname="chronova-events" time="0.1">
        <system-out>skipped by nobody</system-out></testcase>
        <testcase name="lacks" classname="x"><system-out>skipped: there is no contract</system-out></testcase>
        <testcase name="c::breaks" classname="x"><failure message="m" type="t">skipped: no</failure></testcase>
        </testsuite>"#;
    let of = |name: &str, outcome| (name.to_owned(), outcome);
    assert_eq!(
        ran::of_junit(junit),
        [of("holds", Outcome::Passed), of("lacks", Outcome::Skipped), of("breaks", Outcome::Failed)]
    );
    let printed = "test a::holds ... ok\ntest lacks ... ok\ntest later ... ignored\ntest breaks ... FAILED\n\nsuccesses:\n\n\
                   ---- lacks stdout ----\nskipped: no server\n\n---- a::holds stdout ----\nfine\n";
    assert_eq!(
        ran::of_cargo_test(printed),
        [of("holds", Outcome::Passed), of("lacks", Outcome::Skipped), of("breaks", Outcome::Failed)]
    );
}

#[test]
fn rows_need_tests_that_ran() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("unit.txt", "test a::holds ... ok\ntest breaks ... FAILED\n");
    write("scripts", "ok\ttests/real/live.sh\nskipped\ttests/real/lvm.sh\n");
    write("checks", "ok\ttests/real/live.sh\tit is ACTIVE on h2\nFAIL\ttests/real/live.sh\tit counts on\n");
    let ran = Ran::read(folder.path());
    let judge = |proofs: &[Proof]| unproven(proofs, |proof| proof.outcome(&ran));
    let (holds, lvm) = (named("holds", None), named("tests/real/lvm.sh", None));
    assert_eq!(judge(&[named("holds", None), named("tests/real/live.sh", Some("it is ACTIVE on"))]), None);
    assert_eq!(judge(&[named("tests/real/live.sh", None)]), None);
    assert_eq!(judge(&[named("tests/real/lvm.sh", None)]).unwrap(), "all its tests skipped");
    assert_eq!(judge(&[holds, lvm]), None, "one proven test does not suffice");
    assert_eq!(judge(&[named("breaks", None)]).unwrap(), "`breaks` failed");
    assert_eq!(judge(&[named("holds", None), named("absent", None)]).unwrap(), "`absent` did not run");
    let live = |check| [named("tests/real/live.sh", Some(check))];
    assert_eq!(judge(&live("it counts on")).unwrap(), "`tests/real/live.sh \"it counts on\"` failed");
    assert_eq!(judge(&live("it sings")).unwrap(), "`tests/real/live.sh \"it sings\"` did not run");
}

#[test]
fn test_functions_are_found_by_their_attribute() {
    let text = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test(flavor = \"multi_thread\")]\nasync fn c() {}\n\
                #[test]\n#[ignore]\nfn d() {}\n/// #[test]\nfn e() {}\n#[cfg(test)]\nfn f() {}\n";
    assert_eq!(tests_in(text), ["a", "c"]);
    let names = test_functions();
    assert!(names.contains("test_functions_are_found_by_their_attribute"));
}
