//! Merkle trees in the form of RFC 9162 (and RFC 6962), section 2.1: SHA-256, with the byte 0 before a leaf and the
//! byte 1 before a node.
//!
//! The functions that make proofs follow the RFC's recursive definitions. They ask for the roots of parts of the tree,
//! so that the tree need not be in memory. The functions that verify follow the RFC's algorithms, which need the proof
//! alone.

use std::fmt;
use std::str::FromStr;

use chronova_events::chain::EventHash;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The root of a tree or of a part of it. Its text has 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MerkleHash(pub [u8; 32]);

impl MerkleHash {
    /// The root of the tree without leaves.
    pub fn empty() -> Self {
        Self(Sha256::digest([]).into())
    }

    pub fn leaf(data: &[u8]) -> Self {
        Self(Sha256::new().chain_update([0]).chain_update(data).finalize().into())
    }

    pub fn node(left: Self, right: Self) -> Self {
        Self(Sha256::new().chain_update([1]).chain_update(left.0).chain_update(right.0).finalize().into())
    }
}

impl fmt::Display for MerkleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        EventHash(self.0).fmt(f)
    }
}

impl FromStr for MerkleHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<EventHash>().map(|hash| Self(hash.0)).map_err(|error| error.to_string())
    }
}

impl Serialize for MerkleHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MerkleHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A tree's size and root, as text `SIZE:ROOT`. An auditor who keeps a head can later prove that nobody changed the
/// events that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeHead {
    pub size: u64,
    pub root: MerkleHash,
}

impl fmt::Display for TreeHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.size, self.root)
    }
}

impl FromStr for TreeHead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a tree head is SIZE:ROOT, as `chronova audit head --tree` prints it".to_owned();
        let (size, root) = text.trim().split_once(':').ok_or_else(wrong)?;
        Ok(Self { size: size.parse().map_err(|_| wrong())?, root: root.parse().map_err(|_| wrong())? })
    }
}

/// Roots of the parts of a tree: `MTH(D[from:to])` of the RFC. `None`: this part is not known.
pub trait TreeParts {
    /// The root of the part, if it is stored and need not be computed from the roots of its halves. For the leaves that
    /// a proof needs, it must be stored.
    fn known(&self, from: u64, to: u64) -> Option<MerkleHash>;

    fn root(&self, from: u64, to: u64) -> Option<MerkleHash> {
        if from == to {
            return Some(MerkleHash::empty());
        }
        self.known(from, to).or_else(|| {
            let middle = (to - from > 1).then(|| from + split(to - from))?;
            Some(MerkleHash::node(self.root(from, middle)?, self.root(middle, to)?))
        })
    }
}

/// The largest power of two below `n`. `n` is at least 2.
fn split(n: u64) -> u64 {
    1 << (n - 1).ilog2()
}

/// `PATH(index, D[from:to])`: proves that a leaf is in the tree; `index` counts from `from`.
pub fn inclusion(tree: &impl TreeParts, index: u64, from: u64, to: u64) -> Option<Vec<MerkleHash>> {
    if to - from == 1 {
        return Some(Vec::new());
    }
    let middle = from + split(to - from);
    let (mut path, other) = if from + index < middle {
        (inclusion(tree, index, from, middle)?, tree.root(middle, to)?)
    } else {
        (inclusion(tree, from + index - middle, middle, to)?, tree.root(from, middle)?)
    };
    path.push(other);
    Some(path)
}

/// `PROOF(first, D[0:second])`: proves that the tree of size `first` is the beginning of the tree of size `second`;
/// `0 < first <= second`.
pub fn consistency(tree: &impl TreeParts, first: u64, second: u64) -> Option<Vec<MerkleHash>> {
    part_of_consistency(tree, first, (0, second), true)
}

fn part_of_consistency(
    tree: &impl TreeParts,
    first: u64,
    (from, to): (u64, u64),
    is_old_root: bool,
) -> Option<Vec<MerkleHash>> {
    if first == to - from {
        return if is_old_root { Some(Vec::new()) } else { tree.root(from, to).map(|root| vec![root]) };
    }
    let middle = from + split(to - from);
    let (mut path, other) = if from + first <= middle {
        (part_of_consistency(tree, first, (from, middle), is_old_root)?, tree.root(middle, to)?)
    } else {
        (part_of_consistency(tree, from + first - middle, (middle, to), false)?, tree.root(from, middle)?)
    };
    path.push(other);
    Some(path)
}

/// Whether the path proves that `leaf` is at `index` of the tree (RFC 9162, 2.1.3.2).
pub fn includes(head: &TreeHead, index: u64, leaf: MerkleHash, path: &[MerkleHash]) -> bool {
    if index >= head.size {
        return false;
    }
    let (mut at, mut last, mut root) = (index, head.size - 1, leaf);
    for other in path {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            root = MerkleHash::node(*other, root);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            root = MerkleHash::node(root, *other);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && root == head.root
}

/// Whether the path proves that `old` is the beginning of `new` (RFC 9162, 2.1.4.2).
pub fn continues(old: &TreeHead, new: &TreeHead, path: &[MerkleHash]) -> bool {
    if old.size == 0 || old.size > new.size {
        return false;
    }
    if old.size == new.size {
        return path.is_empty() && old.root == new.root;
    }
    let own = old.size.is_power_of_two().then_some(old.root);
    let mut path = own.into_iter().chain(path.iter().copied());
    let (mut at, mut last) = (old.size - 1, new.size - 1);
    while at & 1 == 1 {
        (at, last) = (at >> 1, last >> 1);
    }
    let Some(first) = path.next() else { return false };
    let (mut old_root, mut new_root) = (first, first);
    for other in path {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            old_root = MerkleHash::node(other, old_root);
            new_root = MerkleHash::node(other, new_root);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            new_root = MerkleHash::node(new_root, other);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && old_root == old.root && new_root == new.root
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The leaves' data.
    struct Leaves(Vec<Vec<u8>>);

    impl TreeParts for Leaves {
        fn known(&self, from: u64, to: u64) -> Option<MerkleHash> {
            (to - from == 1).then(|| MerkleHash::leaf(&self.0[usize::try_from(from).unwrap()]))
        }
    }

    /// The RFC's definition of the root, on lists and word by word.
    fn mth(data: &[Vec<u8>]) -> MerkleHash {
        match data {
            [] => MerkleHash(Sha256::digest([]).into()),
            [one] => MerkleHash(Sha256::digest([&[0], one.as_slice()].concat()).into()),
            _ => {
                let mut k = 1;
                while 2 * k < data.len() {
                    k *= 2;
                }
                let (left, right) = (mth(&data[..k]), mth(&data[k..]));
                MerkleHash(Sha256::digest([&[1], &left.0[..], &right.0[..]].concat()).into())
            }
        }
    }

    fn leaves(n: u64) -> Leaves {
        Leaves((0..n).map(|number| number.to_be_bytes().to_vec()).collect())
    }

    fn head(of: &Leaves, size: u64) -> TreeHead {
        TreeHead { size, root: mth(&of.0[..usize::try_from(size).unwrap()]) }
    }

    /// Copies of a proof: each has a flipped bit, lacks a hash, or has one more hash.
    fn damaged(path: &[MerkleHash]) -> Vec<Vec<MerkleHash>> {
        let mut all = Vec::new();
        for at in 0..path.len() {
            let (mut flipped, mut short) = (path.to_vec(), path.to_vec());
            flipped[at].0[at % 32] ^= 1;
            short.remove(at);
            all.extend([flipped, short]);
        }
        all.push([path, &[MerkleHash::empty()]].concat());
        all
    }

    /// The leaves and roots of the reference tests of Certificate Transparency.
    #[test]
    fn roots_are_those_of_certificate_transparency() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let data = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
        let leaves = Leaves(data.map(hex).to_vec());
        let roots = [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        for (size, root) in (0..).zip(roots) {
            assert_eq!(leaves.root(0, size).unwrap().to_string(), root, "{size} leaves");
        }
    }

    #[test]
    fn every_inclusion_is_proved_and_nothing_else() {
        for size in 1..=70 {
            let leaves = leaves(size);
            let head = head(&leaves, size);
            assert_eq!(leaves.root(0, size), Some(head.root), "{size}");
            for index in 0..size {
                let path = inclusion(&leaves, index, 0, size).unwrap();
                assert!(path.len() <= 7, "the path must be logarithmic");
                let leaf = leaves.known(index, index + 1).unwrap();
                assert!(includes(&head, index, leaf, &path), "{index} of {size}");
                for wrong in damaged(&path) {
                    assert!(!includes(&head, index, leaf, &wrong), "{index} of {size}: a damaged path");
                }
                for other in (0..=size).filter(|other| *other != index) {
                    assert!(!includes(&head, other, leaf, &path), "{index} of {size} proves {other}");
                }
                assert!(!includes(&head, index, MerkleHash::empty(), &path));
            }
        }
    }

    #[test]
    fn every_continuation_is_proved_and_nothing_else() {
        for size in 1..=40 {
            let leaves = leaves(size);
            let new = head(&leaves, size);
            for first in 1..=size {
                let path = consistency(&leaves, first, size).unwrap();
                let old = head(&leaves, first);
                assert!(continues(&old, &new, &path), "{first} of {size}");
                for wrong in damaged(&path) {
                    assert!(!continues(&old, &new, &wrong), "{first} of {size}: a damaged path");
                }
                for (wrong_old, wrong_new) in [
                    (TreeHead { root: MerkleHash::empty(), ..old }, new),
                    (old, TreeHead { root: MerkleHash::empty(), ..new }),
                    (TreeHead { size: 0, ..old }, new),
                    (TreeHead { size: size + 1, ..old }, new),
                ] {
                    assert!(!continues(&wrong_old, &wrong_new, &path), "{first} of {size}");
                }
            }
        }
    }
}
