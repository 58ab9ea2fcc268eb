//! Stores the state of the simulated guests in a file that survives the process.
//!
//! The file is a text log with one change per line, each appended with one write. A killed process leaves at most an
//! incomplete last line. That line was never acknowledged and is cut off. Opening replays the lines and rewrites the
//! file in its shortest form. There is no fsync, because simulated guests need not survive a crash of the computer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{ImageId, InstanceId, NetworkId};
use thiserror::Error;

use crate::capability::owner_mark::HostOwner;

#[derive(Debug, Error)]
pub enum JournalError {
    #[error("cannot use the state file {path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("the state file {path} is damaged at line {line}")]
    Damaged { path: PathBuf, line: usize },
}

/// One change of one host or guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SimChange {
    Define {
        instance: InstanceId,
        vcpus: u32,
        memory_mib: u64,
        disk_gib: u64,
        name: String,
    },
    On(InstanceId),
    Off(InstanceId),
    Pause(InstanceId),
    Unpause(InstanceId),
    /// The guest is off, with its memory on the disk.
    Save(InstanceId),
    /// The guest is on, with its memory from the disk.
    Restore(InstanceId),
    Undefine(InstanceId),
    /// The volume with this serial is attached.
    Plug(InstanceId, String),
    Unplug(InstanceId, String),
    /// The host has disks of this guest without a domain.
    Leak(InstanceId),
    Tidy(InstanceId),
    /// A copy of the disk is set aside.
    Keep(InstanceId),
    Unkeep(InstanceId),
    Image(String),
    Network(NetworkId),
    NoNetwork(NetworkId),
    Filter(String),
    NoFilter(String),
    /// A volume of the volume service: its size in bytes, and its content.
    Volume {
        name: String,
        size: u64,
        content: String,
    },
    NoVolume(String),
    /// The interface with this MAC is attached.
    PlugNic(InstanceId, String),
    UnplugNic(InstanceId, String),
    /// The guest starts from a rescue disk.
    Rescue(InstanceId),
    /// The guest starts from its own disk again.
    NoRescue(InstanceId),
    /// The host has a copy of the guest's disk.
    Copy(InstanceId, ImageId),
    NoCopy(InstanceId, ImageId),
    NoImage(String),
    /// The time since which the image is unused.
    Idle(String, Timestamp),
    Busy(String),
    /// This log drives the host.
    Owner(HostOwner),
    /// The disk with this suffix is based on the image.
    Base(InstanceId, String, String),
}

impl SimChange {
    pub(super) fn line(&self, host: usize) -> String {
        match self {
            Self::Define { instance, vcpus, memory_mib, disk_gib, name } => {
                let name = name.replace(['\n', '\r'], " ");
                format!("{host} define {instance} {vcpus} {memory_mib} {disk_gib} {name}\n")
            }
            Self::On(instance) => format!("{host} on {instance}\n"),
            Self::Off(instance) => format!("{host} off {instance}\n"),
            Self::Pause(instance) => format!("{host} pause {instance}\n"),
            Self::Unpause(instance) => format!("{host} unpause {instance}\n"),
            Self::Save(instance) => format!("{host} save {instance}\n"),
            Self::Restore(instance) => format!("{host} restore {instance}\n"),
            Self::Undefine(instance) => format!("{host} undefine {instance}\n"),
            Self::Plug(instance, serial) => format!("{host} plug {instance} {}\n", serial.replace(['\n', '\r'], " ")),
            Self::Unplug(instance, serial) => {
                format!("{host} unplug {instance} {}\n", serial.replace(['\n', '\r'], " "))
            }
            Self::Leak(instance) => format!("{host} leak {instance}\n"),
            Self::Tidy(instance) => format!("{host} tidy {instance}\n"),
            Self::Keep(instance) => format!("{host} keep {instance}\n"),
            Self::Unkeep(instance) => format!("{host} unkeep {instance}\n"),
            Self::Image(checksum) => format!("{host} image {checksum}\n"),
            Self::Network(network) => format!("{host} network {network}\n"),
            Self::NoNetwork(network) => format!("{host} no-network {network}\n"),
            Self::Filter(name) => format!("{host} filter {name}\n"),
            Self::NoFilter(name) => format!("{host} no-filter {name}\n"),
            Self::Volume { name, size, content } => format!("{host} volume {name} {size} {content}\n"),
            Self::NoVolume(name) => format!("{host} no-volume {name}\n"),
            Self::PlugNic(instance, mac) => format!("{host} plug-nic {instance} {mac}\n"),
            Self::UnplugNic(instance, mac) => format!("{host} unplug-nic {instance} {mac}\n"),
            Self::Rescue(instance) => format!("{host} rescue {instance}\n"),
            Self::NoRescue(instance) => format!("{host} no-rescue {instance}\n"),
            Self::Copy(instance, image) => format!("{host} copy {instance} {image}\n"),
            Self::NoCopy(instance, image) => format!("{host} no-copy {instance} {image}\n"),
            Self::NoImage(checksum) => format!("{host} no-image {checksum}\n"),
            Self::Idle(checksum, since) => format!("{host} idle {checksum} {}\n", since.0),
            Self::Busy(checksum) => format!("{host} busy {checksum}\n"),
            Self::Owner(HostOwner { installation, generation, taken_at }) => {
                let taken_at = taken_at.map_or_else(String::new, |at| format!(" {}", at.0));
                format!("{host} owner {installation} {generation}{taken_at}\n")
            }
            Self::Base(instance, disk, checksum) => format!("{host} base {instance} {disk} {checksum}\n"),
        }
    }

    fn parse(line: &str) -> Option<(usize, Self)> {
        let (host, rest) = line.split_once(' ')?;
        let (kind, rest) = rest.split_once(' ')?;
        let change = match kind {
            "define" => {
                let mut words = rest.splitn(5, ' ');
                Self::Define {
                    instance: words.next()?.parse().ok()?,
                    vcpus: words.next()?.parse().ok()?,
                    memory_mib: words.next()?.parse().ok()?,
                    disk_gib: words.next()?.parse().ok()?,
                    name: words.next()?.to_owned(),
                }
            }
            "on" => Self::On(rest.parse().ok()?),
            "off" => Self::Off(rest.parse().ok()?),
            "pause" => Self::Pause(rest.parse().ok()?),
            "unpause" => Self::Unpause(rest.parse().ok()?),
            "save" => Self::Save(rest.parse().ok()?),
            "restore" => Self::Restore(rest.parse().ok()?),
            "undefine" => Self::Undefine(rest.parse().ok()?),
            "plug" => device(rest).map(|(instance, serial)| Self::Plug(instance, serial))?,
            "unplug" => device(rest).map(|(instance, serial)| Self::Unplug(instance, serial))?,
            "leak" => Self::Leak(rest.parse().ok()?),
            "tidy" => Self::Tidy(rest.parse().ok()?),
            "keep" => Self::Keep(rest.parse().ok()?),
            "unkeep" => Self::Unkeep(rest.parse().ok()?),
            "image" => Self::Image(rest.to_owned()),
            "network" => Self::Network(rest.parse().ok()?),
            "no-network" => Self::NoNetwork(rest.parse().ok()?),
            "filter" => Self::Filter(rest.to_owned()),
            "no-filter" => Self::NoFilter(rest.to_owned()),
            "volume" => {
                let mut words = rest.splitn(3, ' ');
                Self::Volume {
                    name: words.next()?.to_owned(),
                    size: words.next()?.parse().ok()?,
                    content: words.next()?.to_owned(),
                }
            }
            "no-volume" => Self::NoVolume(rest.to_owned()),
            "plug-nic" => device(rest).map(|(instance, mac)| Self::PlugNic(instance, mac))?,
            "unplug-nic" => device(rest).map(|(instance, mac)| Self::UnplugNic(instance, mac))?,
            "rescue" => Self::Rescue(rest.parse().ok()?),
            "no-rescue" => Self::NoRescue(rest.parse().ok()?),
            "copy" | "no-copy" => {
                let (instance, image) = rest.split_once(' ')?;
                let (instance, image) = (instance.parse().ok()?, image.parse().ok()?);
                if kind == "copy" { Self::Copy(instance, image) } else { Self::NoCopy(instance, image) }
            }
            "no-image" => Self::NoImage(rest.to_owned()),
            "idle" => {
                let (checksum, since) = rest.split_once(' ')?;
                Self::Idle(checksum.to_owned(), Timestamp(since.parse().ok()?))
            }
            "busy" => Self::Busy(rest.to_owned()),
            "owner" => {
                let mut words = rest.split(' ');
                Self::Owner(HostOwner {
                    installation: words.next()?.parse().ok()?,
                    generation: words.next()?.parse().ok()?,
                    taken_at: words.next().map(str::parse).transpose().ok()?.map(Timestamp),
                })
            }
            "base" => {
                let (instance, disk) = device(rest)?;
                let (disk, checksum) = disk.split_once(' ')?;
                Self::Base(instance, disk.to_owned(), checksum.to_owned())
            }
            _ => return None,
        };
        Some((host.parse().ok()?, change))
    }
}

fn device(words: &str) -> Option<(InstanceId, String)> {
    let (instance, name) = words.split_once(' ')?;
    Some((instance.parse().ok()?, name.to_owned()))
}

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    fn io(path: &Path) -> impl Fn(io::Error) -> JournalError + '_ {
        |source| JournalError::Io { path: path.to_owned(), source }
    }

    /// Reads the changes in a file, without an incomplete last line.
    pub(super) fn read(path: &Path) -> Result<Vec<(usize, SimChange)>, JournalError> {
        let content = match fs::read(path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Self::io(path)(error)),
        };
        let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = String::from_utf8_lossy(&content[..whole]);
        text.lines()
            .enumerate()
            .map(|(index, line)| {
                SimChange::parse(line).ok_or_else(|| JournalError::Damaged { path: path.to_owned(), line: index + 1 })
            })
            .collect()
    }

    /// Replaces the file by `lines` and appends from there. The old file stays intact until the new one is complete.
    pub(super) fn rewrite(path: &Path, lines: &str) -> Result<Self, JournalError> {
        let fresh = path.with_extension("new");
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .and_then(|mut file| file.write_all(lines.as_ref()))
            .map_err(Self::io(&fresh))?;
        fs::rename(&fresh, path).map_err(Self::io(path))?;
        let file = OpenOptions::new().append(true).open(path).map_err(Self::io(path))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    pub(super) fn append(&self, line: &str) -> Result<(), JournalError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).map_err(Self::io(&self.path))
    }
}
