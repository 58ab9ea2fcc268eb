//! Decides on which host a migrating guest is, from the reports of both hosts together. All functions are pure.
//!
//! The report of one host is not enough if the other host's report could contradict it. [`GuestLocation::Unknown`]
//! means that the location is not known yet, so the process asks the hosts again. A host that is down may never answer
//! again. Then an operator ends the wait ([`judge_lost`]), as in Nova.

use chronova_hypervisor::capability::live_migration::{GuestMigrationState, GuestPresence};

/// The report of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestSighting {
    /// The host reports this presence.
    At(GuestPresence),
    /// The host reports that the guest is migrating away.
    Departing,
    /// The host does not answer now.
    Silent,
    /// The host is recorded as down, and may not answer for a long time.
    Down,
    /// An operator has declared the host down (`forced_down`), so no guest runs there.
    Fenced,
}

impl GuestSighting {
    fn is_down(self) -> bool {
        matches!(self, Self::Down | Self::Fenced)
    }

    /// The same report, as if no operator had declared the host down.
    fn unfenced(self) -> Self {
        if self.is_down() { Self::Down } else { self }
    }
}

impl From<&GuestMigrationState> for GuestSighting {
    fn from(standing: &GuestMigrationState) -> Self {
        match standing.departing {
            // In post-copy, the source has memory that the guest still needs.
            None if !standing.in_post_copy => Self::At(standing.presence),
            _ => Self::Departing,
        }
    }
}

/// The location of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestLocation {
    /// The guest is only at its source, on or off.
    AtSource,
    /// The guest is at its destination, on or off, and will not run at its source again by itself.
    AtTarget,
    Underway,
    /// The guest is at its destination, and a copy of it is at its source. The process stops the copy.
    Twice,
    /// The guest is only at its source, where a broken migration has left it paused. The process resumes it.
    PausedAtSource,
    /// Neither host can continue the guest. The process starts it again at its destination, which has the newer disks.
    Torn,
    Unknown,
    /// An operator has given the guest up. The process fails, so that the server can be evacuated.
    Lost,
}

/// Decides from the reports, and from an operator's declarations about hosts that are down. `given_up`: an operator has
/// reset the server's state to error since these hosts went down. The reset counts only if the process would wait for a
/// host that is down.
pub fn judge_lost(source: GuestSighting, target: GuestSighting, given_up: bool) -> GuestLocation {
    use GuestSighting::{At, Fenced};
    match (source, target) {
        (Fenced, Fenced) => GuestLocation::Lost,
        // The guest does not run at its destination, so its source may continue it.
        (At(GuestPresence::Arriving), Fenced) => GuestLocation::PausedAtSource,
        // The source does not send the rest of the memory any more.
        (Fenced, At(GuestPresence::Torn)) => GuestLocation::Torn,
        _ => match judge(source.unfenced(), target.unfenced()) {
            GuestLocation::Unknown if given_up && is_lasting(source, target) => GuestLocation::Lost,
            location => location,
        },
    }
}

/// Whether the process waits only for hosts that are down, so that the wait may last.
fn is_lasting(source: GuestSighting, target: GuestSighting) -> bool {
    let silent = source == GuestSighting::Silent || target == GuestSighting::Silent;
    // A destination that does not get the guest ends the migration by itself.
    let arrives = target == GuestSighting::At(GuestPresence::Arriving);
    (source.is_down() || target.is_down()) && !silent && !arrives
}

/// Decides from the reports alone.
fn judge(source: GuestSighting, target: GuestSighting) -> GuestLocation {
    use GuestPresence::{Absent, Arriving, Left, Off, Paused, Running, Torn};
    use GuestSighting::{At, Departing, Down, Fenced, Silent};
    match (source, target) {
        (Departing, _) => GuestLocation::Underway,
        // Only the source knows whether it has released the guest, and only the destination knows whether it has the
        // guest.
        (Silent, _) | (_, Silent) => GuestLocation::Unknown,
        (At(Torn), At(_) | Down) => GuestLocation::Torn,
        (Down, At(Running | Paused | Off | Left)) => GuestLocation::AtTarget,
        (Down, At(Absent)) => GuestLocation::AtSource,
        // Only the source knows whether it still has the guest's memory, so the process waits for the source. A
        // destination that does not get the guest ends the migration by itself.
        (Down, At(Arriving | Torn) | Down) => GuestLocation::Unknown,
        (At(Running | Paused), At(Running | Paused)) => GuestLocation::Twice,
        (At(Running | Paused), At(Arriving)) => GuestLocation::Underway,
        (At(Running | Paused), At(Absent | Off | Left | Torn) | Down) => GuestLocation::AtSource,
        // The migration has paused the guest at its source, and does not run any more. The source's libvirtd restarted
        // after it had sent everything, and before the destination's answer. Then libvirt leaves the decision to its
        // caller. A destination without a definition never had the guest.
        (At(Arriving), At(Running | Paused | Off | Left)) => GuestLocation::Twice,
        (At(Arriving), At(Absent)) => GuestLocation::PausedAtSource,
        (At(Arriving), At(Torn)) => GuestLocation::Torn,
        // The destination soon resumes the guest, or gives it up.
        (At(Arriving), At(Arriving)) => GuestLocation::Underway,
        (At(Arriving), Down) => GuestLocation::Unknown,
        (At(Absent | Off | Left), At(Running | Paused)) => GuestLocation::AtTarget,
        (At(Absent | Off | Left), At(Arriving)) => GuestLocation::Underway,
        (At(Absent | Off | Left), At(Torn)) => GuestLocation::Torn,
        // The destination has a definition only after the migration, so the guest migrated and then stopped there.
        (At(Absent | Off | Left), At(Off | Left)) => GuestLocation::AtTarget,
        // The source undefines a guest only after the migration.
        (At(Absent | Left), Down) | (At(Left), At(Absent)) => GuestLocation::AtTarget,
        // The guest stopped before it was migrated.
        (At(Absent | Off), At(Absent)) | (At(Off), Down) => GuestLocation::AtSource,
        // A destination never reports that the guest is migrating away.
        (At(_) | Down, Departing) | (Fenced, _) | (_, Fenced) => GuestLocation::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GuestPresence::{Absent, Arriving, Left, Off, Paused, Running, Torn};
    use GuestSighting::{At, Departing, Down, Silent};

    const ALL: [GuestSighting; 10] =
        [At(Absent), At(Off), At(Left), At(Arriving), At(Running), At(Paused), At(Torn), Departing, Silent, Down];

    #[test]
    fn a_silent_host_leaves_the_location_unknown() {
        for end in ALL {
            assert_eq!(judge(Silent, end), GuestLocation::Unknown, "{end:?}");
            if !matches!(end, Departing) {
                assert!(matches!(judge(end, Silent), GuestLocation::Unknown), "{end:?}");
            }
        }
        assert_eq!(judge(Down, Down), GuestLocation::Unknown, "either host may have the guest");
    }

    /// The most important rule: if the source may run the guest, the result is never `AtTarget`. If the destination may
    /// run it, the result is never `AtSource`.
    #[test]
    fn a_running_guest_is_never_reported_as_gone() {
        for end in ALL {
            for here in [At(Running), At(Paused), Departing] {
                assert_ne!(judge(here, end), GuestLocation::AtTarget, "{here:?} {end:?}");
            }
            for there in [At(Running), At(Paused)] {
                assert_ne!(judge(end, there), GuestLocation::AtSource, "{end:?} {there:?}");
            }
        }
    }

    #[test]
    fn the_word_of_an_operator_ends_the_wait_for_hosts_that_are_down() {
        use GuestSighting::Fenced;
        for (source, target) in [(Down, Down), (At(Arriving), Down), (Down, At(Torn)), (Fenced, Down), (Down, Fenced)] {
            assert_eq!(judge_lost(source, target, false), GuestLocation::Unknown, "{source:?} {target:?}");
            assert_eq!(judge_lost(source, target, true), GuestLocation::Lost, "{source:?} {target:?}");
        }
        assert_eq!(judge_lost(Fenced, Fenced, false), GuestLocation::Lost);
        assert_eq!(judge_lost(At(Arriving), Fenced, false), GuestLocation::PausedAtSource);
        assert_eq!(judge_lost(Fenced, At(Torn), false), GuestLocation::Torn);
        // A host that may answer soon decides.
        for end in ALL {
            assert_ne!(judge_lost(Silent, end, true), GuestLocation::Lost, "{end:?}");
            assert_ne!(judge_lost(end, Silent, true), GuestLocation::Lost, "{end:?}");
        }
        assert_eq!(judge_lost(Down, At(Arriving), true), GuestLocation::Unknown, "the guest may still arrive");
        for source in ALL {
            for target in ALL {
                let known = judge(source, target);
                if known != GuestLocation::Unknown {
                    assert_eq!(judge_lost(source, target, true), known, "{source:?} {target:?}");
                }
            }
        }
    }

    /// A source in post-copy has memory that the guest needs, so its guest is never stopped.
    #[test]
    fn a_source_in_post_copy_still_sends_the_guest() {
        let mut standing = GuestMigrationState::of(Arriving);
        assert_eq!(GuestSighting::from(&standing), At(Arriving));
        standing.in_post_copy = true;
        assert_eq!(GuestSighting::from(&standing), Departing);
        assert_eq!(judge(Departing, At(Running)), GuestLocation::Underway);
    }

    #[test]
    fn both_reports_decide_together() {
        let cases = [
            (At(Running), At(Absent), GuestLocation::AtSource),
            (At(Running), Down, GuestLocation::AtSource),
            (At(Running), At(Running), GuestLocation::Twice),
            (At(Running), At(Arriving), GuestLocation::Underway),
            (Departing, At(Running), GuestLocation::Underway),
            (Departing, Down, GuestLocation::Underway),
            (At(Absent), At(Running), GuestLocation::AtTarget),
            (At(Off), At(Running), GuestLocation::AtTarget),
            (At(Absent), At(Paused), GuestLocation::AtTarget),
            (At(Absent), Down, GuestLocation::AtTarget),
            (At(Left), Down, GuestLocation::AtTarget),
            (At(Off), Down, GuestLocation::AtSource),
            (At(Off), At(Absent), GuestLocation::AtSource),
            (Down, At(Running), GuestLocation::AtTarget),
            (Down, At(Absent), GuestLocation::AtSource),
            (Down, At(Arriving), GuestLocation::Unknown),
            (At(Torn), At(Running), GuestLocation::Torn),
            (At(Off), At(Torn), GuestLocation::Torn),
            (At(Off), At(Arriving), GuestLocation::Underway),
            (At(Arriving), At(Arriving), GuestLocation::Underway),
            (At(Arriving), At(Running), GuestLocation::Twice),
            (At(Arriving), At(Off), GuestLocation::Twice),
            (At(Arriving), At(Absent), GuestLocation::PausedAtSource),
            (At(Arriving), Down, GuestLocation::Unknown),
        ];
        for (source, target, verdict) in cases {
            assert_eq!(judge(source, target), verdict, "{source:?} {target:?}");
        }
    }
}
