//! The Merkle tree over the log. Leaf `n` is the chain's hash of the event at position `n + 1`.
//!
//! A file beside the log has the root of each part of [`PART`] events, so that a proof reads a few parts of the log
//! instead of all of it. The file is a cache: anybody may remove it. Chronova makes the file again if it is missing,
//! damaged or of another log. Every event that is read is checked against the chain.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use chronova_events::chain::{EventContent, EventHash, link};
use chronova_events::envelope::Position;
use chronova_events::store::EventStore;
use sha2::{Digest as _, Sha256};

use super::super::super::CommandFailure;
use super::super::export::hash_at;
use super::merkle::{MerkleHash, TreeHead, TreeParts};

/// The number of leaves of a part, a power of two.
pub const PART: u64 = 1_024;
/// The number of events that are read at once.
const PAGE: usize = 1_024;
/// The size of a part in the file, in bytes. A part has the chain's hash at its end, its root, and a hash over both and
/// the part before.
const ENTRY: usize = 96;

/// A tree of a given size, as far as it is loaded.
#[derive(Debug)]
pub struct LogTree {
    size: u64,
    parts: Vec<MerkleHash>,
    loaded: BTreeMap<u64, Vec<MerkleHash>>,
}

impl TreeParts for LogTree {
    fn known(&self, from: u64, to: u64) -> Option<MerkleHash> {
        let number = from / PART;
        if from.is_multiple_of(PART) && to - from == PART {
            return self.parts.get(usize::try_from(number).ok()?).copied();
        }
        if to - from != 1 {
            return None;
        }
        self.loaded.get(&number)?.get(usize::try_from(from % PART).ok()?).copied()
    }
}

/// Leaves in a row.
struct Leaves<'a>(&'a [MerkleHash]);

impl TreeParts for Leaves<'_> {
    fn known(&self, from: u64, to: u64) -> Option<MerkleHash> {
        if to - from == 1 { self.0.get(usize::try_from(from).ok()?).copied() } else { None }
    }
}

/// One part in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CachedPart {
    chain: EventHash,
    root: MerkleHash,
}

impl LogTree {
    /// The tree over the first `size` events of the log. `cache` is the file beside the log.
    pub async fn of(store: &dyn EventStore, cache: &Path, size: u64) -> Result<Self, CommandFailure> {
        let mut known = read(cache);
        known.truncate(usize::try_from(size / PART).unwrap_or(usize::MAX));
        if let Some(last) = known.last()
            && hash_at(store, known.len() as u64 * PART).await? != last.chain
        {
            known.clear();
        }
        let before = known.len();
        let mut tree = Self { size, parts: Vec::new(), loaded: BTreeMap::new() };
        let (mut at, mut chain) = (before as u64 * PART, known.last().map_or(EventHash::START, |part| part.chain));
        while at < size {
            let (leaves, end) = leaves(store, at, chain, (at + PART).min(size)).await?;
            if leaves.len() as u64 == PART {
                known.push(CachedPart { chain: end, root: root(&leaves)? });
            } else {
                tree.loaded.insert(at / PART, leaves);
            }
            (at, chain) = (at + PART, end);
        }
        tree.parts = known.iter().map(|part| part.root).collect();
        if known.len() > before
            && let Err(error) = write(cache, &known)
        {
            // An auditor need not have the right to write beside the log.
            tracing::debug!(%error, file = %cache.display(), "the roots of the tree's parts were not kept");
        }
        Ok(tree)
    }

    /// Loads the leaves that a proof about leaf `index` needs.
    pub async fn load(&mut self, store: &dyn EventStore, index: u64) -> Result<(), CommandFailure> {
        let number = index / PART;
        if self.loaded.contains_key(&number) {
            return Ok(());
        }
        let (from, to) = (number * PART, ((number + 1) * PART).min(self.size));
        let (leaves, _) = leaves(store, from, hash_at(store, from).await?, to).await?;
        let known = usize::try_from(number).ok().and_then(|number| self.parts.get(number));
        if known.is_some_and(|known| root(&leaves).is_ok_and(|root| root != *known)) {
            return Err(CommandFailure::Usage(format!(
                "positions {} to {to} are not those that the tree was made of: remove the file log.db.tree, and verify \
                 the log with `chronova audit verify`",
                from + 1
            )));
        }
        self.loaded.insert(number, leaves);
        Ok(())
    }

    /// The head of the tree over the first `size` events. Leaf `size - 1` must be loaded.
    pub fn head(&self, size: u64) -> Result<TreeHead, CommandFailure> {
        let root = self.root(0, size).ok_or_else(not_loaded)?;
        Ok(TreeHead { size, root })
    }
}

/// A fault of this program.
pub fn not_loaded() -> CommandFailure {
    CommandFailure::Usage("the tree lacks leaves that the proof needs".to_owned())
}

fn root(leaves: &[MerkleHash]) -> Result<MerkleHash, CommandFailure> {
    Leaves(leaves).root(0, leaves.len() as u64).ok_or_else(not_loaded)
}

/// The leaves from `from` to `to`, and the chain's hash at the last leaf. `chain` is the chain's hash before the first
/// leaf.
async fn leaves(
    store: &dyn EventStore,
    from: u64,
    mut chain: EventHash,
    to: u64,
) -> Result<(Vec<MerkleHash>, EventHash), CommandFailure> {
    let mut leaves = Vec::new();
    let mut at = from;
    while at < to {
        let page = store.read_all(Position(at), PAGE.min(usize::try_from(to - at).unwrap_or(PAGE))).await?;
        if page.is_empty() {
            return Err(CommandFailure::Usage(format!("the log ends at position {at}")));
        }
        for recorded in page {
            let content = EventContent::of(&recorded).hash();
            chain = link(&chain, Position(at + 1), recorded.revision, &content);
            at += 1;
            if recorded.position.0 != at || recorded.hash != Some(chain) {
                return Err(CommandFailure::Usage(format!(
                    "position {at} does not match the hash chain: verify the log with `chronova audit verify`"
                )));
            }
            leaves.push(MerkleHash::leaf(&chain.0));
        }
    }
    Ok((leaves, chain))
}

fn check(before: &[u8], chain: &EventHash, root: &MerkleHash) -> [u8; 32] {
    Sha256::new().chain_update(before).chain_update(chain.0).chain_update(root.0).finalize().into()
}

/// The parts in the file, up to the first damage.
fn read(cache: &Path) -> Vec<CachedPart> {
    let bytes = std::fs::read(cache).unwrap_or_default();
    let (mut parts, mut before) = (Vec::new(), [0; 32]);
    for entry in bytes.chunks_exact(ENTRY) {
        let (chain, rest) = entry.split_at(32);
        let (root, sum) = rest.split_at(32);
        let (Some(chain), Some(root)) = (EventHash::from_slice(chain), EventHash::from_slice(root)) else { break };
        let root = MerkleHash(root.0);
        before = check(&before, &chain, &root);
        if before != sum {
            break;
        }
        parts.push(CachedPart { chain, root });
    }
    parts
}

/// Replaces the file as a whole. The file gets the log's mode, because hashes need not be public.
fn write(cache: &Path, parts: &[CachedPart]) -> std::io::Result<()> {
    let folder = cache.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let mut file = tempfile::Builder::new().prefix(".log.db.tree.").tempfile_in(folder)?;
    let mut before = [0; 32];
    for part in parts {
        before = check(&before, &part.chain, &part.root);
        file.write_all(&[part.chain.0, part.root.0, before].concat())?;
    }
    file.as_file().sync_all()?;
    file.persist(cache)?;
    Ok(())
}
