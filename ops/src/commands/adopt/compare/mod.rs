//! `chronova adopt --dry-run --compare URL`: sends the same requests to the running Nova and to APIs on the log that
//! the adoption would write. Prints how the answers differ.
//!
//! The log is written into a temporary folder. Its APIs answer inside this process: they have no listener, lead nothing
//! and connect to no host. The comparison only reads, on both sides.

mod difference;
mod pages;
mod requests;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use chronova_web::in_process::InProcessApis;
use chronova_web::secret::Secret;
use clap::Args;
use serde_json::{Value, json};

use super::args::ReportForm;
use super::history::AdoptionHistory;
use super::write;
use crate::commands::credentials::CloudClient;
use crate::commands::{CommandFailure, DataDir, Exit};
use crate::config;
use crate::serve::SilentPlane;

pub use difference::{AnswerDifferences, KnownDifference, compare_answers, known_differences};

/// The running Nova of a comparison.
#[derive(Debug, Clone, Default, Args)]
pub struct CompareArgs {
    /// Write nothing, and compare the answers of the running Nova with those that the log would give.
    #[arg(long, requires = "compare", conflicts_with = "check")]
    pub dry_run: bool,
    /// The address of Nova's API, http://HOST:8774/v2.1. The credentials are those of the openstack client (OS_*).
    #[arg(long, value_name = "URL", requires = "dry_run")]
    pub compare: Option<String>,
    /// The address of Placement's API, http://HOST:8778.
    #[arg(long, value_name = "URL", requires = "compare")]
    pub compare_placement: Option<String>,
    /// A token of an administrator, instead of a password.
    #[arg(long, value_name = "TOKEN", env = "OS_TOKEN", hide_env_values = true, value_parser = secret)]
    pub os_token: Option<Secret>,
    /// The certificate authority of the servers' certificates, in PEM.
    #[arg(long, value_name = "FILE", env = "OS_CACERT")]
    pub os_cacert: Option<PathBuf>,
    /// Do not verify the servers' certificates.
    #[arg(long)]
    pub insecure: bool,
}

#[allow(clippy::unnecessary_wraps, reason = "the form that clap calls")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// The APIs of the cloud, by their services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparedService {
    Compute,
    Placement,
}

impl ComparedService {
    fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Placement => "placement",
        }
    }
}

/// One request to both sides.
#[derive(Debug, Clone)]
struct ComparedRequest {
    service: ComparedService,
    /// The name in the list of differences: `servers/{id}`.
    name: &'static str,
    path: String,
    version: String,
}

/// The running Nova.
struct RunningNova {
    compute: CloudClient,
    placement: Option<CloudClient>,
}

impl RunningNova {
    fn open(args: &CompareArgs) -> Result<Self, CommandFailure> {
        let client =
            |url: &String| CloudClient::open(url, args.os_token.clone(), args.os_cacert.as_deref(), args.insecure);
        let compute = args.compare.as_ref().ok_or_else(|| CommandFailure::Usage("give --compare URL".to_owned()))?;
        Ok(Self { compute: client(compute)?, placement: args.compare_placement.as_ref().map(client).transpose()? })
    }

    fn get(&self, service: ComparedService, path: &str, version: &str) -> Result<(u16, Value), CommandFailure> {
        let client = match (service, &self.placement) {
            (ComparedService::Placement, Some(placement)) => placement,
            _ => &self.compute,
        };
        client.get_at(path, &format!("{} {version}", service.word()))
    }
}

/// Both sides, and the differences so far.
struct NovaComparison {
    nova: RunningNova,
    ours: InProcessApis,
    found: AnswerDifferences,
    /// The number of answers that were compared.
    compared: usize,
    /// The requests that Nova answers with a status of [`NOT_OFFERED`]. They are not compared.
    unanswered: Vec<String>,
    /// The requests that Nova refuses to this account.
    refused: BTreeSet<String>,
}

/// Statuses with which Nova says that it has no such resource or version.
const NOT_OFFERED: [u16; 3] = [406, 410, 501];
const ADVICE: &str = "the account may not ask this (403): give OS_* of an administrator, whom the policies of Nova and \
                      Placement let see all projects";

impl NovaComparison {
    /// Asks both sides and compares. Returns the answer of Nova if both sides answer 200.
    async fn ask(&mut self, request: ComparedRequest) -> Result<Option<Value>, CommandFailure> {
        self.ask_as(request, |answer| answer).await
    }

    /// Like [`NovaComparison::ask`], with both answers in another form.
    async fn ask_as(
        &mut self,
        request: ComparedRequest,
        form: impl Fn(Value) -> Value,
    ) -> Result<Option<Value>, CommandFailure> {
        let Some((theirs, ours)) = self.both(&request).await? else { return Ok(None) };
        let theirs = form(theirs);
        compare_answers(request.name, &theirs, &form(ours), &mut self.found);
        Ok(Some(theirs))
    }

    /// The answers of both sides; `None` unless both have the status 200. Notes a refusal, and statuses that differ.
    async fn both(&mut self, request: &ComparedRequest) -> Result<Option<(Value, Value)>, CommandFailure> {
        let ComparedRequest { service, name, path, version } = request;
        let (their_status, theirs) = self.nova.get(*service, path, version)?;
        if their_status == 401 {
            return Err(CommandFailure::Usage(
                "Nova does not accept the token: give OS_AUTH_URL and a password".to_owned(),
            ));
        }
        if their_status == 403 {
            self.refused.insert(format!("{name} at {} {version}", service.word()));
            return Ok(None);
        }
        if NOT_OFFERED.contains(&their_status) {
            self.unanswered.push(format!("{name} at {} {version}: {their_status}", service.word()));
            return Ok(None);
        }
        let (status, ours) = self.here(request, path).await;
        self.compared += 1;
        if (their_status, status) != (200, 200) {
            if their_status != status {
                let example = format!("Nova {their_status}, here {status}: {path}");
                self.found.insert(((*name).to_owned(), "(status)".to_owned()), example);
            }
            return Ok(None);
        }
        Ok(Some((theirs, ours)))
    }

    /// The answer on the log.
    async fn here(&self, request: &ComparedRequest, path: &str) -> (u16, Value) {
        let ComparedRequest { service, version, .. } = request;
        let prefix = if *service == ComparedService::Compute { "/compute/v2.1" } else { "/placement" };
        self.ours.get(&format!("{prefix}{path}"), &format!("{} {version}", service.word())).await
    }
}

/// The outcome of a comparison.
struct ComparisonResult {
    found: AnswerDifferences,
    compared: usize,
    unanswered: Vec<String>,
    refused: BTreeSet<String>,
}

impl ComparisonResult {
    /// The differences that the list explains, with the reasons, and the differences that it does not explain.
    fn sorted(&self) -> (Vec<(String, String)>, Vec<String>) {
        let known = known_differences();
        let (mut explained, mut unexplained) = (Vec::new(), Vec::new());
        for ((request, path), example) in &self.found {
            match known.iter().find(|known| known.explains(request, path)) {
                Some(known) => explained.push((format!("{request} {path}"), known.reason.clone())),
                None => unexplained.push(format!("{request} {path}: {example}")),
            }
        }
        (explained, unexplained)
    }

    fn print(&self, form: ReportForm, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
        let (explained, unexplained) = self.sorted();
        if form == ReportForm::Json {
            let told = json!({
                "compared": self.compared, "explained": explained, "unexplained": unexplained,
                "unanswered": self.unanswered, "refused": self.refused,
            });
            writeln!(out, "{told}")?;
        } else {
            for (place, reason) in &explained {
                writeln!(out, "explained    {place}: {reason}")?;
            }
            for request in &self.unanswered {
                writeln!(out, "not compared {request}")?;
            }
            for request in &self.refused {
                writeln!(out, "refused      {request}: {ADVICE}")?;
            }
            for difference in &unexplained {
                writeln!(out, "unexplained  {difference}")?;
            }
            let (known, open) = (explained.len(), unexplained.len());
            writeln!(out, "{} answers compared: {known} explained differences, {open} unexplained", self.compared)?;
        }
        let equal = unexplained.is_empty() && self.refused.is_empty() && self.compared > 0;
        Ok(if equal { Exit::Yes } else { Exit::No })
    }
}

/// Compares the running Nova with the log of this history.
pub(super) async fn run(
    args: &CompareArgs,
    form: ReportForm,
    history: AdoptionHistory,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let nova = RunningNova::open(args)?;
    let folder = tempfile::Builder::new().prefix("chronova-compare").tempdir()?;
    let data = DataDir(folder.path().join("data"));
    write::log(&data, history).await?;
    let failed = |error: anyhow::Error| CommandFailure::Usage(format!("the APIs on the log do not start: {error:#}"));
    let loaded = config::load_with(&[], "[api]\nauth_strategy = noauth2\n");
    let mut config = loaded.map_err(|invalid| CommandFailure::Usage(invalid.to_string()))?.config;
    config.chronova.data_dir.clone_from(&data.0);
    let plane = SilentPlane::open(&config).await.map_err(failed)?;
    let ours = InProcessApis::new(plane.app());
    let mut comparison = NovaComparison {
        nova,
        ours,
        found: AnswerDifferences::new(),
        compared: 0,
        unanswered: Vec::new(),
        refused: BTreeSet::new(),
    };
    let asked = requests::ask_all(&mut comparison).await;
    let NovaComparison { found, compared, unanswered, refused, .. } = comparison;
    plane.close().await;
    asked?;
    ComparisonResult { found, compared, unanswered, refused }.print(form, out)
}
