//! A real PostgreSQL that a test starts for itself. It has a Unix socket in a folder of its own. It listens on no
//! network address, unless the test adds one with [`Postgres::start_with`].

#![allow(dead_code, reason = "each test uses another part of this module")]

use std::io::Write as _;
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

/// The free space of the file system that has this folder, in MiB; 0 if `df` cannot tell it.
fn free_mib(folder: &str) -> u64 {
    let told = Command::new("df").args(["--output=avail", "-BM", folder]).output().unwrap().stdout;
    let told = String::from_utf8_lossy(&told);
    told.lines().nth(1).and_then(|line| line.trim().trim_end_matches('M').parse().ok()).unwrap_or(0)
}

impl Postgres {
    pub(crate) fn new() -> Self {
        let made = Self::folder();
        let done = postgres("initdb").args(["-A", "trust", "-E", "UTF8", "--locale=C", "-D"]).arg(made.data()).status();
        assert!(done.unwrap().success());
        made.start();
        made
    }

    fn folder() -> Self {
        // The folder is in memory if there is enough, because a disk that stalls for seconds could cost a leader its
        // lease.
        let place = if free_mib("/dev/shm") >= 1024 { "/dev/shm" } else { "/tmp" };
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in(place).unwrap();
        assert!(Command::new("chown").arg("postgres").arg(folder.path()).status().unwrap().success());
        Self { folder }
    }

    /// Starts another server, which replicates this one.
    pub(crate) fn standby(&self) -> Self {
        let standby = Self::folder();
        let mut backup = postgres("pg_basebackup");
        backup.args(["-U", "postgres", "-R", "-X", "stream", "-c", "fast", "-h"]).arg(self.folder.path());
        assert!(backup.arg("-D").arg(standby.data()).status().unwrap().success());
        standby.start();
        standby
    }

    /// Makes a standby accept writes.
    pub(crate) fn promote(&self) {
        assert!(postgres("pg_ctl").args(["-w", "-D"]).arg(self.data()).arg("promote").status().unwrap().success());
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn start(&self) {
        self.start_with("");
    }

    /// Starts the server with further options; later ones win.
    pub(crate) fn start_with(&self, more: &str) {
        let options = format!("-k {} -c listen_addresses= -c max_connections=20{more}", self.folder.path().display());
        let log = self.folder.path().join("log");
        let mut start = postgres("pg_ctl");
        start.args(["-w", "-o", &options, "-l"]).arg(log).arg("-D").arg(self.data()).arg("start");
        assert!(start.status().unwrap().success());
    }

    /// Stops the server like a crash.
    pub(crate) fn stop(&self) {
        let _ = postgres("pg_ctl").args(["-w", "-m", "immediate", "-D"]).arg(self.data()).arg("stop").status();
    }

    pub(crate) fn url(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.path().display())
    }

    /// Runs statements. Returns the rows, one per line.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.sql_at(5432, sql)
    }

    /// Runs statements in another database. The statements may be long.
    pub(crate) fn load(&self, database: &str, sql: &str) {
        let mut client = postgres("psql");
        client.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]);
        client.arg(format!("host={} user=postgres dbname={database}", self.folder.path().display()));
        let mut child = client.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Like [`Postgres::sql`], for a server on another port.
    pub(crate) fn sql_at(&self, port: u16, sql: &str) -> String {
        let mut client = postgres("psql");
        client
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql])
            .arg(format!("{} port={port}", self.url()));
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
