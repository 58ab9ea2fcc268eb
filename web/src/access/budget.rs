//! The bounds on records of access, and the numbers of records that were left out.
//!
//! A source is a project, a user without a project, or a network without a user. Each source has a separate rate for
//! each sort of record. For each sort, a larger rate bounds all sources together. Invariant: the memory for rates and
//! numbers is bounded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use chronova_events::access::{AccessSort, LeftOutCount, LeftOutOf, RecordsLeftOut};
use chronova_events::envelope::Timestamp;

use crate::rate::RateLimits;

/// The most sources whose left-out records are counted one by one. Records of further sources are counted together.
const MOST_SOURCES: usize = 1_024;

/// How many records of one sort may be written per minute. All of them may come at once. 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessRates {
    /// `[chronova] access_records`: whether there are records at all.
    pub on: bool,
    /// `[chronova] access_rate`: the rate of one project, user or network.
    pub of_one: u32,
    /// `[chronova] access_rate_total`: the rate of all together.
    pub of_all: u32,
}

impl Default for AccessRates {
    fn default() -> Self {
        Self { on: true, of_one: 60, of_all: 600 }
    }
}

/// The rates of all sources, and the numbers of records that were left out.
#[derive(Debug)]
pub(crate) struct AccessBudget {
    of_one: Option<RateLimits>,
    of_all: Option<RateLimits>,
    left_out: Mutex<Option<LeftOut>>,
}

#[derive(Debug)]
struct LeftOut {
    since: Timestamp,
    total: u64,
    counts: HashMap<(AccessSort, LeftOutOf), u64>,
}

impl AccessBudget {
    pub(super) fn new(rates: AccessRates) -> Self {
        let a_minute = |number: u32| RateLimits::new(f64::from(number) / 60.0, number);
        Self { of_one: a_minute(rates.of_one), of_all: a_minute(rates.of_all), left_out: Mutex::default() }
    }

    /// Whether a record may be written. A source above its own rate takes nothing from the others.
    pub(super) fn admits(&self, sort: AccessSort, of: &LeftOutOf, now: Instant) -> bool {
        let takes =
            |limits: &Option<RateLimits>, key: &str| limits.as_ref().is_none_or(|limits| limits.take(key, now).is_ok());
        takes(&self.of_one, &format!("{sort:?} {of:?}")) && takes(&self.of_all, &format!("{sort:?}"))
    }

    /// Counts a record that is not written.
    pub(super) fn left_out(&self, sort: AccessSort, of: LeftOutOf, at: Timestamp) {
        self.count(at, vec![LeftOutCount { sort, of, number: 1 }]);
    }

    /// Adds numbers to the count again, because the log did not accept the record of them.
    pub(super) fn put_back(&self, taken: RecordsLeftOut) {
        self.count(taken.since, taken.counts);
    }

    fn count(&self, since: Timestamp, all: Vec<LeftOutCount>) {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = left_out.get_or_insert_with(|| LeftOut { since, total: 0, counts: HashMap::new() });
        counted.since = counted.since.min(since);
        for LeftOutCount { sort, of, number } in all {
            counted.total += number;
            let known = counted.counts.len() < MOST_SOURCES || counted.counts.contains_key(&(sort, of.clone()));
            *counted.counts.entry((sort, if known { of } else { LeftOutOf::Others })).or_default() += number;
        }
    }

    /// Takes the numbers since the last call; `None` if nothing was left out.
    pub(super) fn take_left_out(&self) -> Option<RecordsLeftOut> {
        let taken = self.left_out.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let mut counts: Vec<LeftOutCount> =
            taken.counts.into_iter().map(|((sort, of), number)| LeftOutCount { sort, of, number }).collect();
        counts.sort_by(|a, b| (b.number, a.sort, &a.of).cmp(&(a.number, b.sort, &b.of)));
        // Sums the remaining numbers of each sort in one line.
        let rest = counts.split_off(counts.len().min(RecordsLeftOut::MOST_COUNTS - SORTS.len()));
        for sort in SORTS {
            let of_sort = |count: &&LeftOutCount| count.sort == sort;
            let number = rest.iter().filter(of_sort).map(|count| count.number).sum();
            if number > 0 {
                counts.push(LeftOutCount { sort, of: LeftOutOf::Others, number });
            }
        }
        Some(RecordsLeftOut { since: taken.since, total: taken.total, counts })
    }
}

const SORTS: [AccessSort; 5] =
    [AccessSort::Refusal, AccessSort::Login, AccessSort::FailedLogin, AccessSort::Console, AccessSort::SecretRead];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn network(n: usize) -> LeftOutOf {
        LeftOutOf::Network(format!("10.0.{}.{}", n / 256, n % 256))
    }

    #[test]
    fn one_source_uses_up_its_own_rate_alone_and_all_have_a_bound() {
        let budget = AccessBudget::new(AccessRates { on: true, of_one: 3, of_all: 5 });
        let now = Instant::now();
        let admitted = |sort, of: &LeftOutOf| (0..9).filter(|_| budget.admits(sort, of, now)).count();
        assert_eq!(admitted(AccessSort::Refusal, &network(1)), 3);
        assert_eq!(admitted(AccessSort::Refusal, &network(2)), 2, "the bound of all");
        assert_eq!(admitted(AccessSort::FailedLogin, &network(1)), 3, "refusals push out log-ins");
        let without = AccessBudget::new(AccessRates { on: true, of_one: 0, of_all: 0 });
        assert!((0..9_999).all(|_| without.admits(AccessSort::Refusal, &network(1), now)));
    }

    #[test]
    fn every_record_left_out_is_counted_in_bounded_memory() {
        let budget = AccessBudget::new(AccessRates::default());
        assert_eq!(budget.take_left_out(), None);
        for n in 0..5_000 {
            budget.left_out(AccessSort::FailedLogin, network(n), Timestamp(7));
        }
        for _ in 0..9 {
            budget.left_out(AccessSort::Refusal, network(3), Timestamp(8));
        }
        assert!(budget.left_out.lock().unwrap().as_ref().unwrap().counts.len() <= MOST_SOURCES + SORTS.len());
        let taken = budget.take_left_out().unwrap();
        assert_eq!((taken.since, taken.total), (Timestamp(7), 5_009));
        assert!(taken.counts.len() <= RecordsLeftOut::MOST_COUNTS, "{}", taken.counts.len());
        assert_eq!(taken.counts.iter().map(|count| count.number).sum::<u64>(), taken.total, "some are not counted");
        assert_eq!(budget.take_left_out(), None, "they are counted twice");
        budget.put_back(taken.clone());
        assert_eq!(budget.take_left_out().map(|again| again.total), Some(taken.total));
    }
}
