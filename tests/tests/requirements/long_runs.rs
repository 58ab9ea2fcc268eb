//! The last result of each test in long runs: `tests/soak.txt`.

use std::collections::BTreeMap;

use super::ran::Outcome;

/// The result by test function or script: `ok`, `skipped` or `failed`.
pub(crate) struct LongRuns(BTreeMap<String, String>);

impl LongRuns {
    /// `text` has one line for each test, with tabs between its columns: date, commit, result, seconds, what.
    pub(crate) fn of(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let results = lines.map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            assert_eq!(columns.len(), 5, "not five columns: {line}");
            (columns[4].to_owned(), columns[2].to_owned())
        });
        Self(results.collect())
    }

    /// `None` if no long run had the test.
    pub(crate) fn outcome(&self, test: &str) -> Option<Outcome> {
        self.0.get(test).map(|result| Outcome::of_word(result))
    }

    /// Why the last long run of `test` proves nothing; `None` if it proves the test.
    pub(crate) fn lacks(&self, test: &str) -> Option<String> {
        match self.0.get(test).map(String::as_str) {
            Some("ok") => None,
            Some(result) => Some(format!("the last long run of `{test}` {result}")),
            None => Some(format!("tests/soak.txt has no long run of `{test}`")),
        }
    }
}
