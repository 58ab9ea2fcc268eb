//! A server's consoles. Before a user gets the token of a console, the log records that the user may open it.

use std::convert::Infallible;

use chronova_events::console::{ConsoleAuthorized, ConsoleEvent, IssuedConsoleTokens};
use chronova_events::envelope::StreamId;
use chronova_events::ids::InstanceId;
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum ConsoleRoot {}

#[derive(Debug, Clone)]
pub enum ConsoleCommand {
    Authorize(ConsoleAuthorized),
}

/// The aggregate never refuses, because the API checks the policy and the host's consoles before it sends the command.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConsoleReject {
    #[error("{0}")]
    Never(Infallible),
}

impl AggregateRoot for ConsoleRoot {
    type Id = InstanceId;
    type State = IssuedConsoleTokens;
    type Command = ConsoleCommand;
    type Reject = ConsoleReject;

    fn stream(instance: &InstanceId) -> StreamId {
        StreamId::new("console", instance)
    }

    fn decide(state: &IssuedConsoleTokens, command: ConsoleCommand) -> Result<Vec<ConsoleEvent>, ConsoleReject> {
        let ConsoleCommand::Authorize(wanted) = command;
        Ok(match state.by_hash.contains_key(&wanted.token_hash) {
            true => vec![],
            false => vec![wanted.into()],
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::console::samples;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;

    #[test]
    fn a_token_is_recorded_once_and_removed_when_it_expires() {
        let ConsoleEvent::ConsoleAuthorized(first) = samples().remove(0);
        let mut state = IssuedConsoleTokens::default();
        let authorize = |of: &ConsoleAuthorized| ConsoleCommand::Authorize(of.clone());
        for event in ConsoleRoot::decide(&state, authorize(&first)).unwrap() {
            state.evolve(&event, Timestamp(0));
        }
        assert_eq!(ConsoleRoot::decide(&state, authorize(&first)).unwrap(), vec![], "a repeated command is harmless");
        let second = ConsoleAuthorized { token_hash: "cd".into(), expires_at: Timestamp(i64::MAX), ..first.clone() };
        state.evolve(&second.clone().into(), first.expires_at);
        assert_eq!(state.by_hash.into_keys().collect::<Vec<_>>(), ["cd"]);
    }
}
