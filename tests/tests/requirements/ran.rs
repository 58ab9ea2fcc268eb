//! The reports that a run of `ops/test.sh` gathers in one folder.
//!
//! `*.xml` is nextest's report (JUnit), `*.txt` the output of `cargo test`. `scripts` has one line for each script of
//! `tests/real` (outcome, path), `checks` one for each check in such a script (outcome, path, text).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The test or script could not run here: it named what was missing, and ended.
    Skipped,
    Failed,
}

impl Outcome {
    /// `ok`, `skipped`, or another word for a failure.
    pub(crate) fn of_word(word: &str) -> Self {
        match word {
            "ok" => Self::Passed,
            "skipped" => Self::Skipped,
            _ => Self::Failed,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// The outcomes by function name or script path. Several modules may have a function of the same name.
    outcomes: BTreeMap<String, Vec<Outcome>>,
    /// Script, check, outcome.
    checks: Vec<(String, String, Outcome)>,
}

impl Ran {
    pub(crate) fn read(folder: &Path) -> Self {
        let mut ran = Self::default();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("xml") => ran.add(of_junit(&text)),
                Some("txt") => ran.add(of_cargo_test(&text)),
                _ if path.ends_with("scripts") => {
                    ran.add(
                        text.lines()
                            .filter_map(|line| line.split_once('\t'))
                            .map(|(outcome, path)| (path.to_owned(), Outcome::of_word(outcome))),
                    );
                }
                _ if path.ends_with("checks") => ran.checks.extend(text.lines().filter_map(of_check)),
                _ => {}
            }
        }
        ran
    }

    pub(crate) fn add(&mut self, tests: impl IntoIterator<Item = (String, Outcome)>) {
        for (name, outcome) in tests {
            self.outcomes.entry(name).or_default().push(outcome);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// The outcome of a test function or a script: `None` if it did not run. A test that passes in one runner and skips
    /// in another has passed.
    pub(crate) fn outcome(&self, test: &str) -> Option<Outcome> {
        together(self.outcomes.get(test)?.iter().copied())
    }

    /// The common outcome of the checks of `script` with `words` in their text; `None` if there are none.
    pub(crate) fn check(&self, script: &str, words: &str) -> Option<Outcome> {
        let named = self.checks.iter().filter(|(path, text, _)| path == script && text.contains(words));
        together(named.map(|(_, _, outcome)| *outcome))
    }
}

fn together(outcomes: impl Iterator<Item = Outcome>) -> Option<Outcome> {
    let outcomes: Vec<Outcome> = outcomes.collect();
    [Outcome::Failed, Outcome::Passed, Outcome::Skipped].into_iter().find(|wanted| outcomes.contains(wanted))
}

fn of_check(line: &str) -> Option<(String, String, Outcome)> {
    let mut cells = line.splitn(3, '\t');
    let (outcome, script, text) = (cells.next()?, cells.next()?, cells.next()?);
    Some((script.to_owned(), text.to_owned(), Outcome::of_word(outcome)))
}

/// The function's name, without its modules.
fn function(name: &str) -> String {
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

fn says_skipped(output: &str) -> bool {
    output.lines().any(|line| line.trim_start().starts_with("skipped: "))
}

/// nextest writes each test as one `testcase` element, with its output in it.
pub(crate) fn of_junit(text: &str) -> Vec<(String, Outcome)> {
    text.split("<testcase ")
        .skip(1)
        .filter_map(|case| {
            let case = case.split("</testcase>").next().unwrap_or(case);
            let name = case.split_once("name=\"")?.1.split('"').next()?;
            // A test that passed when it was repeated has `flakyFailure` elements only.
            let outcome = if case.contains("<failure") || case.contains("<error") {
                Outcome::Failed
            } else if says_skipped(&case.replace('>', ">\n")) {
                Outcome::Skipped
            } else {
                Outcome::Passed
            };
            Some((function(name), outcome))
        })
        .collect()
}

/// `cargo test` writes `test NAME ... ok` for each test. With `--show-output`, it writes the test's output after `----
/// NAME stdout ----`.
pub(crate) fn of_cargo_test(text: &str) -> Vec<(String, Outcome)> {
    let output_of = |name: &str| {
        let after = text.split_once(&format!("---- {name} stdout ----"))?.1;
        after.split("\n---- ").next()
    };
    text.lines()
        .filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "))
        .filter_map(|(name, outcome)| {
            let outcome = match outcome.split_whitespace().next()? {
                "ok" if output_of(name).is_some_and(says_skipped) => Outcome::Skipped,
                "ok" => Outcome::Passed,
                "FAILED" => Outcome::Failed,
                _ => return None,
            };
            Some((function(name), outcome))
        })
        .collect()
}
