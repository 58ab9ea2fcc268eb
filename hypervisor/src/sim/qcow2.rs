//! Writes the smallest qcow2 file for a virtual size. The file has a header, empty tables, and a note that
//! distinguishes files.

use bytes::Bytes;

const CLUSTER: usize = 65_536;
const CLUSTER_BITS: u32 = 16;
/// The number of first-level entries in one cluster.
const MOST_L1: u32 = 8_192;
/// The number of bytes that one first-level entry covers. It points to a cluster of second-level entries, and each of
/// these covers a cluster.
const PER_L1: u64 = (CLUSTER as u64 / 8) * CLUSTER as u64;

/// An empty disk of `size` bytes.
pub(super) fn empty(size: u64, note: &str) -> Bytes {
    let entries = u32::try_from(size.div_ceil(PER_L1)).unwrap_or(u32::MAX).min(MOST_L1);
    // The clusters: header, first-level table, table of reference counts, reference counts.
    let mut file = vec![0_u8; 4 * CLUSTER];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        file[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(b"QFI\xfb");
    put(&2_u32.to_be_bytes());
    put(&0_u64.to_be_bytes());
    put(&0_u32.to_be_bytes());
    put(&CLUSTER_BITS.to_be_bytes());
    put(&size.to_be_bytes());
    put(&0_u32.to_be_bytes());
    put(&entries.to_be_bytes());
    put(&(CLUSTER as u64).to_be_bytes());
    put(&(2 * CLUSTER as u64).to_be_bytes());
    put(&1_u32.to_be_bytes());
    put(&0_u32.to_be_bytes());
    put(&0_u64.to_be_bytes());
    file[2 * CLUSTER..2 * CLUSTER + 8].copy_from_slice(&(3 * CLUSTER as u64).to_be_bytes());
    for cluster in 0..4 {
        let at = 3 * CLUSTER + cluster * 2;
        file[at..at + 2].copy_from_slice(&1_u16.to_be_bytes());
    }
    // The note is after the end of the header's extensions, where no program reads it.
    let note = &note.as_bytes()[..note.len().min(1_024)];
    file[4_096..4_096 + note.len()].copy_from_slice(note);
    Bytes::from(file)
}
