//! The record of how far notifications are published.

use chronova_events::envelope::{Position, StreamId};
use chronova_events::notification::outbox::NotificationOutbox;
use chronova_events::notification::{
    NotificationEvent, NotificationsBegun, NotificationsEnded, NotificationsPublished,
};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum NotificationOutboxRoot {}

/// The only outbox of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NotificationOutboxId;

impl std::fmt::Display for NotificationOutboxId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("outbox")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationCommand {
    /// Turns notifications on for the events after the position. A repetition changes nothing.
    Begin { after: Position },
    /// Notes that the broker has confirmed everything up to the position.
    Confirm { position: Position },
    /// Turns notifications off.
    End,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotificationReject {
    #[error("notifications are turned off")]
    TurnedOff,
}

impl AggregateRoot for NotificationOutboxRoot {
    type Id = NotificationOutboxId;
    type State = NotificationOutbox;
    type Command = NotificationCommand;
    type Reject = NotificationReject;
    const SNAPSHOT_EVERY: u64 = 1_000;

    fn stream(id: &NotificationOutboxId) -> StreamId {
        StreamId::new("notification", id)
    }

    fn decide(
        state: &NotificationOutbox,
        command: NotificationCommand,
    ) -> Result<Vec<NotificationEvent>, NotificationReject> {
        Ok(match (command, state.published) {
            (NotificationCommand::Begin { after }, None) => vec![NotificationsBegun { position: after.0 }.into()],
            (NotificationCommand::Begin { .. }, Some(_)) => vec![],
            (NotificationCommand::Confirm { .. }, None) => return Err(NotificationReject::TurnedOff),
            (NotificationCommand::Confirm { position }, Some(known)) if known >= position.0 => vec![],
            (NotificationCommand::Confirm { position }, Some(_)) => {
                vec![NotificationsPublished { position: position.0 }.into()]
            }
            (NotificationCommand::End, Some(_)) => vec![NotificationsEnded {}.into()],
            (NotificationCommand::End, None) => vec![],
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::NotificationCommand::{Begin, Confirm, End};
    use super::*;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;

    fn after(commands: &[NotificationCommand]) -> NotificationOutbox {
        let mut state = NotificationOutbox::default();
        for command in commands {
            for event in NotificationOutboxRoot::decide(&state, *command).unwrap() {
                state.evolve(&event, Timestamp(0));
            }
        }
        state
    }

    #[test]
    fn the_position_only_grows_and_a_new_beginning_leaves_the_time_between_out() {
        let (begin, confirm) = (|at| Begin { after: Position(at) }, |at| Confirm { position: Position(at) });
        assert_eq!(after(&[begin(5), begin(9), confirm(8), confirm(7)]).published, Some(8));
        assert_eq!(after(&[begin(5), End, End]).published, None);
        assert_eq!(after(&[begin(5), confirm(6), End, begin(90)]).published, Some(90));
        let refused = NotificationOutboxRoot::decide(&NotificationOutbox::default(), confirm(1));
        assert_eq!(refused, Err(NotificationReject::TurnedOff));
    }
}
