//! A real PostgreSQL that a test starts for itself: a Unix socket in a folder of its own, no network.

#![allow(dead_code, reason = "each test uses another part of this module")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub(crate) struct Postgres {
    pub(crate) folder: TempDir,
}

fn postgres(program: &str) -> Command {
    let path = PathBuf::from("/usr/lib/postgresql/15/bin").join(program);
    assert!(path.exists(), "{} is missing: install the package postgresql", path.display());
    // The database refuses to run as root.
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(path).stdout(Stdio::null()).current_dir("/");
    command
}

impl Postgres {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        assert!(Command::new("chown").arg("postgres").arg(folder.path()).status().unwrap().success());
        let made = Self { folder };
        let done = postgres("initdb").args(["-A", "trust", "-E", "UTF8", "--locale=C", "-D"]).arg(made.data()).status();
        assert!(done.unwrap().success());
        made.start();
        made
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn start(&self) {
        let options = format!("-k {} -c listen_addresses= -c max_connections=60", self.folder.path().display());
        let log = self.folder.path().join("log");
        let mut start = postgres("pg_ctl");
        start.args(["-w", "-o", &options, "-l"]).arg(log).arg("-D").arg(self.data()).arg("start");
        assert!(start.status().unwrap().success());
    }

    /// As a crash does.
    pub(crate) fn stop(&self) {
        let _ = postgres("pg_ctl").args(["-w", "-m", "immediate", "-D"]).arg(self.data()).arg("stop").status();
    }

    pub(crate) fn url(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.path().display())
    }

    /// Runs statements; returns the rows, one a line.
    pub(crate) fn sql(&self, sql: &str) -> String {
        let mut client = postgres("psql");
        client.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql]).arg(self.url());
        let output = client.stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}
