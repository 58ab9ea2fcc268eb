//! Random input for parsers of outside data: bodies, query strings, policy files, configuration, user data.
//!
//! `chronova_tests::fuzz` describes duration, seed and findings. `fuzz/` runs the same targets with coverage-guided
//! inputs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use chronova_tests::fuzz::Run;
use chronova_tests::fuzz::requests::{Case, Requests};
use chronova_tests::fuzz::targets::{CONFIGURATION, POLICY, QUERY, TARGETS, USER_DATA};

#[test]
fn policy_files() {
    POLICY.run();
}

#[test]
fn query_strings() {
    QUERY.run();
}

#[test]
fn user_data() {
    USER_DATA.run();
}

#[test]
fn configuration_files() {
    CONFIGURATION.run();
}

/// Sends random requests to the operations of all services.
#[actix_rt::test]
async fn requests() {
    let requests = Requests::start().await;
    let mut run = Run::of("requests", 2_500);
    for (path, kept) in run.kept() {
        let case = Case::from_kept(&kept).expect("a stored request cannot be read");
        if let Err(what) = requests.judge(&case).await {
            panic!("{} fails again: {what}", path.display());
        }
    }
    while run.goes_on() {
        let asked = &requests.asked[run.random.below(requests.asked.len())];
        let case = asked.wish(&mut run.random, &requests.words);
        if let Err(what) = requests.judge(&case).await {
            let uri: String = case.uri.chars().take(300).collect();
            run.found(&case.to_kept(), &format!("{} {uri}: {what}", case.method));
        }
    }
    run.done();
    let statuses = requests.statuses.take();
    println!("requests: answers by status {statuses:?}");
    let good: u64 = statuses.range(200..300).map(|(_, count)| count).sum();
    assert!(good > 100, "too few requests succeeded: {statuses:?}");
    requests.api.stop().await;
}

/// Writes seed inputs for `fuzz/run.sh`: a folder of inputs and a dictionary per target. They go to
/// `CHRONOVA_FUZZ_CORPUS`, or to a temporary folder.
#[actix_rt::test]
async fn the_seed_corpus_is_written() {
    let given = std::env::var_os("CHRONOVA_FUZZ_CORPUS");
    let scratch = tempfile::tempdir().unwrap();
    let folder = given.as_ref().map_or(scratch.path(), Path::new);
    for target in TARGETS {
        write(folder, target.name, target.seeds.iter().map(|seed| seed.to_vec()), target.words.iter().copied());
    }
    let requests = Requests::start().await;
    let examples: Vec<Vec<u8>> = requests.examples().iter().map(Case::to_kept).collect();
    assert!(examples.len() > 1_000, "{} operations in all their versions", examples.len());
    assert!(examples.iter().all(|example| Case::from_kept(example).is_some()));
    write(folder, "requests", examples.into_iter(), requests.words.0.iter().map(String::as_str));
    requests.api.stop().await;
}

fn write<'a>(folder: &Path, target: &str, inputs: impl Iterator<Item = Vec<u8>>, words: impl Iterator<Item = &'a str>) {
    let inner = folder.join(target);
    std::fs::create_dir_all(&inner).unwrap();
    for (number, input) in inputs.enumerate() {
        std::fs::write(inner.join(format!("seed-{number:05}")), input).unwrap();
    }
    let quoted = |word: &str| {
        let hex: String = word.bytes().fold(String::new(), |text, byte| format!("{text}\\x{byte:02x}"));
        format!("\"{hex}\"\n")
    };
    // libFuzzer does not accept longer words.
    let words: String = words.filter(|word| (1..=64).contains(&word.len())).map(quoted).collect();
    std::fs::write(folder.join(format!("{target}.dict")), words).unwrap();
}

#[test]
fn stored_requests_read_back_unchanged() {
    for (version, media) in [("compute 2.1", None), ("", Some("text/plain".to_owned()))] {
        let (method, uri) = ("POST".to_owned(), "/compute/v2.1/servers?a=b".to_owned());
        let case = Case { method, uri, version: version.to_owned(), media, body: b"\n\n{\xff".to_vec() };
        assert_eq!(Case::from_kept(&case.to_kept()), Some(case));
    }
    assert_eq!(Case::from_kept(b"GET /\n\n"), None);
}
