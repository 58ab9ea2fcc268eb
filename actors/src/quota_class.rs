//! The decisions on quota classes. One stream has all of them, because there are few.

use std::fmt;

use chronova_events::envelope::StreamId;
use chronova_events::quota_class::{ClassLimitsSet, QuotaClassEvent, QuotaClasses};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum QuotaClassRoot {}

/// The id of the only stream, because one aggregate decides about all classes of the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QuotaClassesId;

impl fmt::Display for QuotaClassesId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all")
    }
}

#[derive(Debug, Clone)]
pub enum QuotaClassCommand {
    SetLimits { class: String, limits: Vec<(String, i64)> },
}

/// The most quota classes, so that the stream's state stays small.
pub const MOST_CLASSES: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuotaClassReject {
    #[error("there are {MOST_CLASSES} quota classes already")]
    TooMany,
}

impl AggregateRoot for QuotaClassRoot {
    type Id = QuotaClassesId;
    type State = QuotaClasses;
    type Command = QuotaClassCommand;
    type Reject = QuotaClassReject;

    fn stream(all: &QuotaClassesId) -> StreamId {
        StreamId::new("quota_class", all)
    }

    fn decide(state: &QuotaClasses, command: QuotaClassCommand) -> Result<Vec<QuotaClassEvent>, QuotaClassReject> {
        let QuotaClassCommand::SetLimits { class, limits } = command;
        let known = state.by_name.get(&class);
        if known.is_none() && state.by_name.len() >= MOST_CLASSES {
            return Err(QuotaClassReject::TooMany);
        }
        let so = |(resource, limit): &(String, i64)| known.and_then(|known| known.get(resource)) == Some(limit);
        Ok(match limits.iter().all(so) {
            true => vec![],
            false => vec![ClassLimitsSet { class, limits }.into()],
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;

    #[test]
    fn limits_are_merged_and_repeating_them_changes_nothing() {
        let mut state = QuotaClasses::default();
        let set = |limits: &[(&str, i64)]| QuotaClassCommand::SetLimits {
            class: "default".into(),
            limits: limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect(),
        };
        for command in [set(&[("cores", 4), ("ram", 1)]), set(&[("cores", 8)])] {
            for event in QuotaClassRoot::decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(0));
            }
        }
        assert_eq!(
            state.by_name["default"].clone().into_iter().collect::<Vec<_>>(),
            [("cores".into(), 8), ("ram".into(), 1)]
        );
        assert_eq!(QuotaClassRoot::decide(&state, set(&[("cores", 8)])).unwrap(), vec![]);
    }
}
