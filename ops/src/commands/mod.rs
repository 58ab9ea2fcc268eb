//! The operator's commands. Most of them read the log. `host`, `manage`, `status` and `top` call the running server, but
//! `host adopt`, `host check` and `host claim` call the hosts. `cluster` asks the log's database who leads. `policy` and
//! `nova-policy` read the policy files. `adopt`, `backup restore` and `log copy` write a new log. `audit erase` appends
//! to an existing log, `host adopt --write` adds servers to it, and `host claim` may begin a generation in it.
//!
//! Most commands open the log for reading only, so they work while a server runs. These lock the log, so no server may
//! run: `audit erase`, `adopt --undo`, `export nova`, `host adopt --write`, `log prune` and `rebuild --replace`. `host
//! adopt` and `host claim` also lock it for simulated hosts. Exit codes for scripts: 0 yes, 1 no (not found, not
//! equal), 2 the command failed. Commands that replace Nova's tools have Nova's codes. Each command writes to a writer
//! that its caller gives it, so that golden files can check its output.

pub mod adopt;
pub mod audit;
pub mod backup;
pub mod cluster;
mod credentials;
pub mod export_nova;
mod failure;
pub mod host;
pub mod inspect;
pub mod list_form;
mod locks;
pub mod log_copy;
pub mod log_home;
pub mod log_pages;
mod log_place;
pub mod manage;
pub mod moments;
pub mod nova_policy;
mod operator_client;
pub mod policy;
mod progress_line;
pub mod rebuild;
pub mod retention;
pub mod schedule;
pub mod status;
pub mod top;
pub mod verify;

use std::io::{self, Write};
use std::sync::Arc;

use chronova_events::clock::{Clock, SystemClock};
use chronova_events::error_chain::ErrorChain;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::StoreError;

pub use self::failure::{CommandFailure, Exit};
pub use self::log_place::{DataDir, LogPlace, s3_access};

/// The commands with their arguments.
#[derive(Debug)]
pub enum OperatorCommand {
    Adopt(adopt::AdoptArgs),
    Audit(audit::AuditArgs),
    Backup(backup::BackupCommand),
    Cluster(cluster::ClusterCommand),
    ExportNova(export_nova::NovaExportArgs),
    AuditAnchor(audit::anchors::AnchorArgs),
    AuditVerifyAnchors(audit::anchors::AnchorVerifyArgs),
    AuditDiff(audit::diff::StateDiffArgs),
    AuditErase(audit::erase::EraseArgs),
    AuditIndex,
    AuditExport(audit::export::ExportArgs),
    AuditVerifyExport(audit::export::ExportVerifyArgs),
    AuditProve(audit::prove::ProveArgs),
    AuditVerifyProof(audit::prove::ProofVerifyArgs),
    AuditForward(audit::forward::ForwardArgs),
    AuditKeygen(audit::export::keys::ExportKeysArgs),
    AuditRoles(audit::roles::ProjectRolesArgs),
    AuditServers(audit::servers::PastServersArgs),
    LogCopy(log_copy::LogCopyArgs),
    LogHold(retention::holds::HoldCommand),
    LogPrune(retention::prune::LogPruneArgs),
    AuditArchive(audit::archive::ArchiveArgs),
    AuditVerifyArchive(audit::archive::ArchiveVerifyArgs),
    Inspect(inspect::InspectArgs),
    Rebuild(rebuild::RebuildArgs),
    Verify(verify::VerifyArgs),
    Head(verify::HeadArgs),
    Schedule(Box<(schedule::ScheduleArgs, schedule::Rules)>),
}

/// Runs a command on the log at `place`, with its output on standard output and its errors on standard error.
pub async fn run(command: OperatorCommand, place: &LogPlace) -> Exit {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match execute(command, place, &mut out).await.and_then(|exit| Ok(out.flush().map(|()| exit)?)) {
        Ok(exit) => exit,
        // `chronova audit | head`: the reader has closed the pipe.
        Err(CommandFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Yes,
        Err(failure) => {
            // A failure to write to standard error can be reported nowhere.
            let _ = writeln!(io::stderr(), "chronova: {}", ErrorChain(&failure));
            Exit::Failed
        }
    }
}

async fn execute(command: OperatorCommand, place: &LogPlace, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let data = &place.data;
    let now = SystemClock.now();
    match command {
        OperatorCommand::Adopt(args) => adopt::run(&args, place, out).await,
        OperatorCommand::ExportNova(args) => {
            // A server that runs would go on changing the log while it is exported.
            let locked = place.lock().await?;
            let exit = export_nova::run(&args, &*locked.store(), out).await;
            locked.release().await;
            exit
        }
        OperatorCommand::Audit(audit::AuditArgs { archive: Some(address), .. })
            if address.folder().is_some_and(|folder| !folder.is_dir()) =>
        {
            Err(CommandFailure::Usage(format!("{address} is not a folder")))
        }
        OperatorCommand::Audit(args) if args.archive.is_some() => {
            let keys = KeyRing::open_read_only(data.keys()).map_err(StoreError::from)?;
            audit::archive::list(&args, &*place.archive(args.archive.clone())?, &keys, now, out)
        }
        OperatorCommand::Backup(command) => backup::run(&command, place, now, out).await,
        OperatorCommand::Cluster(command) => cluster::run(&command, place.in_database("cluster")?, out).await,
        OperatorCommand::AuditAnchor(mut args) => {
            args.out = args.out.completed(&place.s3).map_err(CommandFailure::Usage)?;
            audit::anchors::run(&args, &*place.read().await?, &data.tree(), now, out).await
        }
        OperatorCommand::AuditVerifyAnchors(mut args) => {
            args.file = args.file.completed(&place.s3).map_err(CommandFailure::Usage)?;
            let store = place.read_any().await?;
            audit::anchors::verify(&args, store.as_deref(), &data.tree(), out).await
        }
        OperatorCommand::AuditDiff(args) => {
            let mut store = place.read().await?;
            if args.access {
                store = audit::index::extended(store, data.index()).await;
            }
            let checkpoints = &data.checkpoints(&*store)?;
            audit::diff::run(&args, audit::past::PastReader { store: &*store, checkpoints, now }, out).await
        }
        OperatorCommand::AuditServers(args) => {
            let store = place.read().await?;
            let checkpoints = &data.checkpoints(&*store)?;
            audit::servers::run(&args, audit::past::PastReader { store: &*store, checkpoints, now }, out).await
        }
        OperatorCommand::AuditForward(args) => {
            let pauses = audit::forward::DeliveryPauses::default();
            audit::forward::run(&args, &*place.read().await?, pauses, out).await
        }
        OperatorCommand::AuditRoles(args) => {
            let log = audit::index::extended(place.read().await?, data.index()).await;
            let checkpoints = &data.checkpoints(&*log)?;
            let exit = audit::roles::run(&args, audit::past::PastReader { store: &*log, checkpoints, now }, out).await;
            audit::index::mend(&log).await;
            exit
        }
        OperatorCommand::AuditExport(args) => audit::export::run(&args, &*place.read().await?, now, out).await,
        OperatorCommand::AuditVerifyExport(args) => audit::export::verify(&args, out),
        OperatorCommand::AuditProve(args) => {
            audit::prove::run(&args, &*place.read().await?, &data.tree(), now, out).await
        }
        OperatorCommand::AuditVerifyProof(args) => audit::prove::verify(&args, out),
        OperatorCommand::AuditKeygen(args) => audit::export::keys::run(&args, out),
        OperatorCommand::AuditArchive(args) => {
            let archive = place.archive(args.out.clone())?;
            audit::archive::run(&args, &*place.read().await?, &*archive, now, out).await
        }
        OperatorCommand::AuditVerifyArchive(args) => {
            let key = args.public_key.as_deref().map(audit::export::keys::verifying_key).transpose()?;
            let archive = place.archive(args.archive)?;
            let store = place.read_any().await?;
            audit::archive::verify(store.as_deref(), &*archive, key.as_ref(), out).await
        }
        OperatorCommand::Audit(args) if args.without_index => audit::run(&args, &*place.read().await?, now, out).await,
        OperatorCommand::Audit(mut args) => {
            args.names = Some(data.names());
            let log = audit::index::indexed(&args, place.read().await?, data.index(), now).await;
            let exit = audit::run(&args, &*log, now, out).await;
            audit::index::mend(&log).await;
            exit
        }
        OperatorCommand::AuditIndex => {
            let log = place.read().await?;
            let exit = audit::index::run(Arc::clone(&log), &data.index(), out).await?;
            audit::index::complete_names(log, data.index(), &data.names()).await?;
            Ok(exit)
        }
        OperatorCommand::AuditErase(args) => {
            let locked = place.lock().await.map_err(|failure| match failure {
                CommandFailure::Store(StoreError::Locked { .. }) | CommandFailure::Usage(_) => CommandFailure::Usage(
                    format!("{failure}: while a server runs, send it POST /chronova/v1/erasures instead"),
                ),
                failure => failure,
            })?;
            let checkpoints = data.checkpoints(&*locked.store())?;
            let exit = audit::erase::run(&args, locked.store(), Arc::clone(&checkpoints), out).await;
            let exit = retention::states::after_erasure(&locked, &checkpoints, exit, out).await;
            locked.release().await;
            exit
        }
        OperatorCommand::Inspect(mut args) if args.is_about_reconcilers() => {
            let store = place.read().await?;
            args.rules = args.rules.with(data.checkpoints(&*store)?);
            inspect::run(&args, &*store, now, out).await
        }
        OperatorCommand::Inspect(args) => {
            let log = audit::index::extended(place.read().await?, data.index()).await;
            let exit = inspect::run(&args, &*log, now, out).await;
            audit::index::mend(&log).await;
            exit
        }
        OperatorCommand::Verify(args) => verify::run(&args, place, out).await,
        OperatorCommand::LogCopy(args) => {
            log_copy::run(&args, place.in_database("log copy")?, &data.keys(), out).await?;
            Ok(Exit::Yes)
        }
        OperatorCommand::LogHold(command) => retention::holds::run(&command, place, now, out),
        OperatorCommand::LogPrune(args) => retention::prune::run(&args, place, now, out).await,
        OperatorCommand::Head(args) if args.tree => audit::prove::head(&*place.read().await?, &data.tree(), out).await,
        OperatorCommand::Head(args) => verify::head(&args, &*place.read().await?, out).await,
        OperatorCommand::Schedule(asked) => {
            let (args, rules) = *asked;
            schedule::run(&args, &rules, &*place.read().await?, now, out).await
        }
        OperatorCommand::Rebuild(args) => {
            if !args.replace {
                let store = place.read().await?;
                return rebuild::run(&args, &*store, &*data.checkpoints(&*store)?, out).await;
            }
            let locked = place.lock().await?;
            let store = locked.store();
            let exit = rebuild::run(&args, &*store, &*data.checkpoints(&*store)?, out).await;
            locked.release().await;
            exit
        }
    }
}
