//! Starts a child process that works until it is killed. The child is this test program with only one test.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The variable with the path of the child's log. It is set only for children.
const LOG: &str = "CHRONOVA_TEST_LOG";
/// The variable with the name of the run. Different runs on one log write different texts.
const RUN: &str = "CHRONOVA_TEST_RUN";

/// The path of the log and the name of the run, if this process is a child.
pub(crate) fn log_and_run() -> Option<(PathBuf, String)> {
    Some((std::env::var_os(LOG)?.into(), std::env::var(RUN).ok()?))
}

/// Prints one whole line at once and bypasses the test harness's capture.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}").and_then(|()| out.flush()).unwrap();
}

/// `test` is the full name of the test that the child runs, for example `crash::child`.
pub(crate) fn spawn(test: &str, path: &Path, run: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(LOG, path)
        .env(RUN, run.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the child after it has acknowledged `after` appends. Returns all acknowledged appends.
pub(crate) fn kill_after(child: &mut Child, after: usize) -> Vec<String> {
    let (mut acknowledged, mut killed) = (Vec::new(), false);
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        if let Some(text) = line.strip_prefix("ack ") {
            acknowledged.push(text.to_owned());
        }
        assert!(!line.starts_with("refused"), "no append may be refused: {line}");
        if !killed && acknowledged.len() >= after {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(killed, "the child ended by itself after {} appends", acknowledged.len());
    acknowledged
}
