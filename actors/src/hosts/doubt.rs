//! The moment before which a log does not know everything that happened on its hosts.
//!
//! Another generation of a log ([`chronova_events::installation`]) may have driven the hosts: the original of a
//! restored log until the copy took the hosts, or a copy until the original took them back. This log does not have the
//! moves, attachments and deletions of the other generation. So before code removes something from a host because of a
//! fact in the log, it asks whether the log learned the fact after that moment.

use chronova_events::envelope::Timestamp;

/// The moment; `None` if no other generation has driven the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CopyDoubt(pub Option<Timestamp>);

impl CopyDoubt {
    /// Whether a fact that the log learned at `learned_at` still holds, as far as other generations are concerned.
    pub fn trusts(self, learned_at: Timestamp) -> bool {
        self.0.is_none_or(|since| learned_at >= since)
    }

    /// Whether there is nothing to doubt.
    pub fn is_none(self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_trusts_what_it_learned_itself() {
        assert!(CopyDoubt::default().trusts(Timestamp(i64::MIN)), "a log that was never copied trusts all");
        let doubt = CopyDoubt(Some(Timestamp(7)));
        assert_eq!([6, 7, 8].map(|at| doubt.trusts(Timestamp(at))), [false, true, true]);
        assert!(CopyDoubt::default() < doubt, "the later doubt is the greater one");
    }
}
