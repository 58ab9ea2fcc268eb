//! `chronova audit archive`: old events in compressed files that can be verified and listed without the log.
//!
//! [`chronova_events::archive`] describes the files. A manifest may be signed. This command only copies events. The
//! copy can be verified without the log. `chronova log prune` ([`super::super::retention`]) also removes the archived
//! events from the log's file. Personal fields are sealed in the archive under the same keys as in the log, so an
//! erasure reaches the archive, too.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chronova_events::archive::entry::ExportEntry;
use chronova_events::archive::segment::{SignText, end_of, name_of, write};
use chronova_events::archive::sha256_in;
use chronova_events::chain::EventHash;
use chronova_events::envelope::{Position, Recorded, Timestamp};
use chronova_events::place::{FilePlace, PlaceAddress};
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
use chronova_web::audit::line::printable;
use ed25519_dalek::{Signature, Signer as _, SigningKey, Verifier as _, VerifyingKey};
use uuid::Uuid;

use super::super::locks::taken;
use super::super::moments::{MomentArg, NoTime};
use super::super::progress_line::ProgressLine;
use super::super::{CommandFailure, Exit};
use super::export::{hash_at, keys};

pub use chronova_events::archive::Manifest;

const LONGEST_LINE: u64 = 16 << 20;

/// The first event that is not archived: its position, or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveBound {
    Position(u64),
    Time(MomentArg),
}

impl FromStr for ArchiveBound {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, NoTime> {
        text.parse().map(Self::Position).or_else(|_| text.parse().map(Self::Time))
    }
}

#[derive(Debug, Clone, clap::Args)]
pub struct ArchiveArgs {
    /// Archive the events before this position or time
    #[arg(long, value_name = "POSITION|TIME")]
    pub before: ArchiveBound,
    /// The archive's folder, or s3://BUCKET/PREFIX; continues an existing archive [default: `archive` in the data
    /// directory]
    #[arg(long, value_name = "PLACE")]
    pub out: Option<PlaceAddress>,
    /// Sign the manifests with this private key, in PEM: see `chronova audit keygen`
    #[arg(long, value_name = "FILE")]
    pub sign_key: Option<PathBuf>,
    /// Only say which segments would be written
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, clap::Args)]
pub struct ArchiveVerifyArgs {
    /// The archive's folder, or s3://BUCKET/PREFIX [default: `archive` in the data directory]
    #[arg(value_name = "PLACE")]
    pub archive: Option<PlaceAddress>,
    /// The public key, in PEM, with which each segment must be signed
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
}

/// The reason, if `key` has not signed the manifest.
fn unsigned(manifest: &Manifest, key: &VerifyingKey) -> Option<String> {
    let Some(signature) = &manifest.signature else { return Some("it is not signed".to_owned()) };
    let bytes = STANDARD.decode(signature).ok().and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
    let valid =
        bytes.is_some_and(|bytes| key.verify(manifest.text().as_bytes(), &Signature::from_bytes(&bytes)).is_ok());
    (!valid).then(|| "it is not signed by this key".to_owned())
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> CommandFailure + '_ {
    move |error| CommandFailure::File { path: path.to_owned(), error }
}

/// The segments of an archive, in order.
pub fn manifests(place: &dyn FilePlace) -> Result<Vec<Manifest>, CommandFailure> {
    Ok(chronova_events::archive::manifests(place)?)
}

/// Archives the events that `args` select. The archive is locked meanwhile, because each command replaces temporary
/// files of the same names.
pub async fn run(
    args: &ArchiveArgs,
    store: &dyn EventStore,
    place: &dyn FilePlace,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let _locked = if args.dry_run { None } else { Some(locked(place)?) };
    let known = match manifests(place) {
        // A dry run creates no folder.
        Err(CommandFailure::File { error, .. }) if args.dry_run && error.kind() == io::ErrorKind::NotFound => {
            Vec::new()
        }
        found => found?,
    };
    let mut next = continues(store, place, &known).await?;
    let end = match args.before {
        ArchiveBound::Position(position) => position,
        ArchiveBound::Time(when) => first_at(store, Position::START, when.resolve(now)).await?,
    };
    let last = end.saturating_sub(1).min(store.head().0);
    if next > last {
        writeln!(out, "nothing to archive: {} positions are in the archive", next - 1)?;
        return Ok(Exit::Yes);
    }
    while next <= last && args.dry_run {
        let end = end_of(next, last);
        writeln!(out, "{} would be written: positions {next} to {end}", name_of(next, end))?;
        next = end + 1;
    }
    if !args.dry_run {
        write_to(store, place, (next, last), now, (args.sign_key.as_deref(), out)).await?;
    }
    Ok(Exit::Yes)
}

/// Continues the archive up to `last`, as [`run`] does. Returns the lock of the archive.
pub async fn extend(
    store: &dyn EventStore,
    place: &dyn FilePlace,
    last: u64,
    now: Timestamp,
    how: (Option<&Path>, &mut dyn Write),
) -> Result<File, CommandFailure> {
    let lock = locked(place)?;
    let next = continues(store, place, &manifests(place)?).await?;
    write_to(store, place, (next, last), now, how).await?;
    Ok(lock)
}

/// Writes the segments with the events from `next` to `last`.
async fn write_to(
    store: &dyn EventStore,
    place: &dyn FilePlace,
    (mut next, last): (u64, u64),
    now: Timestamp,
    (sign_key, out): (Option<&Path>, &mut dyn Write),
) -> Result<(), CommandFailure> {
    let key = sign_key.map(keys::signing_key).transpose()?;
    while next <= last {
        let manifest = segment(store, place, (next, last), now, key.as_ref()).await?;
        writeln!(out, "{}: positions {} to {}", manifest.file, manifest.first, manifest.last)?;
        next = manifest.last + 1;
    }
    Ok(())
}

/// The first position that the archive lacks. Refuses the archive of another log.
async fn continues(store: &dyn EventStore, place: &dyn FilePlace, known: &[Manifest]) -> Result<u64, CommandFailure> {
    if let Some(newest) = known.last()
        && hash_at(store, newest.last).await?.to_string() != newest.end
    {
        let text = format!("the archive in {} belongs to another log", place.address());
        return Err(CommandFailure::Usage(text));
    }
    Ok(known.last().map_or(1, |newest| newest.last.saturating_add(1)))
}

/// Creates the archive's folder if it is not there, and locks it until the returned file is closed. For an archive in
/// an object store, the locked folder is that of the drafts, so only the commands of one machine exclude each other.
fn locked(place: &dyn FilePlace) -> Result<File, CommandFailure> {
    let folder = place.prepare().map_err(at(Path::new(&place.address().to_string())))?;
    let lock = File::open(&folder).map_err(at(&folder))?;
    taken(lock.try_lock(), &folder, "writes to this archive")?;
    Ok(lock)
}

/// The first position after `after` that was recorded at or after `time`. All positions between them are older than
/// `time`. Later positions may be older, too, because clocks may go back.
pub async fn first_at(store: &dyn EventStore, after: Position, time: Timestamp) -> Result<u64, CommandFailure> {
    let since = Criteria { since: Some(time), ..Criteria::default() };
    let mut at = after;
    loop {
        let found = store.search(at, 1, &since).await?;
        if let Some(first) = found.events.first() {
            return Ok(first.position.0);
        }
        if found.until == at {
            return Ok(at.0 + 1);
        }
        at = found.until;
    }
}

/// Writes the next segment: the events from `first` to `last`, or fewer if there are too many for one segment. Signs its
/// manifest with `key`.
pub async fn segment(
    store: &dyn EventStore,
    place: &dyn FilePlace,
    (first, last): (u64, u64),
    now: Timestamp,
    key: Option<&SigningKey>,
) -> Result<Manifest, CommandFailure> {
    let end = end_of(first, last);
    let mut progress = ProgressLine::new(&format!("writes {}", name_of(first, end)), first.saturating_sub(1), end);
    let sign = key.map(|key| move |text: &str| STANDARD.encode(key.sign(text.as_bytes()).to_bytes()));
    let sign = sign.as_ref().map(|sign| sign as SignText<'_>);
    Ok(write(store, place, (first, last), now, sign, |position| progress.at(position)).await?)
}

/// Creates a file that only its owner may read, like the log itself. Replaces a file that a crash left.
pub fn begin(path: &Path) -> Result<File, CommandFailure> {
    Ok(chronova_events::archive::begin(path)?)
}

/// Calls `each` for every event of a segment, one at a time, and shows the progress.
pub fn read_segment(
    place: &dyn FilePlace,
    manifest: &Manifest,
    mut each: impl FnMut(ExportEntry) -> Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    let what = format!("reads {}", printable(&manifest.file));
    let mut progress = ProgressLine::new(&what, manifest.first.saturating_sub(1), manifest.last);
    entries(place, manifest, |entry| {
        progress.at(entry.position);
        each(entry)
    })
}

/// Calls `each` for every event of a segment, one at a time.
fn entries(
    place: &dyn FilePlace,
    manifest: &Manifest,
    mut each: impl FnMut(ExportEntry) -> Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    let path = place.path_of(manifest.file_name());
    let file = place.reader(manifest.file_name()).map_err(at(&path))?;
    let mut lines = BufReader::new(zstd::Decoder::new(file).map_err(at(&path))?);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(at(&path))?;
        if line.is_empty() {
            return Ok(());
        }
        let entry: ExportEntry = serde_json::from_slice(&line)
            .map_err(|error| CommandFailure::Usage(format!("{}: {error}", path.display())))?;
        each(entry)?;
    }
}

/// Verifies an archive by itself, and against the log if there is one. With a key, each segment must be signed.
pub async fn verify(
    store: Option<&dyn EventStore>,
    place: &dyn FilePlace,
    key: Option<&VerifyingKey>,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let all = manifests(place)?;
    // The place may be the wrong one, or somebody has removed the manifests.
    if all.is_empty() {
        writeln!(out, "NOT valid: {} has no segments", place.address())?;
        return Ok(Exit::No);
    }
    let mut chain = all.first().map_or_else(String::new, |first| first.before.clone());
    let mut next = all.first().map_or(1, |first| first.first);
    let mut exit = Exit::Yes;
    for manifest in &all {
        let mut problem = match check(place, manifest, &chain, next) {
            Ok(problem) => problem,
            Err(failure) => Some(failure.to_string()),
        };
        if let (None, Some(store)) = (&problem, store) {
            problem = differs(store, manifest).await?;
        }
        let problem = problem.or_else(|| unsigned(manifest, key?));
        // The segments after a damaged one are verified, too.
        if let Some(problem) = problem {
            writeln!(out, "NOT valid: {}: {}", printable(&manifest.file), printable(&problem))?;
            exit = Exit::No;
        }
        chain.clone_from(&manifest.end);
        next = manifest.last.saturating_add(1);
    }
    if exit != Exit::Yes {
        return Ok(exit);
    }
    let with = if store.is_some() { ", as the log has them" } else { "" };
    let first = all.first().map_or(0, |manifest| manifest.first);
    writeln!(out, "valid: {} segments, positions {first} to {}{with}", all.len(), next - 1)?;
    Ok(Exit::Yes)
}

/// The reason, if the log does not have the events of a segment.
async fn differs(store: &dyn EventStore, manifest: &Manifest) -> Result<Option<String>, CommandFailure> {
    let head = store.head().0;
    if head < manifest.last {
        return Ok(Some(format!("the log ends at position {head}")));
    }
    match hash_at(store, manifest.last).await {
        Ok(hash) => Ok((hash.to_string() != manifest.end).then(|| "the log has other events there".to_owned())),
        Err(CommandFailure::Usage(reason)) => Ok(Some(reason)),
        Err(failure) => Err(failure),
    }
}

/// The position of the last event of a damaged segment that can be read and follows the chain.
fn last_whole(place: &dyn FilePlace, manifest: &Manifest) -> u64 {
    let (mut hash, mut last) =
        (manifest.before.parse::<EventHash>().unwrap_or_default(), manifest.first.saturating_sub(1));
    // The reading ends where the damage is. The damage is known, so the error tells nothing more.
    let _ = read_segment(place, manifest, |entry| {
        hash = entry.follows(&hash, last + 1).map_err(CommandFailure::Usage)?;
        last += 1;
        Ok(())
    });
    last
}

/// The fault of a segment, if it has one.
pub fn check(
    place: &dyn FilePlace,
    manifest: &Manifest,
    chain: &str,
    next: u64,
) -> Result<Option<String>, CommandFailure> {
    if manifest.first != next || manifest.before != chain {
        return Ok(Some(format!("it does not follow position {}", next.saturating_sub(1))));
    }
    if sha256_in(place, manifest.file_name())? != manifest.sha256 {
        let whole = match last_whole(place, manifest) {
            last if last < manifest.first => "no event in it is whole".to_owned(),
            last if last >= manifest.last => "all its events are whole".to_owned(),
            last => format!("only the events up to position {last} are whole"),
        };
        return Ok(Some(format!("the file was changed after it was written: {whole}")));
    }
    let Ok(mut hash) = manifest.before.parse::<EventHash>() else { return Ok(Some("malformed".to_owned())) };
    let (mut position, mut problem) = (manifest.first, None);
    read_segment(place, manifest, |entry| {
        if problem.is_none() {
            match entry.follows(&hash, position) {
                Ok(next) => hash = next,
                Err(reason) => problem = Some(reason),
            }
            position += 1;
        }
        Ok(())
    })?;
    if problem.is_none() && (position != manifest.last.saturating_add(1) || hash.to_string() != manifest.end) {
        problem = Some(format!("it ends at position {}", position.saturating_sub(1)));
    }
    Ok(problem)
}

/// Lists the events of an archive, as `chronova audit` does for the log.
pub fn list(
    args: &super::AuditArgs,
    place: &dyn FilePlace,
    keys: &Arc<KeyRing>,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let mut criteria = args.criteria(now, ids(&args.server, "server")?, ids(&args.host, "host")?);
    let all = manifests(place)?;
    let within = |recorded: &Recorded| recorded.position > args.after() && recorded.position <= args.last();
    let each = |look: &mut dyn FnMut(&Recorded) -> Result<(), CommandFailure>| {
        for manifest in &all {
            // The listing may go to the same terminal, where a line of progress would mix with it.
            entries(place, manifest, |entry| {
                let recorded = entry.recorded(Some(keys));
                look(&recorded.ok_or_else(|| CommandFailure::Usage(format!("{} is malformed", manifest.file)))?)
            })?;
        }
        Ok::<(), CommandFailure>(())
    };
    if !criteria.servers.is_empty() {
        each(&mut |recorded| {
            criteria.learn_from(recorded);
            Ok(())
        })?;
    }
    let format = args.output.format();
    if let Some(head) = format.head() {
        out.write_all(head.as_bytes())?;
    }
    each(&mut |recorded| {
        if within(recorded) && criteria.admits(recorded) {
            let line = format.line(recorded).map_err(|source| CommandFailure::decode(recorded, source))?;
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    })?;
    Ok(Exit::Yes)
}

/// The ids in `given`. A name cannot be looked up in an archive, because its event may be in the log alone.
fn ids(given: &[String], noun: &str) -> Result<Vec<Uuid>, CommandFailure> {
    let by_name =
        |name: &String| CommandFailure::Usage(format!("{name}: an archive needs the UUID of the {noun}, not its name"));
    given.iter().map(|text| text.parse().map_err(|_| by_name(text))).collect()
}
