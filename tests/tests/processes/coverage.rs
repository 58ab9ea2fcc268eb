//! Every process has a case in the harness.

use std::path::Path;

use chronova_actors::process::ALL;

/// The text of the tests, without comments.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let whole = std::fs::read_to_string(&path).unwrap();
            let lines = whole.lines().filter(|line| !line.trim_start().starts_with("//"));
            text.extend(lines.flat_map(|line| [line, "\n"]));
        }
    }
    text
}

/// A case names the definition of its process, so a search of the tests shows whether every process has a case.
#[test]
fn every_process_of_the_table_has_a_case_in_the_harness() {
    let tests = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    let is_proven = |place: &str| {
        // Tests write the last two names of the path: `&build_instance::DEFINITION`, `&snapshot::CREATE`.
        let names: Vec<&str> = place.split("::").map(str::trim).collect();
        tests.contains(&format!("&{}", names[names.len() - 2..].join("::")))
    };
    let unproven: Vec<&str> =
        ALL.iter().filter(|(place, _)| !is_proven(place)).map(|(_, process)| process.name).collect();
    assert_eq!(unproven, Vec::<&str>::new(), "these processes have no case: see tests/tests/processes.rs");
}
