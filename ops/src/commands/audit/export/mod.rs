//! `chronova audit export` and `verify-export`: a part of the log that a third party can verify without Chronova.
//!
//! One file of JSON lines: a head, then every position of the range in order, then the signature. Instead of an event
//! that was not selected, the file has the hash of its content. So the chain stays complete, and reveals nothing of the
//! event. The signature is ed25519 over the SHA-256 of all lines before it. Personal fields stay sealed in the stored
//! bytes. The readable form has them only with `--personal`.

pub mod keys;
mod select;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read as _, Write};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chronova_events::archive::entry::ExportEntry;
use chronova_events::archive::segment;
use chronova_events::chain::{Anchor, EventHash};
use chronova_events::envelope::{Position, Recorded, Timestamp};
use chronova_events::sealed;
use chronova_events::store::EventStore;
use chronova_web::audit::line::{json_line, shown};
use ed25519_dalek::{Signature, Signer as _, SigningKey, Verifier as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::log_pages::payload;
use super::super::progress_line::ProgressLine;
use super::super::{CommandFailure, Exit};
use super::AuditTimeRange;
use select::ExportSelection;

const FORMAT: &str = "chronova-export";
const VERSION: u32 = 1;
/// The longest line, in bytes. A line holds one event. Its payload of at most 1 MiB is in the line twice: as base64 and
/// as JSON.
const LONGEST_LINE: u64 = 16 << 20;

#[derive(Debug, Clone, Default, clap::Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub times: AuditTimeRange,
    /// Only events of this project (id): in it, for it, and of its servers
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,
    /// Show personal fields in the readable form, too
    #[arg(long)]
    pub personal: bool,
    /// The private key that signs, in PEM: see `chronova audit keygen`
    #[arg(long, value_name = "FILE")]
    pub sign_key: PathBuf,
    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Debug, Clone, clap::Args)]
pub struct ExportVerifyArgs {
    /// The export
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The public key of the expected signer, in PEM
    #[arg(long, value_name = "FILE")]
    pub public_key: PathBuf,
    /// POSITION:HASH known from elsewhere: the export must match it
    #[arg(long, value_name = "ANCHOR")]
    pub anchor: Vec<Anchor>,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct ExportHeader {
    format: String,
    version: u32,
    exported_at: String,
    selection: Value,
    first: u64,
    last: u64,
    /// The chain's hash before the first event, and at the last one.
    before: String,
    end: String,
    public_key: String,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct Seal {
    algorithm: String,
    signature: String,
}

const ALGORITHM: &str = "ed25519 over SHA-256 of all lines before this one";

/// Writes the signed lines, and computes their hash.
struct Signed<W> {
    file: W,
    hash: Sha256,
}

impl<W: Write> Signed<W> {
    fn line(&mut self, value: &impl Serialize) -> Result<(), CommandFailure> {
        let mut text = serde_json::to_vec(value).map_err(std::io::Error::other)?;
        text.push(b'\n');
        self.hash.update(&text);
        Ok(self.file.write_all(&text)?)
    }

    fn seal(mut self, key: &SigningKey) -> Result<W, CommandFailure> {
        let signature = key.sign(&self.hash.finalize());
        let seal = Seal { algorithm: ALGORITHM.to_owned(), signature: STANDARD.encode(signature.to_bytes()) };
        serde_json::to_writer(&mut self.file, &seal).map_err(std::io::Error::other)?;
        self.file.write_all(b"\n")?;
        Ok(self.file)
    }
}

/// Writes an export.
pub async fn run(
    args: &ExportArgs,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let key = keys::signing_key(&args.sign_key)?;
    let Some(selection) = ExportSelection::find(args, store, now).await? else {
        writeln!(out, "nothing to export")?;
        return Ok(Exit::No);
    };
    let (first, last) = (selection.first, selection.last);
    let (since, until) = args.times.resolve(now);
    let head = ExportHeader {
        format: FORMAT.to_owned(),
        version: VERSION,
        exported_at: now.to_string(),
        selection: json!({
            "project": args.project,
            "since": since.map(|time| time.to_string()),
            "until": until.map(|time| time.to_string()),
        }),
        first,
        last,
        before: hash_at(store, first - 1).await?.to_string(),
        end: hash_at(store, last).await?.to_string(),
        public_key: STANDARD.encode(key.verifying_key().as_bytes()),
    };
    let wrong = |error: std::io::Error| CommandFailure::Usage(format!("{}: {error}", args.out.display()));
    let file = File::options().write(true).create_new(true).open(&args.out).map_err(wrong)?;
    let mut signed = Signed { file: BufWriter::new(file), hash: Sha256::new() };
    signed.line(&head)?;
    let (mut events, mut omitted, mut at) = (0_u64, 0_u64, first - 1);
    let mut progress = ProgressLine::new("exports the log", at, last);
    while at < last {
        progress.at(at);
        let page = store.read_all(Position(at), 1_024).await?;
        for recorded in page.iter().filter(|recorded| recorded.position.0 <= last) {
            if selection.admits(recorded) {
                events += 1;
                signed.line(&ExportEntry::shown(recorded, Some(readable(recorded, args.personal)?)))?;
            } else {
                omitted += 1;
                signed.line(&ExportEntry::omitted(recorded))?;
            }
        }
        match page.last() {
            Some(end) => at = end.position.0,
            None => break,
        }
    }
    drop(progress);
    let file = signed.seal(&key)?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.sync_all()?;
    let path = args.out.display();
    writeln!(out, "{path}: positions {first} to {last}, {events} events, {omitted} represented by their hashes")?;
    Ok(Exit::Yes)
}

/// The event for people, with its personal fields if `personal`.
pub(super) fn readable(recorded: &Recorded, personal: bool) -> Result<Value, CommandFailure> {
    let event = payload(recorded)?;
    let mut line = json_line(recorded).map_err(|source| CommandFailure::decode(recorded, source))?;
    if !personal {
        line["payload"] = shown(&sealed::without_personal(event));
    }
    Ok(line)
}

/// The chain's hash at a position.
pub async fn hash_at(store: &dyn EventStore, position: u64) -> Result<EventHash, CommandFailure> {
    Ok(segment::hash_at(store, position).await?)
}

/// Verifies an export with the file and the public key alone.
pub fn verify(args: &ExportVerifyArgs, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let key = keys::verifying_key(&args.public_key)?;
    let file =
        File::open(&args.file).map_err(|error| CommandFailure::Usage(format!("{}: {error}", args.file.display())))?;
    match check(BufReader::new(file), &key, &args.anchor)? {
        Ok(found) => {
            writeln!(out, "valid: {found}")?;
            Ok(Exit::Yes)
        }
        Err(reason) => {
            writeln!(out, "NOT valid: {reason}")?;
            Ok(Exit::No)
        }
    }
}

/// Verifies an export. Returns what it proves, or the first fault.
fn check(
    mut file: impl BufRead,
    key: &ed25519_dalek::VerifyingKey,
    anchors: &[Anchor],
) -> Result<Result<String, String>, CommandFailure> {
    let mut hash = Sha256::new();
    let (mut current, mut next) = (Vec::new(), Vec::new());
    read_line(&mut file, &mut current)?;
    let Ok(head) = serde_json::from_slice::<ExportHeader>(&current) else {
        return Ok(Err("it has no header line".to_owned()));
    };
    if head.format != FORMAT || head.version != VERSION {
        return Ok(Err(format!("it is {} version {}, not {FORMAT} version {VERSION}", head.format, head.version)));
    }
    let Ok(mut chain) = head.before.parse::<EventHash>() else {
        return Ok(Err("its header line is malformed".to_owned()));
    };
    let (mut position, mut events, mut omitted, mut proved) = (head.first, 0_u64, 0_u64, Vec::new());
    hash.update(&current);
    read_line(&mut file, &mut current)?;
    loop {
        read_line(&mut file, &mut next)?;
        if next.is_empty() {
            break;
        }
        hash.update(&current);
        let Ok(entry) = serde_json::from_slice::<ExportEntry>(&current) else {
            return Ok(Err(format!("position {position} is malformed")));
        };
        chain = match entry.follows(&chain, position) {
            Ok(hash) => hash,
            Err(reason) => return Ok(Err(reason)),
        };
        for anchor in anchors.iter().filter(|anchor| anchor.position.0 == position) {
            if anchor.hash != chain {
                return Ok(Err(format!("position {position} does not match the anchor {anchor}")));
            }
            proved.push(anchor.to_string());
        }
        if entry.stored.is_some() {
            events += 1;
        } else {
            omitted += 1;
        }
        position += 1;
        std::mem::swap(&mut current, &mut next);
    }
    if position != head.last.saturating_add(1) || chain.to_string() != head.end {
        return Ok(Err(format!("it ends at position {}, not at {}", position.saturating_sub(1), head.last)));
    }
    if let Some(missing) = anchors.iter().find(|anchor| !proved.contains(&anchor.to_string())) {
        return Ok(Err(format!("the anchor {missing} is outside of its positions")));
    }
    let signature = serde_json::from_slice::<Seal>(&current).ok().and_then(|seal| STANDARD.decode(seal.signature).ok());
    let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
    let Some(signature) = signature else { return Ok(Err("it has no signature".to_owned())) };
    if key.verify(&hash.finalize(), &signature).is_err() {
        return Ok(Err("the signature was not made with this key".to_owned()));
    }
    let (first, last) = (head.first, head.last);
    Ok(Ok(format!(
        "positions {first} to {last}, {events} events, {omitted} represented by their hashes\n\
         chain: {} to {last}:{}\nexported at {}",
        head.before, head.end, head.exported_at
    )))
}

/// Reads one line with its line feed; at the end of the file, `line` stays empty.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> Result<(), CommandFailure> {
    line.clear();
    file.take(LONGEST_LINE).read_until(b'\n', line)?;
    Ok(())
}
