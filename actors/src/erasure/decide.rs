//! The decisions of an erasure.

use chronova_events::erasure::{ErasureEvent, Erasures};

use super::{ErasureCommand, ErasureReject};

pub fn decide(state: &Erasures, command: ErasureCommand) -> Result<Vec<ErasureEvent>, ErasureReject> {
    match command {
        ErasureCommand::Request(request) if state.by_id.contains_key(&request.erasure) => Ok(vec![]),
        ErasureCommand::Request(request) => Ok(vec![request.into()]),
        ErasureCommand::RecordCompleted(completed) => match state.by_id.get(&completed.erasure) {
            None => Err(ErasureReject::NotFound(completed.erasure)),
            Some(erasure) if erasure.completed.is_some() => Ok(vec![]),
            Some(_) => Ok(vec![completed.into()]),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::erasure::{ErasureCompleted, ErasureRequested, ErasureTarget};
    use chronova_events::fold::Fold;
    use chronova_events::ids::{ErasureId, UserId};

    use super::*;

    #[test]
    fn an_erasure_is_requested_once_and_completed_once() {
        let erasure = ErasureId(uuid::Uuid::from_u128(1));
        let user = UserId::new("u");
        let request = ErasureCommand::Request(ErasureRequested {
            erasure,
            whose: ErasureTarget::User(user.clone()),
            reason: "asked".into(),
            user: Some(user),
            servers: vec![],
            keys_before: 1,
        });
        let complete = ErasureCommand::RecordCompleted(ErasureCompleted { erasure, keys: 0 });
        let mut state = Erasures::default();
        assert_eq!(decide(&state, complete.clone()), Err(ErasureReject::NotFound(erasure)));
        for command in [request, complete] {
            let events = decide(&state, command.clone()).unwrap();
            assert_eq!(events.len(), 1);
            state.evolve(&events[0], Timestamp(1));
            assert_eq!(decide(&state, command), Ok(vec![]));
        }
        assert!(state.unfinished().is_empty());
    }
}
