//! `chronova audit diff`: the differences between two moments of the log.
//!
//! It compares states, not events: a server that was stopped and started again in between is no difference.
//! `chronova audit --from-position N --to-position M` lists the events.

mod items;

use std::collections::BTreeSet;
use std::io::{self, Write};

use chronova_projections::Projection as _;
use chronova_projections::flavors::FlavorsView;
use chronova_projections::history::PastPart;
use chronova_projections::host_aggregates::HostAggregatesView;
use chronova_projections::hosts::Hosts;
use chronova_projections::servers::Servers;
use chronova_projections::views::Views;
use chronova_web::audit::line::printable;
use serde::Serialize;

use self::items::{ComparedItem, ComparedItems};
use super::super::moments::AsOf;
use super::super::{CommandFailure, Exit};
use super::past::{PastReader, ShownMoment};
use super::roles::identity_part;

#[derive(Debug, Clone, clap::Args)]
pub struct StateDiffArgs {
    /// The first moment: a time (2026-01-31T12:00:00Z, 15m ago as `15m`) or a position of the log
    #[arg(value_name = "WHEN")]
    pub from: AsOf,
    /// The second moment [default: now]
    #[arg(value_name = "WHEN")]
    pub to: Option<AsOf>,
    /// Compare one server, with all its fields
    #[arg(long, value_name = "UUID|NAME", conflicts_with = "access")]
    pub server: Option<String>,
    /// Compare users, projects, roles and their assignments
    #[arg(long)]
    pub access: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

impl StateDiffArgs {
    /// The read models that are compared.
    fn part(&self) -> PastPart {
        let names = match (&self.server, self.access) {
            (None, true) => return identity_part(),
            (Some(_), _) => BTreeSet::from([Servers::NAME]),
            (None, false) => BTreeSet::from([FlavorsView::NAME, HostAggregatesView::NAME, Hosts::NAME, Servers::NAME]),
        };
        PastPart { names, is_sparse: false }
    }
}

#[derive(Debug, Serialize)]
struct StateDiff {
    from: ShownMoment,
    to: ShownMoment,
    changes: Vec<StateChange>,
}

/// One item that is not the same at both moments.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct StateChange {
    kind: &'static str,
    id: String,
    name: String,
    change: ChangeKind,
    fields: Vec<FieldChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ChangeKind {
    Created,
    Deleted,
    Changed,
}

/// A field with its two values. `None`: the item or the field did not exist.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FieldChange {
    field: String,
    before: Option<String>,
    after: Option<String>,
}

/// Prints the differences that `args` select. The exit code is 0 if there are none, and 1 otherwise.
pub async fn run(args: &StateDiffArgs, past: PastReader<'_>, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let part = args.part();
    let (before, after) = (past.part(Some(args.from), &part).await?, past.part(args.to, &part).await?);
    let (from, to) = (ShownMoment::of(&before), ShownMoment::of(&after));
    if from.position > to.position {
        return Err(CommandFailure::Usage(format!("the first moment ({from}) is after the second one ({to})")));
    }
    let changes = match (&args.server, args.access) {
        (Some(server), _) => compare_server(server, &before, &after)?,
        (None, true) => changes(&items::access(&before), &items::access(&after)),
        (None, false) => changes(&items::fleet(&before), &items::fleet(&after)),
    };
    let (diff, equal) = (StateDiff { from, to, changes: Vec::new() }, changes.is_empty());
    let diff = StateDiff { changes, ..diff };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &diff).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write(&diff, out)?;
    }
    Ok(if equal { Exit::Yes } else { Exit::No })
}

/// Compares the server with this id, or with this name at the second or else at the first moment.
fn compare_server(text: &str, before: &Views, after: &Views) -> Result<Vec<StateChange>, CommandFailure> {
    let mut found = items::servers_named(after, text);
    if found.is_empty() {
        found = items::servers_named(before, text);
    }
    match found.as_slice() {
        [id] => Ok(changes(&items::server(before, *id), &items::server(after, *id))),
        [] => Err(CommandFailure::Usage(format!("there was no server {text} at either moment"))),
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(CommandFailure::Usage(format!("{text} can be any of: {}", ids.join(", "))))
        }
    }
}

fn changes(before: &ComparedItems, after: &ComparedItems) -> Vec<StateChange> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let none = ComparedItem::default();
    let mut changes = Vec::new();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        let change = match (old, new) {
            (None, _) => ChangeKind::Created,
            (_, None) => ChangeKind::Deleted,
            (Some(old), Some(new)) if old.fields == new.fields => continue,
            _ => ChangeKind::Changed,
        };
        let name = new.or(old).map(|item| item.name.clone()).unwrap_or_default();
        let fields = fields(old.unwrap_or(&none), new.unwrap_or(&none));
        changes.push(StateChange { kind: key.0, id: key.1.clone(), name, change, fields });
    }
    changes
}

fn fields(old: &ComparedItem, new: &ComparedItem) -> Vec<FieldChange> {
    let names: BTreeSet<&String> = old.fields.keys().chain(new.fields.keys()).collect();
    let both = names.into_iter().map(|name| FieldChange {
        field: name.clone(),
        before: old.fields.get(name).cloned(),
        after: new.fields.get(name).cloned(),
    });
    both.filter(|field| field.before != field.after).collect()
}

fn write(diff: &StateDiff, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "from {}", diff.from)?;
    writeln!(out, "to   {}", diff.to)?;
    for change in &diff.changes {
        let mark = match change.change {
            ChangeKind::Created => '+',
            ChangeKind::Deleted => '-',
            ChangeKind::Changed => '~',
        };
        let (kind, id, name) = (change.kind, printable(&change.id), printable(&change.name));
        writeln!(out, "{mark} {kind} {name}{}", if id == name { String::new() } else { format!(" ({id})") })?;
        let widest = change.fields.iter().map(|field| field.field.len()).max().unwrap_or(0);
        for FieldChange { field, before, after } in &change.fields {
            let none = || "nothing".to_owned();
            let values = match change.change {
                ChangeKind::Created => after.clone().unwrap_or_default(),
                ChangeKind::Deleted => before.clone().unwrap_or_default(),
                ChangeKind::Changed => {
                    format!("{} -> {}", before.clone().unwrap_or_else(none), after.clone().unwrap_or_else(none))
                }
            };
            writeln!(out, "    {:widest$}  {}", printable(field), printable(&values))?;
        }
    }
    match diff.changes.len() {
        0 => writeln!(out, "no differences"),
        1 => writeln!(out, "1 difference"),
        several => writeln!(out, "{several} differences"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn texts_of_users_do_not_control_the_terminal() {
        let moment = |position| ShownMoment { position, time: "t".to_owned() };
        let field =
            FieldChange { field: "metadata k\n+ x".to_owned(), before: None, after: Some("\x1b[2Jb".to_owned()) };
        let change = StateChange {
            kind: "server",
            id: "s1".to_owned(),
            name: "a\rb".to_owned(),
            change: ChangeKind::Changed,
            fields: vec![field],
        };
        let mut out = Vec::new();
        write(&StateDiff { from: moment(1), to: moment(2), changes: vec![change] }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\n~ server a?b (s1)\n    metadata k?+ x  nothing -> ?[2Jb\n"), "{text:?}");
    }
}
