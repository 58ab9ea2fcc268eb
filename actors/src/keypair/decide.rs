//! What may happen to a user's key pairs.

use chronova_events::keypair::{KeypairDeleted, KeypairEvent, Keypairs};

use super::{KeypairCommand, KeypairReject};

pub fn decide(state: &Keypairs, command: KeypairCommand) -> Result<Vec<KeypairEvent>, KeypairReject> {
    match command {
        KeypairCommand::Create { keypair, limit } => {
            // Nova counts before it looks for the name: over quota wins over duplicate.
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
    }
}
