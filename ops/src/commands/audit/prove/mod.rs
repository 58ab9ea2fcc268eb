//! `chronova audit prove`: proves that single events are in the log, and that the log continues an earlier one. The
//! proofs have logarithmic size.
//!
//! [`merkle`] has the tree of RFC 9162, [`tree`] makes it from the log. A proof is one line of JSON. A verifier needs
//! the proof, a tree head that it trusts, and `docs/verify_proof.py`. A proof shows its own events. It has only hashes
//! of all other events.

pub mod merkle;
pub mod tree;

use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};

use chronova_events::archive::entry::ExportEntry;
use chronova_events::chain::EventHash;
use chronova_events::envelope::{Position, Recorded, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
use serde::{Deserialize, Serialize};

use super::super::{CommandFailure, Exit};
use super::AuditTimeRange;
use super::export::{hash_at, readable};
use merkle::{MerkleHash, TreeHead};
use tree::LogTree;

const FORMAT: &str = "chronova-proof";
const VERSION: u32 = 1;
/// The number of events that are read at once.
const PAGE: usize = 1_024;
/// The longest line, in bytes, as in an export.
const LONGEST_LINE: u64 = 16 << 20;

#[derive(Debug, Clone, Default, clap::Args)]
pub struct ProveArgs {
    /// Prove the event at this position of the log; may be repeated
    #[arg(long, value_name = "N")]
    pub position: Vec<u64>,
    /// Prove the events of requests of this user (id)
    #[arg(long, value_name = "ID")]
    pub user: Vec<String>,
    /// Prove the events of requests in this project (id)
    #[arg(long, value_name = "ID")]
    pub project: Vec<String>,
    /// Prove the events of this server
    #[arg(long, value_name = "UUID")]
    pub server: Vec<InstanceId>,
    /// Prove the events of this request: `req-...`
    #[arg(long, value_name = "ID")]
    pub request_id: Vec<String>,
    /// Prove the events of these kinds: a prefix or a pattern
    #[arg(long, value_name = "PATTERN")]
    pub kind: Vec<String>,
    #[command(flatten)]
    pub times: AuditTimeRange,
    /// Prove it in the tree of the first N events [default: all events]
    #[arg(long, value_name = "N")]
    pub tree_size: Option<u64>,
    /// Prove instead that the first M events ...
    #[arg(long, value_name = "M", requires = "to_size", conflicts_with_all = ["position", "tree_size"])]
    pub from_size: Option<u64>,
    /// ... are the beginning of the first N events
    #[arg(long, value_name = "N", requires = "from_size")]
    pub to_size: Option<u64>,
    /// Show personal fields in the readable form, too
    #[arg(long)]
    pub personal: bool,
}

impl ProveArgs {
    fn criteria(&self, now: Timestamp) -> Option<Criteria> {
        let (since, until) = self.times.resolve(now);
        let criteria = Criteria {
            kinds: self.kind.clone(),
            users: self.user.clone(),
            projects: self.project.clone(),
            request_ids: self.request_id.clone(),
            servers: self.server.iter().map(|id| id.0).collect(),
            since,
            until,
            ..Criteria::default()
        };
        (criteria != Criteria::default()).then_some(criteria)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub struct ProofVerifyArgs {
    /// The file of proofs, one a line
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// SIZE:ROOT known from elsewhere: each proof must be about one of these trees
    #[arg(long, value_name = "HEAD", required = true)]
    pub tree_head: Vec<TreeHead>,
}

/// One line of a file of proofs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "proof", rename_all = "snake_case")]
enum Proof {
    Inclusion(Box<InclusionProof>),
    Consistency(ConsistencyProof),
}

#[derive(Debug, Serialize, Deserialize)]
struct ProofFormat {
    format: String,
    version: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct InclusionProof {
    #[serde(flatten)]
    format: ProofFormat,
    tree_size: u64,
    root: MerkleHash,
    path: Vec<MerkleHash>,
    /// The chain's hash before the event.
    before: String,
    #[serde(flatten)]
    entry: ExportEntry,
}

#[derive(Debug, Serialize, Deserialize)]
struct ConsistencyProof {
    #[serde(flatten)]
    format: ProofFormat,
    from_size: u64,
    from_root: MerkleHash,
    to_size: u64,
    to_root: MerkleHash,
    path: Vec<MerkleHash>,
}

fn format() -> ProofFormat {
    ProofFormat { format: FORMAT.to_owned(), version: VERSION }
}

/// Writes proofs. `cache` is the file beside the log with the roots of the tree's parts.
pub async fn run(
    args: &ProveArgs,
    store: &dyn EventStore,
    cache: &Path,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let end = store.head().0;
    if let (Some(from), Some(to)) = (args.from_size, args.to_size) {
        return prove_continuation(store, cache, (from, to, end), out).await;
    }
    let size = args.tree_size.unwrap_or(end);
    if size > end {
        return Err(CommandFailure::Usage(format!("--tree-size {size}: the log has {end} events")));
    }
    let events = selected(args, store, now, size).await?;
    if events.is_empty() {
        return Err(CommandFailure::Usage("no event matches: give --position or filters".to_owned()));
    }
    let mut tree = LogTree::of(store, cache, size).await?;
    for position in events {
        let proof = prove_event(&mut tree, store, (position, size), args.personal).await?;
        write(&Proof::Inclusion(Box::new(proof)), out)?;
    }
    Ok(Exit::Yes)
}

/// The positions that the arguments select, in order.
async fn selected(
    args: &ProveArgs,
    store: &dyn EventStore,
    now: Timestamp,
    size: u64,
) -> Result<Vec<u64>, CommandFailure> {
    if let Some(outside) = args.position.iter().find(|position| !(1..=size).contains(*position)) {
        return Err(CommandFailure::Usage(format!("--position {outside}: the tree has positions 1 to {size}")));
    }
    let Some(mut criteria) = args.criteria(now) else { return Ok(args.position.clone()) };
    criteria.learn(store).await?;
    let (mut found, mut at) = (args.position.clone(), Position::START);
    loop {
        let page = store.search(at, PAGE, &criteria).await?;
        found.extend(page.events.iter().map(|recorded| recorded.position.0).filter(|position| *position <= size));
        if page.until == at || page.until.0 >= size {
            found.sort_unstable();
            found.dedup();
            return Ok(found);
        }
        at = page.until;
    }
}

async fn prove_event(
    tree: &mut LogTree,
    store: &dyn EventStore,
    (position, size): (u64, u64),
    personal: bool,
) -> Result<InclusionProof, CommandFailure> {
    tree.load(store, position - 1).await?;
    let head = tree.head(size)?;
    let path = merkle::inclusion(tree, position - 1, 0, size).ok_or_else(tree::not_loaded)?;
    let before = hash_at(store, position - 1).await?.to_string();
    let recorded = event_at(store, position).await?;
    let entry = ExportEntry::shown(&recorded, Some(readable(&recorded, personal)?));
    Ok(InclusionProof { format: format(), tree_size: size, root: head.root, path, before, entry })
}

async fn event_at(store: &dyn EventStore, position: u64) -> Result<std::sync::Arc<Recorded>, CommandFailure> {
    let page = store.read_all(Position(position - 1), 1).await?;
    let found = page.into_iter().find(|recorded| recorded.position.0 == position);
    found.ok_or_else(|| CommandFailure::Usage(format!("the log has no event at position {position}")))
}

async fn prove_continuation(
    store: &dyn EventStore,
    cache: &Path,
    (from, to, end): (u64, u64, u64),
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    if from == 0 || from > to || to > end {
        return Err(CommandFailure::Usage(format!(
            "--from-size {from} --to-size {to}: sizes are from 1 to {end}, and the first is not the larger one"
        )));
    }
    let mut tree = LogTree::of(store, cache, to).await?;
    tree.load(store, from - 1).await?;
    let path = merkle::consistency(&tree, from, to).ok_or_else(tree::not_loaded)?;
    let (old, new) = (tree.head(from)?, tree.head(to)?);
    let proof = ConsistencyProof {
        format: format(),
        from_size: from,
        from_root: old.root,
        to_size: to,
        to_root: new.root,
        path,
    };
    write(&Proof::Consistency(proof), out)?;
    Ok(Exit::Yes)
}

fn write(proof: &Proof, out: &mut dyn Write) -> Result<(), CommandFailure> {
    serde_json::to_writer(&mut *out, proof).map_err(std::io::Error::other)?;
    Ok(out.write_all(b"\n")?)
}

/// Prints the head of the tree over the whole log.
pub async fn head(store: &dyn EventStore, cache: &Path, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let size = store.head().0;
    let head = LogTree::of(store, cache, size).await?.head(size)?;
    writeln!(out, "{head}")?;
    Ok(Exit::Yes)
}

/// Verifies a file of proofs with the tree heads alone.
pub fn verify(args: &ProofVerifyArgs, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let wrong = |error: std::io::Error| CommandFailure::Usage(format!("{}: {error}", args.file.display()));
    let mut file = BufReader::new(std::fs::File::open(&args.file).map_err(wrong)?);
    let (mut line, mut proofs) = (Vec::new(), 0_u64);
    while std::io::Read::take(&mut file, LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
        match check(&line, &args.tree_head) {
            Ok(proved) => writeln!(out, "valid: {proved}")?,
            Err(reason) => {
                writeln!(out, "NOT valid: {reason}")?;
                return Ok(Exit::No);
            }
        }
        proofs += 1;
        line.clear();
    }
    if proofs == 0 {
        writeln!(out, "NOT valid: the file has no proof")?;
        return Ok(Exit::No);
    }
    Ok(Exit::Yes)
}

/// Verifies one proof. Returns what it proves.
fn check(line: &[u8], trusted: &[TreeHead]) -> Result<String, String> {
    let proof = serde_json::from_slice::<Proof>(line).map_err(|error| format!("it is malformed: {error}"))?;
    let is_trusted = |head: &TreeHead| match trusted.contains(head) {
        true => Ok(()),
        false => Err(format!("the tree head {head} is none of the given ones")),
    };
    match proof {
        Proof::Inclusion(proof) => {
            let head = TreeHead { size: proof.tree_size, root: proof.root };
            known_format(&proof.format).and_then(|()| is_trusted(&head))?;
            let position = proof.entry.position;
            let before = proof.before.parse::<EventHash>().map_err(|error| error.to_string())?;
            let hash = proof.entry.follows(&before, position)?;
            let index = position.checked_sub(1).ok_or("positions begin at 1")?;
            if !merkle::includes(&head, index, MerkleHash::leaf(&hash.0), &proof.path) {
                return Err(format!("position {position} is not in the tree {head}"));
            }
            Ok(format!("position {position} is in the tree {head}"))
        }
        Proof::Consistency(proof) => {
            let old = TreeHead { size: proof.from_size, root: proof.from_root };
            let new = TreeHead { size: proof.to_size, root: proof.to_root };
            known_format(&proof.format).and_then(|()| is_trusted(&old)).and_then(|()| is_trusted(&new))?;
            if !merkle::continues(&old, &new, &proof.path) {
                return Err(format!("the tree {new} does not continue the tree {old}"));
            }
            Ok(format!("the tree {new} continues the tree {old}"))
        }
    }
}

fn known_format(format: &ProofFormat) -> Result<(), String> {
    match (format.format.as_str(), format.version) {
        (FORMAT, VERSION) => Ok(()),
        (other, version) => Err(format!("it is {other} version {version}, not {FORMAT} version {VERSION}")),
    }
}
