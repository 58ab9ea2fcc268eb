//! Where a guest is that was sent from one host to another: what both hosts say, together. Pure.
//!
//! Nothing is ever concluded from one host's word alone where the other one's could say otherwise. What cannot be known yet
//! is [`Verdict::Unknown`]: asked again, for as long as it takes.

use chronova_hypervisor::capability::live_migration::{GuestMigrationState, GuestPresence};

/// What is known of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It says so.
    At(GuestPresence),
    /// It says that the guest is on its way from here.
    Departing,
    /// It does not answer now.
    Silent,
    /// It is recorded as down: it may not answer for a long time.
    Down,
}

impl From<&GuestMigrationState> for Seen {
    fn from(standing: &GuestMigrationState) -> Self {
        match standing.departing {
            Some(_) => Self::Departing,
            None => Self::At(standing.presence),
        }
    }
}

/// Where the guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At its source, on or off, and nowhere else.
    AtSource,
    /// At its destination, on or off, and it will not run at its source again by itself.
    AtTarget,
    Underway,
    /// It runs at both ends: the source's is stopped.
    Twice,
    /// Neither end can go on with it: it is started anew at its destination, whose disks are the newer ones.
    Torn,
    Unknown,
}

pub fn judge(source: Seen, target: Seen) -> Verdict {
    use GuestPresence::{Absent, Arriving, Left, Off, Paused, Running, Torn};
    use Seen::{At, Departing, Down, Silent};
    match (source, target) {
        (Departing, _) => Verdict::Underway,
        // The only one who knows whether it let the guest go; and nobody but the other one knows whether it has it.
        (Silent, _) | (_, Silent) => Verdict::Unknown,
        (At(Torn), At(_) | Down) => Verdict::Torn,
        (Down, At(Running | Paused | Off | Left)) => Verdict::AtTarget,
        (Down, At(Absent)) => Verdict::AtSource,
        // Whoever holds the memory decides; a destination that waits in vain gives up by itself.
        (Down, At(Arriving | Torn) | Down) => Verdict::Unknown,
        (At(Running | Paused), At(Running | Paused)) => Verdict::Twice,
        (At(Running | Paused), At(Arriving)) => Verdict::Underway,
        (At(Running | Paused), At(Absent | Off | Left | Torn) | Down) => Verdict::AtSource,
        // It stands still in the moment of the switch-over.
        (At(Arriving), At(_) | Down) => Verdict::Underway,
        (At(Absent | Off | Left), At(Running | Paused)) => Verdict::AtTarget,
        (At(Absent | Off | Left), At(Arriving)) => Verdict::Underway,
        (At(Absent | Off | Left), At(Torn)) => Verdict::Torn,
        // It is defined at its destination only once it is across: it went off there.
        (At(Absent | Off | Left), At(Off | Left)) => Verdict::AtTarget,
        // The source forgets a guest only when it is across.
        (At(Absent | Left), Down) | (At(Left), At(Absent)) => Verdict::AtTarget,
        // It went off before it was across.
        (At(Absent | Off), At(Absent)) | (At(Off), Down) => Verdict::AtSource,
        // A destination sends nobody on.
        (At(_) | Down, Departing) => Verdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GuestPresence::{Absent, Arriving, Left, Off, Paused, Running, Torn};
    use Seen::{At, Departing, Down, Silent};

    const ALL: [Seen; 10] =
        [At(Absent), At(Off), At(Left), At(Arriving), At(Running), At(Paused), At(Torn), Departing, Silent, Down];

    #[test]
    fn who_is_silent_is_asked_again() {
        for end in ALL {
            assert_eq!(judge(Silent, end), Verdict::Unknown, "{end:?}");
            if !matches!(end, Departing) {
                assert!(matches!(judge(end, Silent), Verdict::Unknown), "{end:?}");
            }
        }
        assert_eq!(judge(Down, Down), Verdict::Unknown, "either may have it");
    }

    /// The two that matter: a guest that may run at its source is never given to its destination, and the reverse.
    #[test]
    fn a_guest_never_counts_as_gone_from_where_it_runs() {
        for end in ALL {
            for here in [At(Running), At(Paused), Departing] {
                assert_ne!(judge(here, end), Verdict::AtTarget, "{here:?} {end:?}");
            }
            for there in [At(Running), At(Paused)] {
                assert_ne!(judge(end, there), Verdict::AtSource, "{end:?} {there:?}");
            }
        }
    }

    #[test]
    fn what_both_say_together() {
        let cases = [
            (At(Running), At(Absent), Verdict::AtSource),
            (At(Running), Down, Verdict::AtSource),
            (At(Running), At(Running), Verdict::Twice),
            (At(Running), At(Arriving), Verdict::Underway),
            (Departing, At(Running), Verdict::Underway),
            (Departing, Down, Verdict::Underway),
            (At(Absent), At(Running), Verdict::AtTarget),
            (At(Off), At(Running), Verdict::AtTarget),
            (At(Absent), At(Paused), Verdict::AtTarget),
            (At(Absent), Down, Verdict::AtTarget),
            (At(Left), Down, Verdict::AtTarget),
            (At(Off), Down, Verdict::AtSource),
            (At(Off), At(Absent), Verdict::AtSource),
            (Down, At(Running), Verdict::AtTarget),
            (Down, At(Absent), Verdict::AtSource),
            (Down, At(Arriving), Verdict::Unknown),
            (At(Torn), At(Running), Verdict::Torn),
            (At(Off), At(Torn), Verdict::Torn),
            (At(Off), At(Arriving), Verdict::Underway),
        ];
        for (source, target, verdict) in cases {
            assert_eq!(judge(source, target), verdict, "{source:?} {target:?}");
        }
    }
}
