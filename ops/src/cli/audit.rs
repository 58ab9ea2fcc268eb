//! `chronova audit` and its subcommands.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{ConfigPaths, operate, operate_alone, operate_on};
use crate::commands::audit::AuditArgs;
use crate::commands::{self, OperatorCommand};

#[derive(Debug, Args)]
pub(super) struct AuditCommand {
    #[command(subcommand)]
    action: Option<AuditAction>,
    #[command(flatten)]
    place: ConfigPaths,
    #[command(flatten)]
    args: AuditArgs,
}

#[derive(Debug, Subcommand)]
enum AuditAction {
    /// Show the differences between two moments: of servers and hosts, of one server, or of users and roles. The exit
    /// status is 0 if there are none, and 1 otherwise.
    Diff {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::diff::StateDiffArgs,
    },
    /// Show the servers that existed at a moment, of all hosts or of one.
    Servers {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::servers::PastServersArgs,
    },
    /// Show who had roles on a project, at a moment or in a period, and why.
    Roles {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::roles::ProjectRolesArgs,
    },
    /// Erase personal data permanently, while no server runs.
    Erase {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::erase::EraseArgs,
    },
    /// Send events to a web server (CloudEvents), each at least once, or to syslog, which confirms nothing.
    Forward {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::forward::ForwardArgs,
    },
    /// Write a part of the log to a signed file that a third party can verify.
    Export {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::export::ExportArgs,
    },
    /// Complete the index that filters of the listing use. A running server does this in the background.
    Index {
        #[command(flatten)]
        place: ConfigPaths,
    },
    /// Verify an exported file with a public key alone.
    VerifyExport {
        #[command(flatten)]
        args: commands::audit::export::ExportVerifyArgs,
    },
    /// Prove that events are in the log, or that the log continues an earlier one.
    Prove {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: Box<commands::audit::prove::ProveArgs>,
    },
    /// Verify proofs with a tree head alone.
    VerifyProof {
        #[command(flatten)]
        args: commands::audit::prove::ProofVerifyArgs,
    },
    /// Append a signed anchor of the log's head to a file that is kept elsewhere.
    Anchor {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::anchors::AnchorArgs,
    },
    /// Verify a file of anchors with a public key, and against the log if there is one.
    VerifyAnchors {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::anchors::AnchorVerifyArgs,
    },
    /// Create the key pair that signs exports and anchors.
    Keygen {
        #[command(flatten)]
        args: commands::audit::export::keys::ExportKeysArgs,
    },
    /// Copy old events to compressed files that can be verified by themselves.
    Archive {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::archive::ArchiveArgs,
    },
    /// Verify an archive by itself, and against the log if there is one.
    VerifyArchive {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::audit::archive::ArchiveVerifyArgs,
    },
    /// Verify the log: pages, checksums, the hash chain, payloads, snapshots, read models.
    Verify {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::verify::VerifyArgs,
    },
    /// Print the newest position and its hash. If you keep both elsewhere, they prove later that nobody changed an
    /// event up to that position.
    Head {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::verify::HeadArgs,
    },
}

impl AuditCommand {
    pub(super) fn run(self) -> ExitCode {
        match self.action {
            None => operate(&self.place, OperatorCommand::Audit(self.args)),
            Some(action) => with_place(action, self.place, &self.args),
        }
    }
}

impl AuditAction {
    fn place_mut(&mut self) -> Option<&mut ConfigPaths> {
        match self {
            Self::Anchor { place, .. }
            | Self::VerifyAnchors { place, .. }
            | Self::Diff { place, .. }
            | Self::Roles { place, .. }
            | Self::Servers { place, .. }
            | Self::Erase { place, .. }
            | Self::Forward { place, .. }
            | Self::Index { place }
            | Self::Export { place, .. }
            | Self::Prove { place, .. }
            | Self::Archive { place, .. }
            | Self::VerifyArchive { place, .. }
            | Self::Verify { place, .. }
            | Self::Head { place, .. } => Some(place),
            Self::VerifyExport { .. } | Self::VerifyProof { .. } | Self::Keygen { .. } => None,
        }
    }
}

/// Options before the subcommand may say where the data is; the subcommand's own options win over them. Filters before
/// the subcommand are refused, because only a listing has filters there.
fn with_place(mut action: AuditAction, place: ConfigPaths, args: &AuditArgs) -> ExitCode {
    let problem = match action.place_mut() {
        _ if *args != AuditArgs::default() => "give the filters after the subcommand",
        Some(own) => {
            own.follow(place);
            return run(action);
        }
        None if place.is_empty() => return run(action),
        None => "this subcommand reads no configuration and no data",
    };
    crate::output::complain(&format!("chronova: {problem}\n"));
    ExitCode::from(2)
}

fn run(action: AuditAction) -> ExitCode {
    match action {
        // The erasure runs in actors, so this command starts an actor system.
        AuditAction::Erase { place, args } => {
            actix_rt::System::new().block_on(Box::pin(operate_on(&place, OperatorCommand::AuditErase(args))))
        }
        AuditAction::Anchor { place, args } => operate(&place, OperatorCommand::AuditAnchor(args)),
        AuditAction::VerifyAnchors { place, args } => operate(&place, OperatorCommand::AuditVerifyAnchors(args)),
        AuditAction::Diff { place, args } => operate(&place, OperatorCommand::AuditDiff(args)),
        AuditAction::Roles { place, args } => operate(&place, OperatorCommand::AuditRoles(args)),
        AuditAction::Forward { place, args } => operate(&place, OperatorCommand::AuditForward(args)),
        AuditAction::Servers { place, args } => operate(&place, OperatorCommand::AuditServers(args)),
        AuditAction::Index { place } => operate(&place, OperatorCommand::AuditIndex),
        AuditAction::Export { place, args } => operate(&place, OperatorCommand::AuditExport(args)),
        // A third party has neither configuration nor data.
        AuditAction::VerifyExport { args } => operate_alone(OperatorCommand::AuditVerifyExport(args)),
        AuditAction::Prove { place, args } => operate(&place, OperatorCommand::AuditProve(*args)),
        AuditAction::VerifyProof { args } => operate_alone(OperatorCommand::AuditVerifyProof(args)),
        AuditAction::Keygen { args } => operate_alone(OperatorCommand::AuditKeygen(args)),
        AuditAction::Archive { place, args } => operate(&place, OperatorCommand::AuditArchive(args)),
        AuditAction::VerifyArchive { place, args } => operate(&place, OperatorCommand::AuditVerifyArchive(args)),
        AuditAction::Verify { place, args } => operate(&place, OperatorCommand::Verify(args)),
        AuditAction::Head { place, args } => operate(&place, OperatorCommand::Head(args)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::path::PathBuf;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parsed(line: &[&str]) -> AuditCommand {
        let Command::Audit(audit) = Cli::try_parse_from(line).unwrap().command else { panic!("{line:?}") };
        audit
    }

    #[test]
    fn the_place_of_an_audit_may_be_named_before_its_subcommand() {
        let head = |line: &[&str]| {
            let mut audit = parsed(line);
            let place = audit.action.as_mut().and_then(AuditAction::place_mut).unwrap();
            place.follow(audit.place);
            (place.data_dir.clone().unwrap(), place.config_file.len())
        };
        assert_eq!(head(&["chronova", "audit", "--data-dir", "/a", "head"]), (PathBuf::from("/a"), 0));
        assert_eq!(head(&["chronova", "audit", "--data-dir", "/a", "head", "--data-dir", "/b"]), ("/b".into(), 0));
        let both = ["chronova", "audit", "--config-file", "x", "verify", "--config-file", "y", "--data-dir", "/c"];
        assert_eq!(head(&both), ("/c".into(), 2));
        let refused = |line: &[&str]| parsed(line).run();
        assert_eq!(refused(&["chronova", "audit", "--kind", "instance", "head"]), ExitCode::from(2));
        let keygen = ["chronova", "audit", "--data-dir", "/a", "keygen", "--out", "/nowhere/key"];
        assert_eq!(refused(&keygen), ExitCode::from(2));
    }
}
