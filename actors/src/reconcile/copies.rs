//! The conduct of reconcilers on a log whose hosts another generation drove ([`crate::hosts::doubt`]).
//!
//! Each reconciler states its conduct. Otherwise, a repair that relies on an old fact could destroy what the original
//! of a restored log made after the backup.

use chronova_events::envelope::Timestamp;
use chronova_projections::views::Views;

/// The conduct of a reconciler with findings `F` on such a log.
#[derive(Debug)]
pub enum CopyConduct<F> {
    /// It reads and changes the log alone, so it acts as on any other log.
    ChangesLogAlone,
    /// It changes hosts, and destroys nothing that another generation made. The text says why.
    IsHarmless(&'static str),
    /// It acts on a finding only if the log learned the reason for it late enough: after the other generation had let
    /// go of the hosts. The function returns the time at which the log learned the reason. After `None`, the reconciler
    /// leaves the finding alone.
    ActsOnNewGrounds(fn(&Views, &F) -> Option<Timestamp>),
}

impl<F> CopyConduct<F> {
    /// The word for this conduct in docs/reconcilers.md.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::ChangesLogAlone => "log alone",
            Self::IsHarmless(_) => "harmless",
            Self::ActsOnNewGrounds(_) => "new grounds",
        }
    }
}
