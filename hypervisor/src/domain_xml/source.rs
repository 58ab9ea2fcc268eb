//! The source of a local disk in domain XML. The format is always given, because the guest writes the first bytes of a
//! raw disk. QEMU must never read those bytes as the header of another format.

use super::facts::HostFacts;
use crate::guest::{NetworkDisk, VolumeDisk, passphrase_secret};
use crate::options::CacheMode;
use crate::xml::Element;

/// An image in a Ceph pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbdImage {
    /// `POOL/IMAGE`.
    pub name: String,
    /// The addresses of the monitors, as `HOST[:PORT]`.
    pub monitors: Vec<String>,
    /// The path of Ceph's configuration file on the host.
    pub conf: Option<String>,
    pub user: Option<String>,
    pub secret: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSource {
    File { path: String, format: &'static str },
    Block { path: String },
    Rbd(RbdImage),
}

impl DiskSource {
    /// The disk's type in libvirt's words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Block { .. } => "block",
            Self::Rbd(_) => "network",
        }
    }

    pub(super) fn format(&self) -> &'static str {
        match self {
            Self::File { format, .. } => format,
            Self::Block { .. } | Self::Rbd(_) => "raw",
        }
    }

    /// The attribute and value that identify a disk's source in a domain.
    pub(crate) fn address(&self) -> (&'static str, &str) {
        match self {
            Self::File { path, .. } => ("file", path),
            Self::Block { path } => ("dev", path),
            Self::Rbd(image) => ("name", &image.name),
        }
    }

    /// The mode of the host's page cache: the operator's choice for this kind of source, or `none`. For a file,
    /// [`HostFacts::cache`] decides.
    pub(super) fn cache(&self, host: &HostFacts) -> CacheMode {
        let modes = &host.guests.cache;
        match self {
            Self::File { .. } => host.cache(),
            Self::Block { .. } => modes.block.unwrap_or(CacheMode::None),
            Self::Rbd(_) => modes.network.unwrap_or(CacheMode::None),
        }
    }

    pub(super) fn element(&self) -> Element {
        match self {
            Self::File { path, .. } => Element::new("source").attr("file", path),
            Self::Block { path } => Element::new("source").attr("dev", path),
            Self::Rbd(image) => Element::new("source")
                .attr("protocol", "rbd")
                .attr("name", &image.name)
                .children(image.monitors.iter().map(|monitor| host(monitor)))
                .children(image.conf.as_ref().map(|path| Element::new("config").attr("file", path)))
                .children(image.user.as_ref().map(|user| auth(user, image.secret.as_deref()))),
        }
    }
}

/// The source of a volume that QEMU reaches over the network. The secret of CHAP has the volume's id (`serial`).
pub(super) fn network(disk: &NetworkDisk, serial: &str) -> Element {
    let source = |protocol: &str, name: &str| Element::new("source").attr("protocol", protocol).attr("name", name);
    match disk {
        NetworkDisk::Rbd { name, monitors, user, secret } => source("rbd", name)
            .children(monitors.iter().map(|monitor| host(monitor)))
            .children(user.as_ref().map(|user| auth(user, secret.as_deref()))),
        NetworkDisk::Iscsi { portal, target, lun, initiator, chap } => {
            let secret = || Element::new("secret").attr("type", "iscsi").attr("uuid", serial);
            source("iscsi", &format!("{target}/{lun}"))
                .child(host(portal))
                .children(chap.as_ref().map(|(user, _)| Element::new("auth").attr("username", user).child(secret())))
                .child(Element::new("initiator").child(Element::new("iqn").attr("name", initiator)))
        }
        // libvirt's schema (9.0.0) demands the identity. Without attributes, QEMU's own user reads and writes the file.
        NetworkDisk::Nfs { host, path } => {
            source("nfs", path).child(Element::new("host").attr("name", host)).child(Element::new("identity"))
        }
        NetworkDisk::Encrypted { disk, .. } => network(disk, serial),
    }
}

/// The encryption of a disk that QEMU decrypts. `None`: the disk is not encrypted.
pub(super) fn encryption(disk: &VolumeDisk) -> Option<Element> {
    let uuid = disk.passphrase().and_then(|_| passphrase_secret(disk.key()))?;
    let secret = Element::new("secret").attr("type", "passphrase").attr("uuid", uuid);
    Some(Element::new("encryption").attr("format", "luks").child(secret))
}

/// Renders a monitor or a portal: `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
pub(crate) fn host(monitor: &str) -> Element {
    let (name, port) = match monitor.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address, rest.strip_prefix(':')),
        None => match monitor.split_once(':') {
            Some((name, port)) if !port.contains(':') => (name, Some(port)),
            _ => (monitor, None),
        },
    };
    Element::new("host").attr("name", name).attr_if("port", port)
}

fn auth(user: &str, secret: Option<&str>) -> Element {
    let secret = secret.map(|uuid| Element::new("secret").attr("type", "ceph").attr("uuid", uuid));
    Element::new("auth").attr("username", user).children(secret)
}
