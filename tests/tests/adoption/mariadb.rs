//! A real MariaDB that a test starts for itself, on a port of this machine.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// The account of Nova, as a URL has it. The password has letters with a meaning in URLs.
pub(super) const ACCOUNT: &str = "nova:s%3Ac%40r%2Fet%25";
const PASSWORD: &str = "s:c@r/et%";

pub(super) struct Mariadb {
    folder: TempDir,
    pub(super) port: u16,
    server: Child,
}

impl Mariadb {
    pub(super) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("mariadb").tempdir_in("/tmp").unwrap();
        let (data, log) = (folder.path().join("data"), File::create(folder.path().join("log")).unwrap());
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        let installed = install.arg(option("datadir", &data)).stdout(Stdio::null()).stderr(log.try_clone().unwrap());
        let done = installed.status().expect("mariadb-install-db is missing: install the package mariadb-server");
        assert!(done.success(), "mariadb-install-db failed");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=0"])
            .args(["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--skip-log-bin"])
            .arg(option("datadir", &data))
            .arg(option("socket", &folder.path().join("socket")))
            .arg(option("pid-file", &folder.path().join("pid")))
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let started = Self { folder, port, server };
        let answers = || started.client().args(["-e", "SELECT 1"]).stderr(Stdio::null()).status().unwrap().success();
        let mut tries = 0;
        while !answers() {
            tries += 1;
            assert!(tries < 300, "MariaDB does not start: {}", started.log());
            #[expect(clippy::disallowed_methods, reason = "the server starts before any task of the runtime")]
            std::thread::sleep(Duration::from_millis(100));
        }
        started
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-u", "root", "-B", "-N"]).arg("-S").arg(self.socket()).stdout(Stdio::null());
        client
    }

    /// Runs statements.
    pub(super) fn sql(&self, sql: &str) {
        let output = self.client().args(["-e", sql]).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs statements. Returns the rows, one per line.
    pub(super) fn ask(&self, sql: &str) -> String {
        let output = self.client().args(["-e", sql]).stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Loads a dump, which creates its database.
    pub(super) fn load(&self, dump: &Path) {
        let output = self.client().stdin(File::open(dump).unwrap()).output().unwrap();
        assert!(output.status.success(), "{}: {}", dump.display(), String::from_utf8_lossy(&output.stderr));
    }

    /// Loads statements into a database.
    pub(super) fn load_into(&self, database: &str, file: &Path) {
        self.try_load(database, file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// Loads statements into a database. Returns the error of the server.
    pub(super) fn try_load(&self, database: &str, file: &Path) -> Result<(), String> {
        let output = self.client().arg(database).stdin(File::open(file).unwrap()).output().unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    /// The recorded cloud, with an account for Nova. The URLs of its cells are templates.
    pub(super) fn recorded(folder: &Path) -> Self {
        let started = Self::start();
        for name in ["nova_api.sql", "nova_cell0.sql", "nova.sql", "placement.sql"] {
            started.load(&folder.join(name));
        }
        // The recorded services must not seem to run, even if this machine's clock is at the time of the recording.
        for database in ["nova", "nova_cell0"] {
            started.sql(&format!("UPDATE {database}.services SET last_seen_up = UTC_TIMESTAMP() - INTERVAL 1 HOUR"));
        }
        started.sql(&format!(
            "CREATE USER nova@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON *.* TO nova@'%'; \
             UPDATE nova_api.cell_mappings SET database_connection = \
             CONCAT('{{scheme}}://{{username}}:{{password}}@{{hostname}}:{{port}}/', \
             IF(name = 'cell0', 'nova_cell0', 'nova'), '?{{query}}')"
        ));
        started
    }

    /// The address of a database, with Nova's account.
    pub(super) fn url(&self, database: &str) -> String {
        self.url_of(ACCOUNT, database)
    }

    pub(super) fn url_of(&self, account: &str, database: &str) -> String {
        format!("mysql+pymysql://{account}@127.0.0.1:{}/{database}?charset=utf8", self.port)
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
