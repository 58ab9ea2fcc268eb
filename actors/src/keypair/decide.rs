//! The decisions on a user's key pairs.

use chronova_events::keypair::{KeypairDeleted, KeypairEvent, Keypairs, KeypairsErased};

use super::{KeypairCommand, KeypairReject};

pub fn decide(state: &Keypairs, command: KeypairCommand) -> Result<Vec<KeypairEvent>, KeypairReject> {
    match command {
        KeypairCommand::Create { keypair, limit } => {
            // As in Nova, the quota is checked before the name, so an exceeded quota wins over a duplicate name.
            let count = i64::try_from(state.by_name.len()).unwrap_or(i64::MAX);
            if limit >= 0 && count >= limit {
                return Err(KeypairReject::QuotaExceeded(limit));
            }
            if state.by_name.contains_key(&keypair.name) {
                return Err(KeypairReject::Exists(keypair.name));
            }
            Ok(vec![keypair.into()])
        }
        KeypairCommand::Delete { user, name } => {
            if !state.by_name.contains_key(&name) {
                return Err(KeypairReject::NotFound { user, name });
            }
            Ok(vec![KeypairDeleted { user, name }.into()])
        }
        // A user who never had a key pair has no events with personal data.
        KeypairCommand::Erase { .. } if state.made == 0 => Ok(vec![]),
        KeypairCommand::Erase { user, erasure } => Ok(vec![KeypairsErased { user, erasure }.into()]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::UserId;
    use chronova_events::keypair::KeypairCreated;

    use super::*;

    fn create(name: &str, limit: i64) -> KeypairCommand {
        let keypair = KeypairCreated {
            user: UserId::new("u"),
            name: name.into(),
            kind: "ssh".into(),
            public_key: "ssh-ed25519 AAAA".into(),
            fingerprint: "00:11".into(),
        };
        KeypairCommand::Create { keypair, limit }
    }

    fn given(names: &[&str]) -> Keypairs {
        let mut state = Keypairs::default();
        for name in names {
            for event in decide(&state, create(name, -1)).unwrap() {
                state.evolve(&event, Timestamp(1));
            }
        }
        state
    }

    #[test]
    fn names_are_unique_and_the_limit_comes_first() {
        let state = given(&["a", "b"]);
        assert_eq!(decide(&state, create("a", -1)).unwrap_err(), KeypairReject::Exists("a".into()));
        assert_eq!(decide(&state, create("a", 2)).unwrap_err(), KeypairReject::QuotaExceeded(2));
        assert!(decide(&state, create("c", 3)).is_ok());
    }

    #[test]
    fn deleting_an_unknown_key_pair_is_refused() {
        let delete = |name: &str| KeypairCommand::Delete { user: UserId::new("u"), name: name.into() };
        let state = given(&["a"]);
        assert_eq!(decide(&state, delete("a")).unwrap().len(), 1);
        assert!(matches!(decide(&state, delete("b")), Err(KeypairReject::NotFound { .. })));
    }
}
