//! Detects a file's real format, without trust in its sender.
//!
//! A hypervisor trusts the content of a disk. A qcow2 header may name another file of the host, and the guest could
//! then read that file. So an image becomes usable only after an inspection. The content must have the declared format
//! and no other, and must refer to nothing outside itself. All parsing is bounded and reads only what it needs.

mod qcow2;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use thiserror::Error;

/// Bytes with random access.
pub trait RandomAccess {
    fn length(&self) -> u64;
    /// Fills `buffer` from `offset` on; a shorter source is an error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// A file of known length.
#[derive(Debug)]
pub struct OpenFile {
    pub file: File,
    pub length: u64,
}

impl RandomAccess for OpenFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

impl RandomAccess for [u8] {
    fn length(&self) -> u64 {
        u64::try_from(self.len()).unwrap_or(u64::MAX)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start.checked_add(buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(self.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[derive(Debug, Error)]
pub enum InspectError {
    /// The content has another format than the declared one.
    #[error("the content is {found}, not {declared}")]
    Mismatch { declared: String, found: &'static str },
    /// The content has the declared format, but refers to other files, or is damaged.
    #[error("the {format} content is not safe to use: {reason}")]
    Unsafe { format: &'static str, reason: String },
    #[error("the content cannot be read")]
    Io(#[from] io::Error),
}

/// The result of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspected {
    /// The size that a guest sees; `None` if it is unknown.
    pub virtual_size: Option<u64>,
}

/// The formats with a signature: the format, the signature's offset, and its bytes.
const SIGNATURES: [(&str, u64, &[u8]); 12] = [
    ("qcow2", 0, b"QFI\xfb"),
    ("qed", 0, b"QED\0"),
    ("vmdk", 0, b"KDMV"),
    ("vmdk", 0, b"COWD"),
    ("vmdk", 0, b"# Disk DescriptorFile"),
    // A VHD of fixed size has this signature only in its footer, which the function `signatures` reads.
    ("vhd", 0, b"conectix"),
    ("vhdx", 0, b"vhdxfile"),
    ("luks", 0, b"LUKS\xba\xbe"),
    ("vdi", 0x40, b"\x7f\x10\xda\xbe"),
    ("iso", 0x8001, b"CD001"),
    ("ploop", 0, b"WithoutFreeSpace"),
    ("ploop", 0, b"WithouFreSpacExt"),
];

/// Each format with a signature in the content. A raw disk has no signature, and a partition table counts as raw.
fn signatures(source: &(impl RandomAccess + ?Sized)) -> Result<Vec<&'static str>, InspectError> {
    let mut found = Vec::new();
    for (format, offset, magic) in SIGNATURES {
        let mut bytes = [0_u8; 32];
        let Some(window) = bytes.get_mut(..magic.len()) else { continue };
        if source.length() >= offset + magic.len() as u64 {
            source.read_at(window, offset)?;
            if window == magic && !found.contains(&format) {
                found.push(format);
            }
        }
    }
    if source.length() >= 512 && !found.contains(&"vhd") {
        let mut footer = [0_u8; 8];
        source.read_at(&mut footer, source.length() - 512)?;
        if &footer == b"conectix" {
            found.push("vhd");
        }
    }
    Ok(found)
}

/// Checks that the content has the format `declared` (Glance's `disk_format`) and is safe for a hypervisor.
pub fn inspect(source: &(impl RandomAccess + ?Sized), declared: &str) -> Result<Inspected, InspectError> {
    let found = signatures(source)?;
    let other = |wanted: &str| found.iter().copied().find(|format| *format != wanted);
    let mismatch = |found| InspectError::Mismatch { declared: declared.to_owned(), found };
    let raw = Inspected { virtual_size: Some(source.length()) };
    match declared {
        "raw" => other("raw").map_or(Ok(raw), |format| Err(mismatch(format))),
        // Amazon's formats have no signature; content with another format's signature is refused nevertheless.
        "ami" | "ari" | "aki" => other("").map_or(Ok(raw), |format| Err(mismatch(format))),
        // A file with the signatures of two formats is a trap, because each reader may choose another format.
        _ if !found.contains(&declared) => Err(mismatch(other(declared).unwrap_or("raw"))),
        _ if other(declared).is_some() => Err(mismatch("of several formats at once")),
        "qcow2" => qcow2::inspect(source).map(|virtual_size| Inspected { virtual_size: Some(virtual_size) }),
        "iso" => iso(source).map(|()| raw),
        _ => Ok(Inspected { virtual_size: None }),
    }
}

/// An ISO9660 volume begins with descriptors of known types.
fn iso(source: &(impl RandomAccess + ?Sized)) -> Result<(), InspectError> {
    let mut descriptor = [0_u8; 7];
    let unsafe_iso = |reason: &str| InspectError::Unsafe { format: "iso", reason: reason.to_owned() };
    source.read_at(&mut descriptor, 0x8000).map_err(|_| unsafe_iso("it is cut off"))?;
    match (descriptor[0], descriptor[6]) {
        (0..=3, 1) => Ok(()),
        _ => Err(unsafe_iso("its first volume descriptor is unknown")),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
