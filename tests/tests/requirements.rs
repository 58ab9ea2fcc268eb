//! Every row of docs/requirements has a unique id and a valid status: the tests that it names exist.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
    Done(Vec<String>),
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
    let inner = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')).expect("a row ends with a bar");
    inner.replace("\\|", "\u{1}").split('|').map(|cell| cell.trim().replace('\u{1}', "\\|")).collect()
}

fn parse(status: &str) -> Result<Status, String> {
    let (word, rest) = status.split_once(": ").unwrap_or((status, ""));
    match (word, rest.trim()) {
        ("open", "") => Ok(Status::Open),
        ("partial", what) if !what.is_empty() => Ok(Status::Partial),
        ("not planned", why) if !why.is_empty() => Ok(Status::NotPlanned),
        ("done", tests) if !tests.is_empty() => {
            Ok(Status::Done(tests.split(',').map(|test| test.trim().trim_matches('`').to_owned()).collect()))
        }
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

/// The functions below a test attribute: `#[test]`, `#[tokio::test]`, `#[actix_web::test]`, ... Test suites
/// instantiated by a macro list their functions with such an attribute too, inside the macro.
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

/// A script counts as a test if it exists and `ops/test.sh` runs its folder.
fn is_script(name: &str) -> bool {
    let checked = name.starts_with("tests/") || name.starts_with("ops/");
    checked && Path::new(name).extension().is_some_and(|e| e == "sh" || e == "py") && root().join(name).is_file()
}

/// Test functions that end at once in `ops/test.sh`, because they need settings that `ops/test.sh` does not give: a
/// host that they may change, and commands that stop and start its libvirtd. A row must not name them, because no run
/// would show its status.
const NEED_SETTINGS: [&str; 6] = [
    "a_real_host_conforms",
    "changes_by_other_programs_are_signalled",
    "the_driver_reconnects_to_a_restarted_libvirtd",
    "the_driver_reconnects_to_a_frozen_libvirtd",
    "many_guests_are_created_and_destroyed_at_once",
    "leftovers_of_an_interrupted_upload_are_found_and_removed",
];

/// Whether a script ends at once without `--soak`.
fn is_for_long_runs(script: &str) -> bool {
    script.lines().any(|line| line.starts_with("[ -n \"${CHRONOVA_SOAK:-}\" ] || {") && line.contains("exit 77"))
}

/// Whether a normal run of `ops/test.sh` runs the test. The test may still need something that this machine lacks.
fn is_in_every_run(name: &str) -> bool {
    !NEED_SETTINGS.contains(&name)
        && (!is_script(name) || !is_for_long_runs(&fs::read_to_string(root().join(name)).unwrap()))
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
    let functions = test_functions();
    let mut wrong = Vec::new();
    for row in PARTS.into_iter().flat_map(|(part, _)| rows(part)) {
        match parse(&row.status) {
            Err(reason) => wrong.push(format!("{} {}: {reason}", row.place, row.id)),
            Ok(Status::Done(tests)) => {
                let missing = tests.iter().filter(|test| !functions.contains(*test) && !is_script(test));
                wrong.extend(missing.map(|test| format!("{} {}: no test is called `{test}`", row.place, row.id)));
                let idle = tests.iter().filter(|test| !is_in_every_run(test));
                wrong.extend(idle.map(|test| format!("{} {}: no normal run has `{test}`", row.place, row.id)));
            }
            Ok(Status::Open | Status::Partial | Status::NotPlanned) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// None of the rows of the original inventory may be missing. `CHRONOVA_REQUIREMENTS` names the inventory's folder.
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
        Ok(Status::Done(vec!["a_b".into(), "tests/real/boot.sh".into()]))
    );
    for bad in ["", "done", "done: ", "partial", "open: x", "Done: a", "not planned", "closed"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn tests_of_long_runs_are_no_proof() {
    let ends = "set -u\n[ -n \"${CHRONOVA_SOAK:-}\" ] || { echo \"only with --soak\"; exit 77; }\n";
    let does_more = "HOSTS=2\n[ -z \"${CHRONOVA_SOAK:-}\" ] || HOSTS=3\n";
    assert!(is_for_long_runs(ends) && !is_for_long_runs(does_more));
    assert!(is_in_every_run("tests/real/client.sh") && is_in_every_run("tests_of_long_runs_are_no_proof"));
    assert!(!is_in_every_run("a_real_host_conforms"));
    let functions = test_functions();
    assert!(NEED_SETTINGS.iter().all(|name| functions.contains(*name)), "a renamed test stays in the list");
}

#[test]
fn test_functions_are_found_by_their_attribute() {
    let text = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test(flavor = \"multi_thread\")]\nasync fn c() {}\n\
                #[test]\n#[ignore]\nfn d() {}\n/// #[test]\nfn e() {}\n#[cfg(test)]\nfn f() {}\n";
    assert_eq!(tests_in(text), ["a", "c"]);
    let names = test_functions();
    assert!(names.contains("test_functions_are_found_by_their_attribute"));
}
