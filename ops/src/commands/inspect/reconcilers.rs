//! `chronova inspect reconcilers`: lists every reconciler with the differences that it would repair at that moment.

use std::io::{self, Write};
use std::sync::Arc;

use chronova_actors::hosts::doubt::CopyDoubt;
use chronova_actors::hosts::fence::LogIdentity;
use chronova_actors::reconcile::options::ReconcileOptions;
use chronova_actors::reconcile::reconciler::Situation;
use chronova_actors::reconcile::table::{RECONCILERS, ReconcilerRow};
use chronova_actors::runtime::RuntimeOptions;
use chronova_actors::server_options::ServerOptions;
use chronova_events::envelope::{Position, Timestamp};
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::Checkpoints;
use chronova_projections::replay::BATCH;
use chronova_projections::runner::ProjectionError;
use chronova_projections::views::Views;
use chronova_web::audit::line::printable;
use serde_json::{Value, json};

use super::super::CommandFailure;
use super::super::audit::past::PastReader;
use super::super::list_form::ListFormArgs;
use super::super::moments::AsOf;

/// The options that decide when something is due: from `nova.conf`, or else their defaults. Also the checkpoints that
/// shorten the fold, if the log has a folder for them.
#[derive(Debug, Clone, Default)]
pub struct ReconcileRules {
    options: ReconcileOptions,
    server_options: ServerOptions,
    checkpoints: Option<Arc<Checkpoints>>,
}

impl ReconcileRules {
    pub fn of(options: &RuntimeOptions) -> Self {
        Self { options: options.reconcile.clone(), server_options: options.servers.clone(), checkpoints: None }
    }

    /// The same rules with the checkpoints that a server writes.
    #[must_use]
    pub fn with(self, checkpoints: Arc<Checkpoints>) -> Self {
        Self { checkpoints: Some(checkpoints), ..self }
    }
}

/// A reconciler with its findings; `None` if the log alone does not show them.
type Surveyed = (&'static ReconcilerRow, Option<Vec<String>>);

/// All reconcilers, in the order of their table.
pub(super) struct ReconcilerSurvey(Vec<Surveyed>);

/// Surveys all reconcilers on the log up to `until`, with `now` as the time of that position.
pub(super) async fn survey(
    store: &dyn EventStore,
    rules: &ReconcileRules,
    (until, now): (Position, Timestamp),
) -> Result<ReconcilerSurvey, CommandFailure> {
    let views = match &rules.checkpoints {
        Some(checkpoints) => {
            let reader = PastReader { store, checkpoints, now };
            reader.at(Some(AsOf::Position(until.min(store.head()).0))).await?
        }
        None => {
            let views = Arc::new(Views::new());
            fold(store, &views, until).await?;
            views
        }
    };
    let (options, server_options) = (&rules.options, &rules.server_options);
    let copied_at = LogIdentity::of(store).await?.and_then(|identity| identity.copied_at);
    let doubt = CopyDoubt(copied_at.filter(|at| *at <= now));
    let situation = Situation { views: &views, now, options, server_options, doubt };
    Ok(ReconcilerSurvey(RECONCILERS.iter().map(|row| (row, row.findings(situation))).collect()))
}

impl ReconcilerSurvey {
    pub(super) fn write(&self, form: ListFormArgs, out: &mut dyn Write) -> io::Result<()> {
        match form.write(&json_of(&self.0), out)? {
            true => Ok(()),
            false => write_table(&self.0, out),
        }
    }
}

async fn fold(store: &dyn EventStore, views: &Views, until: Position) -> Result<(), ProjectionError> {
    loop {
        let mut batch = store.read_all(views.position(), BATCH).await?;
        batch.truncate(batch.partition_point(|recorded| recorded.position <= until));
        if batch.is_empty() {
            return Ok(());
        }
        views.apply(&batch)?;
    }
}

fn write_table(all: &[Surveyed], out: &mut dyn Write) -> io::Result<()> {
    let name = all.iter().map(|(row, _)| row.name.len()).max().unwrap_or(0);
    writeln!(out, "{:name$}  {:22}  {:>8}  repairs", "reconciler", "runs", "findings")?;
    for (row, findings) in all {
        let found = findings.as_ref().map_or_else(|| "-".to_owned(), |found| found.len().to_string());
        writeln!(out, "{:name$}  {:22}  {found:>8}  {}", row.name, when(row).join(", "), row.repairs)?;
        for finding in findings.iter().flatten() {
            writeln!(out, "{:name$}    {}", "", printable(finding))?;
        }
    }
    writeln!(out)?;
    writeln!(out, "-: the reconciler asks hosts or services, so the log alone does not tell.")?;
    writeln!(out, "twice: it repairs only what it finds in two runs in a row.")
}

fn when(row: &ReconcilerRow) -> Vec<&'static str> {
    let words = [(row.at_start, "start"), (row.by_clock, "clock"), (row.follows_log, "log"), (row.debounces, "twice")];
    words.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect()
}

fn json_of(all: &[Surveyed]) -> Value {
    let shown = |(row, findings): &Surveyed| {
        json!({
            "name": row.name,
            "repairs": row.repairs,
            "at_start": row.at_start,
            "by_clock": row.by_clock,
            "follows_log": row.follows_log,
            "debounces": row.debounces,
            "findings": findings,
        })
    };
    json!({ "reconcilers": all.iter().map(shown).collect::<Vec<Value>>() })
}
