//! Parses the header of an untrusted qcow2 file (QEMU's docs/interop/qcow2.txt).
//!
//! The function `inspect` refuses backing files, external data files, encryption, images marked as corrupt, unknown
//! features, and tables outside the file.

use super::{InspectError, RandomAccess};

const FIXED: usize = 104;
/// The length of a version 2 header.
const FIXED_V2: u64 = 72;
const MIN_CLUSTER_BITS: u32 = 9;
const MAX_CLUSTER_BITS: u32 = 21;
/// QEMU's own limit of the first-level table: 32 MiB.
const MAX_L1_ENTRIES: u32 = 32 * 1024 * 1024 / 8;
/// QEMU's own limit of the reference count table: 8 MiB.
const MAX_REFCOUNT_TABLE: u64 = 8 * 1024 * 1024;
/// The most header extensions. No version of QEMU writes so many.
const MAX_EXTENSIONS: usize = 32;

const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

const EXTENSION_END: u32 = 0;
const EXTENSION_BACKING_FORMAT: u32 = 0xE279_2ACA;
const EXTENSION_ENCRYPTION: u32 = 0x0537_BE77;
const EXTENSION_DATA_FILE: u32 = 0x4441_5441;

fn refuse(reason: impl Into<String>) -> InspectError {
    InspectError::Unsafe { format: "qcow2", reason: reason.into() }
}

/// Reads big-endian numbers at fixed offsets of a header. The array's type ensures that the header is long enough.
struct Qcow2Header<'a>(&'a [u8; FIXED]);

impl Qcow2Header<'_> {
    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
    }
}

/// Checks the header, and returns the size that a guest sees.
pub(super) fn inspect(source: &(impl RandomAccess + ?Sized)) -> Result<u64, InspectError> {
    let mut bytes = [0_u8; FIXED];
    // Any valid image, even of version 2, is longer than a header of version 3.
    source.read_at(&mut bytes, 0).map_err(|_| refuse("the header is cut off"))?;
    let header = Qcow2Header(&bytes);
    let version = header.u32(4);
    if !matches!(version, 2 | 3) {
        return Err(refuse(format!("version {version} is not known")));
    }
    if header.u64(8) != 0 || header.u32(16) != 0 {
        return Err(refuse("it has a backing file"));
    }
    let cluster_bits = header.u32(20);
    if !(MIN_CLUSTER_BITS..=MAX_CLUSTER_BITS).contains(&cluster_bits) {
        return Err(refuse(format!("clusters of 2^{cluster_bits} bytes are not possible")));
    }
    let cluster = 1_u64 << cluster_bits;
    if header.u32(32) != 0 {
        return Err(refuse("it is encrypted"));
    }
    let header_length = if version == 2 { FIXED_V2 } else { features(&header, cluster)? };
    extensions(source, header_length, cluster)?;
    tables(&header, source.length(), cluster)?;
    virtual_size(&header, cluster)
}

/// Checks the feature bits of version 3; returns the header's length.
fn features(header: &Qcow2Header<'_>, cluster: u64) -> Result<u64, InspectError> {
    let incompatible = header.u64(72);
    if incompatible & EXTERNAL_DATA != 0 {
        return Err(refuse("it has an external data file"));
    }
    if incompatible & CORRUPT != 0 {
        return Err(refuse("it is marked corrupt"));
    }
    let unknown = incompatible & !(DIRTY | CORRUPT | EXTERNAL_DATA | COMPRESSION | EXTENDED_L2);
    if unknown != 0 {
        return Err(refuse(format!("it needs features that are not known ({unknown:#x})")));
    }
    if header.u32(96) > 6 {
        return Err(refuse("its reference counts are too wide"));
    }
    let length = u64::from(header.u32(100));
    if length < FIXED as u64 || length % 8 != 0 || length > cluster {
        return Err(refuse(format!("a header of {length} bytes is not possible")));
    }
    Ok(length)
}

fn number(source: &(impl RandomAccess + ?Sized), at: u64) -> Result<u32, InspectError> {
    let mut bytes = [0_u8; 4];
    source.read_at(&mut bytes, at)?;
    Ok(u32::from_be_bytes(bytes))
}

/// Walks the header extensions, which end within the first cluster.
fn extensions(source: &(impl RandomAccess + ?Sized), from: u64, cluster: u64) -> Result<(), InspectError> {
    let mut at = from;
    for _ in 0..MAX_EXTENSIONS {
        // At the end of the first cluster or of the file, there are no more extensions.
        if at + 8 > cluster || at + 8 > source.length() {
            return Ok(());
        }
        let (kind, length) = (number(source, at)?, number(source, at + 4)?);
        match kind {
            EXTENSION_END => return Ok(()),
            EXTENSION_DATA_FILE => return Err(refuse("it names an external data file")),
            EXTENSION_BACKING_FORMAT => return Err(refuse("it names the format of a backing file")),
            EXTENSION_ENCRYPTION => return Err(refuse("it is encrypted")),
            _ => {}
        }
        at += 8 + u64::from(length).next_multiple_of(8);
        if at > cluster {
            return Err(refuse("a header extension reaches beyond the first cluster"));
        }
    }
    Err(refuse("it has too many header extensions"))
}

/// Checks that the main tables are inside the file.
fn tables(header: &Qcow2Header<'_>, length: u64, cluster: u64) -> Result<(), InspectError> {
    let inside = |offset: u64, size: u64| {
        offset.is_multiple_of(cluster)
            && (size == 0 || offset >= cluster)
            && offset.checked_add(size).is_some_and(|end| end <= length)
    };
    let l1_entries = header.u32(36);
    if l1_entries > MAX_L1_ENTRIES || !inside(header.u64(40), u64::from(l1_entries) * 8) {
        return Err(refuse("its first-level table is not in the file"));
    }
    let refcounts = u64::from(header.u32(56)) * cluster;
    if refcounts == 0 || refcounts > MAX_REFCOUNT_TABLE.max(cluster) || !inside(header.u64(48), refcounts) {
        return Err(refuse("its table of reference counts is not in the file"));
    }
    // A snapshot's entry is at least 40 bytes long.
    let snapshots = u64::from(header.u32(60));
    if snapshots > 65_536 || !inside(header.u64(64), snapshots * 40) {
        return Err(refuse("its snapshots are not in the file"));
    }
    Ok(())
}

fn virtual_size(header: &Qcow2Header<'_>, cluster: u64) -> Result<u64, InspectError> {
    let size = header.u64(24);
    // One first-level entry covers a second-level table. Each entry of that table covers a cluster, and is twice as
    // wide with subclusters.
    let entry = if header.u32(4) == 3 && header.u64(72) & EXTENDED_L2 != 0 { 16 } else { 8 };
    let per_l1_entry = u128::from(cluster / entry) * u128::from(cluster);
    if u128::from(size) > u128::from(header.u32(36)) * per_l1_entry {
        return Err(refuse("its first-level table is too small for its size"));
    }
    Ok(size)
}
