//! `chronova audit anchor`: a signed line about the head of the log, for a file that is kept elsewhere ([`kept`]).
//!
//! A timer runs the command. Each line has the chain's hash and the tree's root at a position. So a file of anchors
//! proves later that nobody changed an event up to that position, and that each anchor continues the one before. A time
//! stamp of an authority ([`stamp`]) proves that the anchor existed at that time, also to those who do not trust the
//! signer.

mod kept;
mod stamp;

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chronova_events::chain::Anchor;
use chronova_events::envelope::Timestamp;
use chronova_events::place::PlaceAddress;
use chronova_events::store::EventStore;
use ed25519_dalek::{Signature, Signer as _, Verifier as _, VerifyingKey};
use serde::{Deserialize, Serialize};

use self::kept::KeptAnchors;
use super::super::{CommandFailure, Exit};
use super::export::{hash_at, keys};
use super::prove::merkle::TreeHead;
use super::prove::tree::LogTree;

const FORMAT: &str = "chronova-anchor";
const VERSION: u32 = 1;

#[derive(Debug, Clone, clap::Args)]
pub struct AnchorArgs {
    /// The private key that signs, in PEM: see `chronova audit keygen`
    #[arg(long, value_name = "FILE")]
    pub sign_key: PathBuf,
    /// The file to which the anchor is appended, or s3://BUCKET/PREFIX; it is created
    #[arg(long, value_name = "FILE")]
    pub out: PlaceAddress,
    /// The address of a time-stamping authority (RFC 3161), which confirms the time
    #[arg(long, value_name = "URL")]
    pub tsa: Option<String>,
    /// The certificates of the authorities that may sign an https server's certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tsa")]
    pub cacert: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Args)]
pub struct AnchorVerifyArgs {
    /// The file of anchors, one a line, or s3://BUCKET/PREFIX
    #[arg(value_name = "FILE")]
    pub file: PlaceAddress,
    /// The public key of the expected signer, in PEM
    #[arg(long, value_name = "FILE")]
    pub public_key: PathBuf,
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SignedAnchor {
    format: String,
    version: u32,
    /// The id of the log's first event.
    log: String,
    /// `POSITION:HASH` of the hash chain.
    chain: String,
    /// `SIZE:ROOT` of the Merkle tree over the same events.
    tree: String,
    time: String,
    /// The ed25519 signature of [`SignedAnchor::text`], in base64.
    signature: String,
    /// The authority's time stamp of the same text, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<String>,
}

impl SignedAnchor {
    /// The signed text.
    fn text(&self) -> String {
        let Self { format, version, log, chain, tree, time, .. } = self;
        format!("{format} {version}\n{log}\n{chain}\n{tree}\n{time}\n")
    }

    fn read(line: &str) -> Result<Self, String> {
        let anchor: Self = serde_json::from_str(line).map_err(|error| error.to_string())?;
        match (anchor.format.as_str(), anchor.version) {
            (FORMAT, VERSION) => Ok(anchor),
            (format, version) => Err(format!("its format is {format} {version}")),
        }
    }

    fn chain(&self) -> Result<Anchor, String> {
        self.chain.parse().map_err(|_| format!("`{}` is no position and hash", self.chain))
    }

    fn check_signature(&self, key: &VerifyingKey) -> Result<(), String> {
        let bytes = STANDARD.decode(&self.signature).ok().and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
        let signature = Signature::from_bytes(&bytes.ok_or("it has no signature")?);
        key.verify(self.text().as_bytes(), &signature).map_err(|_| "it is not signed by this key".to_owned())
    }

    /// Compares the anchor with the log. `tree` covers at least the anchor's events.
    async fn check(&self, store: &dyn EventStore, tree: &mut LogTree) -> Result<Result<(), String>, CommandFailure> {
        let Anchor { position, hash } = match self.chain() {
            Ok(chain) => chain,
            Err(wrong) => return Ok(Err(wrong)),
        };
        if hash_at(store, position.0).await? != hash {
            return Ok(Err(format!("the log has another event at position {position}, or before it")));
        }
        tree.load(store, position.0.saturating_sub(1)).await?;
        Ok(match self.tree.parse::<TreeHead>() {
            Ok(told) if told == tree.head(position.0)? => Ok(()),
            _ => Err(format!("the tree over the first {position} events has another root")),
        })
    }
}

/// Appends an anchor of the log's head. `cache` is the file beside the log with the roots of the tree's parts.
pub async fn run(
    args: &AnchorArgs,
    store: &dyn EventStore,
    cache: &Path,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let key = keys::signing_key(&args.sign_key)?;
    let mut kept = KeptAnchors::open(&args.out, cache)?;
    let wrong = |problem: &str| CommandFailure::Usage(problem.to_owned());
    // The first event is read before the anchor. If the first append happens in between, the command says that the log
    // is empty, which is harmless.
    let log = first_event(store).await?.ok_or_else(|| wrong("the log is empty"))?;
    let chain = store.anchor().await?.ok_or_else(|| wrong("the log has no hash chain"))?;
    let mut tree = LogTree::of(store, cache, chain.position.0).await?;
    if let Some(last) = &kept.last {
        if let Err(problem) = continues(last, store, &log, &mut tree, chain).await? {
            writeln!(out, "NOT valid: the last anchor in {}: {problem}", args.out)?;
            return Ok(Exit::No);
        }
        if last.chain == chain.to_string() {
            writeln!(out, "{chain} is the last anchor in {}", args.out)?;
            return Ok(Exit::Yes);
        }
    }
    tree.load(store, chain.position.0 - 1).await?;
    let mut anchor = SignedAnchor {
        format: FORMAT.to_owned(),
        version: VERSION,
        log,
        chain: chain.to_string(),
        tree: tree.head(chain.position.0)?.to_string(),
        time: now.to_string(),
        signature: String::new(),
        stamp: None,
    };
    anchor.signature = STANDARD.encode(key.sign(anchor.text().as_bytes()).to_bytes());
    if let Some(url) = &args.tsa {
        let reply = stamp::request(url, args.cacert.as_deref(), anchor.text().as_bytes())?;
        anchor.stamp = Some(STANDARD.encode(reply));
    }
    kept.append(&anchor, chain)?;
    writeln!(out, "{chain}")?;
    Ok(Exit::Yes)
}

/// Whether the log, which ends at `head`, continues the anchor.
async fn continues(
    last: &SignedAnchor,
    store: &dyn EventStore,
    log: &str,
    tree: &mut LogTree,
    head: Anchor,
) -> Result<Result<(), String>, CommandFailure> {
    match last.chain() {
        Err(wrong) => Ok(Err(wrong)),
        Ok(_) if last.log != log => Ok(Err("it is of another log".to_owned())),
        Ok(chain) if chain.position > head.position => Ok(Err(format!("the log ends at position {}", head.position))),
        Ok(_) => last.check(store, tree).await,
    }
}

async fn first_event(store: &dyn EventStore) -> Result<Option<String>, CommandFailure> {
    Ok(store.first_event().await?.map(|id| id.0.to_string()))
}

/// Verifies a file of anchors: signatures, order, and the log if there is one. Time stamps are for `openssl ts`.
pub async fn verify(
    args: &AnchorVerifyArgs,
    store: Option<&dyn EventStore>,
    cache: &Path,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let key = keys::verifying_key(&args.public_key)?;
    let text = kept::all(&args.file, cache)?;
    let mut before = Anchor::START;
    let mut all: Vec<SignedAnchor> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let checked = SignedAnchor::read(line).and_then(|anchor| {
            anchor.check_signature(&key)?;
            let chain = anchor.chain()?;
            if chain.position <= before.position {
                return Err(format!("position {} is not after the one before", chain.position));
            }
            if all.first().is_some_and(|first| first.log != anchor.log) {
                return Err("it is of another log than the first anchor".to_owned());
            }
            Ok((anchor, chain))
        });
        match checked {
            Ok((anchor, chain)) => {
                before = chain;
                all.push(anchor);
            }
            Err(problem) => return not_valid(number, &problem, out),
        }
    }
    if let Some(store) = store
        && let Some((number, problem)) = differs(&all, before, store, cache).await?
    {
        return not_valid(number, &problem, out);
    }
    if all.is_empty() {
        writeln!(out, "NOT valid: {} has no anchor", args.file)?;
        return Ok(Exit::No);
    }
    let with = if store.is_some() { ", as the log has them" } else { "" };
    writeln!(out, "valid: {} anchors, up to position {}{with}", all.len(), before.position)?;
    Ok(Exit::Yes)
}

/// The first anchor with which the log does not agree: its line, and what differs.
async fn differs(
    all: &[SignedAnchor],
    last: Anchor,
    store: &dyn EventStore,
    cache: &Path,
) -> Result<Option<(usize, String)>, CommandFailure> {
    let (head, log) = (store.head(), first_event(store).await?);
    if all.first().is_some_and(|first| log.as_ref() != Some(&first.log)) {
        return Ok(Some((1, "it is of another log".to_owned())));
    }
    if last.position > head {
        return Ok(Some((all.len(), format!("the log ends at position {head}"))));
    }
    let mut tree = LogTree::of(store, cache, last.position.0).await?;
    for (number, anchor) in (1..).zip(all) {
        if let Err(problem) = anchor.check(store, &mut tree).await? {
            return Ok(Some((number, problem)));
        }
    }
    Ok(None)
}

fn not_valid(line: usize, problem: &str, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    writeln!(out, "NOT valid: line {line}: {problem}")?;
    Ok(Exit::No)
}
