//! Ceph's own programs `rbd` and `ceph`, which run beside Chronova and not on a host.
//!
//! libvirt's Ceph pools create, grow and remove images. They can neither clone an image of another pool nor take a
//! content, and Ceph is a service of the network. So Chronova itself asks Ceph for this. It uses the user and keyring of
//! the configuration, and reads no configuration file of Ceph. The key is only in the keyring, because other users of
//! the machine see the arguments of a program.

use std::env;
use std::io::{self, Read, Write};
use std::process::{Command, Output, Stdio};
use std::thread;

use roxmltree::{Document, Node};

use crate::driver::{DriverError, DriverResult};
use crate::options::{LibvirtOptions, RbdOptions};
use crate::program_messages::ProgramMessages;

/// How long a part of the cluster may take for one operation, in seconds. Ceph itself would wait for ever.
const PATIENCE: &str = "60";

/// `rbd` ends with this number if the image or snapshot does not exist (`ENOENT`).
const ABSENT: i32 = 2;
/// The snapshot is protected already, or a client has the image open (`EBUSY`).
const BUSY: i32 = 16;
/// The image or snapshot exists already (`EEXIST`).
const EXISTS: i32 = 17;

/// The error number with which a program ended. `None` if a signal ended the program, or if it did not reach the
/// cluster. Without a keyring, for example, the program ends with [`ABSENT`], which says nothing about an image.
fn error_number(output: &Output) -> Option<i32> {
    let unconnected = String::from_utf8_lossy(&output.stderr).contains("couldn't connect to the cluster");
    output.status.code().filter(|_| !unconnected)
}

/// Waits before another attempt to remove an image that a client has open.
#[expect(clippy::disallowed_methods, reason = "on a thread of the host's own")]
pub(super) fn pause(options: &RbdOptions) {
    thread::sleep(options.destroy_interval);
}

/// An image or a snapshot, as `rbd info` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CephImage {
    /// In bytes.
    pub(super) size: u64,
    /// The pool of the image below a clone.
    pub(super) parent_pool: Option<String>,
}

fn described(xml: &str) -> Option<CephImage> {
    let document = Document::parse(xml.trim()).ok()?;
    let root = document.root_element();
    let text = |of: Node<'_, '_>, name: &str| {
        let child = of.children().find(|node| node.has_tag_name(name))?;
        child.text().map(str::to_owned)
    };
    let parent = root.children().find(|node| node.has_tag_name("parent"));
    Some(CephImage {
        size: text(root, "size")?.parse().ok()?,
        parent_pool: parent.and_then(|parent| text(parent, "pool")),
    })
}

fn named_snapshots(xml: &str) -> Vec<String> {
    let Ok(document) = Document::parse(xml.trim()) else { return Vec::new() };
    let snapshots = document.descendants().filter(|node| node.has_tag_name("snapshot"));
    let names = snapshots.filter_map(|node| node.children().find(|child| child.has_tag_name("name"))?.text());
    names.map(str::to_owned).collect()
}

/// Ceph's programs with the operator's options.
#[derive(Clone, Copy)]
pub(super) struct CephPrograms<'a> {
    rbd: &'a RbdOptions,
}

/// Whether `rbd` is on the path of this process.
pub(super) fn is_installed() -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join("rbd").is_file()))
}

impl<'a> CephPrograms<'a> {
    pub(super) fn of(options: &'a LibvirtOptions) -> Self {
        Self { rbd: &options.images.rbd }
    }

    fn command(self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["--conf", "/dev/null", "--client-mount-timeout"]);
        command.arg(self.rbd.connect_timeout.as_secs().to_string());
        command.args(["--rados-osd-op-timeout", PATIENCE, "--rados-mon-op-timeout", PATIENCE]);
        command.arg("-m").arg(self.rbd.monitors.join(","));
        match &self.rbd.user {
            Some(user) => command.arg("--id").arg(user),
            None => command.arg("--auth-supported=none"),
        };
        if let Some(keyring) = &self.rbd.keyring {
            command.arg("--keyring").arg(keyring);
        }
        command.env_remove("CEPH_ARGS").env_remove("CEPH_CONF").stdin(Stdio::null());
        command
    }

    fn run(self, call: &'static str, program: &str, arguments: &[&str]) -> DriverResult<Output> {
        self.command(program).args(arguments).output().map_err(|error| unstarted(call, program, &error))
    }

    /// Runs `rbd`. Succeeds also if it ends with one of these error numbers.
    fn change(self, call: &'static str, arguments: &[&str], harmless: &[i32]) -> DriverResult<()> {
        let output = self.run(call, "rbd", arguments)?;
        match error_number(&output) {
            Some(code) if code == 0 || harmless.contains(&code) => Ok(()),
            _ => Err(refusal(call, &output)),
        }
    }

    /// The cluster's id.
    pub(super) fn cluster(self) -> DriverResult<String> {
        const CALL: &str = "ceph fsid";
        let output = self.run(CALL, "ceph", &["fsid"])?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(refusal(CALL, &output)),
        }
    }

    /// Describes an image or a snapshot; `None` if it does not exist.
    pub(super) fn image(self, name: &str) -> DriverResult<Option<CephImage>> {
        const CALL: &str = "rbd info";
        let output = self.run(CALL, "rbd", &["info", "--format", "xml", name])?;
        match error_number(&output) {
            Some(0) => {
                let unread =
                    || DriverError::Failed { call: CALL, message: format!("its answer about {name} is unknown") };
                described(&String::from_utf8_lossy(&output.stdout)).map(Some).ok_or_else(unread)
            }
            Some(ABSENT) => Ok(None),
            _ => Err(refusal(CALL, &output)),
        }
    }

    fn snapshots(self, image: &str) -> DriverResult<Vec<String>> {
        const CALL: &str = "rbd snap ls";
        let output = self.run(CALL, "rbd", &["snap", "ls", "--format", "xml", image])?;
        match error_number(&output) {
            Some(0) => Ok(named_snapshots(&String::from_utf8_lossy(&output.stdout))),
            Some(ABSENT) => Ok(Vec::new()),
            _ => Err(refusal(CALL, &output)),
        }
    }

    /// Makes a copy-on-write clone.
    pub(super) fn clone_of(self, snapshot: &str, image: &str) -> DriverResult<()> {
        self.change("rbd clone", &["clone", snapshot, image], &[])
    }

    /// Copies what a clone shares with its parent, so that the clone stands alone.
    pub(super) fn flatten(self, image: &str) -> DriverResult<()> {
        self.change("rbd flatten", &["flatten", "--no-progress", image], &[])
    }

    /// Makes a snapshot that clones can be made of. Succeeds if there is one.
    pub(super) fn snapshot(self, snapshot: &str) -> DriverResult<()> {
        self.change("rbd snap create", &["snap", "create", "--no-progress", snapshot], &[EXISTS])?;
        self.change("rbd snap protect", &["snap", "protect", snapshot], &[BUSY])
    }

    /// Removes a snapshot. Succeeds if there is none.
    pub(super) fn remove_snapshot(self, snapshot: &str) -> DriverResult<()> {
        /// The snapshot is not protected.
        const INVALID: i32 = 22;
        self.change("rbd snap unprotect", &["snap", "unprotect", snapshot], &[ABSENT, INVALID])?;
        self.change("rbd snap rm", &["snap", "rm", "--no-progress", snapshot], &[ABSENT])
    }

    /// Removes all snapshots of an image.
    pub(super) fn remove_snapshots(self, image: &str) -> DriverResult<()> {
        for snapshot in self.snapshots(image)? {
            self.remove_snapshot(&format!("{image}@{snapshot}"))?;
        }
        Ok(())
    }

    /// Removes an image with its snapshots. Succeeds if there is none.
    pub(super) fn remove(self, image: &str) -> DriverResult<()> {
        self.remove_snapshots(image)?;
        for _ in 0..self.rbd.destroy_retries {
            let output = self.run("rbd rm", "rbd", &["rm", "--no-progress", image])?;
            match error_number(&output) {
                Some(0 | ABSENT) => return Ok(()),
                Some(BUSY) => pause(self.rbd),
                _ => return Err(refusal("rbd rm", &output)),
            }
        }
        self.change("rbd rm", &["rm", "--no-progress", image], &[ABSENT])
    }

    /// Creates an image from the bytes that `send` writes. Removes the image again if `send` fails, but not an image that
    /// existed before.
    pub(super) fn import(self, image: &str, send: impl FnOnce(&mut dyn Write) -> DriverResult<()>) -> DriverResult<()> {
        const CALL: &str = "rbd import";
        let mut command = self.command("rbd");
        command.args(["import", "--no-progress", "-", image]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = command.spawn().map_err(|error| unstarted(CALL, "rbd", &error))?;
        let messages = ProgramMessages::of(&mut running).map_err(|error| unstarted(CALL, "rbd", &error))?;
        let sent = match running.stdin.take() {
            // The end of the input is the end of the image.
            Some(mut input) => send(&mut input),
            None => Ok(()),
        };
        let output = messages.end(running).map_err(|error| unstarted(CALL, "rbd", &error))?;
        let made = match output.status.success() {
            true => sent,
            // The program's own error says more than a broken pipe.
            false => Err(refusal(CALL, &output)),
        };
        let existed = error_number(&output) == Some(EXISTS);
        made.inspect_err(|_| {
            if !existed && let Err(error) = self.remove(image) {
                tracing::warn!(%error, image, "an incomplete image stays in Ceph");
            }
        })
    }

    /// Lets `receive` read the bytes of an image.
    pub(super) fn export(
        self,
        image: &str,
        receive: impl FnOnce(&mut dyn Read) -> DriverResult<()>,
    ) -> DriverResult<()> {
        const CALL: &str = "rbd export";
        let mut command = self.command("rbd");
        command.args(["export", "--no-progress", image, "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().map_err(|error| unstarted(CALL, "rbd", &error))?;
        let messages = ProgramMessages::of(&mut running).map_err(|error| unstarted(CALL, "rbd", &error))?;
        let received = match running.stdout.take() {
            Some(mut bytes) => receive(&mut bytes),
            None => Ok(()),
        };
        let output = messages.end(running).map_err(|error| unstarted(CALL, "rbd", &error))?;
        match output.status.success() {
            true => received,
            false => received.and(Err(refusal(CALL, &output))),
        }
    }
}

fn unstarted(call: &'static str, program: &str, error: &io::Error) -> DriverError {
    match error.kind() {
        io::ErrorKind::NotFound => DriverError::Unsupported(format!(
            "Ceph's program {program} is not installed beside Chronova (Debian's package ceph-common)"
        )),
        _ => DriverError::Failed { call, message: error.to_string() },
    }
}

/// The last line of what the program said. Earlier lines are those of Ceph's log.
fn refusal(call: &'static str, output: &Output) -> DriverError {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let message = format!("{last} ({})", output.status);
    if last.contains("No space left on device") || last.contains("Disk quota exceeded") {
        return DriverError::NoRoom(message);
    }
    DriverError::Failed { call, message }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ffi::OsStr;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::PathBuf;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn the_answers_of_rbd_are_read() {
        let alone = "<image><name>a</name><size>1073741824</size><objects>256</objects></image>";
        assert_eq!(described(alone), Some(CephImage { size: 1 << 30, parent_pool: None }));
        let clone = "<image><name>a</name><size>5</size><parent><pool>images</pool><image>b</image></parent></image>\n";
        assert_eq!(described(clone), Some(CephImage { size: 5, parent_pool: Some("images".to_owned()) }));
        assert_eq!(described("rbd: error"), None);
        let snapshots = "<snapshots><snapshot><id>4</id><name>one</name></snapshot><snapshot><id>5</id>\
                         <name>two</name></snapshot></snapshots>";
        assert_eq!(named_snapshots(snapshots), ["one", "two"]);
        assert!(named_snapshots("<snapshots></snapshots>").is_empty());
    }

    #[test]
    fn a_missing_keyring_is_not_a_missing_image() {
        let ended = |code: i32, said: &str| {
            let stderr = said.as_bytes().to_vec();
            error_number(&Output { status: ExitStatus::from_raw(code << 8), stdout: Vec::new(), stderr })
        };
        let absent = "rbd: error opening image a: (2) No such file or directory\n";
        assert_eq!(ended(2, absent), Some(ABSENT));
        let unconnected = "auth: unable to find a keyring on /k: (2) No such file or directory\nrbd: couldn't connect to \
                           the cluster!\n";
        assert_eq!(ended(2, unconnected), None);
        assert_eq!(ended(0, ""), Some(0));
    }

    #[test]
    fn a_program_gets_the_keyring_and_never_the_key() {
        let mut options = LibvirtOptions::default();
        let rbd = &mut options.images.rbd;
        rbd.monitors = ["10.0.0.1:6789", "10.0.0.2"].map(str::to_owned).to_vec();
        let arguments = |options: &LibvirtOptions| {
            let command = CephPrograms::of(options).command("rbd");
            let all: Vec<_> = command.get_args().map(OsStr::to_os_string).collect();
            all.join(OsStr::new(" ")).into_string().unwrap()
        };
        let open = arguments(&options);
        assert!(open.contains("-m 10.0.0.1:6789,10.0.0.2") && open.ends_with("--auth-supported=none"), "{open}");
        options.images.rbd.user = Some("nova".to_owned());
        options.images.rbd.keyring = Some(PathBuf::from("/etc/ceph/nova.keyring"));
        assert!(arguments(&options).ends_with("--id nova --keyring /etc/ceph/nova.keyring"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = unstarted("rbd info", "rbd", &io::Error::from(io::ErrorKind::NotFound));
        assert!(matches!(error, DriverError::Unsupported(text) if text.contains("ceph-common")));
    }
}
