//! Until a certain moment, another control plane may have changed a log's hosts. [`CopyDoubt`] is that moment.
//!
//! Another generation of a log ([`chronova_events::installation`]) may have driven the hosts. If this log is a copy,
//! the other generation is the original log, which drove the hosts until this log took them. If this log is the
//! original, the other generation is a copy, which drove the hosts until this log took them back. This log does not
//! have the moves, attachments and deletions of the other generation. So code that removes something from a host
//! because of a fact in the log first asks whether the log learned this fact after that moment. The deletion of a
//! server or of a volume is an exception: it counts no matter when the log learned it.

use chronova_events::envelope::Timestamp;

/// The moment; `None` if no other generation has driven the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CopyDoubt(pub Option<Timestamp>);

impl CopyDoubt {
    /// Whether no other generation can have changed a fact that the log learned at `learned_at`.
    pub fn trusts(self, learned_at: Timestamp) -> bool {
        self.0.is_none_or(|since| learned_at >= since)
    }

    /// Whether no other generation has driven the hosts.
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
