//! `chronova audit verify` and `chronova audit head`: verify the log, and print the hash to keep.
//!
//! [`chronova_events::store::sqlite::verify`] checks a log in SQLite, and [`verifying`] one in PostgreSQL. This file
//! prints the findings. The command also compares the read models with a rebuild ([`super::rebuild`]), and the
//! index for audit queries with the log.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use chronova_events::chain::Anchor;
use chronova_events::envelope::Position;
use chronova_events::store::EventStore;
use chronova_events::store::audit_index::IndexComparison;
use chronova_events::store::postgres::verifying;
use chronova_events::store::sqlite::verify::{Verification, VerifyOptions, VerifyProgress, verify};
use serde_json::{Value, json};

use super::progress_line::ProgressLine;
use super::{CommandFailure, Exit, LogPlace, audit, rebuild};
use crate::config::event_store::EventStoreAddress;

/// The interval between two looks at the progress.
const LOOKS: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Default, clap::Args)]
pub struct VerifyArgs {
    /// A head that was kept elsewhere (`chronova audit head` prints it); may be repeated
    #[arg(long, value_name = "POSITION:HASH")]
    pub against: Vec<Anchor>,
    /// A file with such heads, one a line; lines that begin with # are skipped; may be repeated
    #[arg(long, value_name = "FILE")]
    pub anchor_file: Vec<PathBuf>,
    /// Only pages and anchors, as fast as the disk reads: finds any flipped bit, but no forged event
    #[arg(long)]
    pub quick: bool,
    /// Do not compare the read models with a rebuild
    #[arg(long)]
    pub no_rebuild: bool,
    /// Threads that check events [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Number of damages to report
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct HeadArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print SIZE:ROOT of the Merkle tree over the log, for `chronova audit prove`
    #[arg(long, conflicts_with = "json")]
    pub tree: bool,
}

/// Prints the newest position and its hash.
pub async fn head(args: &HeadArgs, store: &dyn EventStore, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let anchor = store.anchor().await?.unwrap_or(Anchor::START);
    match args.json {
        true => writeln!(out, "{}", json!({"position": anchor.position.0, "hash": anchor.hash.to_string()}))?,
        false => writeln!(out, "{anchor}")?,
    }
    Ok(Exit::Yes)
}

/// The result of comparing the read models with a rebuild. The read models are a cache, so a difference does not affect
/// the verdict on the log.
struct ViewsComparison {
    equal: bool,
    report: String,
}

/// The verdict on the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogVerdict {
    Whole,
    Damaged,
    /// A quick check was requested. It compares the pages with their seals, but there are no usable seals.
    NotChecked,
}

impl LogVerdict {
    fn of(args: &VerifyArgs, found: &Verification) -> Self {
        match found.is_whole() {
            false => Self::Damaged,
            true if args.quick && found.pages == 0 => Self::NotChecked,
            true => Self::Whole,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Whole => "the log is whole",
            Self::Damaged => "the log is NOT whole",
            Self::NotChecked => {
                "the log was NOT checked: --quick needs the seals of the pages (log.db.seals); verify without --quick"
            }
        }
    }
}

/// Verifies the log, and reports its damage. If the log is whole and the arguments allow it, also compares the read
/// models and the index.
pub async fn run(args: &VerifyArgs, place: &LogPlace, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let options = options(args)?;
    let progress = options.progress.clone();
    let found = match &place.engine {
        EventStoreAddress::Sqlite => {
            let log = place.data.log();
            let looking = tokio::task::spawn_blocking(move || verify(&log, &options));
            watched(looking, &progress).await.map_err(|error| CommandFailure::Usage(error.to_string()))??
        }
        EventStoreAddress::Postgres(_) if args.quick => {
            let what = "--quick reads the pages of a file, and PostgreSQL checks its pages itself (initdb \
                        --data-checksums)";
            return Err(CommandFailure::Usage(what.to_owned()));
        }
        EventStoreAddress::Postgres(_) => {
            let log = place.read_database().await?;
            watched(verifying::verify(&log, &options), &progress).await?
        }
    };
    let compare = !args.quick && !args.no_rebuild && found.is_whole();
    let views = if compare { Some(compare_views(place).await?) } else { None };
    let index = match !args.quick && found.is_whole() && place.data.index().exists() {
        true => audit::index::compare(place.read().await?, place.data.index()).await?,
        false => IndexComparison::Unused,
    };
    let verdict = LogVerdict::of(args, &found);
    match args.json {
        true => writeln!(out, "{:#}", as_json(verdict, &found, views.as_ref(), &index))?,
        false => tell(args, verdict, &found, views.as_ref(), &index, out)?,
    }
    let good = verdict == LogVerdict::Whole
        && views.is_none_or(|views| views.equal)
        && !matches!(index, IndexComparison::Different(_));
    Ok(if good { Exit::Yes } else { Exit::No })
}

/// Shows the progress of the verification until it ends.
async fn watched<T>(work: impl Future<Output = T>, progress: &VerifyProgress) -> T {
    let (mut line, mut looks) = (ProgressLine::new("verifies the log", 0, 0), tokio::time::interval(LOOKS));
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = looks.tick() => {
                let (done, all) = progress.now();
                line.of(done, all);
            }
        }
    }
}

fn options(args: &VerifyArgs) -> Result<VerifyOptions, CommandFailure> {
    let mut options = VerifyOptions { limit: args.limit.into(), quick: args.quick, ..VerifyOptions::default() };
    if let Some(threads) = args.threads {
        options.threads = threads.into();
    }
    options.against.clone_from(&args.against);
    for path in &args.anchor_file {
        let wrong = |what: &dyn std::fmt::Display| CommandFailure::Usage(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let before = options.against.len();
        for line in lines {
            options.against.push(line.parse().map_err(|error| wrong(&error))?);
        }
        if options.against.len() == before {
            return Err(wrong(&"there is no anchor in it"));
        }
    }
    Ok(options)
}

async fn compare_views(place: &LogPlace) -> Result<ViewsComparison, CommandFailure> {
    let store = place.read().await?;
    let args = rebuild::RebuildArgs { replace: false, limit: 20 };
    let mut text = Vec::new();
    let exit = rebuild::run(&args, &*store, &*place.data.checkpoints(&*store)?, &mut text).await?;
    Ok(ViewsComparison { equal: exit == Exit::Yes, report: String::from_utf8_lossy(&text).trim_end().to_owned() })
}

fn tell(
    args: &VerifyArgs,
    verdict: LogVerdict,
    found: &Verification,
    views: Option<&ViewsComparison>,
    index: &IndexComparison,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    if found.pages > 0 {
        writeln!(out, "pages       {} compared with their seals", found.pages)?;
    }
    if !args.quick {
        writeln!(
            out,
            "events      {} in {} streams: checksums, chain, revisions, payloads",
            found.events, found.streams
        )?;
        writeln!(out, "snapshots   {}", found.snapshots)?;
    }
    for anchor in &found.anchors {
        writeln!(out, "anchor      {} holds", anchor.position)?;
    }
    if let Some(views) = views {
        for (number, line) in views.report.lines().enumerate() {
            writeln!(out, "{:12}{line}", if number == 0 { "read models" } else { "" })?;
        }
    }
    if let IndexComparison::Equal(until) = index {
        writeln!(out, "index       compared with the events up to {until}")?;
    }
    if found.chained_until > Position::START {
        writeln!(
            out,
            "note        events up to {} got their hashes when the log was brought to a newer format",
            found.chained_until
        )?;
    }
    for remark in &found.remarks {
        writeln!(out, "note        {remark}")?;
    }
    for damage in &found.damages {
        writeln!(out, "DAMAGE      {damage}")?;
    }
    if found.more {
        writeln!(out, "            ... and more: raise --limit to see it")?;
    }
    if let Some(head) = found.head {
        writeln!(out, "head        {head}")?;
    }
    if views.is_some_and(|views| !views.equal) {
        let what = "the checkpoint of the read models, a cache, is NOT what the log says";
        writeln!(out, "DAMAGED CACHE {what}: `chronova rebuild --replace` writes it again")?;
    }
    if let IndexComparison::Different(reason) = index {
        let mend = "remove the file, and log.db.names, which may have been made with it";
        writeln!(out, "DAMAGED CACHE the index for audit queries (log.db.index): {reason}: {mend}")?;
    }
    writeln!(out, "{}", verdict.words())?;
    Ok(())
}

fn as_json(
    verdict: LogVerdict,
    found: &Verification,
    views: Option<&ViewsComparison>,
    index: &IndexComparison,
) -> Value {
    let index = match index {
        IndexComparison::Unused => Value::Null,
        IndexComparison::Equal(until) => json!({"equal": true, "until": until.0}),
        IndexComparison::Different(reason) => json!({"equal": false, "reason": reason}),
    };
    let damages: Vec<Value> = found
        .damages
        .iter()
        .map(|damage| {
            json!({
                "position": damage.position.map(|position| position.0),
                "stream": damage.stream.as_ref().map(ToString::to_string),
                "page": damage.page,
                "what": damage.what,
            })
        })
        .collect();
    json!({
        "whole": match verdict {
            LogVerdict::Whole => json!(true),
            LogVerdict::Damaged => json!(false),
            LogVerdict::NotChecked => Value::Null,
        },
        "head": found.head.map(|head| json!({"position": head.position.0, "hash": head.hash.to_string()})),
        "events": found.events,
        "streams": found.streams,
        "snapshots": found.snapshots,
        "pages": found.pages,
        "chained_until": found.chained_until.0,
        "anchors": found.anchors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "read_models": views.map(|views| json!({"equal": views.equal, "told": views.report.lines().collect::<Vec<_>>()})),
        "index": index,
        "remarks": found.remarks,
        "damages": damages,
        "more_damages": found.more,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn anchors_come_from_files_and_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("anchors");
        let hash = "0".repeat(64);
        std::fs::write(&file, format!("# kept on paper\n7:{hash}\n\n 9:{hash}\n")).unwrap();
        let against = vec![format!("3:{hash}").parse().unwrap()];
        let mut args = VerifyArgs { against, anchor_file: vec![file.clone()], limit: 5, ..VerifyArgs::default() };
        let positions: Vec<u64> = options(&args).unwrap().against.iter().map(|anchor| anchor.position.0).collect();
        assert_eq!(positions, [3, 7, 9]);
        for text in ["", "7\n", "x:y\n"] {
            std::fs::write(&file, text).unwrap();
            assert!(matches!(options(&args), Err(CommandFailure::Usage(_))), "{text}");
        }
        args.anchor_file = vec![folder.path().join("none")];
        assert!(options(&args).is_err());
    }
}
